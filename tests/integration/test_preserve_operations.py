"""Operations on topics that preserve offsets: the end of a mirror and the way back, groups, verify.

Lanes are real processes, Spark is not here (tests/harness/daemon.py).
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causeway.cluster import Cluster, filling, transactions
from causeway.config import LinkSettings, RunSettings, Settings
from causeway.model import State, TopicPartition
from causeway.operate.cutover import CutoverEnd, Wishes, cutover, result_json
from causeway.operate.failover import (
    FailbackStep,
    FailedBack,
    Keep,
    Otherwise,
    failback,
    failover,
    promote,
)
from causeway.operate.verify import Agreement, DifferenceKind, PartitionReport, verify
from causeway.status import Look, PartitionStatus, status
from causeway.translation import Question, translate
from tests.harness.control import checkpoints, offset_syncs
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka_tools import KafkaTools
from tests.harness.lanes import client
from tests.harness.links import KilledError, fill, identity, kill_after, turned
from tests.harness.mirror import FOREVER, by_offset
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.fixture
def link(source: KafkaTools, target: KafkaTools, prefix: str) -> LinkSettings:
    """Names and offsets stay."""
    found = identity(source, target, prefix, groups=prefix + ".*")
    control = replace(found.control, sync_group_offsets_interval_s=0.5)
    return replace(found, offsets="preserve", control=control)


@pytest.fixture
def topic(source: KafkaTools, prefix: str) -> str:
    """100 records, a rolled back transaction, and one that ends with its marker."""
    name = prefix + "orders"
    source.create_topic(name, 1)
    fill(source, name, 100)
    with source.transactional(name) as transactions:
        transactions.begin()
        transactions.send(name, b"rolled back", b"rolled back")
        transactions.abort()
    add_transaction(source, name)
    return name


def add_transaction(kafka: KafkaTools, topic: str) -> None:
    with kafka.transactional(topic) as transactions:
        transactions.begin()
        transactions.send(topic, b"one", b"another")
        transactions.commit()
    kafka.await_transactions(topic)


END = 106  # 100 records, two of a rolled back transaction, two of a committed one, two markers


def settings_of(*links: LinkSettings) -> Settings:
    return Settings(links=links, run=RunSettings(lease_s=2.0), spark={})


def committed(kafka: KafkaTools, topic: str) -> list[tuple[object, ...]]:
    return by_offset(kafka.read(topic, read_committed=True)[0])


def await_same(source: KafkaTools, target: KafkaTools, topic: str, end: int) -> None:
    """Both logs end at `end`, and each record has the same offset on both sides."""

    def same() -> bool:
        there = target.partition_count(topic) is not None
        return there and source.offsets(topic) == target.offsets(topic) == {0: end}

    await_until(same, 60, f"{topic} ends at {end} on both sides")
    assert committed(source, topic) == committed(target, topic)


def stands(run: RunningDaemon, link: LinkSettings, topic: str, *, preserves: bool) -> bool:
    """Whether the topic is mirrored by `link`, with the offsets of the source or others."""
    return any(
        each.state is State.RUNNING and (each.preserving is not None) is preserves
        for each in run.link(link.name).partitions
        if each.topic == topic
    )


def verified(*links: LinkSettings, topic: str, link: str) -> PartitionReport:
    (found,) = verify(settings_of(*links), link=link, topics=[topic]).partitions
    return found


def test_groups_get_the_offsets_that_they_have_on_the_source(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    topic: str,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the middle, in a gap, behind the last record, and behind the marker at the end."""
    places = {f"{prefix}{offset}": offset for offset in (7, 101, 105, END)}
    for group, offset in places.items():
        source.commit_group(group, {(topic, 0): offset})
    with RunningDaemon(monkeypatch, link, lease_s=2.0) as run:
        await_same(source, target, topic, END)
        await_until(
            lambda: all(target.group_offsets(g) == {(topic, 0): o} for g, o in places.items()),
            60,
            "offsets of groups",
        )
        # Of checkpoints too, which RemoteClusterUtils reads.
        found = {
            group: (one.upstream, one.downstream)
            for (group, at), one in checkpoints(target, link.source.alias).items()
            if at == (topic, 0)
        }
        assert found == {group: (offset, offset) for group, offset in places.items()}
        await_until(
            lambda: run.partitions()[topic, 0].mirrored_to == END, 60, "the driver knows the end"
        )
        preserving = run.partitions()[topic, 0].preserving
        assert preserving is not None
        assert preserving.filled is not None
        assert preserving.filled.gaps >= 2
    (clusters,) = status(settings_of(link))
    (one,) = (each for each in clusters.partitions if each.topic == topic)
    assert one.preserving is not None
    questions = [Question(topic=topic, partition=0, offset=o) for o in (0, 7, 101, 105, END)]
    for back in (False, True):
        answers = translate(settings_of(link), questions, link=link.name, back=back)
        assert [(each.exact, each.places[0].offset) for each in answers] == [
            (True, question.offset) for question in questions
        ]


@pytest.mark.slow
def test_the_way_there_and_back_keeps_all_offsets(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    topic: str,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back = turned(link)
    both = settings_of(link, back)
    group = prefix + "readers"
    source.commit_group(group, {(topic, 0): 40})
    with RunningDaemon(monkeypatch, link, lease_s=2.0):
        await_same(source, target, topic, END)
        await_until(lambda: target.group_offsets(group), 60, "the group's offset")
        (promoted,) = promote(settings_of(link), link=link.name, wait_s=60.0)
    cut = promoted.cuts[topic]
    assert cut.preserves
    assert [(point.source, point.targets, point.exact) for point in cut.points] == [
        (END, ((TopicPartition(topic, 0), END),), True)
    ]
    fill(target, topic, 20, first=1000)
    add_transaction(target, topic)
    questions = [Question(topic=topic, partition=0, offset=END + more) for more in (0, 3)]
    at_the_cut, behind = translate(settings_of(link), questions, link=link.name)
    assert (at_the_cut.exact, at_the_cut.places[0].offset) == (True, END)
    assert (behind.exact, behind.places[0].offset) == (False, END), "B's own record has END + 3"
    target.commit_group(group, {(topic, 0): END + 11})
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0) as run:
        begun = failback(both, link=link.name, wait_s=60.0)
        assert begun.step is FailbackStep.BACK
        assert set(begun.keeps.topics) == {topic}
        assert not begun.keeps.blocked
        await_same(target, source, topic, END + 23)
        await_until(
            lambda: source.group_offsets(group) == {(topic, 0): END + 11}, 60, "its offset on A"
        )
        found = verified(link, back, topic=topic, link=back.name)
        assert (found.verdict, found.by_offset) == (Agreement.AGREES, True)
        assert found.records == 100 + 2 + 20 + 2, "also the records that came from there"
        done = failback(both, link=link.name, wait_s=60.0, turn_round=True)
        assert (done.step, done.translated) == (FailbackStep.GOES_ON, ())
        fill(source, topic, 5, first=2000)
        await_same(source, target, topic, END + 28)
        await_until(lambda: stands(run, link, topic, preserves=True), 60, "preserved offsets")


def test_a_failover_commits_the_offsets_of_the_newest_checkpoints_as_they_are(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    topic: str,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unsynced = replace(link, control=replace(link.control, sync_group_offsets_enabled=False))
    places = {f"{prefix}{offset}": offset for offset in (7, 101, END)}
    for group, offset in places.items():
        source.commit_group(group, {(topic, 0): offset})
    with RunningDaemon(monkeypatch, unsynced, lease_s=2.0):
        await_same(source, target, topic, END)
        await_until(
            lambda: len(checkpoints(target, link.source.alias)) == len(places), 60, "checkpoints"
        )
        assert not any(target.group_offsets(group) for group in places)
        (done,) = failover(settings_of(unsynced), yes=True, wait_s=60.0)
    assert {group: target.group_offsets(group) for group in places} == {
        group: {(topic, 0): offset} for group, offset in places.items()
    }
    assert done.cuts[topic].preserves


def test_a_cutover_moves_groups_and_producers_at_the_same_offsets(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    topic: str,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back, group = turned(link), prefix + "readers"
    source.commit_group(group, {(topic, 0): 101})
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0):
        await_same(source, target, topic, END)
        wishes = Wishes(settle_s=0.5, back=True)
        done = cutover(settings_of(link, back), wishes, link=link.name, act=True, wait_s=90.0)
        assert done.end is CutoverEnd.DONE
        (told,) = result_json(done)["topics"]
        assert (told["topic"], told["ended"], told["same_offsets"]) == (topic, True, True)
        assert target.group_offsets(group) == {(topic, 0): 101}
        fill(target, topic, 5, first=1000)
        await_same(target, source, topic, END + 5)


@pytest.fixture
def failed_over(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> LinkSettings:
    """Seven records of the old source were never mirrored, and the target has 20 of its own."""
    with RunningDaemon(monkeypatch, link, lease_s=2.0):
        await_same(source, target, topic, END)
    failover(settings_of(link), yes=True)
    fill(source, topic, 7, first=3000)
    fill(target, topic, 20, first=1000)
    return link


def test_an_old_source_that_has_more_is_filled_again(
    source: KafkaTools,
    target: KafkaTools,
    failed_over: LinkSettings,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link, back = failed_over, turned(failed_over)
    path = tmp_path / "only-here.jsonl"

    def go(**more: Any) -> FailedBack:
        return failback(settings_of(link, back), link=link.name, **{"wait_s": 60.0, **more})

    with RunningDaemon(monkeypatch, link, back, lease_s=2.0):
        undecided = go(keep=Keep(path=path))
        assert undecided.step is FailbackStep.UNDECIDED
        assert undecided.keeps.beyond == {TopicPartition(topic, 0): 7}
        assert undecided.again == END + 20
        assert not path.exists(), "nothing was done"
        shown = go(keep=Keep(path=path), otherwise=Otherwise.REFILL, dry_run=True)
        assert (shown.step, shown.refilled, shown.pending) == (FailbackStep.BACK, (topic,), True)
        assert source.offsets(topic) == {0: END + 7}
        done = go(keep=Keep(path=path), otherwise=Otherwise.REFILL)
        assert (done.step, done.refilled, done.saved) == (FailbackStep.BACK, (topic,), str(path))
        await_same(target, source, topic, END + 20)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [base64.b64decode(line["value"]) for line in lines] == [
        b"value %d" % n for n in range(3000, 3007)
    ]


@pytest.mark.parametrize("step", ["delete_topics", "create_topics"])
def test_a_refill_that_was_killed_is_gone_on_with(
    source: KafkaTools,
    target: KafkaTools,
    failed_over: LinkSettings,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    link, back = failed_over, turned(failed_over)
    asked: dict[str, Any] = {
        "link": link.name,
        "wait_s": 60.0,
        "keep": Keep(path=tmp_path / "only-here.jsonl"),
        "otherwise": Otherwise.REFILL,
    }
    with monkeypatch.context() as patch:
        kill_after(patch, Cluster, step)
        with pytest.raises(KilledError):
            failback(settings_of(link, back), **asked)
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0) as run:
        if step == "delete_topics":
            # The reverse link waits for the command, which must not find copies on the old source.
            await_until(
                lambda: (
                    run.snapshot is not None
                    and any(
                        each.topic == topic and "causeway failback" in (each.reason or "")
                        for each in run.link(back.name).partitions
                    )
                ),
                60,
                "the reverse link waits",
            )
        done = failback(settings_of(link, back), **asked)
        assert (done.step, done.unmirrored) == (FailbackStep.BACK, ())
        assert done.lag is not None, "a driver has begun"
        await_same(target, source, topic, END + 20)
    assert len((tmp_path / "only-here.jsonl").read_text().splitlines()) == 7


def test_an_old_source_that_has_more_goes_on_with_translated_offsets(
    source: KafkaTools,
    target: KafkaTools,
    failed_over: LinkSettings,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link, back = failed_over, turned(failed_over)
    both = settings_of(link, back)
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0) as run:
        begun = failback(
            both,
            link=link.name,
            wait_s=60.0,
            keep=Keep(drop=True),
            otherwise=Otherwise.TRANSLATE,
        )
        assert (begun.step, begun.translated) == (FailbackStep.BACK, (topic,))
        await_until(lambda: source.offsets(topic) == {0: END + 27}, 60, "B's records come to A")
        assert [each.value for each in source.read(topic)[0][-20:]] == [
            b"value %d" % n for n in range(1000, 1020)
        ]
        done = failback(both, link=link.name, wait_s=60.0, turn_round=True)
        assert (done.step, done.translated) == (FailbackStep.GOES_ON, (topic,))
        fill(source, topic, 5, first=4000)
        await_until(lambda: target.offsets(topic) == {0: END + 25}, 60, "A's records come to B")
    # Another driver knows it, too.
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0) as run:
        fill(source, topic, 5, first=5000)
        await_until(lambda: target.offsets(topic) == {0: END + 30}, 60, "A's records come to B")
        await_until(lambda: stands(run, link, topic, preserves=False), 60, "translated offsets")


def test_verify_names_the_offset_where_both_sides_differ(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RunningDaemon(monkeypatch, link, lease_s=2.0):
        await_same(source, target, topic, END)
    found = verified(link, topic=topic, link=link.name)
    assert (found.verdict, found.by_offset, found.records) == (Agreement.AGREES, True, 102)
    # Somebody writes to the target, and the source goes on meanwhile.
    fill(source, topic, 3, first=1000)
    fill(target, topic, 5, first=2000)
    found = verified(link, topic=topic, link=link.name)
    assert found.verdict is Agreement.DIFFERS
    assert [(each.kind, each.source, each.target, each.records) for each in found.differences] == [
        (DifferenceKind.CHANGED, END, END, 3),
        (DifferenceKind.UNKNOWN, None, END + 3, 2),
    ]


def test_verify_sees_what_read_committed_consumers_see_of_a_compacted_topic(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its large gap is filled with aborted records on the target."""
    topic, end = prefix + "compacted", 30_000
    source.create_topic(topic, 1, config={**FOREVER, "cleanup.policy": "compact"})
    fill(source, topic, 10)
    with Cluster(client("A", source.bootstrap)) as cluster:
        fill_id = transactions.begin(cluster, topic, 60_000)
        at = TopicPartition(topic, 0)
        filling.fill(
            cluster, fill_id, at, 10, end, keyed=True, delete=False, on_step=lambda _: True
        )
    fill(source, topic, 10, first=10)
    with RunningDaemon(monkeypatch, link, lease_s=2.0):
        await_same(source, target, topic, end + 10)
    assert len(target.read(topic)[0]) > 20, "read_uncommitted readers see filler"
    found = verified(link, topic=topic, link=link.name)
    assert (found.verdict, found.records) == (Agreement.AGREES, 20)


def test_offset_syncs_have_the_same_numbers_on_both_sides(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RunningDaemon(monkeypatch, link, lease_s=2.0):
        await_same(source, target, topic, END)

        def syncs() -> list[tuple[int, int]]:
            return offset_syncs(source, link.target.alias).get((topic, 0), [])

        await_until(lambda: bool(syncs()), 60, "offset syncs")
        assert all(upstream == downstream for upstream, downstream in syncs())


@pytest.mark.slow
def test_the_beginning_is_shown_while_it_is_filled(
    source: KafkaTools,
    target: KafkaTools,
    link: LinkSettings,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, group, start = prefix + "late", prefix + "readers", 20_000_000
    source.create_topic(topic, 1, config=FOREVER)
    with Cluster(client("A", source.bootstrap)) as cluster:
        fill_id = transactions.begin(cluster, topic, 60_000)
        at = TopicPartition(topic, 0)
        filling.fill(
            cluster, fill_id, at, 0, start, keyed=False, delete=True, on_step=lambda _: True
        )
    fill(source, topic, 10)
    source.commit_group(group, {(topic, 0): start + 5})
    seen: list[PartitionStatus] = []

    def look(look: Look) -> None:
        seen.extend(p for each in look().links for p in each.partitions if p.topic == topic)

    by_clusters: list[PartitionStatus] = []
    with RunningDaemon(monkeypatch, link, lease_s=2.0, on_status=look):

        def is_filling() -> bool:
            (found,) = status(settings_of(link), [topic])
            by_clusters[:] = found.partitions
            return bool(by_clusters and by_clusters[0].preserving and by_clusters[0].reason)

        await_until(is_filling, 60, "the clusters show that it is filled")
        await_same(source, target, topic, start + 10)
        await_until(
            lambda: target.group_offsets(group) == {(topic, 0): start + 5}, 60, "the group's offset"
        )
    told = [each for each in seen if each.reason and "its beginning is filled" in each.reason]
    assert any(each.preserving and each.preserving.left_s for each in told), "with the time left"
    assert all(each.lag_records == 10 for each in told if each.lag_records is not None)
    last = seen[-1].preserving
    assert last is not None
    assert (last.offsets_from, last.filled_to) == (start, None)
    assert last.filled is not None
    assert last.filled.beginning >= start
    (one,) = by_clusters
    assert one.preserving is not None
    assert 0 <= (one.preserving.filled_to or 0) < start
