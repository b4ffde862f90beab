"""Filler: records without content, which take offsets in an aborted transaction.

One payload serves for all batches of a size; only their headers differ. A record's length depends
on its place alone, so a smaller payload is the beginning of the largest one.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from causeway.records.batches import Batch
from causeway.records.codec import pack

FILLER_RECORDS: Final = 100_000
"""The most in a batch: 60 kB. Brokers read each record, and take longest for small batches."""
FILLER_KEY: Final = b"causeway.filler"
"""Compacted topics take no records without a key."""

_ZSTD: Final = 4
# A record: attributes and time delta before its offset delta; no key or FILLER_KEY, no value, no
# headers behind it. Lengths and deltas are zigzag varints.
_BEFORE: Final = b"\x00\x00"
_NULL: Final = b"\x01"
_WITHOUT_KEY: Final = _NULL + _NULL + b"\x00"
_WITH_KEY: Final = bytes((2 * len(FILLER_KEY),)) + FILLER_KEY + _NULL + b"\x00"
_LARGER_FROM: Final = 1 << 6, 1 << 13  # the offset deltas that take one byte more


def filler(records: int, keyed: bool, timestamp_ms: int) -> Batch:
    """A batch of 1 to FILLER_RECORDS filler records."""
    payload, codec = _payload(records, keyed)
    return Batch(
        payload=payload,
        codec=codec,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        records=records,
        first=0,
        next=records,
        leader_epoch=-1,
    )


@lru_cache(maxsize=16)
def _payload(records: int, keyed: bool) -> tuple[bytes, int]:
    smallest = len(_record(0, keyed))
    size = records * smallest + sum(max(0, records - delta) for delta in _LARGER_FROM)
    return pack(_largest(keyed)[:size], _ZSTD)


@cache
def _largest(keyed: bool) -> bytes:
    return b"".join(_record(delta, keyed) for delta in range(FILLER_RECORDS))


def _record(delta: int, keyed: bool) -> bytes:
    content = _BEFORE + _zigzag(delta) + (_WITH_KEY if keyed else _WITHOUT_KEY)
    return _zigzag(len(content)) + content


def _zigzag(number: int) -> bytes:
    """A number from 0 on."""
    out = bytearray()
    number <<= 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
