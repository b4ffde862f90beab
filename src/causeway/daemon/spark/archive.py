"""Spark's JVM starts in half the CPU time from a class data archive, which Java writes once.

    <cache>/causeway/spark/<version of Spark>-<build of Java>.jsa

`rehearsal.py` makes it. Where there is none, or it does not fit, all works as well, a bit slower.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from causeway.java import java_identity


def path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "causeway" / "spark"
    return folder / f"{version('pyspark')}-{java_identity()}.jsa"


def option() -> str:
    """For Java's command line; '' where there is no archive."""
    try:
        archive = path()
        there = archive.exists()
    except (OSError, RuntimeError):  # no home, or not ours: it only saves time
        return ""
    return f' "-XX:SharedArchiveFile={archive}"' if there else ""
