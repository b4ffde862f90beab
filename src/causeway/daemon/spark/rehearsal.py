"""Spark started once for nothing else than to be stopped again.

    python -m causeway.daemon.spark.rehearsal

On its way out Java writes down the classes that it loaded and verified, as the archive that later
starts use (archive.py). Installing does so, and whoever builds a container image may.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from causeway.daemon.spark import archive
from causeway.daemon.spark.context import Spark
from causeway.errors import CausewayError
from causeway.relay.control import new_secret


def make() -> Path:
    """Takes 10 to 20 s. Raises CausewayError."""
    path = archive.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as folder:
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
            raise CausewayError("make class data archive", str(path), "Java wrote none")
        written.rename(path)
    return path


if __name__ == "__main__":
    try:
        make()
    except CausewayError as error:
        sys.exit(f"causeway: {error}")
