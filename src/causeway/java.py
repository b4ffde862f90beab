"""Finds the Java that runs Spark and local brokers, and its version. If possible it does not start
Java: the file `release` in a Java home has the version."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path

from causeway.errors import PrerequisiteError

MINIMUM_JAVA = 17
_REMEDY = f"install Java {MINIMUM_JAVA} or later, and set JAVA_HOME or PATH"


def find_java(tool: str = "java") -> Path:
    """Returns the `java` of JAVA_HOME, else of PATH, in version MINIMUM_JAVA or later; or a `tool`
    next to it. If JAVA_HOME is set, only JAVA_HOME counts, as for Spark. Raises
    PrerequisiteError."""
    java = _java()
    if java_version(java) < MINIMUM_JAVA:
        raise _missing(f"{java} is version {_version(java)}, older than {MINIMUM_JAVA}")
    if tool == "java":
        return java
    # A link on the PATH (/usr/bin/java) points into the installation that has the other tools.
    for folder in (java.parent, java.resolve().parent):
        if (folder / tool).exists():
            return folder / tool
    raise _missing(f"there is no {tool} next to {java}")


def java_version(java: Path | None = None) -> int:
    """Returns the feature number: 8 for 1.8.0_392, 21 for 21-ea. Raises PrerequisiteError."""
    java = java or find_java()
    found = re.match(r"(?:1\.)?(\d+)", _version(java))
    if found is None:
        raise _missing(f"{java} -version does not say its version")
    return int(found[1])


def java_identity() -> str:
    """Returns a short text that differs for each build of Java, for files of only this build."""
    java = find_java()
    return f"{zlib.crc32(f'{java.resolve()} {_version(java)}'.encode()):08x}"


def _java() -> Path:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise _missing("it is not on the PATH")
    if not os.access(found, os.X_OK):
        raise _missing(f"{found} is not a program (from JAVA_HOME)")
    return Path(found)


def _version(java: Path) -> str:
    """Returns the version, such as 17.0.15 or 1.8.0_392; empty if Java does not say it."""
    try:
        text = (java.resolve().parent.parent / "release").read_text()
    except (OSError, UnicodeDecodeError):
        text = ""
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found else _printed_version(java)


@functools.cache
def _printed_version(java: Path) -> str:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(f"{java}: {error}") from error
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else ""


def _missing(cause: str) -> PrerequisiteError:
    return PrerequisiteError("find Java", "", cause, remedy=_REMEDY)
