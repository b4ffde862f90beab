"""Filler: records without content, which take offsets in an aborted transaction.

All batches with the same number of records have the same payload; only their headers differ. The
length of a record depends only on its index, so a smaller payload is the beginning of the largest.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import repeat
from typing import Final

from causeway.records.batches import Batch
from causeway.records.codec import pack
from causeway.records.plain import PlainRecord, encode

FILLER_RECORDS: Final = 100_000
"""The most records in a batch (60 kB). Brokers read each record, and small batches take longest."""
FILLER_KEY: Final = b"causeway.filler"
"""Compacted topics refuse records without a key."""

_ZSTD: Final = 4
_LARGER_FROM: Final = 1 << 6, 1 << 13  # from these offset deltas on, a record takes one byte more


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
    size = records * len(_plain(1, keyed)) + sum(max(0, records - at) for at in _LARGER_FROM)
    return pack(_plain(FILLER_RECORDS, keyed)[:size], _ZSTD)


@cache
def _plain(records: int, keyed: bool) -> bytes:
    return encode(repeat(PlainRecord(0, 0, FILLER_KEY if keyed else None, None, []), records))
