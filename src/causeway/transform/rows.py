"""The columns that a stage's rows have, into Spark SQL and out of it; see docs/decisions/0012."""

from __future__ import annotations

CHUNK, MARK, REASON, SEEN, SECRETS = "_chunk", "_mark", "_reason", "_seen", "secrets"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
TEXTS = {"key": "_key_text", "value": "_value_text"}
VISIBLE = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
# In MARK, of a record that the source worker has treated: Spark lets it pass as it is. On rows that
# are no records MARK is '', or JSON that closes a chunk.
TREATED = "treated"

_RECORD = (
    "topic string, `partition` int, `offset` bigint, `timestamp` timestamp, "
    f"key binary, value binary, headers {HEADERS_TYPE}"
)
# As Spark DDL. INPUT lacks `secrets`, whose fields depend on the transform, and TEXTS, the JSON of
# parts in a registry's wire format.
INPUT = f"{CHUNK} bigint, {MARK} string, {REASON} string, {_RECORD}"
OUTPUT = f"{CHUNK} bigint, {MARK} string, {REASON} string, {SEEN} bigint, {_RECORD}"
