"""What a cutover has compared, for the next call of it on this machine: else a second one would
compare all of it again while nobody may write. Nothing hangs on it; without, it takes longer."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from causeway.config import LinkSettings

_OLD_S: Final = 24 * 3600.0  # what was the same long ago is compared again


@contextmanager
def memory(link: LinkSettings, topics: Collection[str]) -> Iterator[Path]:
    """The file for `causeway verify`'s state, in the user's cache; where that cannot be written,
    one of this call alone."""
    path = _in_cache(link, topics)
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="causeway-cutover-") as directory:
        yield Path(directory) / "compared"


def _in_cache(link: LinkSettings, topics: Collection[str]) -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        directory = (Path(base) if base else Path.home() / ".cache") / "causeway" / "cutover"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = repr((link.name, link.source.bootstrap, link.target.bootstrap, sorted(topics)))
        path = directory / hashlib.sha256(about.encode()).hexdigest()[:32]
        for each in directory.iterdir():
            with suppress(FileNotFoundError):  # another call may have been quicker
                if time.time() - each.stat().st_mtime > _OLD_S:
                    each.unlink()
        path.touch(mode=0o600)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    return path
