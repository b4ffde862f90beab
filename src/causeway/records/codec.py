"""The record path: decodes batches that cannot be relayed as they are, and builds dense ones.

It serves batches with gaps (after compaction, or a start inside the batch), with append times, in
old formats, or larger than the target accepts. It also merges runs of small batches. aiokafka's
compiled codec reads and writes the records. A batch on the fast path does not come here.

Key, value, headers (order, repeats, null values), timestamps and the codec stay exactly the same.
The unpacked size is bounded, because each writer of a topic decides on the content of its batches.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch

from causeway.errors import ProtocolError, TooLargeError
from causeway.records import plain as plain_records
from causeway.records.batches import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    Batch,
    fast_tuple,
    read,
)
from causeway.records.compress import compress
from causeway.records.plain import PlainRecord
from causeway.records.unpack import count_work, unpack

_batch = fast_tuple(Batch)
_NO_SIZE_LIMIT = 2**31 - 1
_ATTRIBUTES_AT = 22  # the lower byte
_COUNT_AT = 57
_LEGACY_ATTRIBUTES_AT = 17
_RECORD_BYTES = 200  # memory that a record takes besides its key, value and headers
_RECORDS_BYTES = 100_000_000  # the bound for all records of a batch, so half a million records
_TIMES = 4  # a batch may take this many times its own size, if that is more than the bound

SMALL_BATCH = 2048  # bytes; up to here neighbours are merged: see docs/decisions/0003-merging.md
MERGED_BYTES = 128 * 1024
MERGED_RECORDS = 4096
MERGED_UNPACKED = 1024 * 1024  # bytes, not compressed
UNPACKED_BYTES = 32 * 1024 * 1024  # a larger batch can only be relayed as it is


class Record(Protocol):
    """One record as the codec yields it. `timestamp` is in ms, -1 if there is none."""

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


def decode(raw: bytes | memoryview, subject: str = "record batch") -> list[Record]:
    """Returns the records of one whole batch (header included), with absolute offsets. In a
    LogAppendTime batch each record has the append time, as a consumer sees it.

    Raises ProtocolError if the batch is damaged. Raises TooLargeError if it takes more than
    UNPACKED_BYTES unpacked, or has more than half a million records. A batch may always take four
    times its packed size.
    """
    has_room_for = _TIMES * len(raw)
    plain = _unpacked(memoryview(raw), max(UNPACKED_BYTES, has_room_for), subject)
    records = int.from_bytes(plain[_COUNT_AT:HEADER_SIZE], "big", signed=True)
    if has_too_many_records(records, has_room_for):
        raise TooLargeError("decode", subject, f"{records} records are too many to unpack")
    count_work(records * _RECORD_BYTES)
    return _read(plain, subject)


def has_too_many_records(count: int, least_bytes: int = 0) -> bool:
    """Whether `decode` refuses a batch of `count` records. `least_bytes`: the memory that the
    records may take in any case."""
    return count * _RECORD_BYTES > max(_RECORDS_BYTES, least_bytes)


def _unpacked(raw: memoryview, most: int, subject: str) -> memoryview:
    """The same batch without compression. The view is valid until the next batch is unpacked."""
    if len(raw) < HEADER_SIZE or not (codec := raw[_ATTRIBUTES_AT] & CODEC_MASK):
        return raw
    plain = unpack(codec, raw[:HEADER_SIZE], raw[HEADER_SIZE:], most, subject)
    plain[_ATTRIBUTES_AT] ^= codec
    return plain


def _read(plain: memoryview, subject: str) -> list[Record]:
    try:
        try:
            return list(DefaultRecordBatch(plain))
        except UnicodeDecodeError:
            return list(plain_records.decode(plain))
    except Exception as error:
        raise ProtocolError("decode", subject, str(error) or type(error).__name__) from error


def decode_legacy(raw: bytes | memoryview, magic: int, subject: str = "") -> list[Record]:
    """The records of one message of format 0 or 1. A compressed message has several records."""
    subject = subject or f"message of format {magic}"
    try:
        batch = LegacyRecordBatch(bytearray(raw), magic)
        intact = batch.validate_crc()  # first, because reading the records replaces the bytes
        if intact:
            _refuse_large_legacy(memoryview(raw), magic, subject)
        records: list[Record] = list(batch) if intact else []
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError("decode", subject, str(error) or type(error).__name__) from error
    if not intact:
        raise ProtocolError("decode", subject, "its CRC is wrong")
    return records


def _refuse_large_legacy(raw: memoryview, magic: int, subject: str) -> None:
    """aiokafka unpacks such a message without a bound, so this function unpacks it first."""
    codec = raw[_LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    if not codec:
        return
    at = _LEGACY_ATTRIBUTES_AT + (9 if magic else 1)
    key_size = int.from_bytes(raw[at : at + 4], "big", signed=True)
    packed = raw[at + 8 + max(0, key_size) :]
    unpack(codec, raw[:0], packed, max(UNPACKED_BYTES, _TIMES * len(raw)), subject)


def records_of(batch: Batch) -> list[Record]:
    """The records of a batch, with offsets from 0 on. `batch.source_offset` takes such an offset
    as its index."""
    return decode(_raw_of(batch))


def _raw_of(batch: Batch) -> bytes:
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
    return header + read(batch)


def build(
    records: Sequence[Record],
    *,
    codec: int,
    first: int,
    next: int,
    leader_epoch: int,
    offsets: Sequence[int] | None,
) -> Batch:
    """Builds one dense batch of `records` (at least one record), in order. The other arguments are
    fields of `Batch`."""
    timestamps = [-1 if r.timestamp is None else r.timestamp for r in records]
    try:
        payload, codec = _encode(records, timestamps, codec)
    except (UnicodeEncodeError, OverflowError):
        plain = plain_records.encode(
            PlainRecord(index, timestamp, record.key, record.value, record.headers)
            for index, (record, timestamp) in enumerate(zip(records, timestamps, strict=True))
        )
        payload = compress(codec, plain) if codec else plain
    return Batch(
        payload=payload,
        codec=codec,
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
        records=len(records),
        first=first,
        next=next,
        leader_epoch=leader_epoch,
        offsets=offsets,
    )


def _encode(records: Sequence[Record], timestamps: Sequence[int], codec: int) -> tuple[bytes, int]:
    """The payload of a batch, and its codec: 0 if compression gains nothing."""
    # aiokafka reads a first timestamp of -1 (Kafka's "no timestamp") as "not set yet". So all
    # timestamps of such a run are shifted, and the lowest one becomes 0.
    shift = -min(0, *timestamps)
    builder = DefaultRecordBatchBuilder(MAGIC, codec, 0, NO_PRODUCER, -1, -1, _NO_SIZE_LIMIT)
    append = builder.append
    for index, (record, timestamp) in enumerate(zip(records, timestamps, strict=True)):
        append(index, timestamp + shift, record.key, record.value, record.headers)
    built = bytes(builder.build())
    return built[HEADER_SIZE:], built[_ATTRIBUTES_AT] & CODEC_MASK


def pack(payload: bytes, codec: int) -> tuple[bytes, int]:
    """`payload` compressed, and its codec: 0 if compression gains nothing."""
    packed = compress(codec, payload) if codec else payload
    return (packed, codec) if len(packed) < len(payload) else (payload, 0)


def densify(
    records: Iterable[Record], position: int, *, codec: int, next: int, leader_epoch: int
) -> Batch | None:
    """The records from source offset `position` on as one dense batch; None without a record."""
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
    """A Batch with the payload of `raw`, a dense batch with its header."""
    base, _, epoch, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, count = (
        HEADER.unpack_from(raw)
    )
    payload, codec = bytes(raw[HEADER_SIZE:]), attributes & CODEC_MASK
    return _batch(
        (
            payload,
            codec,
            base_timestamp,
            max_timestamp,
            count,
            base,
            base + count,
            epoch,
            None,
            None,
        )
    )


def join(raws: Sequence[memoryview]) -> tuple[Batch, int]:
    """Joins dense batches of one codec, with their headers, into one batch. Returns it and the
    number of batches in it. It ends before a batch that cannot be read, or is too large
    unpacked. The first batch is always in it."""
    records, taken = _read_together(raws)
    if taken < 2:
        return as_is(raws[0]), 1
    first, next = records[0].offset, records[-1].offset + 1
    fields = HEADER.unpack_from(raws[taken - 1])
    gapless = next - first == len(records)
    batch = build(
        records,
        codec=fields[5] & CODEC_MASK,
        first=first,
        next=next,
        leader_epoch=fields[2],
        offsets=None if gapless else [record.offset for record in records],
    )
    return batch, taken


def merge(batches: Sequence[Batch]) -> tuple[Batch, int]:
    """Joins neighbours that are a Batch already, as `join` does."""
    records, taken = _read_together([_raw_of(batch) for batch in batches])
    if taken < 2:
        return batches[0], 1
    batches = batches[:taken]
    contiguous = all(b.offsets is None for b in batches) and all(
        a.first + a.records == b.first for a, b in pairwise(batches)
    )
    offsets = (
        None
        if contiguous
        else [batch.source_offset(i) for batch in batches for i in range(batch.records)]
    )
    batch = build(
        records,
        codec=batches[0].codec,
        first=batches[0].first,
        next=batches[-1].next,
        leader_epoch=batches[-1].leader_epoch,
        offsets=offsets,
    )
    return batch, taken


def _read_together(raws: Sequence[memoryview | bytes]) -> tuple[list[Record], int]:
    """Reads batches from the front of `raws`, which have one codec, until they unpack to
    MERGED_UNPACKED bytes together. Returns their records and the number of batches."""
    records: list[Record] = []
    if not raws[0][_ATTRIBUTES_AT] & CODEC_MASK:
        try:
            for raw in raws:
                records += DefaultRecordBatch(raw)
            return records, len(raws)
        except Exception:
            records.clear()  # the loop below reads them one by one, to find the damaged batch
    room, taken = MERGED_UNPACKED, 0
    for raw in raws:
        try:
            plain = _unpacked(memoryview(raw), room, "record batch")
            records += _read(plain, "record batch")
        except ProtocolError:
            break
        room -= len(plain)
        taken += 1
        if room <= 0:
            break
    return records, taken


def part_of(
    whole: Batch, records: Sequence[Record], offsets: Sequence[int], next: int | None = None
) -> Batch:
    """A batch of some records of `whole`, with their source offsets, in the same codec. `next` is
    that of `whole` if it is None."""
    return build(
        records,
        codec=whole.codec,
        first=offsets[0],
        next=whole.next if next is None else next,
        leader_epoch=whole.leader_epoch,
        offsets=offsets,
    )


def clip(batch: Batch, start: int = 0, stop: int = sys.maxsize) -> Batch | None:
    """The records of `batch` with source offsets `start` to `stop` - 1; None without a record."""
    begin, end = batch.below(start), batch.below(stop)
    if begin == 0 and end == batch.records:
        return batch
    return _part(batch, records_of(batch), begin, end) if begin < end else None


def cut(batch: Batch, indexes: Sequence[int]) -> list[Batch]:
    """Cuts the batch into parts. The second part begins at the first of `indexes`, and so on."""
    records = records_of(batch)
    bounds = pairwise((0, *indexes, batch.records))
    return [_part(batch, records, start, stop) for start, stop in bounds]


def _part(batch: Batch, records: Sequence[Record], start: int, stop: int) -> Batch:
    offsets = [batch.source_offset(i) for i in range(start, stop)]
    next = batch.next if stop == batch.records else batch.source_offset(stop)
    return part_of(batch, records[start:stop], offsets, next)


def unpacked_size(batch: Batch) -> int:
    """The bytes of the batch without compression, with its header. Raises ProtocolError if the
    batch is damaged, TooLargeError if it unpacks to more bytes than `decode` accepts."""
    raw = memoryview(_raw_of(batch))
    return len(_unpacked(raw, max(UNPACKED_BYTES, _TIMES * len(raw)), "record batch"))
