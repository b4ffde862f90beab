"""examples/spark/ on real clusters: each does what its first lines say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from examples.spark.count_by_hour import count_by_hour
from examples.spark.join_back import join_back
from examples.spark.to_parquet_and_back import back, to_parquet
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.spark_session import spark_session

pytestmark = [pytest.mark.integration, pytest.mark.slow]

HOUR = 3_600_000
BEGIN = 1_767_225_600_000  # 2026-01-01
KEPT = {"retention.ms": "-1"}  # however old the records are


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def test_a_count_by_hour(spark: Any, target: KafkaTools, prefix: str) -> None:
    topic = prefix + "A.orders"
    target.create_topic(topic, 2, config=KEPT)
    target.produce(
        topic, [Outgoing(value=b"x", timestamp=BEGIN + n * HOUR // 4) for n in range(10)]
    )
    rows = count_by_hour(spark, target.bootstrap, topic).collect()
    assert [(row.hour, row.records) for row in rows] == [
        (datetime(2026, 1, 1, hour), count) for hour, count in enumerate((4, 4, 2))
    ]


def test_a_join_written_back(spark: Any, target: KafkaTools, prefix: str, tmp_path: Path) -> None:
    """Twice: the second time only what has come since is joined."""
    orders, customers, named = prefix + "orders", prefix + "customers", prefix + "named"
    for topic in (orders, customers, named):
        target.create_topic(topic, 2, config=KEPT)
    people = {7: "Ada", 8: "Grace"}
    target.produce(
        customers, [Outgoing(key=b"%d" % n, value=name.encode()) for n, name in people.items()]
    )
    expected = []
    for number in range(6):
        order = {"customer": str(7 + number % 2), "item": f"item {number}"}
        target.produce(
            orders,
            [
                Outgoing(
                    key=b"%d" % number, value=json.dumps(order).encode(), timestamp=BEGIN + number
                )
            ],
        )
        name = people[7 + number % 2]
        expected.append((b"%d" % number, BEGIN + number, {**order, "name": name}))
        if number in (2, 5):
            where = str(tmp_path / "checkpoint")
            join_back(spark, target.bootstrap, orders, customers, named, where).awaitTermination()
    target.await_transactions(named)
    found = [
        (r.key, r.timestamp, json.loads(r.value or b""))
        for records in target.read(named, read_committed=True).values()
        for r in records
    ]
    assert sorted(found, key=lambda one: one[1]) == expected


def test_a_topic_to_parquet_and_back(
    spark: Any, source: KafkaTools, target: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    topic, path = prefix + "parquet", str(tmp_path / "parquet")
    for tools in (source, target):
        tools.create_topic(topic, 3, config=KEPT)
    source.produce(
        topic,
        [
            Outgoing(
                value=None if n % 7 == 0 else b"v%d" % n,
                key=None if n % 3 == 0 else b"k%d" % n,
                headers=[("h", b"%d" % n), ("h", None)] if n % 2 else (),
                timestamp=BEGIN + n,
                partition=n % 3,
            )
            for n in range(300)
        ],
    )
    to_parquet(spark, source.bootstrap, topic, path)
    for _ in range(2):
        back(spark, target.bootstrap, topic, path)
    target.await_transactions(topic)
    assert target.digests(topic, read_committed=True) == source.digests(topic)
