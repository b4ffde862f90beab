"""`format("causeway")`, written: each row is one record, however often a task or a batch is tried.

The first tests run whole queries. Those at the end call the writer as Spark does, on no Spark, to
stop it at each moment that matters: between a task's end and the driver's commit, in the midst of
the commits, and with an attempt that was given up and goes on all the same.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from causeway.cluster import Cluster, transactions
from causeway.config import ClientSettings
from causeway.errors import CausewayError, DivergedError
from causeway.spark import ledger, writer
from causeway.spark.options import connection
from causeway.spark.writer import BatchWriter, StreamWriter
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.spark_session import spark_session
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

KEPT = {"retention.ms": "-1"}  # however old the records are


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def values(tools: KafkaTools, topic: str) -> list[bytes]:
    """Committed, of all partitions, sorted."""
    tools.await_transactions(topic)
    found = tools.read(topic, read_committed=True).values()
    return sorted(r.value or b"" for records in found for r in records)


def numbers(*of: int) -> list[bytes]:
    return sorted(b"%d" % n for n in of)


@pytest.mark.slow
def test_each_column_reaches_the_record_and_keys_go_where_java_sends_them(
    spark: Any, target: KafkaTools, prefix: str
) -> None:
    topic, other, keyed = prefix + "columns", prefix + "other", prefix + "keyed"
    for name in (topic, other, keyed):
        target.create_topic(name, 3, config=KEPT)
    query = f"""
        SELECT 'k' key, CAST(NULL AS BINARY) value, '{topic}' topic, 2 partition,
          timestamp_millis(1500000000123) timestamp,
          array(named_struct('key', 'a', 'value', X'00FF'),
            named_struct('key', 'a', 'value', CAST(NULL AS BINARY))) headers
        UNION ALL SELECT NULL, X'CAFE', '{other}', 0, timestamp_millis(-1), NULL"""
    frame = spark.sql(query)
    frame.write.format("causeway").mode("append").option(
        "kafka.bootstrap.servers", target.bootstrap
    ).save()
    for name in (topic, other):
        target.await_transactions(name)
    (record,) = target.read(topic, read_committed=True)[2]
    assert record.content == (1500000000123, False, b"k", None, (("a", b"\x00\xff"), ("a", None)))
    (record,) = target.read(other, read_committed=True)[0]
    assert record.content == (-1, False, None, b"\xca\xfe", ())
    target.produce(other, [Outgoing(value=b"%d" % n, key=b"key %d" % n) for n in range(50)])
    keys = spark.range(50).selectExpr("concat('key ', id) key", "string(id) value")
    keys.write.format("causeway").mode("append").option("topic", keyed).option(
        "kafka.bootstrap.servers", target.bootstrap
    ).option("kafka.compression.type", "zstd").save()
    target.await_transactions(keyed)
    by_java = {r.key: p for p, records in target.read(other).items() for r in records if r.key}
    ours = {r.key: p for p, rs in target.read(keyed, read_committed=True).items() for r in rs}
    assert ours == by_java


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_doubles_and_loses_nothing(
    spark: Any, target: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    """Once in each of two tasks, with much of what it was to write in the log already."""
    from pyspark.sql.functions import udf

    topic, where, bootstrap = prefix + "killed", str(tmp_path), target.bootstrap
    target.create_topic(topic, 2)

    def pass_or_die(number: int) -> str:
        flag = f"{where}/died-{number}"
        if number % 20_000 == 15_000 and not os.path.exists(flag):
            with open(flag, "w"):
                pass
            tools = KafkaTools(bootstrap)
            await_until(lambda: max(tools.offsets(topic).values()) > 0, what="a first record")
            os.kill(os.getpid(), signal.SIGKILL)
        return str(number)

    risky = udf(pass_or_die, "string", useArrow=False)
    padded = spark.range(0, 40_000, 1, 2).select(risky("id").alias("value"))
    padded = padded.selectExpr("rpad(value, 300, ' ') value")
    padded.write.format("causeway").mode("append").option("topic", topic).option(
        "kafka.bootstrap.servers", target.bootstrap
    ).save()
    assert len(list(tmp_path.iterdir())) == 2
    found = [value.strip() for value in values(target, topic)]
    assert sorted(found) == numbers(*range(40_000))
    written = sum(len(records) for records in target.read(topic).values())
    assert written > 40_000, "the attempt that died had written something"


def stream(spark: Any, source: KafkaTools, target: KafkaTools, topic: str, where: Path) -> None:
    query = (
        spark.readStream.format("causeway")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 60)
        .load()
        .select("key", "value", "partition")
        .writeStream.format("causeway")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(where))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@pytest.mark.slow
def test_a_micro_batch_that_is_run_again_is_there_once(
    spark: Any, source: KafkaTools, target: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    """Its commit is taken out of the checkpoint, as if the driver had died before it wrote it."""
    topic = prefix + "again"
    for tools in (source, target):
        tools.create_topic(topic, 2)
    records = [Outgoing(value=b"%d" % n, key=b"%d" % n) for n in range(100)]
    source.produce(topic, records)
    stream(spark, source, target, topic, tmp_path)
    assert values(target, topic) == numbers(*range(100))
    commits = sorted((tmp_path / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for file in commits[-1:]:
        (tmp_path / "commits" / f".{file.name}.crc").unlink(missing_ok=True)
        file.unlink()
    source.produce(topic, [Outgoing(value=b"%d" % n) for n in range(100, 110)])
    stream(spark, source, target, topic, tmp_path)
    assert values(target, topic) == numbers(*range(110))
    assert sum(map(len, target.read(topic).values())) == 110, "nor was it written and rolled back"


SCHEMA = StructType().add("key", BinaryType()).add("value", StringType())


class Harness:
    """Calls a writer as Spark does, for one batch of one query."""

    def __init__(self, tools: KafkaTools, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.options = {"kafka.bootstrap.servers": tools.bootstrap, "topic": topic}
        self.name = topic
        self._monkeypatch = monkeypatch

    def settings(self) -> ClientSettings:
        return connection(self.options, "write")

    def writer(self) -> StreamWriter:
        return StreamWriter(self.options, SCHEMA)

    def task(self, task: int, rows: list[int], batch: int = 0) -> Any:
        properties = {"sql.streaming.queryId": self.name, "streaming.sql.batchId": str(batch)}
        context = SimpleNamespace(
            partitionId=lambda: task, getLocalProperty=lambda name: properties[name]
        )
        self._monkeypatch.setattr(writer, "TaskContext", SimpleNamespace(get=lambda: context))
        content = pa.record_batch(
            {"key": pa.array([None] * len(rows), pa.binary()), "value": [str(n) for n in rows]}
        )
        return self.writer().write(iter([content]))

    def take_over(self, task: int) -> None:
        """As the broker does with a transaction that takes too long, or another attempt."""
        with Cluster(self.settings()) as cluster:
            name = ledger.task_name(ledger.write_name(self.name), task)
            transactions.begin(cluster, name, 60_000)


@pytest.fixture
def harness(target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Harness:
    target.create_topic(prefix + "t", 2)
    return Harness(target, prefix + "t", monkeypatch)


def test_what_was_partly_committed_is_completed_when_the_batch_is_run_again(
    harness: Harness, target: KafkaTools
) -> None:
    messages = [harness.task(0, [1, 2]), harness.task(1, [3, 4]), harness.task(2, [])]
    harness.take_over(1)
    with pytest.raises(CausewayError, match="1 of 2 transactions were not"):
        harness.writer().commit(messages, 0)
    assert values(target, harness.name) == numbers(1, 2)
    again = [harness.task(0, [2, 1]), harness.task(1, [3, 4]), harness.task(2, [])]
    assert again[0].transaction is None, "it is there"
    harness.writer().commit(again, 0)
    assert values(target, harness.name) == numbers(1, 2, 3, 4)
    harness.writer().commit([harness.task(0, [5], batch=1)], 1)
    assert values(target, harness.name) == numbers(1, 2, 3, 4, 5)


def test_an_attempt_that_was_given_up_commits_nothing(harness: Harness, target: KafkaTools) -> None:
    """Nor does a driver that was paused, once another has begun the batch again."""
    paused = [harness.task(0, [1, 2])]
    again = [harness.task(0, [1, 2])]
    with pytest.raises(CausewayError):
        harness.writer().commit(paused, 0)
    harness.writer().commit(again, 0)
    with pytest.raises(CausewayError):
        harness.writer().commit(paused, 0)
    assert values(target, harness.name) == numbers(1, 2)


def test_rows_that_move_between_tasks_are_refused_not_doubled(
    harness: Harness, target: KafkaTools
) -> None:
    messages = [harness.task(0, [1, 2]), harness.task(1, [3, 4])]
    harness.take_over(0)
    with pytest.raises(CausewayError):
        harness.writer().commit(messages, 0)
    with pytest.raises(DivergedError, match="other rows"):
        harness.task(1, [3, 5])
    fewer = [harness.task(0, [1, 2, 3, 4])]
    with pytest.raises(DivergedError, match="other rows"):
        harness.writer().commit(fewer, 0)
    emptied = [harness.task(0, [1, 2, 3, 4]), harness.task(1, [])]
    with pytest.raises(DivergedError, match="other rows"):
        harness.writer().commit(emptied, 0)
    assert values(target, harness.name) == numbers(3, 4)


def test_a_mark_that_a_mirror_has_translated_is_refused(
    harness: Harness, target: KafkaTools
) -> None:
    harness.writer().commit([harness.task(0, [1])], 0)
    group = ledger.task_name(ledger.write_name(harness.name), 0)
    # The broker tells the mark a moment after the transaction that wrote it has ended.
    mark = {(harness.name, 0): 1}
    await_until(lambda: target.group_offsets(group) == mark, 60, "the mark is told")
    target.commit_group(group, {(harness.name, 0): 9})
    with pytest.raises(DivergedError, match="translated"):
        harness.task(0, [2], batch=1)


def test_an_aborted_batch_leaves_nothing_open(harness: Harness, target: KafkaTools) -> None:
    harness.writer().abort([harness.task(0, [1, 2]), None], 0)
    assert values(target, harness.name) == []


def test_a_task_that_fails_is_rolled_back_and_not_heard_of_again(
    harness: Harness, target: KafkaTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has sent may come late, once the task is tried again: under an older epoch then."""
    begun: list[transactions.Transaction] = []
    begin = transactions.begin

    def noted(*arguments: Any) -> transactions.Transaction:
        begun.append(begin(*arguments))
        return begun[-1]

    def fail(*_: object) -> None:
        raise CausewayError("write", "a mark", "as if no answer came")

    monkeypatch.setattr(transactions, "begin", noted)
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "mark", fail)
        with pytest.raises(CausewayError, match="no answer came"):
            harness.task(0, [1, 2])
    target.await_transactions(harness.name)
    harness.writer().commit([harness.task(0, [1, 2])], 0)
    first, second = begun
    assert second.epoch >= first.epoch + 2, "one more than a beginning takes"
    with Cluster(harness.settings()) as cluster:
        with pytest.raises(CausewayError):
            transactions.give_up(cluster, first)
        transactions.end(cluster, second, commit=True)  # it is the successor's all the same
    assert values(target, harness.name) == numbers(1, 2)


def test_a_batch_too_large_for_its_topic_is_halved(
    harness: Harness, target: KafkaTools, prefix: str
) -> None:
    target.create_topic(prefix + "small", 1, config={"max.message.bytes": "2000"})
    harness.options["topic"] = prefix + "small"
    harness.writer().commit([harness.task(0, list(range(1000)))], 0)
    assert values(target, prefix + "small") == numbers(*range(1000))


def test_a_write_with_an_id_can_be_done_again(spark: Any, target: KafkaTools, prefix: str) -> None:
    topic = prefix + "named"
    target.create_topic(topic, 2)
    frame = spark.range(0, 100, 1, 2).selectExpr("string(id) value")
    for _ in range(2):
        frame.write.format("causeway").mode("append").option("topic", topic).option(
            "kafka.bootstrap.servers", target.bootstrap
        ).option("id", topic).save()
    assert values(target, topic) == numbers(*range(100))
    assert (
        BatchWriter({"topic": topic}, SCHEMA)._name != BatchWriter({"topic": topic}, SCHEMA)._name
    )
