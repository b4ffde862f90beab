"""Transforms run by Spark on rows at hand, without brokers, lanes and stages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from causeway.config import Secret, TransformSettings
from causeway.daemon.spark import archive_option
from causeway.filters import compile_patterns
from causeway.transform.plan import prepare

PLACE = "A->B.causeway.transform.pii.sql (line 7)"
TIME = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)
MARK = '{"next": 9}'


@contextmanager
def spark_session() -> Iterator[Any]:
    """`local[1]`; stopped at the end, its JVM too."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {archive_option()}",
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
        SparkContext._gateway = SparkContext._jvm = None


def settings(sql: str | None = None, **fields: Any) -> TransformSettings:
    fields = {"name": "pii", "topics": compile_patterns("t"), "place": PLACE, **fields}
    secrets = {name: Secret(value) for name, value in fields.pop("secrets", {}).items()}
    return TransformSettings(sql=sql, secrets=secrets, **fields)


def optional(rules: str) -> str:
    """The rules, those on fields and headers for records without them too."""
    each = (rule.strip() for rule in rules.split(";"))
    return "; ".join(f"{one} optional" if "$" in one or "headers" in one else one for one in each)


def record(offset: int, value: bytes | None, **columns: Any) -> dict[str, Any]:
    row = {"_chunk": 1, "offset": offset, "topic": "t", "partition": 3, "timestamp": TIME}
    return {**row, "key": b"k", "value": value, "headers": [("h", b"\xff")], **columns}


def _twice(records: Any, arrow: bool) -> Any:
    from pyspark.sql.functions import udf

    twice = udf(lambda value: value * 2, "binary", useArrow=arrow)
    return records.withColumn("value", twice("value"))


def twice_by_arrow(records: Any) -> Any:
    return _twice(records, True)


def twice_pickled(records: Any) -> Any:
    return _twice(records, False)


def twice_twice(records: Any) -> Any:
    """In two nodes of the plan, as they pass rows to Python in two ways."""
    return _twice(_twice(records, True), False)


def values(*found: bytes | None) -> list[dict[str, Any]]:
    return [record(offset, value) for offset, value in enumerate(found)]


def marker() -> dict[str, Any]:
    return {"_chunk": 1, "_mark": MARK}


def rows_of(
    session: Any, prepared: Any, rows: Sequence[dict[str, Any]], secrets: Any = None
) -> Any:
    schema = prepared.input
    data = [{**row, "secrets": secrets} for row in rows]
    listed = [tuple(row.get(name) for name in schema.names) for row in data]
    return session.createDataFrame(listed, schema).coalesce(1)


def run(
    session: Any,
    transform: TransformSettings,
    rows: Sequence[dict[str, Any]],
    *,
    dropped: bool = False,
) -> list[Any]:
    """What comes out of `rows`, two markers among and behind them; those are checked and left
    out. `dropped`: also the rows that a rule drops."""
    prepared = prepare(session, transform)
    secrets = tuple(secret.reveal() for secret in transform.secrets.values()) or None
    given = rows_of(session, prepared, [marker(), *rows, marker()], secrets)
    first, *middle, last = prepared.apply(given).collect()
    assert first._mark == last._mark == MARK
    assert first._chunk == last._chunk == 1
    assert first._reason is None
    assert first.offset is None
    assert all(one._mark is None for one in middle)
    return [one for one in middle if one._seen >= 0 or dropped]
