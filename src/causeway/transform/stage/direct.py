"""Answers chunks, or records of chunks, in the worker itself, without Spark.

If a chunk has records that only the query can treat, only these go through Spark. The outcomes of
the others travel with the marker that closes the chunk, as one value that Spark does not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from causeway.errors import ProtocolError
from causeway.records import Record, records_of
from causeway.transform.channel import Chunk, ChunkOutcome
from causeway.transform.rows import NONE, Found, by_rule
from causeway.transform.rules import DROPPED, Treat, Treated, stays
from causeway.transform.stage.source_rows import (
    TIMES,
    PartlyTreated,
    Rows,
    is_row,
    mark_of,
    offsets_of,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

# A ChunkOutcome, or rows for Spark.
Answer = ChunkOutcome | Iterator["pa.RecordBatch"]
MOST_BYTES = 32 * 1024 * 1024  # of keys and values in a chunk that is treated as a whole
_MOST_RECORDS = 100_000  # more Python objects at once take too much memory
_MOST_PAUSES = 64  # after a chunk whose records mostly needed Spark, chunks that go there untried


class Direct:
    def __init__(self, treat: Treat, rows: Rows) -> None:
        self._treat = treat
        self._rows = rows
        self._pauses = self._paused = 0

    def answer(self, chunk: Chunk) -> Answer:
        if not chunk.batches:  # such a chunk tests that Spark works
            return self._rows.of(chunk)
        if sum(batch.records for batch in chunk.batches) > _MOST_RECORDS:
            return self._rows.of(chunk)
        if self._paused:
            self._paused -= 1
            return self._rows.of(chunk)
        records: list[Record] = []
        size = 0
        for batch in chunk.batches:
            try:
                more = records_of(batch)
            except ProtocolError:
                return self._rows.of(chunk)
            size += sum(len(one.key or b"") + len(one.value or b"") for one in more)
            if size > MOST_BYTES:
                return self._rows.of(chunk)  # batch by batch
            records += more
        return self._answer(chunk, records)

    def _answer(self, chunk: Chunk, records: Sequence[Record]) -> Answer:
        import numpy as np

        from causeway.transform.stage.outcome import outcome_without_spark

        offsets = np.concatenate([offsets_of(batch) for batch in chunk.batches])
        treated = self._all(chunk, records, offsets)
        try:
            rows = self._made(records, offsets, treated)
        except ValueError:
            treated = [
                one if is_row(record) else None
                for one, record in zip(treated, records, strict=True)
            ]
            rows = self._made(records, offsets, treated)
        found = _found(treated)
        odd = [at for at, one in enumerate(treated) if one is None]
        known = len(records) - len(odd)
        self._pause(known, len(records))
        if not odd:
            return outcome_without_spark(chunk.number, mark_of(chunk, found), rows)
        left = [records[at] for at in odd]
        return self._rows.of(chunk, PartlyTreated(left, offsets[odd], known, rows, found))

    def _all(
        self, chunk: Chunk, records: Sequence[Record], offsets: npt.NDArray[np.int64]
    ) -> list[Treated | None]:
        treat = self._treat
        spot = f"{chunk.topic}\0{chunk.partition}\0".encode()
        found: list[Treated | None] = []
        for record, offset in zip(records, offsets.tolist(), strict=True):
            try:
                made = treat(record.key, record.value, spot, offset)
            except (ValueError, RecursionError):
                found.append(None)
            else:
                # Spark refuses a record that cannot be a row. It does not drop it.
                found.append(made if stays(made) or is_row(record) else None)
        return found

    def _pause(self, known: int, records: int) -> None:
        if 2 * known >= records:
            self._pauses = 0
            return
        self._paused = self._pauses = min(2 * self._pauses + 1, _MOST_PAUSES)

    def _made(
        self,
        records: Sequence[Record],
        offsets: npt.NDArray[np.int64],
        treated: Sequence[Treated | None],
    ) -> pa.RecordBatch:
        """Returns rows for the records that are kept. Raises ValueError if a result cannot be a
        row."""
        import numpy as np
        import pyarrow as pa

        kept = [at for at, one in enumerate(treated) if one is not None and stays(one)]
        if len(kept) < len(records):
            records, offsets = [records[at] for at in kept], offsets[kept]
        times = np.array([record.timestamp for record in records], np.int64)
        if len(times) and (times.min() <= -TIMES or times.max() >= TIMES):
            raise ValueError
        headers = self._rows.headers([record.headers for record in records])
        made = [treated[at] for at in kept]
        keys, values, *_ = zip(*made, strict=True) if made else ((), ())
        columns = {
            "offset": pa.array(offsets),
            "timestamp": pa.array(times * 1000).view(pa.timestamp("us", "UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": headers,
        }
        return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def _found(treated: Sequence[Treated | None]) -> Found:
    """Returns the counts of the rules over the treated records."""
    pairs = Counter([one[-2:] for one in treated if one is not None])
    if pairs.keys() <= {DROPPED}:
        return NONE
    seen = by_rule((bits[0], records) for bits, records in pairs.items())
    return seen, by_rule((bits[1], records) for bits, records in pairs.items())
