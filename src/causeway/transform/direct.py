"""Chunks that rules alone can treat, answered by the source worker itself, without Spark.

Where a chunk has a record that only the query can treat, all its records go through Spark, those
that are treated already as rows that it lets pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from causeway.errors import ProtocolError
from causeway.transform.channel import Chunk, Outcome
from causeway.transform.rules.shortcut import Treat, Treated
from causeway.transform.source_rows import TIMES, Known, Rows, is_row, mark_of, offsets_of
from causeway.wire.batches import Batch
from causeway.wire.records import Record, records_of

if TYPE_CHECKING:
    import pyarrow as pa

# An Outcome, or rows for Spark.
Answer = Outcome | Iterator["pa.RecordBatch"]
MOST_BYTES = 32 * 1024 * 1024  # of keys and values of a chunk that is treated as a whole
_MOST_RECORDS = 100_000  # more take too much memory as objects of Python, all at once
_MOST_PAUSES = 64  # chunks that go to Spark untried where none of their like could be treated


class Direct:
    def __init__(self, treat: Treat, rows: Rows) -> None:
        self._treat = treat
        self._rows = rows
        self._pauses = self._paused = 0

    def answer(self, chunk: Chunk) -> Answer:
        if not chunk.batches:  # it shows that Spark works
            return self._rows.of(chunk)
        if sum(batch.records for batch in chunk.batches) > _MOST_RECORDS:
            return self._rows.of(chunk)
        if self._paused:
            self._paused -= 1
            return self._rows.of(chunk)
        read: list[Sequence[Record]] = []
        size = 0
        for batch in chunk.batches:
            try:
                read.append(records_of(batch))
            except ProtocolError:
                return self._rows.of(chunk)
            size += sum(len(one.key or b"") + len(one.value or b"") for one in read[-1])
            if size > MOST_BYTES:
                return self._rows.of(chunk)  # batch by batch
        spot = f"{chunk.topic}\0{chunk.partition}\0".encode()
        treated = [
            self._all(records, batch, spot)
            for records, batch in zip(read, chunk.batches, strict=True)
        ]
        known = [one for part in treated for one in part if one is not None]
        seen = 0
        for bits in {one[2] for one in known if one}:
            seen |= bits
        records = sum(map(len, read))
        if len(known) == records:
            outcome = self._outcome(chunk, read, treated, seen)
            if outcome is not None:
                self._pauses = 0
                return outcome
        self._pause(len(known), records)
        return self._rows.of(chunk, treated, seen)

    def _all(self, records: Sequence[Record], batch: Batch, spot: bytes) -> Known:
        treat = self._treat
        found: list[Treated | None] = []
        offsets = batch.offsets or range(batch.first, batch.first + batch.records)
        for record, offset in zip(records, offsets, strict=True):
            try:
                made = treat(record.key, record.value, spot, offset)
            except (ValueError, RecursionError):
                found.append(None)
            else:
                # Spark refuses a record that is no row rather than dropping it.
                found.append(made if made or is_row(record) else None)
        return found

    def _pause(self, known: int, records: int) -> None:
        if 2 * known >= records:
            self._pauses = 0
            return
        self._paused = self._pauses = min(2 * self._pauses + 1, _MOST_PAUSES)

    def _outcome(
        self,
        chunk: Chunk,
        read: Sequence[Sequence[Record]],
        treated: Sequence[Known],
        seen: int,
    ) -> Outcome | None:
        """None where Spark is to refuse some record."""
        import numpy as np
        import pyarrow as pa

        from causeway.transform.encode import Columns
        from causeway.transform.outcome import outcome_without_spark

        made = [one for part in treated for one in part]
        records = [record for part in read for record in part]
        offsets = np.concatenate([offsets_of(batch) for batch in chunk.batches])
        kept = [at for at, one in enumerate(made) if one]
        if len(kept) < len(made):
            made, records = [made[at] for at in kept], [records[at] for at in kept]
            offsets = offsets[kept]
        times = np.array([record.timestamp for record in records], np.int64)
        if len(times) and (times.min() <= -TIMES or times.max() >= TIMES):
            return None
        try:
            headers = self._rows.headers([record.headers for record in records])
        except UnicodeEncodeError:
            return None
        keys, values, _ = zip(*made, strict=True) if made else ((), (), ())
        columns = Columns(
            offsets, times, pa.array(keys, pa.binary()), pa.array(values, pa.binary()), headers
        )
        return outcome_without_spark(chunk.number, mark_of(chunk, seen), columns)
