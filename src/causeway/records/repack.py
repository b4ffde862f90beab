"""Gives a batch another codec: the payload is unpacked and packed as a whole.

    header    the same, but for the codec in its attributes, and the CRC
    payload   the same bytes before compression: no record is decoded

So offsets, timestamps and the number of records stay, and sequences with them.
"""

from __future__ import annotations

from typing import Final

from causeway.records.batches import Batch, read
from causeway.records.codec import has_too_many_records
from causeway.records.compress import compress
from causeway.records.unpack import unpack

_NO_FRONT: Final = memoryview(b"")
# Compression is never interrupted: more at a slow level would outlast a lease. `decode` reads
# four times as many.
MOST_BYTES: Final = 8 * 1024 * 1024


def repack(batch: Batch, codec: int, level: int | None = None) -> Batch:
    """`batch` in `codec`, at `level` (see `compress`).

    `batch` itself if it has that codec, if compression would not make it smaller, or if it has more
    than MOST_BYTES or half a million records. It is also returned if it cannot be unpacked: then
    the target decides whether to take it.
    """
    if batch.codec == codec or has_too_many_records(batch.records):
        return batch
    try:
        plain: bytes | memoryview = read(batch)
        if batch.codec:
            packed = memoryview(plain)
            plain = unpack(batch.codec, _NO_FRONT, packed, MOST_BYTES, "record batch")
        if len(plain) > MOST_BYTES:
            return batch
        payload = compress(codec, plain, level)
    except Exception:  # no codec foresees all damage, nor how much memory its level takes
        return batch
    if len(payload) >= len(plain):
        return batch
    return batch._replace(payload=payload, codec=codec, unread=None)
