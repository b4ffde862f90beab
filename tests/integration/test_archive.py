"""`archive` and `restore`: what comes back is what was there, whatever ended in the middle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from causeway.errors import DivergedError, PartitionsFailedError, PrerequisiteError
from causeway.formats import load_mm2
from causeway.operate.archive import (
    Archived,
    Manifest,
    Restored,
    Store,
    archive,
    archiving,
    restore,
    restoring,
)
from causeway.operate.archive.restoring import RestoreChunk, _Restore
from tests.harness.kafka_tools import KafkaTools, Outgoing, Record
from tests.harness.spark_session import spark_session

pytestmark = [pytest.mark.integration, pytest.mark.slow]

DAY = 86_400_000
BEGIN = 1_767_225_600_000  # 2026-01-01
KEPT = {"retention.ms": "-1", "max.message.bytes": "2000000", "retention.bytes": "1000000000"}
# Limits that the topic gets once it holds records beyond them.
LIMITS = {"max.message.bytes": "100000", "message.timestamp.before.max.ms": "3600000"}


@pytest.fixture(scope="module")
def shared_spark() -> Iterator[Any]:
    conf = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
    with spark_session(conf) as session:
        yield session


class Archive:
    """One file, one folder, and the commands' functions on a Spark that is up already."""

    def __init__(self, source: KafkaTools, target: KafkaTools, where: Path, topics: str) -> None:
        self.path, self.file, self.topics = where / "archive", where / "mm2.properties", topics
        self.file.write_text(
            f"clusters = A, B\nA->B.enabled = true\nA->B.topics = {topics}\n"
            f"A.bootstrap.servers = {source.bootstrap}\n"
            f"B.bootstrap.servers = {target.bootstrap}\n"
        )
        self.said: list[str] = []

    def archive(self, **options: Any) -> Archived:
        return archive(
            load_mm2(self.file),
            self.file,
            str(self.path),
            **{"alias": None, "link": None, "patterns": (), **options},
            say=self.said.append,
        )

    def restore(self, **options: Any) -> list[Restored]:
        return restore(
            load_mm2(self.file),
            self.file,
            str(self.path),
            **{"alias": "B", "patterns": (), **options},
            say=self.said.append,
        )


@pytest.fixture
def archived(
    shared_spark: Any,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Archive:
    @contextmanager
    def session(_: object) -> Iterator[Any]:
        yield shared_spark

    for module in (archiving, restoring):
        monkeypatch.setattr(module, "spark_session", session)
    return Archive(source, target, tmp_path, f"{prefix}.*".replace(".*", "[a-z]+"))


def some_records(count: int, first: int = 0) -> list[Outgoing]:
    return [
        Outgoing(
            value=None if n % 7 == 0 else b"value %d" % n + b"x" * (n % 90),
            key=None if n % 5 == 0 else b"key %d" % n,
            headers=[("a", b"%d" % n), ("a", None), ("", b"")] if n % 3 == 0 else (),
            timestamp=BEGIN + (n % 40) * DAY // 10,
            partition=n % 3,
        )
        for n in range(first, first + count)
    ]


def contents(tools: KafkaTools, topic: str) -> dict[int, list[tuple[object, ...]]]:
    tools.await_transactions(topic)
    found: dict[int, list[Record]] = tools.read(topic, read_committed=True)
    return {partition: [r.content for r in records] for partition, records in found.items()}


@pytest.mark.slow
def test_what_comes_back_is_what_was_there(
    archived: Archive, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    """Two runs of the archive, with a transaction that was rolled back between; a topic that has
    no record; one whose brokers set the times; the topics' settings; and a third run that finds
    nothing new."""
    topic, empty, stamped = prefix + "full", prefix + "empty", prefix + "arrival"
    source.create_topic(topic, 3, config=KEPT)
    source.create_topic(empty, 2)
    source.produce(topic, some_records(199), codec="zstd")
    large = random.Random(1).randbytes(500_000)
    source.produce(topic, [Outgoing(value=large, partition=0, timestamp=BEGIN)])
    arrival = {"message.timestamp.type": "LogAppendTime"}
    source.create_topic(stamped, 1, config=arrival)
    source.produce(stamped, [b"one", b"two"])
    first = archived.archive()
    assert (first.number, first.records, first.topics) == (1, 202, 3)
    with source.transactional(prefix + "writer") as transactions:
        for number in range(4):
            transactions.begin()
            transactions.send(topic, *some_records(20, first=1000 + 20 * number))
            (transactions.abort if number % 2 else transactions.commit)()
    source.await_transactions(topic)
    source.set_topic_config(topic, LIMITS)
    assert archived.archive(alias="A").records == 40
    assert archived.archive(link="A->B").number is None
    days = {day.name for day in (archived.path / f"topic={topic}").iterdir()}
    assert days == {f"day=2026-01-0{n}" for n in range(1, 5)}
    done = archived.restore()
    assert [(each.records, each.compared) for each in done] == [(2, True), (0, True), (240, True)]
    assert contents(target, topic) == contents(source, topic)
    kept, given = contents(target, stamped)[0], contents(source, stamped)[0]
    assert [(time, *rest) for time, _, *rest in kept] == [(time, *rest) for time, _, *rest in given]
    assert target.topic_config(stamped)["message.timestamp.type"] == "LogAppendTime"
    assert target.partition_count(empty) == 2
    configs = target.topic_config(topic)
    assert {name: configs[name] for name in KEPT} == {
        **KEPT,
        "max.message.bytes": LIMITS["max.message.bytes"],
    }
    assert {name: configs[name] for name in LIMITS} == LIMITS
    assert target.topic_config(empty)["retention.ms"] == source.topic_config(empty)["retention.ms"]
    before = sum(map(len, target.read(topic).values()))
    archived.restore()
    assert sum(map(len, target.read(topic).values())) == before, "it can be run again"
    assert "counts and digests" in archived.said[-1]
    target.delete_topic(topic)
    target.create_topic(topic, 3)
    target.produce(topic, [b"somebody else's"])
    with pytest.raises(DivergedError, match="--into-existing"):
        archived.restore()
    archived.path = archived.path / "nowhere"
    with pytest.raises(PrerequisiteError, match="there is none"):
        archived.restore()


def test_a_topic_that_holds_other_records_is_refused(
    archived: Archive, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    topic = prefix + "held"
    for tools in (source, target):
        tools.create_topic(topic, 3)
        tools.produce(topic, [Outgoing(value=b"own", partition=0)])
    archived.archive()
    with pytest.raises(DivergedError, match="--into-existing"):
        archived.restore()
    assert len(contents(target, topic)[0]) == 1
    for _ in range(2):
        (done,) = archived.restore(into_existing=True)
        assert not done.compared
        assert len(contents(target, topic)[0]) == 2


def test_a_run_that_ended_before_its_manifest_does_not_count_and_one_after_it_does(
    archived: Archive,
    shared_spark: Any,
    source: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = prefix + "ended"
    source.create_topic(topic, 3, config=KEPT)
    source.produce(topic, some_records(30))

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", fail)
        with pytest.raises(KeyboardInterrupt):
            archived.archive()
    assert not list(archived.path.glob("topic=*"))
    source.produce(topic, some_records(30, first=30))
    with monkeypatch.context() as patch:
        settle = Store.settle
        patch.setattr(Store, "settle", lambda self, of: settle(self, of) if not of else fail())
        with pytest.raises(KeyboardInterrupt):
            archived.archive()
    assert not list(archived.path.glob("topic=*"))
    source.produce(topic, some_records(30, first=60))
    assert archived.archive().records == 30
    assert shared_spark.read.parquet(str(archived.path)).count() == 90
    assert not list(archived.path.glob("_causeway/staging/*"))


def test_nobody_takes_away_what_another_run_is_about_to_add(
    archived: Archive,
    shared_spark: Any,
    source: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second run, of a slower first one's number: once it looks at the archive only, as a restore
    does too, and once it is the first to add."""
    topic = prefix + "twice"
    source.create_topic(topic, 3, config=KEPT)
    source.produce(topic, some_records(30))
    add = Store.add

    def after(what: Callable[[], object]) -> None:
        def wait(self: Store, manifest: Manifest) -> None:
            monkeypatch.setattr(Store, "add", add)
            what()
            add(self, manifest)

        monkeypatch.setattr(Store, "add", wait)

    def look() -> None:
        store = Store(shared_spark, str(archived.path))
        store.settle(store.manifests())

    after(look)
    assert archived.archive().records == 30
    assert shared_spark.read.parquet(str(archived.path)).count() == 30
    source.produce(topic, some_records(30, first=30))
    after(archived.archive)
    with pytest.raises(PrerequisiteError, match="one process at a time"):
        archived.archive()
    assert archived.archive().number is None
    assert shared_spark.read.parquet(str(archived.path)).count() == 60
    assert not list(archived.path.glob("_causeway/staging/*"))


@pytest.mark.slow
def test_a_restore_that_is_ended_at_any_moment_goes_on(
    archived: Archive,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the second of three chunks, and before the topic has its settings back. One that
    fails keeps none behind it waiting. What a kill in the midst of a chunk leaves is seen in
    test_archive_command.py and test_spark_sink.py."""
    topic, behind = prefix + "resumed", prefix + "resumedlater"
    source.create_topic(topic, 3, config=KEPT)
    source.produce(topic, some_records(270))
    source.create_topic(behind, 1)
    source.produce(behind, [b"one"])
    archived.archive()
    monkeypatch.setattr(restoring, "CHUNK_OFFSETS", 90)
    monkeypatch.setattr(restoring, "_LEAST_OFFSETS", 1)
    write = _Restore._write

    def ended_in_second(self: _Restore, name: str, chunk: RestoreChunk, foreign: bool) -> None:
        if chunk.number == 1:
            raise KeyboardInterrupt
        write(self, name, chunk, foreign)

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_write", ended_in_second)
        with pytest.raises(KeyboardInterrupt):
            archived.restore()
    assert sum(map(len, contents(target, topic).values())) == 90
    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_compare", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            archived.restore()
    assert target.topic_config(topic)["retention.bytes"] == "-1"
    compare = _Restore._compare

    def differs_in_first(self: _Restore, name: str, records: int) -> None:
        if name == topic:
            raise DivergedError("restore", f"{name}-0", "records differ")
        compare(self, name, records)

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_compare", differs_in_first)
        with pytest.raises(PartitionsFailedError, match=r"records differ.*1 of 2 topics are on B"):
            archived.restore()
    assert contents(target, behind) == contents(source, behind)
    assert any(line.startswith(f"restore {topic}-0: records differ") for line in archived.said)
    archived.restore()
    assert any("continues at chunk 1 of 3" in line for line in archived.said)
    assert contents(target, topic) == contents(source, topic)
    assert target.topic_config(topic)["retention.bytes"] == "1000000000"


def test_a_gap_and_a_topic_made_anew_stop_the_archive(
    archived: Archive, source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "gap"
    source.create_topic(topic, 3, config={"retention.ms": "-1"})
    source.produce(topic, some_records(30))
    archived.archive()
    source.produce(topic, some_records(30))
    source.delete_records(topic, 0, 15)
    with pytest.raises(DivergedError, match="--allow-loss"):
        archived.archive()
    assert archived.archive(allow_loss=True).records == 25
    source.delete_topic(topic)
    source.create_topic(topic, 3)
    with pytest.raises(DivergedError, match="recreated"):
        archived.archive()
