"""Turns records into Arrow batches, in the columns of Spark's own Kafka source, and Arrow batches
of a query into records to write. Computes a digest of these records."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from causeway.errors import CausewayError, ConfigError
from causeway.model import TopicPartition
from causeway.records import PlainRecord, Record
from causeway.spark.log import Run
from causeway.spark.options import ReadOptions

# Limits of one Arrow batch. A task holds one batch and one fetch answer at a time.
ROWS = 10_000
BYTES = 8 * 1024 * 1024
_LAST = (2**63 - 1) // 1000  # ms: Spark's timestamps are in µs


def header_type(keys: str = "string") -> ArrayType:
    key = BinaryType() if keys == "binary" else StringType()
    return ArrayType(StructType([StructField("key", key), StructField("value", BinaryType())]))


def whole_schema(options: ReadOptions) -> StructType:
    """Returns all columns; `headers` only if the options ask for them."""
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    return schema.add("headers", header_type(options.header_keys)) if options.headers else schema


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Checks a schema. It may omit columns, which are not built then. Raises ConfigError."""
    known = {field.name: field.dataType for field in whole_schema(options).fields}
    for field in schema.fields:
        if field.name not in known:
            more = " (set option includeHeaders)" if field.name == "headers" else ""
            cause = f"there is none; there are {', '.join(known)}{more}"
            raise ConfigError("read", f"column {field.name}", cause)
        if _shape(field.dataType) != _shape(known[field.name]):
            raise ConfigError(
                "read",
                f"column {field.name}",
                f"it is {known[field.name].simpleString()}, not {field.dataType.simpleString()}",
                remedy="cast it in the query",
            )


def _shape(kind: Any) -> str:
    return str(kind.simpleString())


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark expects of a data source."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def batches(
    tp: TopicPartition, runs: Iterable[Run], schema: pa.Schema, *, late_is_null: bool = False
) -> Iterator[pa.RecordBatch]:
    """Returns Arrow batches of at most ROWS records, and of about BYTES unless a record is larger.
    With `late_is_null`, a time that Spark cannot express is null; otherwise it raises
    CausewayError."""
    waiting: list[Run] = []
    rows = size = 0
    for run in runs:
        if waiting and (rows + len(run.records) > ROWS or size + run.size > BYTES):
            yield _batch(tp, waiting, schema, late_is_null)
            waiting, rows, size = [], 0, 0
        for part in _parts(run):
            if len(part.records) == ROWS or part.size > BYTES:
                yield _batch(tp, [part], schema, late_is_null)
            else:
                waiting.append(part)
                rows += len(part.records)
                size += part.size
    if waiting:
        yield _batch(tp, waiting, schema, late_is_null)


def _parts(run: Run) -> Iterator[Run]:
    count = len(run.records)
    if count <= ROWS:
        yield run
        return
    for start in range(0, count, ROWS):
        part = run.records[start : start + ROWS]
        yield run._replace(records=part, size=run.size * len(part) // count)


def _batch(
    tp: TopicPartition, runs: Sequence[Run], schema: pa.Schema, late_is_null: bool
) -> pa.RecordBatch:
    records = [record for run in runs for record in run.records]
    columns = [_column(field, tp, runs, records, late_is_null) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(
    field: pa.Field,
    tp: TopicPartition,
    runs: Sequence[Run],
    records: Sequence[Record],
    late_is_null: bool,
) -> pa.Array:
    count = len(records)
    match field.name:
        case "key":
            return pa.array([r.key for r in records], field.type)
        case "value":
            return pa.array([r.value for r in records], field.type)
        case "offset":
            return pa.array([r.offset for r in records], field.type)
        case "timestamp":
            return _times(tp, records, late_is_null).cast(field.type)
        case "topic":
            return pa.repeat(pa.scalar(tp.topic, field.type), count)
        case "partition":
            return pa.repeat(pa.scalar(tp.partition, field.type), count)
        case "timestampType":
            kinds = [run.timestamp_type for run in runs for _ in run.records]
            return pa.array(kinds, field.type)
        case _:
            return _headers(records, field.type)


def _times(tp: TopicPartition, records: Sequence[Record], late_is_null: bool) -> pa.Array:
    """Returns the times in µs."""
    times = [-1 if record.timestamp is None else record.timestamp for record in records]
    if max(times) <= _LAST and min(times) >= -_LAST:
        return pa.array([time * 1000 for time in times], pa.int64())
    if late_is_null:
        exact = [time * 1000 if abs(time) <= _LAST else None for time in times]
        return pa.array(exact, pa.int64())
    late = next(one for one, time in zip(records, times, strict=True) if abs(time) > _LAST)
    raise CausewayError(
        "read",
        f"the record at offset {late.offset} of {tp}",
        f"its time, {late.timestamp} ms since 1970, is beyond what Spark can express",
        remedy="set option timestampOverflow to null to have null in its place, or name the columns"
        " that you need with .schema(…)",
    )


def _headers(records: Sequence[Record], kind: pa.ListType) -> pa.Array:
    """Returns the headers; null for a record without headers, as in Spark's own source."""
    places: list[int | None] = []
    keys: list[Any] = []
    values: list[bytes | None] = []
    as_bytes = pa.types.is_binary(kind.value_type.field("key").type)
    for record in records:
        places.append(len(keys) if record.headers else None)
        for key, value in record.headers:
            name = key.encode(errors="surrogateescape")
            # Bytes that are not UTF-8 become U+FFFD in a string, as in Java.
            keys.append(name if as_bytes else name.decode(errors="replace"))
            values.append(value)
    struct = kind.value_type
    pairs = pa.StructArray.from_arrays(
        [pa.array(keys, struct.field("key").type), pa.array(values, struct.field("value").type)],
        fields=[struct.field("key"), struct.field("value")],
    )
    return pa.ListArray.from_arrays(pa.array([*places, len(keys)], pa.int32()), pairs, type=kind)


_TEXT = (StringType, BinaryType)
_KINDS: dict[str, tuple[type[DataType], ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": (StringType,),
    "partition": (ByteType, ShortType, IntegerType, LongType),
    "timestamp": (TimestampType,),
}
_MASK = 2**64 - 1


class OutgoingRow(NamedTuple):
    """One record and its destination. `topic`: None if the option names it. `partition`: None if
    the key decides. `timed`: the row has a time; otherwise the record has the present time."""

    topic: str | None
    partition: int | None
    record: PlainRecord
    timed: bool = False


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raises ConfigError if rows of this schema cannot be written."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        raise ConfigError("write", "column value", f"there is none, only {', '.join(kinds)}")
    if topic is None and "topic" not in kinds:
        raise ConfigError("write", "column topic", "there is none: add it, or set option topic")
    for name, allowed in _KINDS.items():
        if name in kinds and not isinstance(kinds[name], allowed):
            wanted = " or ".join(kind.typeName() for kind in allowed)
            cause = f"it is {kinds[name].simpleString()}, not {wanted}"
            raise ConfigError("write", f"column {name}", cause, remedy="cast it in the query")
    headers = kinds.get("headers")
    shapes = [header_type(keys).simpleString() for keys in ("string", "binary")]
    if headers is not None and headers.simpleString() not in shapes:
        cause = f"it is {headers.simpleString()}, not {shapes[0]}"
        raise ConfigError("write", "column headers", cause)


def rows(batch: pa.RecordBatch) -> Iterator[OutgoingRow]:
    """Returns the rows of a batch, in order. A row without a time gets the present time."""
    count = batch.num_rows
    nothing = [None] * count

    def values(name: str) -> list[object]:
        if name not in batch.schema.names:
            return list(nothing)
        column = batch.column(name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            if name != "topic":
                column = column.cast(pa.binary())
        elif pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            return [None if us is None else us // 1000 for us in column.to_pylist()]
        found: list[object] = column.to_pylist()
        return found

    now = int(time.time() * 1000)
    columns = [values(n) for n in ("topic", "partition", "timestamp", "key", "value", "headers")]
    for topic, partition, timestamp, key, value, headers in zip(*columns, strict=True):
        moment = now if timestamp is None else timestamp
        record = PlainRecord(0, moment, key, value, _header_pairs(headers) if headers else [])
        yield OutgoingRow(topic, partition, record, timestamp is not None)


def _header_pairs(found: object) -> list[tuple[str, bytes | None]]:
    pairs = []
    for pair in found:  # type: ignore[attr-defined]
        key = pair["key"]
        if isinstance(key, bytes):
            key = key.decode(errors="surrogateescape")
        pairs.append((key or "", pair["value"]))
    return pairs


class RowsDigest:
    """A digest of rows in any order. It shows whether a task gets the same rows again. It does not
    protect against forgery."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def add(self, row: OutgoingRow) -> None:
        """Adds a row, without its time if it is the present time, which differs each time."""
        record = row.record
        key, value = record.key, record.value
        check = zlib.crc32(value or b"", zlib.crc32(key or b""))
        if record.headers:
            check = zlib.crc32(repr(record.headers).encode(errors="surrogateescape"), check)
        # The checksum covers the lengths of the parts, and which parts are null. If these were
        # mixed into the sum instead, the next byte could undo them.
        ends = f"{-1 if key is None else len(key)} {-1 if value is None else len(value)}"
        where = f"{record.timestamp if row.timed else ''} {row.topic} {row.partition}"
        check = zlib.crc32(f"{ends} {where}".encode(), check)
        self.count += 1
        # Spread to 64 bits, so that opposite changes of two records do not cancel out.
        self.total = (self.total + (check + 1) * (check ^ 0x9E3779B97F4A7C15)) & _MASK

    def __str__(self) -> str:
        return f"{self.count}:{self.total:016x}"
