"""Reads spools of causeway.producer 0.1, which has batches in the form of Kafka's record format 2.

A chunk is a tuple of (partition, records, codec, first timestamp, last timestamp, positions). The
records are encoded and compressed as in a batch of Kafka. A position takes 8 bytes.
"""

from __future__ import annotations

import gzip
import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from causeway_producer.errors import SettingsError

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_XERIAL = b"\x82SNAPPY\x00"  # starts snappy data in blocks, as Java clients write it
_XERIAL_HEAD = 16


def records_in_batches(batches: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Returns position, partition, timestamp, key, value, and headers with the id. Raises
    SettingsError."""
    for partition, packed, codec, base, _, positions in batches:
        reader = _Reader(_unpack(packed, codec))
        for position in array("Q", positions):
            yield (position, partition, *reader.record(base))


def _unpack(packed: bytes, codec: int) -> bytes:
    if codec < 2:
        return gzip.decompress(packed) if codec else packed
    name = _CODECS[codec]
    try:
        import cramjam  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise SettingsError(
            "read the spool",
            f"an earlier version compressed its records ({name})",
            "pip install cramjam until the spool is empty",
        ) from None
    if name != "snappy":
        return bytes(getattr(cramjam, name).decompress(packed))
    if not packed.startswith(_XERIAL):
        return bytes(cramjam.snappy.decompress_raw(packed))
    blocks, at = [], _XERIAL_HEAD
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        blocks.append(bytes(cramjam.snappy.decompress_raw(packed[at + 4 : at + 4 + size])))
        at += 4 + size
    return b"".join(blocks)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def record(self, base: int) -> tuple[Any, ...]:
        self._number()  # its length
        self._at += 1  # its attributes
        timestamp = base + self._number()
        self._number()  # its offset in the batch
        key, value = self._bytes(), self._bytes()
        headers = [((self._bytes() or b"").decode(), self._bytes()) for _ in range(self._number())]
        return timestamp, key, value, headers

    def _number(self) -> int:
        """Reads a zigzag varint."""
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found >> 1 ^ -(found & 1)

    def _bytes(self) -> bytes | None:
        if (size := self._number()) < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at]
