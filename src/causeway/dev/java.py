"""The Java that runs the brokers, and Spark."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import zlib
from pathlib import Path

from causeway.errors import PrerequisiteError

MINIMUM_JAVA = 17


def find_java(tool: str = "java") -> Path:
    """The `java` of JAVA_HOME, else of PATH, which is at least MINIMUM_JAVA; or a `tool` beside it.

    JAVA_HOME decides alone when it is set, as it does for Spark. PrerequisiteError otherwise."""
    remedy = f"install Java {MINIMUM_JAVA} or later, and set JAVA_HOME or PATH"
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise PrerequisiteError("find Java", "", "it is not on the PATH", remedy=remedy)
    try:
        major = parse_java_version(_version_text(found))
    except OSError as error:
        cause = f"{found}: {error.strerror}" + (" (from JAVA_HOME)" if home else "")
        raise PrerequisiteError("find Java", "", cause, remedy=remedy) from error
    if major is None:
        cause = f"{found} -version does not say its version"
        raise PrerequisiteError("find Java", "", cause, remedy=remedy)
    if major < MINIMUM_JAVA:
        cause = f"{found} is version {major}, older than {MINIMUM_JAVA}"
        raise PrerequisiteError("find Java", "", cause, remedy=remedy)
    if tool == "java":
        return Path(found)
    # A link on the PATH (/usr/bin/java) points into the installation that has the other tools.
    for folder in (Path(found).parent, Path(found).resolve().parent):
        if (folder / tool).exists():
            return folder / tool
    raise PrerequisiteError("find Java", "", f"there is no {tool} beside {found}", remedy=remedy)


def kafka_jvm_options(heap: str, performance: str) -> list[str]:
    """For a process of Kafka's. KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS, where they are set,
    stand in for what is given, as with Kafka's own scripts."""
    return [
        *shlex.split(os.environ.get("KAFKA_HEAP_OPTS") or heap),
        *shlex.split(os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS") or performance),
    ]


def java_identity() -> str:
    """A short text that differs for each build of Java; for what only the same build can use."""
    return f"{zlib.crc32(_version_text(str(find_java())).encode()):08x}"


@functools.cache
def _version_text(java: str) -> str:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return answer.stderr + answer.stdout


def parse_java_version(text: str) -> int | None:
    """The feature number in the output of `java -version`: 8 for "1.8.0_392", 21 for "21-ea"."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None
