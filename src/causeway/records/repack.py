"""Gives a batch another codec: the payload is unpacked and packed as a whole.

    header    the same, but for the codec in its attributes, and the CRC
    payload   the same bytes before compression: no record is decoded

So offsets, timestamps and the number of records stay, and sequences with them.
"""

from __future__ import annotations

from typing import Final

from causeway.records.batches import Batch, read
from causeway.records.codec import UNPACKED_BYTES, has_too_many_records
from causeway.records.compress import compress
from causeway.records.unpack import unpack

_NO_FRONT: Final = memoryview(b"")


def repack(batch: Batch, codec: int, level: int | None = None) -> Batch:
    """`batch` in `codec`, at `level` (see `compress`).

    `batch` itself if it has that codec, if compression would not make it smaller, or if `decode`
    could not read the result, because of its size. It is also returned if it cannot be unpacked:
    then the target decides whether to take it.
    """
    if batch.codec == codec or has_too_many_records(batch.records):
        return batch
    try:
        plain: bytes | memoryview = read(batch)
        if batch.codec:
            packed = memoryview(plain)
            plain = unpack(batch.codec, _NO_FRONT, packed, UNPACKED_BYTES, "record batch")
    except Exception:  # no codec foresees all damage
        return batch
    if len(plain) > UNPACKED_BYTES:
        return batch
    payload = compress(codec, plain, level)
    if len(payload) >= len(plain):
        return batch
    return batch._replace(payload=payload, codec=codec, unread=None)
