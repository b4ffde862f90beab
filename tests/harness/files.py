"""All files below a folder that is in use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def files_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Each with what is in it; not those that go meanwhile, as a broker's do."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path.is_file():
                with suppress(FileNotFoundError):
                    yield path, path.read_bytes()
