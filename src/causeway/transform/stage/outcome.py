"""The outcome of a chunk: its rows, back from Spark, as record batches for each outlet.

Batches are encoded from Arrow columns, without a Python object for each record. Layout of a record,
from Kafka's DefaultRecord; numbers are zigzag varints, a length of -1 is null:

    length | attributes 1 | timestamp delta | offset delta | key | value | count | (name | value) …

Each part is a column: numpy encodes the numbers, and Arrow joins the parts of all records
into one buffer, which is the batch's payload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from causeway.config import NOT_A_PARTITION, most_partitions
from causeway.records import Batch, pack
from causeway.transform.channel import ChunkOutcome, OutletBatch, Refusal
from causeway.transform.rows import (
    MISSING,
    REASON,
    SEEN,
    Found,
    counted,
    plus,
    record_fields,
    staying,
)

Ints = npt.NDArray[np.int64]
RECORD_OVERHEAD, HEADER_OVERHEAD = 36, 10  # the most bytes of lengths and numbers


# Batches of rows have at least the columns `offset` (on the source), `timestamp`, `key`, `value`
# and `headers`, with the types of rows.OUTPUT. The names of headers are not null.


def _sizes(rows: pa.RecordBatch) -> Ints:
    """Returns the most bytes that each record can take, uncompressed."""
    headers = rows.column("headers")
    counts = _counts(headers)
    keys, values = (np.maximum(_lengths(rows.column(part)), 0) for part in ("key", "value"))
    sizes = keys + values + RECORD_OVERHEAD
    if counts.any():
        ends = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(counts, out=ends[1:])
        pairs = headers.flatten()
        of_pair = sum(np.maximum(_lengths(pairs.field(side)), 0) for side in (0, 1))
        before = np.zeros(len(pairs) + 1, np.int64)
        np.cumsum(of_pair + HEADER_OVERHEAD, out=before[1:])
        sizes += before[ends[1:]] - before[ends[:-1]]
    return sizes


def encode(rows: pa.RecordBatch, *, codec: int, next: int, leader_epoch: int) -> Batch:
    """Returns one dense batch of all `rows` (at least one record). The rest is as in `Batch`."""
    offsets = rows.column("offset").to_numpy()
    timestamps = rows.column("timestamp").view(pa.int64()).fill_null(-1).to_numpy() // 1000
    count, first = len(offsets), int(offsets[0])
    payload, codec = pack(_records(rows, timestamps), codec)
    dense = offsets[-1] - first == count - 1 and bool((np.diff(offsets) == 1).all())
    return Batch(
        payload=payload,
        codec=codec,
        base_timestamp=int(timestamps[0]),
        max_timestamp=int(timestamps.max()),
        records=count,
        first=first,
        next=next,
        leader_epoch=leader_epoch,
        offsets=None if dense else offsets.tolist(),
    )


def _records(rows: pa.RecordBatch, timestamps: Ints) -> bytes:
    keys, values, headers = (rows.column(name) for name in ("key", "value", "headers"))
    count = len(rows)
    key_lengths, value_lengths = _lengths(keys), _lengths(values)
    header_counts = _counts(headers)
    head = [
        np.zeros((count, 1), np.uint8),  # attributes
        _varints(timestamps - timestamps[0]),
        _varints(np.arange(count)),
        _varints(key_lengths),
    ]
    middle, tail = [_varints(value_lengths)], [_varints(header_counts)]
    packed = _header_bytes(headers, header_counts) if header_counts.any() else None
    lengths = sum(_there(part).sum(axis=1) for part in (*head, *middle, *tail))
    lengths += np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    if packed is not None:
        lengths += _lengths(packed)
    parts = [
        _joined([_varints(lengths), *head]),
        keys,
        _joined(middle),
        values,
        _joined(tail),
    ]
    if packed is not None:
        parts.append(packed)
    joined = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    return bytes(joined.buffers()[2])


def _header_bytes(headers: pa.Array, counts: Ints) -> pa.Array:
    """Returns the bytes of each record after its count of headers."""
    pairs = headers.flatten()
    names, values = pairs.field(0).cast(pa.binary()), pairs.field(1)
    one = pc.binary_join_element_wise(
        _joined([_varints(_lengths(names))]),
        names,
        _joined([_varints(_lengths(values))]),
        values,
        b"",
        null_handling="replace",
        null_replacement=b"",
    )
    _, ends, data = one.buffers()
    before = np.frombuffer(ends, np.int32, len(one) + 1)
    last = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=last[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(before[last].tobytes()), data]
    )


def _lengths(column: pa.Array) -> Ints:
    """Returns the bytes of each value, -1 for null."""
    found: Ints = pc.binary_length(column).fill_null(-1).to_numpy().astype(np.int64)
    return found


def _counts(headers: pa.Array) -> Ints:
    found: Ints = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    return found


# A column of varints is a matrix of bytes, one row for each number. All bytes of a varint except
# the last have their highest bit set, which shows the end of the row.
Bytes = npt.NDArray[np.uint8]


def _varints(numbers: Ints) -> Bytes:
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(1, -(-int(rest.max()).bit_length() // 7))
    found = np.empty((len(numbers), width), np.uint8)
    for at in range(width):
        found[:, at] = rest & np.uint64(0x7F)
        rest = rest >> np.uint64(7)
        if at + 1 < width:
            found[:, at] |= (rest > 0).view(np.uint8) << 7
    return found


def _there(numbers: Bytes) -> npt.NDArray[np.bool_]:
    """Returns which bytes belong to a number: the first, and each byte after one that continues."""
    there = np.ones(numbers.shape, np.bool_)
    there[:, 1:] = numbers[:, :-1] >= 0x80
    return there


def _joined(parts: list[Bytes]) -> pa.Array:
    """Returns a column with the parts of each row in sequence."""
    there = np.hstack([_there(part) for part in parts])
    ends = np.zeros(len(there) + 1, np.int32)
    np.cumsum(there.sum(axis=1), out=ends[1:])
    data = np.hstack(parts)[there]
    return pa.Array.from_buffers(
        pa.binary(), len(there), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(data)]
    )


BATCH_BYTES = 1_000_000  # uncompressed; the results of one record may take more
NO_NAME = "a header that it would get has no name"


def outcome_of(
    number: int,
    mark: dict[str, Any],
    rows: Sequence[pa.RecordBatch],
    treated: pa.RecordBatch | None = None,
    why_not: Callable[[str], str | None] | None = None,
) -> ChunkOutcome:
    """Returns the outcome of a chunk, by its marker and the rows before it. `treated`: the outcomes
    of records that needed no Spark. `why_not`: returns the reason if records must not go to the
    topic of this name."""
    if treated is not None:
        rows = [*rows, _as_row(treated, rows[0].schema if rows else _ROWS)]
    if not rows:
        dropped = mark["records"]
        return ChunkOutcome(
            number, (), (), dropped, 0, dropped, mark["without_spark"], *_found(mark)
        )
    table = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
    if treated is not None and len(rows) > 1:
        table = table.take(np.argsort(table.column("offset").to_numpy(), kind="stable"))
    found, missing = map(plus, _found(mark), counted(table))
    table, refused = _refuse(staying(table), mark, why_not)
    refusals = np.array(sorted(refused), np.int64)
    offsets = table.column("offset").to_numpy()
    outputs = tuple(
        OutletBatch(topic, partition, batch)
        for topic, partition, part in _outlets(table, mark)
        for batch in _batches(part, mark, refusals)
    )
    left = len(np.unique(offsets)) + len(refused)
    return ChunkOutcome(
        number,
        outputs,
        tuple(Refusal(offset, refused[offset]) for offset in refusals.tolist()),
        mark["records"],
        len(offsets),
        mark["records"] - left,
        mark["without_spark"],
        found,
        missing,
    )


def outcome_without_spark(number: int, mark: dict[str, Any], rows: pa.RecordBatch) -> ChunkOutcome:
    """Returns the outcome of a chunk if a worker has treated all its records itself."""
    count, records = len(rows), mark["records"]
    none = np.array([], np.int64)
    batches = _batches(rows, mark, none) if count else ()
    outputs = tuple(OutletBatch(None, None, batch) for batch in batches)
    dropped = records - count
    return ChunkOutcome(number, outputs, (), records, count, dropped, records, *_found(mark))


def _found(mark: dict[str, Any]) -> Found:
    """Returns the counts of the rules over the records that needed no Spark."""
    return tuple(mark["found"]), tuple(mark["missing"])


# The rows of a chunk if Spark has dropped all its records.
_ROWS = pa.schema(
    [(REASON, pa.string()), (SEEN, pa.int64()), (MISSING, pa.int64()), *record_fields()]
)


def _as_row(treated: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns `treated` with the columns of Spark's rows. Additional columns are null, which means
    unchanged."""
    there = set(treated.schema.names)
    arrays = [
        treated.column(one.name).cast(one.type)
        if one.name in there
        else pa.nulls(len(treated), one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _refuse(
    table: pa.RecordBatch, mark: dict[str, Any], why_not: Callable[[str], str | None] | None
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Returns the rows to send, and the reasons of refused source offsets, which are not sent."""
    reasons = table.column(REASON)
    refused: dict[int, str] = {}
    if reasons.null_count < len(reasons):
        rows = reasons.is_valid()
        found = (table.column("offset").filter(rows), reasons.filter(rows))
        refused.update(zip(*(column.to_pylist() for column in found), strict=True))
    headers = table.column("headers")
    names = headers.flatten().field(0)
    if names.null_count:
        rows = pc.list_parent_indices(headers).filter(names.is_null())
        for offset in table.column("offset").take(rows).to_pylist():
            refused.setdefault(offset, NO_NAME)
    # `why_not` caches names. Names of refused records may be of any length, so skip them.
    named = table.filter(reasons.is_null()) if refused else table
    for offset, reason in _led_nowhere(named, mark, why_not):
        refused.setdefault(offset, reason)
    if refused:
        kept = pc.is_in(table.column("offset"), pa.array(refused, pa.int64()))
        table = table.filter(pc.invert(kept))
    return table, refused


def _led_nowhere(
    table: pa.RecordBatch, mark: dict[str, Any], why_not: Callable[[str], str | None] | None
) -> Iterator[tuple[int, str]]:
    """Yields the source offsets of records without a valid destination, with the reason."""
    offsets = table.column("offset")
    topics = _unless(table.column("topic"), mark["topic"])
    if why_not is not None and topics.null_count < len(topics):
        names = topics.dictionary_encode()
        found = enumerate(names.dictionary.to_pylist())
        wrong = {code: why for code, name in found if (why := why_not(name)) is not None}
        if wrong:
            rows = pc.is_in(names.indices, pa.array(wrong, names.indices.type))
            codes = names.indices.filter(rows).to_pylist()
            for offset, code in zip(offsets.filter(rows).to_pylist(), codes, strict=True):
                yield offset, wrong[code]
    partitions = _unless(table.column("partition"), mark["partition"])
    if partitions.null_count < len(partitions):
        most = most_partitions(mark["partition"])
        rows = pc.greater_equal(partitions, most).fill_null(False)
        for offset in offsets.filter(rows).to_pylist():
            yield offset, NOT_A_PARTITION


def _outlets(
    table: pa.RecordBatch, mark: dict[str, Any]
) -> Iterator[tuple[str | None, int | None, pa.RecordBatch]]:
    # The source's own topic and no topic are the same outlet, so records keep one order.
    topics = _unless(table.column("topic"), mark["topic"])
    partitions = _unless(table.column("partition"), mark["partition"])
    count = len(topics)
    if not count:
        return
    if topics.null_count == partitions.null_count == count:
        yield None, None, table
        return
    names = topics.dictionary_encode(null_encoding="encode")
    codes = names.indices.to_numpy().astype(np.int64) << 32
    codes += partitions.fill_null(-(2**31)).to_numpy()
    order = np.argsort(codes, kind="stable")
    ordered = table.select(["offset", "timestamp", "key", "value", "headers"]).take(order)
    starts = np.flatnonzero(np.diff(codes[order], prepend=codes.min() - 1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), count], strict=True):
        row = int(order[start])
        yield topics[row].as_py(), partitions[row].as_py(), ordered.slice(start, stop - start)


def _unless(column: pa.Array, own: Any) -> pa.Array:
    """Null where the value is `own`."""
    return pc.if_else(pc.equal(column, pa.scalar(own, column.type)), None, column)


def _batches(rows: pa.RecordBatch, mark: dict[str, Any], refusals: Ints) -> Iterator[Batch]:
    """Yields the records of one outlet as batches, cut only between source records."""
    offsets = rows.column("offset").to_numpy()
    count = len(offsets)
    ends = np.cumsum(_sizes(rows))
    # A batch may end only after the last result of a source record; it must end at refused records.
    may = np.append(np.flatnonzero(np.diff(offsets)) + 1, count)
    must = np.append(np.unique(np.searchsorted(offsets, refusals)), count)
    start = 0
    while start < count:
        taken = int(ends[start - 1]) if start else 0
        fits = int(np.searchsorted(ends, taken + BATCH_BYTES, "right"))
        first, last = np.searchsorted(may, [start, fits], "right")
        stop = int(may[max(first, last - 1)])
        stop = min(stop, int(must[np.searchsorted(must, start, "right")]))
        after = int(offsets[stop]) if stop < count else mark["next"]
        refusal = int(np.searchsorted(refusals, offsets[stop - 1]))
        if refusal < len(refusals):
            after = min(after, int(refusals[refusal]))
        yield encode(
            rows.slice(start, stop - start),
            codec=mark["codec"],
            next=after,
            leader_epoch=mark["epoch"],
        )
        start = stop
