"""What became of a chunk: its rows, back from Spark, as batches for each outlet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causeway.config import NOT_A_PARTITION, most_partitions
from causeway.records import Batch
from causeway.transform.channel import Outcome, Output, Refusal
from causeway.transform.encode import Columns, Ints, encode
from causeway.transform.rows import MISSING, REASON, SEEN
from causeway.transform.rule_counts import Found, counted, plus, staying

BATCH_BYTES = 1_000_000  # not compressed; what one record became may take more
NO_NAME = "a header that it would get has no name"


def outcome_of(
    number: int,
    mark: dict[str, Any],
    rows: Sequence[pa.RecordBatch],
    treated: pa.RecordBatch | None = None,
    why_not: Callable[[str], str | None] | None = None,
) -> Outcome:
    """The outcome of a chunk, by its marker and the rows before it. `treated`: the outcomes of the
    records that needed no Spark, if there were some. `why_not`: gives the reason if no record may
    go to the topic of a name."""
    if treated is not None:
        rows = [*rows, _as_row(treated, rows[0].schema if rows else _ROWS)]
    if not rows:
        dropped = mark["records"]
        return Outcome(number, (), (), dropped, 0, dropped, mark["without_spark"], *_found(mark))
    table = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
    if treated is not None and len(rows) > 1:
        table = table.take(np.argsort(table.column("offset").to_numpy(), kind="stable"))
    found, missing = map(plus, _found(mark), counted(table))
    table, refused = _refuse(staying(table), mark, why_not)
    refusals = np.array(sorted(refused), np.int64)
    offsets = table.column("offset").to_numpy()
    columns = Columns(
        offsets,
        table.column("timestamp").view(pa.int64()).fill_null(-1).to_numpy() // 1000,
        table.column("key"),
        table.column("value"),
        table.column("headers"),
    )
    outputs = tuple(
        Output(topic, partition, batch)
        for topic, partition, part in _outlets(table, columns, mark)
        for batch in _batches(part, mark, refusals)
    )
    left = len(np.unique(offsets)) + len(refused)
    return Outcome(
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


def outcome_without_spark(number: int, mark: dict[str, Any], columns: Columns) -> Outcome:
    """The outcome of a chunk if a worker has treated all its records itself."""
    count, records = len(columns.offsets), mark["records"]
    none = np.array([], np.int64)
    batches = _batches(columns, mark, none) if count else ()
    outputs = tuple(Output(None, None, batch) for batch in batches)
    dropped = records - count
    return Outcome(number, outputs, (), records, count, dropped, records, *_found(mark))


def _found(mark: dict[str, Any]) -> Found:
    """The counts of the rules over the records that need no Spark."""
    return tuple(mark["found"]), tuple(mark["missing"])


def batch_of(columns: Columns) -> pa.RecordBatch:
    """Records that a worker has treated itself, as `outcome_of` takes them."""
    times = pa.array(columns.timestamps * 1000)
    arrays = [pa.array(columns.offsets), times, columns.keys, columns.values, columns.headers]
    return pa.RecordBatch.from_arrays(
        arrays, names=["offset", "timestamp", "key", "value", "headers"]
    )


# Of a chunk if Spark has dropped all records that it got.
_ROWS = pa.schema(
    [
        (REASON, pa.string()),
        (SEEN, pa.int64()),
        (MISSING, pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def _as_row(treated: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """As Spark's rows are; what they have besides is null, which is each record's own."""
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
    """The rows to be sent on, and why source offsets are refused: then nothing of them is sent."""
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
    # Of what is refused already the names may be of any length, and `why_not` keeps them.
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
    """The source offsets of records without a valid destination, with the reason."""
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
    table: pa.RecordBatch, columns: Columns, mark: dict[str, Any]
) -> Iterator[tuple[str | None, int | None, Columns]]:
    # Whether a query names the source's own or none: it is one outlet, so one order.
    topics = _unless(table.column("topic"), mark["topic"])
    partitions = _unless(table.column("partition"), mark["partition"])
    count = len(topics)
    if not count:
        return
    if topics.null_count == partitions.null_count == count:
        yield None, None, columns
        return
    names = topics.dictionary_encode(null_encoding="encode")
    codes = names.indices.to_numpy().astype(np.int64) << 32
    codes += partitions.fill_null(-(2**31)).to_numpy()
    order = np.argsort(codes, kind="stable")
    ordered = columns.take(order)
    starts = np.flatnonzero(np.diff(codes[order], prepend=codes.min() - 1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), count], strict=True):
        row = int(order[start])
        yield topics[row].as_py(), partitions[row].as_py(), ordered.slice(start, stop)


def _unless(column: pa.Array, own: Any) -> pa.Array:
    """Null where it is `own`."""
    return pc.if_else(pc.equal(column, pa.scalar(own, column.type)), None, column)


def _batches(columns: Columns, mark: dict[str, Any], refusals: Ints) -> Iterator[Batch]:
    """The records of one outlet as batches, cut between source records only."""
    offsets = columns.offsets
    count = len(offsets)
    ends = np.cumsum(columns.sizes())
    # Where a batch may end: behind the last of what one source record became. And where it must.
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
            columns.slice(start, stop),
            codec=mark["codec"],
            next=after,
            leader_epoch=mark["epoch"],
        )
        start = stop
