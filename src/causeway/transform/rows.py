"""The columns that a stage's rows have, into Spark SQL and out of it; see docs/decisions/0012."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK, MARK, REASON, SECRETS = "_chunk", "_mark", "_reason", "secrets"
# Bits of the rules whose path a record has, and whose path it lacks; see rule_counts.
SEEN, MISSING = "_seen", "_missing"
# Bits of the rules whose path the schemas of a record's key and value lack.
LACKING = "_lacking"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
TEXTS = {"key": "_key_text", "value": "_value_text"}
VISIBLE = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
# MARK is null on records. On other rows it is '', or JSON that closes a chunk: then `value` holds
# those of its records that the source worker has treated, as `packed` makes it.

_RECORD = (
    "topic string, `partition` int, `offset` bigint, `timestamp` timestamp, "
    f"key binary, value binary, headers {HEADERS_TYPE}"
)
# As Spark DDL. INPUT lacks `secrets`, whose fields depend on the transform, and TEXTS, the JSON of
# parts in a registry's wire format.
INPUT = f"{CHUNK} bigint, {MARK} string, {REASON} string, {_RECORD}"
OUTPUT = (
    f"{CHUNK} bigint, {MARK} string, {REASON} string, {SEEN} bigint, {MISSING} bigint, {_RECORD}"
)


def packed(records: pa.RecordBatch) -> bytes:
    """Records that need no Spark, for the marker that closes their chunk."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as stream:
        stream.write_batch(records)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.RecordBatch:
    """The records from a value that `packed` made."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()
