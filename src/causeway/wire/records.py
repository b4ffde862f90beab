"""The record path: batches that cannot be relayed as they are, decoded and built again, dense.

Taken by batches with gaps (compaction, a start in their middle), with append times, in the old
formats, larger than the target takes, and by runs of small ones, which are merged. aiokafka's
compiled codec does the work on records; nothing here runs for a batch on the fast path.

Key, value, headers (order, repeats, null values) and timestamps survive exactly. The codec stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch

from causeway.errors import ProtocolError
from causeway.wire.batches import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    Batch,
)

_NO_SIZE_LIMIT = 2**31 - 1

SMALL_BATCH = 2048  # bytes; up to here neighbours are merged: see docs/decisions/0003-merging.md
MERGED_BYTES = 128 * 1024
MERGED_RECORDS = 4096


class Record(Protocol):
    """One record as the codec yields it. `timestamp` is in ms, -1 where there is none."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


def decode(raw: bytes | memoryview) -> list[Record]:
    """The records of one whole batch (header included), with absolute offsets. In a LogAppendTime
    batch every record has the append time, as a consumer would see it. Raises ProtocolError."""
    try:
        return list(DefaultRecordBatch(bytes(raw)))
    except Exception as error:
        raise ProtocolError("decode", "record batch", str(error) or type(error).__name__) from error


def decode_legacy(raw: bytes | memoryview, magic: int) -> list[Record]:
    """The records of one message of format 0 or 1 (a compressed one holds several)."""
    subject = f"message of format {magic}"
    try:
        batch = LegacyRecordBatch(bytearray(raw), magic)
        intact = batch.validate_crc()  # before the records are read: that replaces the bytes
        records: list[Record] = list(batch) if intact else []
    except Exception as error:
        raise ProtocolError("decode", subject, str(error) or type(error).__name__) from error
    if not intact:
        raise ProtocolError("decode", subject, "its CRC is wrong")
    return records


def records_of(batch: Batch) -> list[Record]:
    """The records of a batch, with offsets from 0 on: index them into `batch.source_offset`."""
    header = HEADER.pack(
        0,
        batch.size - LENGTH_OVERHEAD,
        -1,
        MAGIC,
        0,
        batch.codec,
        batch.records - 1,
        batch.base_timestamp,
        batch.max_timestamp,
        NO_PRODUCER,
        -1,
        -1,
        batch.records,
    )
    return decode(header + batch.payload)


def build(
    records: Sequence[Record],
    *,
    codec: int,
    first: int,
    next: int,
    leader_epoch: int,
    offsets: Sequence[int] | None,
) -> Batch:
    """One dense batch of `records` (at least one), in order; the rest as in `Batch`."""
    # aiokafka takes a first timestamp of -1 (Kafka's "no timestamp") for "not set yet", so such
    # runs are built shifted to 0 and the header's two absolute timestamps shifted back.
    timestamps = [-1 if r.timestamp is None else r.timestamp for r in records]
    shift = -min(0, *timestamps)
    builder = DefaultRecordBatchBuilder(MAGIC, codec, 0, NO_PRODUCER, -1, -1, _NO_SIZE_LIMIT)
    append = builder.append
    for index, (record, timestamp) in enumerate(zip(records, timestamps, strict=True)):
        append(index, timestamp + shift, record.key, record.value, record.headers)
    built = bytes(builder.build())
    fields = HEADER.unpack_from(built)
    return Batch(
        payload=built[HEADER_SIZE:],
        codec=fields[5],
        base_timestamp=fields[7] - shift,
        max_timestamp=fields[8] - shift,
        records=len(records),
        first=first,
        next=next,
        leader_epoch=leader_epoch,
        offsets=offsets,
    )


def densify(
    records: Iterable[Record], position: int, *, codec: int, next: int, leader_epoch: int
) -> Batch | None:
    """The records from source offset `position` on as one dense batch, or None if there is none."""
    kept = [record for record in records if record.offset >= position]
    if not kept:
        return None
    return build(
        kept,
        codec=codec,
        first=kept[0].offset,
        next=next,
        leader_epoch=leader_epoch,
        offsets=[record.offset for record in kept],
    )


def as_is(raw: bytes | memoryview) -> Batch:
    """A dense batch, header included, as a Batch of the same payload."""
    fields = HEADER.unpack_from(raw)
    return Batch(
        payload=bytes(raw[HEADER_SIZE:]),
        codec=fields[5] & CODEC_MASK,
        base_timestamp=fields[7],
        max_timestamp=fields[8],
        records=fields[12],
        first=fields[0],
        next=fields[0] + fields[12],
        leader_epoch=fields[2],
    )


def join(
    raws: Sequence[memoryview],
    *,
    codec: int,
    first: int,
    next: int,
    leader_epoch: int,
    gapless: bool,
) -> Batch:
    """Dense batches of one codec, headers included, as one batch; `gapless`: no source offset
    between them was dropped."""
    records: list[Record] = []
    try:
        for raw in raws:
            records += DefaultRecordBatch(raw)
    except Exception as error:
        raise ProtocolError("decode", "record batch", str(error) or type(error).__name__) from error
    offsets = None if gapless else [record.offset for record in records]
    return build(
        records, codec=codec, first=first, next=next, leader_epoch=leader_epoch, offsets=offsets
    )


def merge(batches: Sequence[Batch]) -> Batch:
    """Neighbours of one codec as one batch."""
    records = [record for batch in batches for record in records_of(batch)]
    contiguous = all(b.offsets is None for b in batches) and all(
        a.first + a.records == b.first for a, b in pairwise(batches)
    )
    offsets = (
        None
        if contiguous
        else [batch.source_offset(i) for batch in batches for i in range(batch.records)]
    )
    return build(
        records,
        codec=batches[0].codec,
        first=batches[0].first,
        next=batches[-1].next,
        leader_epoch=batches[-1].leader_epoch,
        offsets=offsets,
    )


def split(batch: Batch, start: int, stop: int) -> Batch:
    """The records at index `start` to `stop` - 1 as a batch of their own."""
    offsets = [batch.source_offset(i) for i in range(start, stop)]
    return build(
        records_of(batch)[start:stop],
        codec=batch.codec,
        first=offsets[0],
        next=batch.next if stop == batch.records else batch.source_offset(stop),
        leader_epoch=batch.leader_epoch,
        offsets=offsets,
    )
