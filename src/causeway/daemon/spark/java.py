"""Which Java there is, found out without starting one where that can be had."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path

from causeway.errors import PrerequisiteError

NEEDED = 17
_REMEDY = f"install a Java {NEEDED} or later runtime, or point JAVA_HOME at one"


def check_java() -> str:
    """The path of the java that Spark will run. Raises PrerequisiteError."""
    return _checked()[0]


def feature() -> int:
    """The first number of its version, such as 17. Raises PrerequisiteError."""
    return _checked()[1]


def _checked() -> tuple[str, int]:
    java = _find()
    version = _released(java) or _asked(java)
    found = re.match(r"(?:1\.)?(\d+)", version)
    if found is None:
        raise PrerequisiteError("start Java", java, "it does not tell its version", remedy=_REMEDY)
    if int(found[1]) < NEEDED:
        raise PrerequisiteError(
            "start Java", java, f"it is version {version}, Spark needs {NEEDED}", remedy=_REMEDY
        )
    return java, int(found[1])


def identity(java: str) -> str:
    """A short text that differs for each build of Java; for what only the same build can use."""
    return f"{zlib.crc32(f'{Path(java).resolve()} {_released(java) or _asked(java)}'.encode()):08x}"


def _find() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = os.path.join(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise PrerequisiteError(
                "start Java", java, "JAVA_HOME has no such program", remedy=_REMEDY
            )
        return java
    found = shutil.which("java")
    if found is None:
        raise PrerequisiteError("start Java", cause="there is none", remedy=_REMEDY)
    return found


def _released(java: str) -> str:
    """The version by the file that lies in each Java home, or ''."""
    try:
        text = (Path(java).resolve().parent.parent / "release").read_text()
    except (OSError, UnicodeDecodeError):
        return ""
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found else ""


def _asked(java: str) -> str:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError("start Java", java, str(error), remedy=_REMEDY) from error
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else ""
