"""The columns of a stage's rows, into Spark SQL and back (docs/decisions/0012), and how often each
rule has found its path.

Each record has two 64-bit numbers, `_seen` and `_missing`. Bit N - 1 belongs to rule N. Bit 63
belongs to no rule; in `_seen` it says that a rule drops the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK, MARK, REASON, SECRETS = "_chunk", "_mark", "_reason", "secrets"
# Bits of the rules whose path a record has, and whose path it lacks.
SEEN, MISSING = "_seen", "_missing"
# Bits of the rules whose path the schemas of a record's key and value lack.
LACKING = "_lacking"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
SCHEMA_FORMATS = ("avro", "protobuf")  # of parts with the id of a registry
TEXTS = {"key": "_key_text", "value": "_value_text"}
VISIBLE = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
# MARK is null on records. On other rows it is '', or JSON that closes a chunk. In the latter case
# `value` has the records that the source worker has treated itself, serialised by `packed`.

_RECORD = (
    "topic string, `partition` int, `offset` bigint, `timestamp` timestamp, "
    f"key binary, value binary, headers {HEADERS_TYPE}"
)
# Spark DDL. INPUT lacks `secrets`, whose fields depend on the transform, and TEXTS, the JSON of
# keys and values with a registry's schema.
INPUT = f"{CHUNK} bigint, {MARK} string, {REASON} string, {_RECORD}"
OUTPUT = (
    f"{CHUNK} bigint, {MARK} string, {REASON} string, {SEEN} bigint, {MISSING} bigint, {_RECORD}"
)


def record_fields() -> list[tuple[str, pa.DataType]]:
    """Returns the Arrow columns of a record, in INPUT and OUTPUT."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(header)),
    ]


def packed(records: pa.RecordBatch) -> bytes:
    """Serialises records that need no Spark, for the marker that closes their chunk."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as stream:
        stream.write_batch(records)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.RecordBatch:
    """Returns the records that `packed` serialised."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


DROPPED_SQL = "shiftleft(1L, 63)"
_RULES = (1 << 63) - 1

Counts = tuple[int, ...]  # numbers of records by rule; a missing number is 0
# Of `_seen` and of `_missing`.
Found = tuple[Counts, Counts]
NONE: Found = ((), ())


def by_rule(bits: Iterable[tuple[int, int]]) -> Counts:
    """Counts records by rule. `bits`: pairs of a number of bits and the number of records with
    it."""
    counts: list[int] = []
    for each, records in bits:
        left = each & _RULES
        while left:
            number = (left & -left).bit_length()
            counts += [0] * (number - len(counts))
            counts[number - 1] += records
            left &= left - 1
    return tuple(counts)


def plus(one: Sequence[int], other: Sequence[int]) -> Counts:
    """Returns the sums, rule by rule."""
    if len(one) < len(other):
        one, other = other, one
    return (*map(sum, zip(one, other, strict=False)), *one[len(other) :])


def counted(rows: pa.RecordBatch) -> Found:
    """Returns the counts over rows of OUTPUT, one row for each record."""
    import pyarrow.compute as pc

    found = []
    for name in (SEEN, MISSING):
        column = rows.column(name)
        if pc.any(pc.not_equal(column, 0)).as_py():
            pairs = pc.value_counts(column.drop_null())
            found.append(by_rule((one["values"].as_py(), one["counts"].as_py()) for one in pairs))
        else:
            found.append(())
    return found[0], found[1]


def staying(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows that no rule drops."""
    import pyarrow.compute as pc

    gone = pc.less(rows.column(SEEN), 0).fill_null(False)
    return rows.filter(pc.invert(gone)) if pc.any(gone).as_py() else rows
