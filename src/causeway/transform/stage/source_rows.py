"""Turns source records into the Arrow rows that go into Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from causeway.errors import ProtocolError
from causeway.records import Batch, Record, records_of
from causeway.transform.channel import Chunk
from causeway.transform.json_text import checks_of
from causeway.transform.rows import (
    CHUNK,
    LACKING,
    MARK,
    NONE,
    REASON,
    SECRETS,
    TEXTS,
    Found,
    packed,
    record_fields,
)
from causeway.transform.schema_formats import Schemas

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

TIMES = 2**63 // 1000  # ms: Spark's timestamps are in µs
NOT_A_TIME = "its timestamp is beyond what Spark can express"
NOT_A_NAME = "a header's name is not UTF-8"
NOT_A_BATCH = "its batch cannot be decoded"
ROWS_BYTES = 8 * 1024 * 1024  # of keys and values in an Arrow batch, but at least one record


class PartlyTreated(NamedTuple):
    """A chunk before Spark: the records for Spark with their source offsets; the number of the
    other records; and the outcomes of these, as `rows.packed` takes them. `found`: the counts of
    the rules over the other records."""

    odd: Sequence[Record]
    offsets: npt.NDArray[np.int64]
    others: int
    treated: pa.RecordBatch
    found: Found


# For each part with a schema: its JSON, or the reason why there is none.
_Texts = list[tuple[str | None, str | None]]


class Rows:
    """Makes Arrow rows of `rows.INPUT`, with columns `texts`, and `secrets` if there are any.
    `schemas` decodes the texts."""

    def __init__(
        self,
        secrets: dict[str, str],
        texts: Sequence[str] = (),
        schemas: Schemas | None = None,
        read_as: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """`read_as`: the DataTypes that Spark reads the JSON of a part as."""
        import pyarrow as pa

        types: dict[str, pa.DataType] = {
            CHUNK: pa.int64(),
            MARK: pa.string(),
            REASON: pa.string(),
            **dict(record_fields()),
        }
        types |= {name: pa.int64() if name == LACKING else pa.string() for name in texts}
        if secrets:
            types[SECRETS] = pa.struct([(name, pa.string()) for name in secrets])
        self.schema = pa.schema(types.items())
        self._secrets = secrets
        self._schemas = schemas
        of_schema = () if schemas is None else schemas.formats
        numbers = checks_of(read_as or {})
        self._numbers = {name: of for name, of in numbers.items() if name not in of_schema}
        self._of_schema = {name: of for name, of in numbers.items() if name in of_schema}
        self._kept: dict[str, pa.Array] = {}

    def markers(self, count: int) -> pa.RecordBatch:
        """Rows that only push other rows through Spark."""
        return self._batch(count, {CHUNK: [-1] * count, MARK: [""] * count})

    def of(self, chunk: Chunk, known: PartlyTreated | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the chunk's records, or only those of `known` that need Spark; then the marker
        that closes the chunk."""
        if known is not None:
            yield from self._cut(chunk, known.odd, known.offsets)
            mark = json.dumps(mark_of(chunk, known.found, known.others))
            closing = {CHUNK: [chunk.number], MARK: [mark], "value": [packed(known.treated)]}
            yield self._batch(1, closing)
            return
        for batch in chunk.batches:
            try:
                records = records_of(batch)
            except ProtocolError:
                yield self._undecoded(chunk, batch)
            else:
                yield from self._cut(chunk, records, offsets_of(batch))
        yield self._batch(1, {CHUNK: [chunk.number], MARK: [json.dumps(mark_of(chunk))]})

    def _cut(
        self, chunk: Chunk, records: Sequence[Record], offsets: npt.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        start = size = 0
        texts: list[_Texts] = []
        for index, record in enumerate(records):
            more = len(record.key or b"") + len(record.value or b"")
            if self._schemas is not None:
                one = self._decoded(self._schemas, record)
                more += sum(len(text or "") for text, _ in one)
            if size and size + more > ROWS_BYTES:
                yield self._records(chunk, records[start:index], offsets[start:index], texts)
                start, size, texts = index, 0, []
            size += more
            if self._schemas is not None:
                texts.append(one)
        yield self._records(chunk, records[start:], offsets[start:], texts)

    def _records(
        self,
        chunk: Chunk,
        part: Sequence[Record],
        offsets: npt.NDArray[np.int64],
        texts: Sequence[_Texts],
    ) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        count = len(part)
        times = np.array([record.timestamp for record in part], np.int64)
        odd_times = (times >= TIMES) | (times <= -TIMES)
        reasons: list[str | None] | None = None
        if odd_times.any():
            reasons = [NOT_A_TIME if odd else None for odd in odd_times]
            times[odd_times] = 0
        try:
            headers = self.headers([record.headers for record in part])
        except UnicodeEncodeError:
            reasons = reasons or [None] * count
            read = []
            for index, record in enumerate(part):
                odd = any(not _is_utf8(name) for name, _ in record.headers)
                reasons[index] = NOT_A_NAME if odd else reasons[index]
                read.append([] if odd else record.headers)
            headers = self.headers(read)
        parts = {
            "key": [record.key for record in part],
            "value": [record.value for record in part],
        }
        for name, check in self._numbers.items():
            for index, data in enumerate(parts[name]):
                if data is not None and (why := check(data)) is not None:
                    reasons = reasons or [None] * count
                    reasons[index] = reasons[index] or why
                    parts[name][index] = None  # otherwise Spark would read it
        columns = {
            CHUNK: np.full(count, chunk.number),
            "offset": offsets,
            "timestamp": pa.array(times * 1000).view(pa.timestamp("us", "UTC")),
            "headers": headers,
            **parts,
            **self._of_partition(chunk, count),
        }
        if self._schemas is not None:
            reasons = reasons or [None] * count
            for at, name in enumerate(self._schemas.formats):
                columns[TEXTS[name]] = [one[at][0] for one in texts]
                reasons = [was or one[at][1] for was, one in zip(reasons, texts, strict=True)]
            if LACKING in self.schema.names:
                columns[LACKING] = self._lacking(self._schemas, part)
        if reasons is not None:
            columns[REASON] = reasons
        return self._batch(count, columns)

    def _decoded(self, schemas: Schemas, record: Record) -> _Texts:
        found = []
        for name in schemas.formats:
            data = record.key if name == "key" else record.value
            text, reason = schemas.decode(name, data, record.headers)
            check = self._of_schema.get(name)
            if text is not None and check is not None:
                reason = check(text.encode())
                text = text if reason is None else None
            found.append((text, reason))
        return found

    def _lacking(self, schemas: Schemas, records: Sequence[Record]) -> list[int]:
        found = []
        for record in records:
            bits = 0
            for name in schemas.formats:
                bits |= schemas.lacking(name, record.key if name == "key" else record.value)
            found.append(bits)
        return found

    def _undecoded(self, chunk: Chunk, batch: Batch) -> pa.RecordBatch:
        count = batch.records
        columns = {
            CHUNK: [chunk.number] * count,
            REASON: [NOT_A_BATCH] * count,
            "offset": [batch.source_offset(index) for index in range(count)],
            **self._of_partition(chunk, count),
        }
        return self._batch(count, columns)

    def _of_partition(self, chunk: Chunk, count: int) -> dict[str, Any]:
        import numpy as np
        import pyarrow as pa

        topic = pa.repeat(pa.scalar(chunk.topic, pa.string()), count)
        return {"topic": topic, "partition": np.full(count, chunk.partition, np.int32)}

    def headers(self, headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> pa.Array:
        """Raises UnicodeEncodeError."""
        import numpy as np
        import pyarrow as pa

        ends = np.zeros(len(headers) + 1, np.int32)
        np.cumsum([len(one) for one in headers], out=ends[1:])
        pairs = [pair for one in headers for pair in one] if ends[-1] else []
        items = pa.StructArray.from_arrays(
            [
                pa.array([name for name, _ in pairs], pa.string()),
                pa.array([value for _, value in pairs], pa.binary()),
            ],
            fields=list(self.schema.field("headers").type.value_type),
        )
        return pa.ListArray.from_arrays(
            pa.array(ends), items, type=self.schema.field("headers").type
        )

    def _batch(self, count: int, columns: dict[str, Any]) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = []
        for one in self.schema:
            found = columns.get(one.name)
            if found is None:
                arrays.append(self._same(one, count))
            elif isinstance(found, pa.Array):
                arrays.append(found)
            else:
                arrays.append(pa.array(found, one.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _same(self, field: pa.Field, count: int) -> pa.Array:
        """Returns a column with the same value in all rows: null, or the secrets."""
        import pyarrow as pa

        kept = self._kept.get(field.name)
        if kept is None or len(kept) < count:
            constant = self._secrets if field.name == SECRETS else None
            kept = self._kept[field.name] = pa.repeat(pa.scalar(constant, field.type), count)
        return kept.slice(0, count)


def mark_of(chunk: Chunk, found: Found = NONE, without_spark: int = 0) -> dict[str, Any]:
    """Returns the marker of a chunk. `found`: the counts of the rules over the `without_spark`
    records that the worker treated itself."""
    first = chunk.batches[0] if chunk.batches else None
    return {
        "topic": chunk.topic,
        "partition": chunk.partition,
        "next": chunk.next,
        "codec": first.codec if first else 0,
        "epoch": first.leader_epoch if first else -1,
        "records": sum(batch.records for batch in chunk.batches),
        "found": found[0],
        "missing": found[1],
        "without_spark": without_spark,
    }


def offsets_of(batch: Batch) -> npt.NDArray[np.int64]:
    """Returns the source offsets of its records."""
    import numpy as np

    if batch.offsets is None:
        return np.arange(batch.first, batch.first + batch.records)
    return np.array(batch.offsets, np.int64)


def is_row(record: Record) -> bool:
    """Returns whether the record can be a row of Spark."""
    known = record.timestamp is None or -TIMES < record.timestamp < TIMES
    return known and all(_is_utf8(name) for name, _ in record.headers)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
