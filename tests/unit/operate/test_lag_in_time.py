"""The lag in time is one figure, whoever is asked."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import OffsetAt
from causeway.daemon import Sides
from causeway.daemon.partitions import Registry
from causeway.daemon.tasks import ControlPlane
from causeway.link_topics import (
    LinkDirectives,
    PartitionProgress,
    ProgressContents,
    TaskRecord,
    decode_entry,
    encode_entry,
)
from causeway.metrics import text
from causeway.model import Dated, State, TopicPartition
from causeway.naming import ReplicationPolicy
from causeway.operate.failover.missing import SourceAnswer, topics_known
from causeway.status import lag, topics_of
from causeway.status.judging import ClusterFacts, partition_status, without_source
from tests.builders import status as snapshots
from tests.builders.daemon import row, says
from tests.builders.served import client
from tests.harness.daemon import link as settings
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.statuses import replace

NOW_MS = int(snapshots.NOW * 1000)
HOUR, SECOND = 3_600_000, 1_000
END = OffsetAt(offset=100, timestamp=-1, leader_epoch=0)


def heard(
    position: int, first_unmirrored: int = -1, state: State = State.RUNNING
) -> PartitionProgress:
    """Of a lane, about a source that ends at 100. The newest mirrored record is an hour old."""
    it = row()
    said = says(state, position)
    times = {"last_timestamp": NOW_MS - HOUR, "first_unmirrored": first_unmirrored}
    it.take_report(said.replace(report=said.report.replace(**times)))
    return it.progress.replace(written_at=NOW_MS - HOUR)


def by_the_driver(progress: PartitionProgress, silent_since: int | None = None) -> set[int | None]:
    """In the live table, and for the page, the API and metrics."""
    it = row()
    it.progress = progress
    link = replace(snapshots.link(it.status(0.0, NOW_MS, silent_since)))
    (topic,) = topics_of(link)
    snapshot = snapshots.full(link)
    with client(lambda: snapshot) as api:
        (of_link,) = api.get("/api/v1/overview").json()["links"]
        (one,) = api.get("/api/v1/partitions").json()["items"]
    name = "causeway_partition_lag_seconds{"
    scraped = [line.split()[-1] for line in text(snapshot).decode().splitlines() if name in line]
    in_metrics = round(1000 * float(scraped[0])) if scraped else None
    return {topic.lag_ms, of_link["lag_ms"], one["lag_ms"], in_metrics}


def _tasks(answered_ms: int) -> tuple[TaskRecord, ...]:
    return (TaskRecord(name=lag.SOURCE_TASK, reason="no answer", done_at=answered_ms),)


def by_the_clusters(progress: PartitionProgress) -> int | None:
    """`status`, with what the source itself tells."""
    dated = progress.first_unmirrored
    facts = ClusterFacts(
        end=END, top=END, start=progress.position, first_unmirrored=dated if dated >= 0 else None
    )
    mirror = settings("127.0.0.1:1", "127.0.0.1:2", ".*")
    one = partition_status(progress.source, row().topic, progress, facts, mirror, None, NOW_MS)
    return one.lag_ms


def without_the_source(
    progress: PartitionProgress, answered_ms: int
) -> tuple[int | None, int | None]:
    """`status`, and the age of the first record that is missing by `failover`."""
    contents = ProgressContents(
        partitions={progress.source: progress},
        tasks={each.name: each for each in _tasks(answered_ms)},
    )
    mirror = settings("127.0.0.1:1", "127.0.0.1:2", ".*")
    (one,) = without_source(mirror, contents, LinkDirectives(), NOW_MS)
    (known,) = topics_known([progress], SourceAnswer(), answered_ms)
    return one.lag_ms, None if known.first_ms is None else NOW_MS - known.first_ms


def test_it_is_the_age_of_the_first_record_that_is_not_mirrored() -> None:
    """A record came a second ago, an hour after the one before it: the lag is a second."""
    progress = heard(99, NOW_MS - SECOND)
    assert by_the_driver(progress) == {SECOND}
    assert by_the_clusters(progress) == SECOND


def test_it_is_nothing_where_nothing_is_left_to_mirror() -> None:
    progress = heard(100)
    assert by_the_driver(progress) == {0}
    assert by_the_clusters(progress) == 0


def test_it_is_unknown_until_that_record_is_known() -> None:
    """The newest mirrored record tells nothing: it may be an hour older."""
    progress = heard(99)
    assert by_the_driver(progress) == {None}
    assert by_the_clusters(progress) is None


def test_an_old_time_counts_as_it_is() -> None:
    """As of records that were restored with their times."""
    progress = heard(99, NOW_MS - 1000 * HOUR)
    assert by_the_driver(progress) == {1000 * HOUR}
    assert by_the_clusters(progress) == 1000 * HOUR


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (heard(99, NOW_MS - 20 * SECOND), 20 * SECOND),
        (heard(100), 5 * SECOND),
    ],
    ids=["it lagged", "it had nothing left to mirror"],
)
def test_without_its_source_the_driver_and_the_clusters_say_the_same(
    progress: PartitionProgress, expected: int
) -> None:
    """The source last answered five seconds ago: what it took in since is not mirrored."""
    answered_ms = NOW_MS - 5 * SECOND
    assert by_the_driver(progress, answered_ms) == {expected}
    assert without_the_source(progress, answered_ms) == (expected, expected)


def test_a_mirror_that_has_ended_lags_by_nothing_once_its_source_is_gone() -> None:
    progress = heard(100).replace(state=State.PROMOTED)
    assert by_the_driver(progress, NOW_MS - HOUR) == {0}
    assert without_the_source(progress, NOW_MS - HOUR)[0] == 0


def test_a_lane_s_word_holds_for_as_long_as_the_position_does() -> None:
    it = row()
    said = says(State.RUNNING, 40)
    it.take_report(said.replace(report=said.report.replace(first_unmirrored=NOW_MS)))
    it.take_report(says(State.FAILED, 40, "no answer"))
    assert it.progress.first_unmirrored == NOW_MS
    it.take_report(says(State.RUNNING, 41))
    assert it.progress.first_unmirrored == -1


def test_the_source_is_asked_once_where_no_lane_can_tell() -> None:
    it = row()
    it.take_report(says(State.FAILED, 40, "no answer"))
    assert it.is_undated
    it.dirty = False
    it.date(Dated(39, NOW_MS))
    assert (it.is_undated, it.dirty) == (True, False), "it has moved since"
    it.date(Dated(40, NOW_MS))
    assert (it.is_undated, it.dirty) == (False, True)
    assert it.status(0.0, NOW_MS + SECOND).lag_ms == SECOND
    it.take_report(says(State.RUNNING, 100))
    assert not it.is_undated, "nothing is left to mirror"


def test_progress_keeps_it_and_is_read_without_it() -> None:
    progress = heard(99, NOW_MS)
    key, value = encode_entry(progress, NOW_MS)
    assert decode_entry(key, value) == progress.replace(written_at=NOW_MS)
    assert value is not None
    older = value.replace(b'"dated":[99,%d],' % NOW_MS, b"")
    assert older != value
    read = decode_entry(key, older)
    assert isinstance(read, PartitionProgress)
    assert read.first_unmirrored == -1


def test_the_source_is_asked_for_the_time_of_a_record_once() -> None:
    """By the driver, of what no lane fetches; nothing is asked of what is caught up."""
    fetched: list[tuple[TopicPartition, int]] = []

    class Source:
        def list_offsets(self, _: Any, __: int, **___: Any) -> Any:
            return {}

        def fetch(self, at: TopicPartition, position: int, _: int) -> Any:
            fetched.append((at, position))
            return SimpleNamespace(records=raw_batch([Rec(offset=position, timestamp=NOW_MS)]))

    stuck, caught_up = row(), row()
    stuck.take_report(says(State.FAILED, 40, "no answer"))
    caught_up.take_report(says(State.RUNNING, 100))
    caught_up.progress = caught_up.progress.replace(partition=1)
    registry = Registry("A->B")
    registry.add([stuck, caught_up])
    source = cast(Any, Source())
    sides = Sides(source=source, target=source, source_admin=source, target_admin=source)
    mirror = settings("127.0.0.1:1", "127.0.0.1:2", ".*")
    control = ControlPlane(mirror, sides, registry, lambda: 1, cast(Any, None))
    (task,) = (each for each in control.tasks if each.name == "lag in time")
    for _ in range(3):
        task.run()
    assert fetched == [(stuck.progress.source, 40)]
    assert {each.progress.first_unmirrored for each in (stuck, caught_up)} == {NOW_MS, -1}
    stuck.take_report(says(State.FAILED, 50, "no answer"))
    task.run()
    assert fetched[1:] == [(stuck.progress.source, 50)]


@pytest.mark.parametrize("state", [State.STOPPED, State.FAILED])
def test_the_source_is_asked_for_the_end_of_what_no_lane_mirrors(state: State) -> None:
    """A partition that was caught up when it stopped lags from the next record on."""

    class Source:
        def __init__(self) -> None:
            self.end = 100
            self.asked: list[TopicPartition] = []

        def list_offsets(self, places: list[TopicPartition], _: int, **__: Any) -> Any:
            self.asked += places
            return {at: OffsetAt(offset=self.end, timestamp=-1, leader_epoch=-1) for at in places}

        def fetch(self, _: TopicPartition, position: int, __: int) -> Any:
            return SimpleNamespace(records=raw_batch([Rec(offset=position, timestamp=NOW_MS)]))

    it, mirrored, gone = row(), row(), row()
    it.take_report(says(state, 100, "no answer"))
    mirrored.take_report(says(State.RUNNING, 100))
    mirrored.progress = mirrored.progress.replace(partition=1)
    gone.take_report(says(state, 100, "it was deleted"))
    gone.progress = gone.progress.replace(partition=2, gone_at=NOW_MS)
    registry, source = Registry("A->B"), Source()
    registry.add([it, mirrored, gone])
    there = cast(Any, source)
    sides = Sides(source=there, target=there, source_admin=there, target_admin=there)
    mirror = settings("127.0.0.1:1", "127.0.0.1:2", ".*")
    control = ControlPlane(mirror, sides, registry, lambda: 1, cast(Any, None))
    (task,) = (each for each in control.tasks if each.name == "lag in time")
    it.dirty = False
    task.run()
    assert (set(source.asked), it.progress.source_end, it.dirty) == (
        {it.progress.source},
        100,
        False,
    )
    source.end = 130
    task.run()
    assert it.dirty, "a failover reads it from the progress topic"
    found = it.status(0.0, NOW_MS + 5_000)
    assert (found.lag_records, found.lag_ms) == (30, 5_000)
    assert mirrored.status(0.0, NOW_MS).lag_records == 0


def test_a_partition_that_no_lane_looks_at_is_not_said_to_have_been_seen() -> None:
    """A driver that has just taken over answers for no record that came before its lanes, and so
    does one whose lanes are gone. The progress topic still says that the partition is mirrored."""

    class Source:
        def bootstrap_check(self, _: float) -> None: ...

    it, registry, source = row(), Registry("A->B"), cast(Any, Source())
    registry.begin(ProgressContents(partitions={it.progress.source: heard(100)}))
    sides = Sides(source=source, target=source, source_admin=source, target_admin=source)
    mirror = settings("127.0.0.1:1", "127.0.0.1:2", ".*")
    control = ControlPlane(mirror, sides, registry, lambda: 1, cast(Any, None))
    (task,) = (each for each in control.tasks if each.name == lag.SOURCE_TASK)
    assert not task.run().dated
    registry.add([it])
    assert it.progress.state is State.WAITING
    assert not task.run().dated
    it.take_report(says(State.RUNNING, 100))
    assert task.run().dated
    it.wait()
    assert not task.run().dated


class _Failing:
    def upstream_topic(self, topic: str) -> str | None:
        raise LookupError(topic)


def test_a_policy_that_fails_does_not_hide_what_is_known_of_a_partition() -> None:
    policy = ReplicationPolicy(kind="custom", source_alias="A", custom=cast(Any, _Failing()))
    mirror = dataclasses.replace(settings("127.0.0.1:1", "127.0.0.1:2", ".*"), policy=policy)
    progress = heard(99, NOW_MS - SECOND)
    contents = ProgressContents(partitions={progress.source: progress})
    (one,) = without_source(mirror, contents, LinkDirectives(), NOW_MS)
    assert one.lag_ms == SECOND
    assert not one.heartbeats
