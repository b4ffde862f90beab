"""Memory for received frames, used again once no view of it is left.

New memory costs as much as a copy: the kernel finds its pages, and clears them twice.
"""

from __future__ import annotations

import mmap
from typing import Final
from weakref import WeakSet

SPARE_BYTES: Final = 41 * 1024 * 1024  # the largest buffer that is kept
KEPT_BYTES: Final = 40 * 1024 * 1024  # of free buffers, unless more is wanted
_WASTE: Final = 4  # a buffer so many times too large waits for something larger


class Buffers:
    """Not thread-safe. Several connections of one thread may share them. `kept_bytes`: how much
    free memory is kept."""

    def __init__(self) -> None:
        self.kept_bytes = KEPT_BYTES
        self._kept: list[bytearray] = []
        self._large: WeakSet[mmap.mmap] = WeakSet()

    @property
    def held_bytes(self) -> int:
        """The size of buffers with a view left, also of a small part."""
        kept = sum(len(buffer) for buffer in self._kept if not _is_free(buffer))
        return kept + sum(len(buffer) for buffer in self._large)

    def room(self, size: int) -> memoryview:
        """`size` bytes without any other view."""
        if size > SPARE_BYTES:
            large = mmap.mmap(-1, size)
            self._large.add(large)
            return memoryview(large)
        free = sorted(filter(_is_free, self._kept), key=len)
        for buffer in free:
            if size <= len(buffer) <= _WASTE * size:
                return memoryview(buffer)[:size]
        self.give_back(self.kept_bytes - size)
        buffer = bytearray(max(size, min(SPARE_BYTES, size + size // 8)) + 1)
        buffer.pop()  # so that `_is_free` need not move it
        self._kept.append(buffer)  # the next frame may be somewhat larger
        return memoryview(buffer)[:size]

    def give_back(self, left: int | None = None) -> None:
        """Frees what is free beyond `left` bytes (`kept_bytes`), the smallest buffers first."""
        left = self.kept_bytes if left is None else left
        free = sorted(filter(_is_free, self._kept), key=len)
        kept = sum(map(len, free))
        gone = set[int]()
        for buffer in free:
            if kept > left:
                kept -= len(buffer)
                gone.add(id(buffer))
        self._kept = [buffer for buffer in self._kept if id(buffer) not in gone]


def _is_free(buffer: bytearray) -> bool:
    """Whether no memoryview of it is left: Python cannot resize a bytearray that has one."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
