"""Arrow batches of a query as records to be written, and a digest of them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from causeway.errors import ConfigError
from causeway.records import PlainRecord
from causeway.spark.columns import header_type

_TEXT = (StringType, BinaryType)
_KINDS: dict[str, tuple[type[DataType], ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": (StringType,),
    "partition": (ByteType, ShortType, IntegerType, LongType),
    "timestamp": (TimestampType,),
}
_MASK = 2**64 - 1


class Row(NamedTuple):
    """One record and where it is to go; None: by the option, by the key. `timed`: its time is its
    own, not the present one."""

    topic: str | None
    partition: int | None
    record: PlainRecord
    timed: bool = False


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raises ConfigError where rows of this kind cannot be written."""
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


def rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Its rows in order; a record without a time gets the present one."""
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
        record = PlainRecord(0, moment, key, value, _headers(headers) if headers else [])
        yield Row(topic, partition, record, timestamp is not None)


def _headers(found: object) -> list[tuple[str, bytes | None]]:
    pairs = []
    for pair in found:  # type: ignore[attr-defined]
        key = pair["key"]
        if isinstance(key, bytes):
            key = key.decode(errors="surrogateescape")
        pairs.append((key or "", pair["value"]))
    return pairs


class Digest:
    """Of rows, whatever their order: tells whether a task is given again what it was given before.
    No guard against those who mean to deceive."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def add(self, row: Row) -> None:
        """Without the present time, which differs each time."""
        record = row.record
        key, value = record.key, record.value
        check = zlib.crc32(value or b"", zlib.crc32(key or b""))
        if record.headers:
            check = zlib.crc32(repr(record.headers).encode(errors="surrogateescape"), check)
        # Where one part ends and the next begins stands in what is checked, too, as does what is
        # null: were that mixed into the sum itself, the next byte could undo it.
        ends = f"{-1 if key is None else len(key)} {-1 if value is None else len(value)}"
        where = f"{record.timestamp if row.timed else ''} {row.topic} {row.partition}"
        check = zlib.crc32(f"{ends} {where}".encode(), check)
        self.count += 1
        # Spread to 64 bits, so that what two records lose and gain does not cancel out.
        self.total = (self.total + (check + 1) * (check ^ 0x9E3779B97F4A7C15)) & _MASK

    def __str__(self) -> str:
        return f"{self.count}:{self.total:016x}"
