"""Spark's JVM starts in half the CPU time from a class data archive, which Java writes once.

    <cache>/causeway/spark/<version of Spark>-<build of Java>.jsa

    python -m causeway.daemon.spark.archive

makes it: a Spark is started for nothing else than to be stopped again, and on its way out Java
writes down the classes that it loaded and verified. Installing does so, and whoever builds a
container image may. Where there is none, or it does not fit, all works as well, a bit slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from causeway.daemon.spark.java import check_java, identity
from causeway.errors import CausewayError


def path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "causeway" / "spark"
    return folder / f"{version('pyspark')}-{identity(check_java())}.jsa"


def option() -> str:
    """For Java's command line; '' where there is no archive."""
    try:
        archive = path()
        there = archive.exists()
    except (OSError, RuntimeError):  # no home, or not ours: it only saves time
        return ""
    return f' "-XX:SharedArchiveFile={archive}"' if there else ""


def make() -> Path:
    """Takes 10 to 20 s. Raises CausewayError."""
    from causeway.daemon.spark.context import Spark
    from causeway.relay.control import new_secret

    archive = path()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".making-") as folder:
        written = Path(folder) / "archive"
        spark = Spark(
            {},
            1,
            new_secret(),
            on_lane_ended=lambda *_: None,
            java_options=f" -XX:ArchiveClassesAtExit={written}",
        )
        spark.start()
        spark.rehearse()
        spark.stop(patience_s=180.0)
        if not written.exists():
            raise CausewayError("make class data archive", str(archive), "Java wrote none")
        written.rename(archive)
    return archive


if __name__ == "__main__":
    try:
        make()
    except CausewayError as error:
        sys.exit(f"causeway: {error}")
