"""There and back, twice, and what may have happened on either side before the way back begins: each
record is told of, saved or brought over, once, whatever offsets it has where."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from causeway.cluster import Cluster
from causeway.config import LinkSettings, RunSettings, Settings
from causeway.errors import ConfigError, PartitionsFailedError
from causeway.link_topics import ProgressTopic
from causeway.model import Pair, State, TopicPartition
from causeway.operate.cutover import Wishes, cutover
from causeway.operate.failover import FailbackStep, Keep, failback, failover
from causeway.operate.verify import verify
from causeway.translation import Question, translate
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import fill, identity, turned
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


def settings_of(*links: LinkSettings) -> Settings:
    return Settings(links=links, run=RunSettings(lease_s=2.0), spark={})


def numbers(kafka: KafkaTools, topic: str) -> list[int]:
    """Of the records of partition 0 that count, in the order of its log."""
    (records,) = kafka.read(topic, read_committed=True).values()
    return [int((record.value or b"").rpartition(b" ")[2]) for record in records]


def saved_in(path: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        value = base64.b64decode(line["value"])
        found.setdefault(line["topic"], []).append(int(value.rpartition(b" ")[2]))
    return found


class Claim(NamedTuple):
    """Where a partition began: the cut that it was told to begin at, and on either side what its
    sequence 0 stands for, as long as no offset is skipped."""

    begun: int
    source: int
    target: int


def claim_of(link: LinkSettings, topic: str) -> Claim:
    with Cluster(link.target) as cluster:
        found = ProgressTopic(cluster, link.progress_topic).read().partitions
    each = found[TopicPartition(topic, 0)]
    pair: Pair = each.outlets[0].pair
    return Claim(each.begun, pair.source - pair.sequence, pair.target - pair.sequence)


def await_mirror(kafka: KafkaTools, topic: str) -> None:
    await_until(lambda: kafka.partition_count(topic), 60, f"a mirror of {topic}")


def await_end(kafka: KafkaTools, topic: str, end: int) -> None:
    await_until(lambda: kafka.offsets(topic)[0] >= end, 60, f"{topic} up to {end}")
    assert kafka.offsets(topic) == {0: end}


@pytest.mark.slow
def test_there_and_back_twice(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Offsets differ on the two sides, and each side's records are read from exactly where the
    other's end. The first time, somebody writes to A when the way back was told to begin and no
    driver has begun it: that is told, and the turn round waits until it is saved."""
    topic, link = prefix + "one", identity(source, target, prefix)
    back = turned(link)
    both, late = settings_of(link, back), tmp_path / "late.jsonl"
    source.create_topic(topic, 1)
    with source.transactional(prefix + "early") as early:
        early.begin()
        early.send(topic, *[b"aborted 0"] * 20)
        early.abort()
    fill(source, topic, 100)
    at_a, at_b = 121, 100
    with RunningDaemon(monkeypatch, link, lease_s=2.0):
        await_mirror(target, topic)
        await_end(target, topic, at_b)
    for turn in (1, 2):
        (over,) = failover(settings_of(link), yes=True)
        (point,) = over.cuts[topic].points
        assert (point.source, point.targets, point.exact) == (
            at_a,
            ((TopicPartition(topic, 0), at_b),),
            True,
        )
        fill(target, topic, 10, first=1000 * turn)
        begun = failback(both, link=link.name, wait_s=0)
        assert (begun.step, begun.unmirrored, begun.gone) == (FailbackStep.BACK, (), {})
        foreign = 3 if turn == 1 else 0
        fill(source, topic, foreign, first=7000)
        with RunningDaemon(monkeypatch, link, back, lease_s=2.0):
            told = failback(both, link=link.name, wait_s=60)
            assert (told.step, told.changed) == (FailbackStep.BACK, False)
            await_end(source, topic, at_a + foreign + 10)
            assert claim_of(back, topic)[1:] == (at_b, at_a + foreign)
            if foreign:
                (found,) = told.late
                assert (found.first, found.end, found.records) == (at_a, at_a + 3, 3)
                refused = failback(both, link=link.name, turn_round=True, wait_s=60)
                assert (refused.step, refused.promoted) == (FailbackStep.UNDECIDED, None)
            at_a, at_b = at_a + foreign + 10, at_b + 10
            keep = late if foreign else None
            done = failback(both, link=link.name, turn_round=True, keep=Keep(path=keep), wait_s=60)
            assert (done.step, done.changed, done.late) == (FailbackStep.GOES_ON, True, ())
            fill(source, topic, 5, first=5000 * turn)
            at_a, at_b = at_a + 5, at_b + 5
            await_end(target, topic, at_b)
            assert claim_of(link, topic)[1:] == (at_a - 5, at_b - 5)
    # Who comes later does not begin at an old cut once more.
    before = claim_of(link, topic)
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0):
        fill(source, topic, 5, first=9000)
        await_end(target, topic, at_b + 5)
    assert claim_of(link, topic) == before
    assert source.offsets(topic) == {0: at_a + 5}, "nothing came back"
    there, here = numbers(target, topic), numbers(source, topic)
    assert saved_in(late) == {topic: [7000, 7001, 7002]}
    assert there == [one for one in here if one not in (7000, 7001, 7002)], "in order, and once"
    assert len(set(there)) == len(there) == 135


@pytest.mark.slow
def test_what_happened_on_either_side_before_the_way_back(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction was open on A, and held records behind it back; retention took records behind
    the cut, on A and on B; a topic was made anew on A, and one on B. At the end B lacks of A what
    was saved, A lacks of B what was told to be gone, and nothing is there twice."""
    names = ("held", "short-a", "short-b", "anew-a", "anew-b")
    held, short_a, short_b, anew_a, anew_b = topics = [prefix + name for name in names]
    link, kept = identity(source, target, prefix), tmp_path / "kept.jsonl"
    back = turned(link)
    both = settings_of(link, back)
    for topic in topics:
        source.create_topic(topic, 1)
        fill(source, topic, 100)
    with source.transactional(prefix + "slow") as slow:
        with RunningDaemon(monkeypatch, link, lease_s=2.0) as run:
            for topic in topics:
                await_mirror(target, topic)
                await_end(target, topic, 100)
            slow.begin()
            slow.send(held, *(b"value %d" % n for n in (600, 601, 602)))
            slow.flush()
            fill(source, held, 5, first=610)
            await_until(lambda: run.partitions()[held, 0].source_end, 60, "its end is known")
            (over,) = failover(settings_of(link), yes=True)
            missing = {each.topic: (each.missing, each.exact) for each in over.topics}
            assert missing == dict.fromkeys(topics, (0, True)) | {held: (8, True)}
            assert {p.source for cut in over.cuts.values() for p in cut.points} == {100}

        # -- before the way back begins ------------------------------------------------------------
        fill(source, short_a, 20, first=1000)
        source.delete_records(short_a, 0, 110)
        fill(target, short_b, 10, first=2000)
        target.delete_records(short_b, 0, 104)
        for kafka, topic in ((source, anew_a), (target, anew_b)):
            kafka.delete_topic(topic)
            kafka.create_topic(topic, 1)
        fill(source, anew_a, 7, first=3000)
        fill(target, anew_a, 5, first=3500)
        fill(target, anew_b, 6, first=4000)
        fill(target, held, 4, first=5000)
        with pytest.raises(PartitionsFailedError, match=r"held-0: a transaction is open there"):
            failback(both, link=link.name, keep=Keep(drop=True), wait_s=0)
        slow.commit()
    source.await_transactions(held)
    shown = failback(both, link=link.name, wait_s=0)
    assert shown.step is FailbackStep.UNDECIDED
    assert {
        each.at.topic: (each.first, each.records, each.deleted) for each in shown.unmirrored
    } == {
        held: (100, 8, 0),
        short_a: (110, 10, 10),
        anew_a: (0, 7, 0),
        anew_b: (0, 100, 0),
    }
    assert shown.gone == {TopicPartition(short_b, 0): 4}
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0):
        begun = failback(both, link=link.name, keep=Keep(path=kept), wait_s=60)
        assert (begun.step, begun.late, begun.saved) == (FailbackStep.BACK, (), str(kept))
        assert begun.lag is not None
        # Of `held`, 8 records and an end of a transaction lie behind the cut.
        ends = {held: 113, short_a: 120, short_b: 106, anew_a: 112, anew_b: 106}
        for topic, end in ends.items():
            await_end(source, topic, end)
        with target.transactional(prefix + "last") as last:
            last.begin()
            last.send(held, b"value 5100")
            last.flush()
            fill(target, held, 1, first=5101)
            with pytest.raises(PartitionsFailedError, match="not all is mirrored"):
                failback(both, link=link.name, turn_round=True, wait_s=1)
            last.commit()
        target.await_transactions(held)
        done = failback(both, link=link.name, turn_round=True, wait_s=60)
        assert (done.step, done.late) == (FailbackStep.GOES_ON, ())
        for topic in topics:
            fill(source, topic, 3, first=9000)
        await_until(
            lambda: all(numbers(target, topic)[-1] == 9002 for topic in topics), 60, "A's come"
        )
    saved = saved_in(kept)
    assert saved[held] == [600, 601, 602, *range(610, 615)]
    assert saved[anew_b] == list(range(100))
    for topic in topics:
        here, there = numbers(source, topic), numbers(target, topic)
        assert len(set(here)) == len(here), f"{topic}: once"
        assert len(set(there)) == len(there), f"{topic}: once"
        only_here = set(here) - set(there)
        if topic == short_b:
            assert only_here == set(range(100)), "B has deleted those since"
        else:
            assert only_here - set(range(100)) == set(saved.get(topic, [])) - set(range(100))
        assert set(there) <= {*here, *range(100)}, "A has deleted the first 100 of one"
    assert numbers(source, held)[-9:-3] == [5000, 5001, 5002, 5003, 5100, 5101], "in order"


@pytest.fixture
def beats(source: KafkaTools, target: KafkaTools, prefix: str) -> Iterator[str]:
    """A name for a heartbeats topic. Links of other tests would mirror the topic if it stayed."""
    name = prefix + "Z.heartbeats"
    yield name
    for side in (source, target):
        for topic in side.topics():
            if topic.endswith(name):
                side.delete_topic(topic)


def test_back_onto_a_source_that_was_rebuilt_empty(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    beats: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its topics are created like those of B, all comes back to them, heartbeats are mirrored again
    without anybody's help, and the next cutover finds the place of a group that has read on A what
    came from B."""
    topic, group = prefix + "one", prefix + "readers"
    link = identity(source, target, prefix, group)
    back = turned(link)
    both = settings_of(link, back)
    source.create_topic(topic, 2, config={"retention.ms": "86400000"})
    source.create_topic(beats, 1)
    fill(source, topic, 100, partitions=2)
    fill(source, beats, 10)
    their = str(link.decide_topic(beats).target_name)
    with RunningDaemon(monkeypatch, link, lease_s=2.0) as run:
        await_mirror(target, topic)
        await_until(lambda: target.offsets(topic) == {0: 50, 1: 50}, 60)
        await_until(lambda: target.partition_count(their) and target.offsets(their) == {0: 10}, 60)
        run.await_state(beats, State.RUNNING)
        fill(source, beats, 3, first=10)
        await_until(lambda: target.offsets(their) == {0: 13}, 60)
        # The progress of the last records may still be on its way to the progress topic.
        await_until(lambda: verify(settings_of(link)).agrees, 60, "all compared")
    failover(settings_of(link), yes=True)
    fill(target, topic, 10, first=1000, partitions=2)
    for each in (topic, beats):
        source.delete_topic(each)
    with pytest.raises(ConfigError, match=r"lacks it.*--create-topics") as refused:
        failback(both, link=link.name, wait_s=0)
    assert link.source.alias in str(refused.value)
    shown = failback(both, link=link.name, create_topics=True, dry_run=True, wait_s=0)
    assert (shown.created, shown.pending) == ((topic,), True)
    assert source.partition_count(topic) is None
    source.create_topic(beats, 1)
    fill(source, beats, 5)
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0) as run:
        begun = failback(both, link=link.name, create_topics=True, wait_s=60)
        assert (begun.step, begun.created, begun.unmirrored) == (FailbackStep.BACK, (topic,), ())
        await_until(lambda: source.offsets(topic) == {0: 55, 1: 55}, 60, "all of B comes to A")
        assert source.digests(topic) == target.digests(topic)
        source.commit_group(group, {(topic, 0): 20, (topic, 1): 55})
        done = failback(both, link=link.name, turn_round=True, wait_s=60)
        assert (done.step, done.changed) == (FailbackStep.GOES_ON, True)
        fill(source, topic, 6, first=2000, partitions=2)
        await_until(lambda: target.offsets(topic) == {0: 58, 1: 58}, 60, "A's come to B again")
        run.await_state(beats, State.RUNNING)
        await_until(lambda: target.offsets(their) == {0: 18}, 60, "heartbeats come, too")
        looked = cutover(both, Wishes(settle_s=0.0), link=link.name).look
    assert [(each.name, each.reason) for each in looked.groups] == [(group, None)]
    (answer,) = translate(both, [Question(topic=topic, partition=0, offset=20)], link=link.name)
    assert (answer.exact, [each.offset for each in answer.places]) == (True, [20])
