"""`format("causeway")`, read: what Spark gets is what an independent client reads."""

from __future__ import annotations

import bisect
import json
import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from causeway.cluster import Cluster
from causeway.model import TopicPartition
from causeway.spark.columns import whole_schema
from causeway.spark.options import read_options
from causeway.spark.source import StreamReader
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
from tests.harness.spark_session import spark_session

pytestmark = pytest.mark.integration

BEGIN = 1_767_225_600_000  # 2026-01-01
KEPT = {"retention.ms": "-1"}  # however old the records are


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def some_records(count: int, *, first: int = 0, partitions: int = 2) -> list[Outgoing]:
    return [
        Outgoing(
            value=None if n % 7 == 0 else b"value %d" % n + b"x" * (n % 50),
            key=None if n % 5 == 0 else b"key %d" % n,
            headers=[("a", b"%d" % n), ("a", None)] if n % 3 == 0 else (),
            timestamp=BEGIN + n * 1000,
            partition=n % partitions,
        )
        for n in range(first, first + count)
    ]


def reading(spark: Any, tools: KafkaTools, topic: str, **options: object) -> Any:
    frame = spark.read.format("causeway").option("kafka.bootstrap.servers", tools.bootstrap)
    frame = frame.option("subscribe", topic)
    for name, value in options.items():
        frame = frame.option(name.replace("__", "."), value)
    return frame


def plain(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def offsets_of(frame: Any) -> list[tuple[int, int]]:
    return sorted(
        (row.partition, row.offset) for row in frame.select("partition", "offset").collect()
    )


def test_every_column_of_every_committed_record(
    spark: Any, source: KafkaTools, prefix: str
) -> None:
    """Also of transactions: aborted ones and their markers are left out, of batches in all codecs,
    and of a topic whose broker sets the times."""
    topic, stamped = prefix + "mixed", prefix + "stamped"
    source.create_topic(topic, 2, config=KEPT)
    source.create_topic(stamped, 2, config=KEPT | {"message.timestamp.type": "LogAppendTime"})
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        source.produce(topic, some_records(60, first=60 * number), codec=codec)
    with source.transactional(prefix + "writer", codec="zstd") as writer:
        for number in range(6):
            writer.begin()
            writer.send(topic, *some_records(20, first=1000 + 20 * number))
            (writer.abort if number % 2 else writer.commit)()
    source.await_transactions(topic)
    source.produce(stamped, some_records(50))
    frame = reading(spark, source, f"{topic},{stamped}", includeHeaders="true").load()
    found: dict[tuple[str, int], list[tuple[object, ...]]] = {}
    for row in frame.orderBy("topic", "partition", "offset").collect():
        headers = tuple(
            (h.key, None if h.value is None else bytes(h.value)) for h in row.headers or ()
        )
        found.setdefault((row.topic, row.partition), []).append(
            (
                row.offset,
                round(row.timestamp.timestamp() * 1000),
                row.timestampType == 1,
                plain(row.key),
                plain(row.value),
                headers,
            )
        )
    expected = {
        (name, partition): [(r.offset, *r.content) for r in records]
        for name in (topic, stamped)
        for partition, records in source.read(name, read_committed=True).items()
    }
    assert found == expected
    uncommitted = reading(spark, source, topic, isolation__level="read_uncommitted").load()
    assert uncommitted.count() == sum(len(r) for r in source.read(topic).values())


def test_ranges_by_offset_time_and_pattern(spark: Any, source: KafkaTools, prefix: str) -> None:
    topic = prefix + "ranges"
    source.create_topic(topic, 2, config=KEPT)
    source.produce(topic, some_records(100))
    by_offset = reading(
        spark,
        source,
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 12, "1": 3}}),
        minPartitions=4,
    ).load()
    assert offsets_of(by_offset) == [(0, 10), (0, 11), (1, 0), (1, 1), (1, 2)]
    assert by_offset.rdd.getNumPartitions() >= 4
    by_time = reading(
        spark, source, topic, startingTimestamp=BEGIN + 90_500, endingTimestamp=BEGIN + 94_000
    ).load()
    assert offsets_of(by_time) == [(0, 46), (1, 45), (1, 46)]
    pattern = (
        spark.read.format("causeway")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribePattern", prefix + "ra.*")
        .load()
    )
    assert pattern.count() == 100
    assigned = (
        spark.read.format("causeway")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("assign", json.dumps({topic: [1]}))
        .load()
    )
    assert assigned.count() == 50


def test_a_schema_of_less_columns_and_filters_that_narrow_what_is_read(
    spark: Any, source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "columns"
    source.create_topic(topic, 2, config=KEPT)
    source.produce(topic, some_records(100))
    frame = reading(spark, source, topic).schema("offset LONG, value BINARY").load()
    assert frame.columns == ["offset", "value"]
    assert frame.where("value is null").count() == 15
    narrow = reading(spark, source, topic, pushFilters="true").load()
    narrow = narrow.where("partition = 1 and offset >= 40 and timestamp >= '2026-01-01T00:01:35Z'")
    assert offsets_of(narrow) == [(1, 47), (1, 48), (1, 49)]
    assert narrow.rdd.getNumPartitions() == 1


def test_records_that_were_deleted_are_a_loss_unless_it_is_said_otherwise(
    spark: Any, source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "loss"
    source.create_topic(topic, 1, config=KEPT)
    source.produce(topic, some_records(20, partitions=1))
    source.delete_records(topic, 0, 5)
    starts = json.dumps({topic: {"0": 2}})
    with pytest.raises(Exception, match="records were deleted before they were read"):
        reading(spark, source, topic, startingOffsets=starts).load().collect()
    left = reading(spark, source, topic, startingOffsets=starts, failOnDataLoss="false").load()
    assert offsets_of(left) == [(0, n) for n in range(5, 20)]


@pytest.mark.slow
def test_a_time_beyond_sparks_ends_a_query_and_names_the_record_or_is_null(
    spark: Any, source: KafkaTools, prefix: str
) -> None:
    """Nanoseconds, where milliseconds were meant."""
    topic = prefix + "late"
    source.create_topic(topic, 1, config=KEPT | {"message.timestamp.after.max.ms": str(2**63 - 1)})
    times = [BEGIN, BEGIN * 1_000_000, BEGIN + 1]
    source.produce(topic, [Outgoing(value=b"v", timestamp=at, partition=0) for at in times])
    with pytest.raises(Exception, match=rf"offset 1 of {topic}-0: its time.*timestampOverflow"):
        reading(spark, source, topic).load().collect()
    frame = reading(spark, source, topic, timestampOverflow="null").load()
    found = frame.orderBy("offset").selectExpr("unix_millis(timestamp) AS at", "offset").collect()
    assert [(row.at, row.offset) for row in found] == [(BEGIN, 0), (None, 1), (BEGIN + 1, 2)]
    narrow = reading(spark, source, topic).schema("offset LONG, value BINARY").load()
    assert narrow.count() == 3


def run_once(
    spark: Any, tools: KafkaTools, topic: str, where: Path, **options: object
) -> list[Any]:
    """Reads what is there; returns the progress of each micro-batch with records."""
    stream = spark.readStream.format("causeway").option("kafka.bootstrap.servers", tools.bootstrap)
    stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
    for name, value in options.items():
        stream = stream.option(name, value)
    query = (
        stream.load()
        .selectExpr("partition", "offset", "value")
        .writeStream.format("parquet")
        .option("path", str(where / "out"))
        .option("checkpointLocation", str(where / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [p for p in query.recentProgress if p.numInputRows]


@pytest.mark.slow
def test_a_stream_goes_on_where_it_stood_and_takes_no_more_than_it_may(
    spark: Any, source: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    topic = prefix + "stream"
    source.create_topic(topic, 2, config=KEPT)
    source.produce(topic, some_records(100))
    progress = run_once(spark, source, topic, tmp_path, maxOffsetsPerTrigger=30)
    assert [p.numInputRows for p in progress] == [30, 30, 30, 10]
    source.add_partitions(topic, 3)
    source.produce(topic, some_records(90, first=100, partitions=3), settings={"batch.size": 500})
    progress = run_once(spark, source, topic, tmp_path, maxBytesPerTrigger=1500)
    assert 3 <= len(progress) <= 20
    assert sum(p.numInputRows for p in progress) == 90
    found = spark.read.parquet(str(tmp_path / "out"))
    expected = [(p, r.offset) for p, records in source.read(topic).items() for r in records]
    assert offsets_of(found) == sorted(expected)
    assert run_once(spark, source, topic, tmp_path) == []


def test_a_limit_of_bytes_is_met_within_a_factor(source: KafkaTools, prefix: str) -> None:
    """It is told from a sample; what lies in the log is measured here. Partitions differ in how
    much they have, in the size of their records, which vary, and in their codecs."""
    topic, limit = prefix + "bytes", 400_000
    source.create_topic(topic, 3, config=KEPT)
    sizes = random.Random(7)
    for partition, (count, most, codec) in enumerate(
        [(3000, 200, "none"), (3000, 1500, "zstd"), (300, 9000, "none")]
    ):
        records = [
            Outgoing(value=sizes.randbytes(sizes.randrange(most)), partition=partition)
            for _ in range(count)
        ]
        source.produce(topic, records, codec=codec, settings={"batch.size": 20_000})
    options = {"kafka.bootstrap.servers": source.bootstrap, "subscribe": topic}
    options |= {"startingOffsets": "earliest", "maxBytesPerTrigger": str(limit)}
    reader = StreamReader(options, whole_schema(read_options(options, streaming=True)))
    ends = {topic: {str(p): end for p, end in source.offsets(topic).items()}}
    bounds = _bytes_up_to(source, topic)
    at, taken = reader.initialOffset(), []
    while at != ends:
        following = reader.latestOffset(at, reader.getDefaultReadLimit())
        taken.append(
            sum(
                bounds[int(p)](end) - bounds[int(p)](at[topic][p])
                for p, end in following[topic].items()
            )
        )
        at = following
    reader.stop()
    print(f"of {limit} bytes: {[round(one / limit, 2) for one in taken]}")
    assert len(taken) >= 8
    assert all(0.7 * limit < one < 1.4 * limit for one in taken[:-1])
    assert taken[-1] < 1.4 * limit


def _bytes_up_to(tools: KafkaTools, topic: str) -> dict[int, Callable[[int], float]]:
    """Of each partition, how many bytes of its log lie before an offset; within a batch by the
    share of its records."""
    found: dict[int, Callable[[int], float]] = {}
    with Cluster(client("A", tools.bootstrap)) as cluster:
        for partition, end in tools.offsets(topic).items():
            tp, offsets, sizes = TopicPartition(topic, partition), [0], [0]
            while offsets[-1] < end:
                data = cluster.fetch(tp, offsets[-1], 1 << 20, max_wait_ms=100).records
                for base, length, last in _batches(bytes(data)):
                    assert base == offsets[-1]
                    offsets.append(base + last + 1)
                    sizes.append(sizes[-1] + length)
            found[partition] = partial(_interpolated, offsets, sizes)
    return found


def _interpolated(offsets: list[int], sizes: list[int], at: int) -> float:
    after = bisect.bisect_left(offsets, at)
    if offsets[after] == at:
        return sizes[after]
    share = (at - offsets[after - 1]) / (offsets[after] - offsets[after - 1])
    return sizes[after - 1] + share * (sizes[after] - sizes[after - 1])


def _batches(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each that is whole: its first offset, its length, and its last offset's delta."""
    at = 0
    while at + 27 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > len(data):
            return
        yield base, 12 + length, struct.unpack_from(">i", data, at + 23)[0]
        at += 12 + length
