"""A private file with bytes, for a program that reads only files."""

from __future__ import annotations

import os
import tempfile
from typing import Any


class Unlisted:
    """A path with the given bytes during the block, for this process and its children.

    Memory without a name if the system has it, else a private file that is deleted afterwards.
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
