"""Text for a program that reads files only, where no other user and no directory shows it."""

from __future__ import annotations

import os
import tempfile
from typing import Any


class Unlisted:
    """A path with the given bytes, while the block lasts; for this process and those it starts.

    Memory without a name where the system has it; else a private file, gone right after.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._file: Any = None

    def __enter__(self) -> str:
        if hasattr(os, "memfd_create"):
            self._file = os.fdopen(os.memfd_create("causeway"), "wb")
            path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        else:
            self._file = tempfile.NamedTemporaryFile()
            path = self._file.name
        self._file.write(self._content)
        self._file.flush()
        return path

    def __exit__(self, *_: object) -> None:
        self._file.close()
