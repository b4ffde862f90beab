"""Gives a batch another codec: the payload is unpacked and packed as a whole.

    header    only the codec in its attributes and the CRC change
    payload   the same bytes before compression: no record is decoded

So offsets, timestamps, the number of records and the sequences stay the same.
"""

from __future__ import annotations

from typing import Final

from causeway.records.batches import Batch, read
from causeway.records.codec import has_too_many_records
from causeway.records.compress import compress
from causeway.records.unpack import unpack

_NO_FRONT: Final = memoryview(b"")
# Compression is never interrupted: a larger batch at a slow level would take longer than a lease.
# `decode` reads up to four times as many bytes.
MOST_BYTES: Final = 8 * 1024 * 1024


def repack(batch: Batch, codec: int, level: int | None = None) -> Batch:
    """Returns `batch` in `codec`, at `level` (see `compress`).

    Returns `batch` itself if it has that codec, if compression would not make it smaller, or if it
    has more than MOST_BYTES or half a million records. Returns it also if it cannot be unpacked:
    then the target decides whether it accepts the batch.
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
    except Exception:  # codecs raise various errors for damaged data, and for too little memory
        return batch
    if len(payload) >= len(plain):
        return batch
    return batch._replace(payload=payload, codec=codec, unread=None)
