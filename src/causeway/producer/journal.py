"""Every record on disk before it is sent: a log of files, read by both sides.

    <first position>.log:  chunk chunk chunk …          one file takes a segment's bytes
    chunk:  length, CRC-32, first and last position │ the records, see `shares.py`

One thread at a time. A chunk that was cut short by the process's death is cut off at the next
start: none of its records was sent. One that is damaged with others behind it is passed over, and
told of. A file is deleted as soon as both sides have all of it.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

Header = tuple[str, bytes | None]
Record = tuple[int, int, int, bytes | None, bytes | None, list[Header] | None]
"""Position, lane, timestamp in ms, key, value, headers."""

_HEAD = struct.Struct(">IIQQ")
_MOST_SEGMENT = 32 << 20
# Where a head may stand: first and last position are of one life, which is in their first bytes.
_PERHAPS = re.compile(rb"(?s)(?=.{8}(\x00(?!\x00\x00)..).{5}\1)")


class Chunk(NamedTuple):
    """What was appended at once: the positions of its first and last record."""

    first: int
    last: int
    content: bytes


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    size: int


@dataclass(slots=True)
class Cursor:
    """How far a reader has come: what lies before is read."""

    segment: int = 0  # its first position
    offset: int = 0
    _file: BinaryIO | None = field(default=None, repr=False)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Journal:
    """`most`: bytes that it may take, on disk. `durable`: each append waits for the disk.
    `on_damage` is told once of each place that cannot be read, by whoever comes to it."""

    def __init__(
        self,
        directory: Path,
        *,
        most: int,
        durable: bool,
        on_damage: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._directory = directory
        self.most = most
        self._durable = durable
        self._on_damage = on_damage
        self._damaged: set[tuple[int, int]] = set()
        self._segment_bytes = min(_MOST_SEGMENT, max(1, most // 8))
        self._segments: list[_Segment] = []
        self._file: int | None = None
        self.size = 0
        for path in sorted(directory.glob("*.log")):
            self._segments.append(_Segment(path, int(path.stem), path.stat().st_size))
        if self._segments:
            self._cut(self._segments[-1])
        self.size = sum(segment.size for segment in self._segments)

    @property
    def empty(self) -> bool:
        return self.size == 0

    def append(self, first: int, last: int, content: bytes) -> None:
        """All of it or nothing; OSError where the disk takes no more."""
        head = _HEAD.pack(len(content), zlib.crc32(content), first, last)
        segment = self._writable(first)
        assert self._file is not None
        try:
            _write_all(self._file, (head, content))
            if self._durable:
                os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, segment.size)
            os.lseek(self._file, segment.size, os.SEEK_SET)
            raise
        segment.size += len(head) + len(content)
        self.size += len(head) + len(content)

    def read(self, cursor: Cursor) -> Chunk | None:
        """The next chunk that can be read, and the cursor behind it; None at the end."""
        for number, segment in enumerate(self._segments):
            if segment.first < cursor.segment:
                continue
            if segment.first > cursor.segment:
                cursor.close()
                cursor.segment, cursor.offset = segment.first, 0
            if cursor.offset < segment.size:
                if cursor._file is None:
                    cursor._file = segment.path.open("rb")
                if (chunk := _chunk(cursor._file, cursor)) is not None:
                    return chunk
                self._pass_over(cursor._file, cursor, segment)
                if cursor.offset < segment.size:
                    return _chunk(cursor._file, cursor)
            if number == len(self._segments) - 1:
                return None
        return None

    def cursor(self, position: int) -> Cursor:
        """At the beginning of the file that has `position`, or of the first one."""
        starts = [segment.first for segment in self._segments if segment.first <= position]
        return Cursor(starts[-1] if starts else 0)

    def behind(self, cursor: Cursor) -> int:
        """Bytes that a reader has before it."""
        return sum(
            segment.size - (cursor.offset if segment.first == cursor.segment else 0)
            for segment in self._segments
            if segment.first >= cursor.segment
        )

    def trim(self, below: int, *, all_of_it: bool = False) -> None:
        """Deletes files that hold no position from `below` on; `all_of_it`: the one that is
        written to as well, since both sides have all that was ever appended."""
        while len(self._segments) > 1 and self._segments[1].first <= below:
            self._remove(self._segments.pop(0))
        if all_of_it and self._segments:
            self._close_file()
            while self._segments:
                self._remove(self._segments.pop(0))

    def close(self) -> None:
        self._close_file()

    def _writable(self, first: int) -> _Segment:
        if self._segments and self._segments[-1].size < self._segment_bytes:
            segment = self._segments[-1]
        else:
            self._close_file()
            segment = _Segment(self._directory / f"{first:020d}.log", first, 0)
            segment.path.touch(mode=0o600)
            if self._durable:
                _sync_directory(self._directory)
            self._segments.append(segment)
        if self._file is None:
            self._file = os.open(segment.path, os.O_WRONLY)
            os.lseek(self._file, segment.size, os.SEEK_SET)
        return segment

    def _remove(self, segment: _Segment) -> None:
        segment.path.unlink(missing_ok=True)
        self.size -= segment.size

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _cut(self, segment: _Segment) -> None:
        """Behind its last whole chunk."""
        cursor = Cursor(segment.first)
        good = 0
        with segment.path.open("rb") as file:
            while cursor.offset < segment.size:
                if _chunk(file, cursor) is None:
                    cursor.offset = _next_chunk(file, cursor.offset + 1, segment.size)
                else:
                    good = cursor.offset
        if good < segment.size:
            os.truncate(segment.path, good)
            segment.size = good

    def _pass_over(self, file: BinaryIO, cursor: Cursor, segment: _Segment) -> None:
        """What cannot be read; its records are lost to whoever has not got them."""
        damaged = cursor.offset
        cursor.offset = _next_chunk(file, damaged + 1, segment.size)
        if (segment.first, damaged) not in self._damaged:
            self._damaged.add((segment.first, damaged))
            self._on_damage(
                f"spool file {segment.path} is damaged: records in its bytes {damaged} to"
                f" {cursor.offset} are lost to a side that has not got them"
            )


def _chunk(file: BinaryIO, cursor: Cursor) -> Chunk | None:
    """None, and the cursor where it was, for what is none or damaged."""
    file.seek(cursor.offset)
    head = file.read(_HEAD.size)
    if len(head) == _HEAD.size:
        length, checksum, first, last = _HEAD.unpack(head)
        content = file.read(length)
        # Zeros, as a crash of the machine may leave them, would fit their checksum.
        if content and len(content) == length and zlib.crc32(content) == checksum:
            cursor.offset += _HEAD.size + length
            return Chunk(first, last, content)
    return None


def _next_chunk(file: BinaryIO, start: int, end: int) -> int:
    """Where the next whole one begins, wherever that is; `end` where there is none."""
    file.seek(start)
    content = file.read(end - start)
    for found in _PERHAPS.finditer(content):
        at = found.start()
        length, checksum, first, last = _HEAD.unpack_from(content, at)
        body = at + _HEAD.size
        if (
            first <= last
            and 0 < length <= len(content) - body
            and zlib.crc32(memoryview(content)[body : body + length]) == checksum
        ):
            return start + at
    return end


def _sync_directory(directory: Path) -> None:
    """That a file is there has to outlive the machine, too."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write_all(file: int, parts: Sequence[bytes]) -> None:
    total = sum(map(len, parts))
    written = os.writev(file, parts)
    while written < total:
        rest = b"".join(parts)[written:]
        written += os.write(file, rest)
