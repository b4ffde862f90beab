"""A stage's last worker: rows that come out of Spark become record batches for the lane.

The first marker behind a chunk's rows closes the chunk, and its Outcome goes to the lane.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from causeway.transform.channel import Outcome, Output, Refusal
from causeway.transform.rows import CHUNK, MARK, REASON, SEEN
from causeway.transform.worker import Lane, settle
from causeway.wire.plain_records import PlainRecord
from causeway.wire.records import build

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 1024 * 1024  # of keys, values and headers, not compressed


@dataclass(frozen=True, slots=True)
class SinkWorker:
    """The function for `mapInArrow`; yields no rows."""

    lane: Lane

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        try:
            connection, _ = self.lane.connect("sink")
        except ConnectionResetError:
            return
        chunks = Chunks()
        try:
            for batch in batches:
                for outcome in chunks.add(batch):
                    connection.send_all(outcome)
        except ConnectionError:
            # The lane has gone. The source worker sees it too, and so the rows end.
            connection.close()
            for _ in batches:
                pass
        finally:
            connection.close()
        yield from ()


class Chunks:
    """Rows as `rows.OUTPUT` has them, in order, cut into chunks."""

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[Outcome]:
        """The outcomes of chunks that `batch` closes."""
        import numpy as np

        marks = batch.column(MARK)
        at = 0
        for row in np.flatnonzero(marks.is_valid().to_numpy(zero_copy_only=False)):
            if row > at:
                self._rows.append(batch.slice(at, int(row) - at))
            at = int(row) + 1
            if mark := marks[row].as_py():
                rows, self._rows = self._rows, []
                yield outcome_of(batch.column(CHUNK)[row].as_py(), json.loads(mark), rows)
        if at < batch.num_rows:
            self._rows.append(batch.slice(at))


def outcome_of(number: int, mark: dict[str, Any], rows: Sequence[pa.RecordBatch]) -> Outcome:
    """What became of a chunk, by its marker and the rows before it."""
    records: dict[tuple[str | None, int | None], list[PlainRecord]] = {}
    refused: dict[int, str] = {}
    seen = 0
    for batch in rows:
        kept = batch
        reasons = batch.column(REASON)
        if reasons.null_count < len(reasons):
            refused.update(
                pair
                for pair in zip(
                    batch.column("offset").to_pylist(), reasons.to_pylist(), strict=True
                )
                if pair[1] is not None
            )
            kept = batch.filter(reasons.is_null())
        seen |= _or(batch.column(SEEN))
        _collect(kept, records)
    refusals = sorted(refused)
    outputs = tuple(
        Output(topic, partition, batch)
        for (topic, partition), found in records.items()
        for batch in _batches(found, mark, refusals)
    )
    offsets = {record.offset for found in records.values() for record in found}
    return Outcome(
        number,
        outputs,
        tuple(Refusal(offset, refused[offset]) for offset in refusals),
        mark["records"],
        sum(map(len, records.values())),
        mark["records"] - len(offsets.union(refused)),
        seen,
    )


def _or(column: pa.Array) -> int:
    import numpy as np

    if column.null_count:
        column = column.drop_null()
    return int(np.bitwise_or.reduce(column.to_numpy(), initial=0)) if len(column) else 0


def _collect(
    batch: pa.RecordBatch, records: dict[tuple[str | None, int | None], list[PlainRecord]]
) -> None:
    """Adds the rows of `batch` to `records`, by their outlet."""
    import pyarrow as pa

    times = batch.column("timestamp").view(pa.int64()).fill_null(-1).to_numpy() // 1000
    found = list(
        map(
            PlainRecord,
            batch.column("offset").to_pylist(),
            times.tolist(),
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            _headers(batch.column("headers")),
        )
    )
    topics, partitions = batch.column("topic"), batch.column("partition")
    if topics.null_count == partitions.null_count == len(found):
        records.setdefault((None, None), []).extend(found)
        return
    outlets = zip(topics.to_pylist(), partitions.to_pylist(), strict=True)
    for outlet, record in zip(outlets, found, strict=True):
        records.setdefault(outlet, []).append(record)


def _headers(column: pa.Array) -> list[list[tuple[str, bytes | None]]]:
    if not len(column.flatten()):
        return [[]] * len(column)
    return [
        [(header["key"] or "", header["value"]) for header in headers or ()]
        for headers in column.to_pylist()
    ]


def _batches(
    records: Sequence[PlainRecord], mark: dict[str, Any], refusals: Sequence[int]
) -> Iterator[Any]:
    """The records of one outlet as batches, cut between source records only."""
    start = size = 0
    cuts = []
    for index, record in enumerate(records):
        new = not index or record.offset != records[index - 1].offset
        if new and index > start:
            apart = bisect_right(refusals, record.offset) > bisect_right(
                refusals, records[start].offset
            )
            if apart or size >= BATCH_BYTES:
                cuts.append(index)
                start, size = index, 0
        size += len(record.key or b"") + len(record.value or b"") + 16
    cuts.append(len(records))
    start = 0
    for stop in cuts:
        part = records[start:stop]
        offsets = [record.offset for record in part]
        first = offsets[0]
        after = records[stop].offset if stop < len(records) else mark["next"]
        refusal = bisect_right(refusals, offsets[-1])
        if refusal < len(refusals):
            after = min(after, refusals[refusal])
        dense = offsets == list(range(first, first + len(offsets)))
        yield build(
            part,
            codec=mark["codec"],
            first=first,
            next=after,
            leader_epoch=mark["epoch"],
            offsets=None if dense else offsets,
        )
        start = stop
