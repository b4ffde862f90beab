"""The log of the spool. Each record is on disk before it is sent. Both sides read the log.

    <first position>.log:  chunk chunk chunk …         a file has up to `_segment_bytes`
    chunk:  length, CRC-32, first and last position │ the records, see `records.py`

Used by one thread at a time. If the process died during a write, the next start cuts that chunk
off: none of its records was sent. A reader passes over a damaged chunk if others follow it, and
reports it. A file is deleted as soon as both sides have all of its records.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from causeway_producer.records import Chunk, decode, encode

_HEAD = struct.Struct(">IIQQ")
_MAX_SEGMENT_BYTES = 32 << 20
# A head may begin here: first and last position are of one life, which is in their first bytes.
_MAYBE_HEAD = re.compile(rb"(?s)(?=.{8}(\x00(?!\x00\x00)..).{5}\1)")


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    size: int


@dataclass(slots=True)
class JournalCursor:
    """A place in the log: everything before it is read. `segment`: the first position of the
    file."""

    segment: int = 0
    offset: int = 0
    _file: BinaryIO | None = field(default=None, repr=False)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Journal:
    """`max_bytes`: its largest size on disk. `durable`: each append waits for the disk.
    `on_damage`: called once for each place that cannot be read."""

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int,
        durable: bool,
        on_damage: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._directory = directory
        self.max_bytes = max_bytes
        self._durable = durable
        self._on_damage = on_damage
        self._damaged: set[tuple[int, int]] = set()
        self._segment_bytes = min(_MAX_SEGMENT_BYTES, max(1, max_bytes // 8))
        self._file: int | None = None
        self._newest: tuple[int, int, Chunk] | None = None  # segment, offset
        self._segments = [
            _Segment(path, int(path.stem), path.stat().st_size)
            for path in sorted(directory.glob("*.log"))
        ]
        if self._segments:
            _cut(self._segments[-1])
        self.size = sum(segment.size for segment in self._segments)

    def append(self, chunk: Chunk) -> None:
        """Writes everything or nothing. Raises OSError if the disk is full."""
        content = encode(chunk.records)
        head = _HEAD.pack(len(content), zlib.crc32(content), chunk.first, chunk.last)
        segment = self._writable(chunk.first)
        assert self._file is not None
        try:
            _write_all(self._file, (head, content))
            if self._durable:
                os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, segment.size)
            os.lseek(self._file, segment.size, os.SEEK_SET)
            raise
        self._newest = (segment.first, segment.size, chunk)
        chunk.size = len(head) + len(content)
        segment.size += chunk.size
        self.size += chunk.size

    def read(self, cursor: JournalCursor) -> Chunk | None:
        """Returns the next readable chunk, and moves the cursor behind it. None at the end."""
        for segment in self._segments:
            if segment.first < cursor.segment:
                continue
            if segment.first > cursor.segment:
                cursor.close()
                cursor.segment, cursor.offset = segment.first, 0
            newest = self._newest
            if newest is not None and newest[:2] == (cursor.segment, cursor.offset):
                cursor.offset = segment.size
                return newest[2]
            if cursor.offset < segment.size:
                if cursor._file is None:
                    cursor._file = segment.path.open("rb")
                if (chunk := _chunk(cursor._file, cursor)) is not None:
                    return chunk
                self._pass_over(cursor._file, cursor, segment)
                if cursor.offset < segment.size:
                    return _chunk(cursor._file, cursor)
        return None

    def cursor(self, position: int) -> JournalCursor:
        """Returns a cursor at the start of the file that has `position`, or of the first file."""
        starts = [segment.first for segment in self._segments if segment.first <= position]
        return JournalCursor(starts[-1] if starts else 0)

    def behind(self, cursor: JournalCursor) -> int:
        """Returns the number of bytes that a reader has not read yet."""
        return sum(
            segment.size - (cursor.offset if segment.first == cursor.segment else 0)
            for segment in self._segments
            if segment.first >= cursor.segment
        )

    def trim(self, below: int, *, everything: bool = False) -> None:
        """Deletes the files that have only positions below `below`. `everything`: both sides have
        all records, so the last file is deleted as well."""
        while len(self._segments) > 1 and self._segments[1].first <= below:
            self._remove(self._segments.pop(0))
        if everything and self._segments:
            self.close()
            while self._segments:
                self._remove(self._segments.pop(0))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _writable(self, first: int) -> _Segment:
        if self._segments and self._segments[-1].size < self._segment_bytes:
            segment = self._segments[-1]
        else:
            self.close()
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

    def _pass_over(self, file: BinaryIO, cursor: JournalCursor, segment: _Segment) -> None:
        damaged = cursor.offset
        cursor.offset = _next_chunk(file, damaged + 1, segment.size)
        if (segment.first, damaged) not in self._damaged:
            self._damaged.add((segment.first, damaged))
            self._on_damage(
                f"spool file {segment.path} is damaged: a side that has not got the records in its"
                f" bytes {damaged} to {cursor.offset} will not get them"
            )


def _cut(segment: _Segment) -> None:
    """Cuts a file behind its last whole chunk."""
    cursor = JournalCursor(segment.first)
    good = 0
    with segment.path.open("rb") as file:
        while cursor.offset < segment.size:
            if _content(file, cursor) is None:
                cursor.offset = _next_chunk(file, cursor.offset + 1, segment.size)
            else:
                good = cursor.offset
    if good < segment.size:
        os.truncate(segment.path, good)
        segment.size = good


def _chunk(file: BinaryIO, cursor: JournalCursor) -> Chunk | None:
    offset = cursor.offset
    if (content := _content(file, cursor)) is None:
        return None
    try:
        return Chunk(decode(content), size=len(content))
    except Exception:
        cursor.offset = offset  # the next read tries again
        raise


def _content(file: BinaryIO, cursor: JournalCursor) -> bytes | None:
    """Returns the content of the chunk at the cursor, and moves the cursor. Returns None, and does
    not move it, if there is no whole chunk."""
    file.seek(cursor.offset)
    head = file.read(_HEAD.size)
    if len(head) == _HEAD.size:
        length, checksum, _, _ = _HEAD.unpack(head)
        content = file.read(length)
        # The checksum of no bytes is 0, so zeros would fit, which a crash of the machine may leave.
        if content and len(content) == length and zlib.crc32(content) == checksum:
            cursor.offset += _HEAD.size + length
            return content
    return None


def _next_chunk(file: BinaryIO, start: int, end: int) -> int:
    """Returns the place of the next whole chunk, at any offset; `end` if there is none."""
    file.seek(start)
    content = file.read(end - start)
    for found in _MAYBE_HEAD.finditer(content):
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
    """Makes the name of a new file survive a crash of the machine."""
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
