"""Recovery against a model that knows what was copied, over logs that live in memory.

The model writes a source log (transactions, gaps), copies a prefix of the relayed series to the
target in batches cut anyhow, then lets both sides age: compaction, retention, other writers.
Whatever true pair recovery is told, it must resume with the first record that was not copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from causeway.errors import CausewayError, DivergedError
from causeway.model import Pair, TopicPartition
from causeway.relay import recovery
from causeway.relay.messages import Assignment, Outlet
from causeway.relay.recovery import ResumedOutlet, Resumption
from causeway.relay.route import partition_of
from causeway.relay.survey import Request
from causeway.wire.admin import ConfigEntry
from causeway.wire.batches import CONTROL, HEADER, advance
from causeway.wire.cluster import Cluster
from causeway.wire.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from causeway.wire.offsets import FetchedPartition, OffsetAt
from causeway.wire.records import decode
from tests.harness.raw_batches import ABORT, COMMIT, Rec, marker, raw_batch

SOURCE, TARGET = TopicPartition("t", 0), "A.t"
SOURCE_ID, TARGET_ID = "a" * 32, "b" * 32
OURS, FOREIGN = 1000, 77


@dataclass
class Log:
    """Batches with their first and last offsets."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    def append(self, records: Sequence[Rec], span: int | None = None, **more: Any) -> None:
        span = len(records) if span is None else span
        last = self.end + span - 1
        self.batches.append((self.end, last, raw_batch(records, base=self.end, last=last, **more)))
        self.end += span


class FakeCluster:
    """What recovery asks of a cluster."""

    def __init__(self, topic: str, topic_id: str, logs: dict[int, Log], compacted: bool) -> None:
        self.topic, self.topic_id, self.logs, self.compacted = topic, topic_id, logs, compacted

    def metadata(self, _: Collection[str]) -> ClusterMetadata:
        partitions = {
            p: PartitionMetadata(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
            for p in self.logs
        }
        topic = TopicMetadata(name=self.topic, topic_id=self.topic_id, partitions=partitions)
        return ClusterMetadata(cluster_id="c", brokers={}, controller=1, topics={self.topic: topic})

    def list_offsets(
        self, places: Collection[TopicPartition], timestamp: int, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        return {
            place: OffsetAt(
                offset=self.logs[place.partition].end
                if timestamp == -1
                else self.logs[place.partition].start,
                timestamp=-1,
                leader_epoch=0,
            )
            for place in places
        }

    def fetch(
        self,
        place: TopicPartition,
        offset: int,
        max_bytes: int,
        *,
        read_committed: bool = False,
        max_wait_ms: int,
    ) -> FetchedPartition:
        """Two batches an answer, so that the walks have seams."""
        log = self.logs[place.partition]
        assert log.start <= offset <= log.end, f"offset {offset} out of range"
        batches = [(last, raw) for _, last, raw in log.batches if last >= offset]
        return FetchedPartition(
            high_watermark=log.end,
            last_stable=log.end,
            log_start=log.start,
            aborted=tuple((p, first) for p, first, last in log.aborted if last >= offset),
            records=b"".join(raw for _, raw in batches[:2]),
        )

    def describe_configs(self, topics: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
        policy = "compact" if self.compacted else "delete"
        return {
            topic: {"cleanup.policy": cast(ConfigEntry, type("Entry", (), {"value": policy})())}
            for topic in topics
        }


@dataclass
class World:
    """What was written, and how much of it was copied to each target partition."""

    source: Log
    targets: dict[int, Log]
    series: list[Rec]  # every relayed record
    shares: dict[int, list[Rec]]  # those for each target partition
    copied: dict[int, int]  # how many of each share are in the target
    places: dict[int, list[int]]  # the target offset of each
    first_sequence: int
    exclusive: bool
    compacted: bool = False

    def pair(self, partition: int, index: int, slack: int) -> Pair:
        """A true pair at record `index` of a share; `slack` offsets before the record, as far as
        nothing else lies there."""
        share, places = self.shares[partition], self.places[partition]
        before = share[index - 1].offset + 1 if index else 0
        offset = share[index].offset if index < len(share) else self.source.end
        after = places[index - 1] + 1 if index else 0
        return Pair(
            source=max(before, offset - slack),
            target=after,
            sequence=advance(self.first_sequence, index),
        )

    def recover(self, pairs: dict[int, Pair]) -> Resumption | CausewayError:
        outlets = tuple(
            Outlet(
                topic=TARGET,
                partition=partition,
                topic_id=TARGET_ID,
                producer_id=OURS + partition,
                producer_epoch=0,
                pair=pair,
                exclusive=self.exclusive,
            )
            for partition, pair in pairs.items()
        )
        assignment = Assignment(
            link="A->B",
            source="a",
            target="b",
            topic="t",
            partition=0,
            topic_id=SOURCE_ID,
            leader_epoch=-1,
            outlets=outlets,
            sole_writer=self.exclusive,
        )
        source = FakeCluster("t", SOURCE_ID, {0: self.source}, self.compacted)
        target = FakeCluster(TARGET, TARGET_ID, self.targets, self.compacted)
        request = Request(assignment=assignment, unsettled=False)
        answers = recovery.recover([request], cast(Cluster, source), cast(Cluster, target))
        return answers[SOURCE]

    def check(self, partition: int, found: ResumedOutlet) -> None:
        """It resumes with the first record that was not copied."""
        share, copied = self.shares[partition], self.copied[partition]
        assert found.pair.sequence == advance(self.first_sequence, copied)
        assert found.pair.target == found.end == self.targets[partition].end
        left = {offset for offset in _offsets(self.source) if offset >= found.pair.source}
        assert {r.offset for r in share[copied:]} & _offsets(self.source) == left & {
            r.offset for r in share
        }


def _offsets(log: Log) -> set[int]:
    """Of every record that the log still has."""
    return {
        record.offset
        for _, _, raw in log.batches
        for record in decode(raw)
        if record.offset >= log.start
    }


@st.composite
def worlds(draw: st.DrawFn, *, outlets: int = 1, foreign: bool = False, keys: int = 50) -> World:
    source, series = Log(), []
    for _ in range(draw(st.integers(1, 12))):
        gaps = draw(st.lists(st.integers(0, 3).map(lambda n: n == 0), min_size=1, max_size=5))
        fate = draw(st.sampled_from(["plain", "plain", "committed", "aborted"]))
        records = [
            Rec(
                offset=source.end + i,
                timestamp=1_600_000_000_000 + source.end + i,
                key=b"%d" % draw(st.integers(0, keys)),
                value=b"%d" % (source.end + i),
            )
            for i, gap in enumerate(gaps)
            if not gap
        ]
        first = source.end
        source.append(
            records,
            len(gaps),
            producer_id=5,
            epoch=0,
            sequence=0,
            transactional=fate != "plain",
        )
        if fate != "plain":
            kind = ABORT if fate == "aborted" else COMMIT
            source.batches.append((source.end, source.end, marker(source.end, 5, kind)))
            if kind == ABORT:
                source.aborted.append((5, first, source.end))
            source.end += 1
        if fate != "aborted":
            series += records
    shares: dict[int, list[Rec]] = {p: [] for p in range(outlets)}
    for record in series:
        shares[partition_of(record.key, record.offset, outlets)].append(record)
    world = World(
        source=source,
        targets={},
        series=series,
        shares=shares,
        copied={},
        places={},
        first_sequence=draw(st.sampled_from([0, 2**31 - 5, 2**31 - 1])),
        exclusive=not foreign and outlets == 1,
    )
    for partition, share in shares.items():
        _copy(draw, world, partition, share, foreign)
    return world


def _copy(draw: st.DrawFn, world: World, partition: int, share: list[Rec], foreign: bool) -> None:
    log, places = Log(), []
    copied = draw(st.integers(0, len(share)))
    at = 0
    while at < copied:
        if foreign and draw(st.booleans()):
            log.append([Rec(offset=log.end)], producer_id=FOREIGN, epoch=0, sequence=at)
        count = draw(st.integers(1, copied - at))
        stamped = [
            Rec(offset=log.end + i, timestamp=r.timestamp, key=r.key, value=r.value)
            for i, r in enumerate(share[at : at + count])
        ]
        places += [r.offset for r in stamped]
        log.append(
            stamped,
            producer_id=OURS + partition,
            epoch=0,
            sequence=advance(world.first_sequence, at),
        )
        at += count
    if foreign and draw(st.booleans()):
        log.append([Rec(offset=log.end)], producer_id=-1)
    world.targets[partition], world.copied[partition] = log, copied
    world.places[partition] = places


def _pairs(data: st.DataObject, world: World) -> dict[int, Pair]:
    """Any pairs that were ever true: at a place where a batch of ours ended."""
    pairs = {}
    for partition, log in world.targets.items():
        ends = [0] + [
            world.places[partition].index(last) + 1
            for _, last, _ in log.batches
            if last in world.places[partition]
        ]
        index = data.draw(st.sampled_from(ends))
        pairs[partition] = world.pair(partition, index, data.draw(st.integers(0, 3)))
    return pairs


def _resumed(answer: Resumption | CausewayError) -> Resumption:
    if isinstance(answer, CausewayError):
        raise answer
    return answer


MANY = settings(max_examples=150, deadline=None)


@MANY
@given(worlds(), st.data())
def test_resumes_after_the_last_record_copied(world: World, data: st.DataObject) -> None:
    (found,) = _resumed(world.recover(_pairs(data, world))).outlets
    world.check(0, found)
    assert found.exclusive


@MANY
@given(worlds(foreign=True), st.data())
def test_other_writers_do_not_matter_where_they_are_allowed(
    world: World, data: st.DataObject
) -> None:
    (found,) = _resumed(world.recover(_pairs(data, world))).outlets
    world.check(0, found)


@MANY
@given(worlds(outlets=3), st.data())
def test_each_of_several_target_partitions(world: World, data: st.DataObject) -> None:
    """Resumed where the one that is furthest behind stands."""
    resumed = _resumed(world.recover(_pairs(data, world)))
    for partition, found in enumerate(resumed.outlets):
        world.check(partition, found)


@MANY
@given(worlds(keys=3), st.data())
def test_logs_compacted_after_the_copy(world: World, data: st.DataObject) -> None:
    """Up to some offset each side keeps only the last record of a key; in the target the newest
    batch is never touched (a segment that is written to is not compacted)."""
    world.compacted = True
    pairs = _pairs(data, world)
    _compact(world.source, data.draw(st.integers(0, world.source.end)), world.source.aborted)
    log = world.targets[0]
    newest = log.batches[-1][0] if log.batches else 0
    _compact(log, data.draw(st.integers(0, newest)), [])

    (found,) = _resumed(world.recover(pairs)).outlets

    world.check(0, found)


def _compact(log: Log, below: int, aborted: list[tuple[int, int, int]]) -> None:
    spoiled = {offset for _, first, last in aborted for offset in range(first, last)}
    newest: dict[bytes | None, int] = {}
    for _, last, raw in log.batches:
        if last < below and not HEADER.unpack_from(raw)[5] & CONTROL:
            for record in decode(raw):
                if record.offset not in spoiled:
                    newest[record.key] = record.offset
    batches = []
    for base, last, raw in log.batches:
        fields = HEADER.unpack_from(raw)
        if last >= below or fields[5] & CONTROL:
            batches.append((base, last, raw))
            continue
        kept = [
            Rec(offset=r.offset, timestamp=r.timestamp or 0, key=r.key, value=r.value)
            for r in decode(raw)
            if r.offset in spoiled or newest[r.key] == r.offset
        ]
        batches.append(
            (
                base,
                last,
                raw_batch(
                    kept,
                    base=base,
                    last=last,
                    producer_id=fields[9],
                    epoch=fields[10],
                    sequence=fields[11],
                    transactional=bool(fields[5] & 16),
                ),
            )
        )
    log.batches = batches


@MANY
@given(worlds(), st.data())
def test_the_target_deleted_its_oldest(world: World, data: st.DataObject) -> None:
    pairs = _pairs(data, world)
    world.targets[0].start = data.draw(st.integers(0, world.targets[0].end))

    (found,) = _resumed(world.recover(pairs)).outlets

    world.check(0, found)


@MANY
@given(worlds(), st.data())
def test_the_source_deleted_its_oldest(world: World, data: st.DataObject) -> None:
    """It resumes, or says that records are gone which were never copied; it never skips one."""
    pairs = _pairs(data, world)
    world.source.start = data.draw(st.integers(0, world.source.end))
    share, copied = world.shares[0], world.copied[0]
    lost = [r for r in share[copied:] if r.offset < world.source.start]

    answer = world.recover(pairs)

    if lost:
        assert isinstance(answer, DivergedError), answer
    elif not isinstance(answer, DivergedError):
        world.check(0, _resumed(answer).outlets[0])


@MANY
@given(worlds(), st.data())
def test_the_target_lost_its_newest(world: World, data: st.DataObject) -> None:
    """What it had acknowledged is sent again, from the first record that it lacks."""
    log = world.targets[0]
    pairs = _pairs(data, world)
    keep = data.draw(st.integers(0, len(log.batches)))
    assume(keep or world.first_sequence == 0)  # a claim begins at sequence 0
    log.batches = log.batches[:keep]
    log.end = log.batches[-1][1] + 1 if log.batches else 0
    world.copied[0] = log.end

    (found,) = _resumed(world.recover(pairs)).outlets

    world.check(0, found)


# -- what must stop it -----------------------------------------------------------------------------


def _plain(count: int, copied: int) -> World:
    source, target = Log(), Log()
    records = [Rec(offset=i, value=b"%d" % i) for i in range(count)]
    source.append(records)
    if copied:
        target.append(records[:copied], producer_id=OURS, epoch=0, sequence=0)
    return World(
        source=source,
        targets={0: target},
        series=records,
        shares={0: records},
        copied={0: copied},
        places={0: list(range(copied))},
        first_sequence=0,
        exclusive=True,
    )


START = {0: Pair(source=0, target=0, sequence=0)}


def _refused(world: World, pairs: dict[int, Pair] | None = None) -> str:
    answer = world.recover(pairs or START)
    assert isinstance(answer, DivergedError), answer
    return str(answer)


def test_records_that_are_there_twice() -> None:
    world = _plain(9, 4)
    again = [Rec(offset=4 + i, value=b"%d" % i) for i in range(4)]
    world.targets[0].append(again, producer_id=OURS, epoch=0, sequence=0)
    assert "twice" in _refused(world)


def test_a_record_that_is_not_the_sources() -> None:
    world = _plain(9, 0)
    other = [Rec(offset=i, value=b"other") for i in range(4)]
    world.targets[0].append(other, producer_id=OURS, epoch=0, sequence=0)
    assert "not the source's record" in _refused(world)


def test_more_records_than_the_source_has() -> None:
    world = _plain(3, 0)
    more = [Rec(offset=i, value=b"%d" % i) for i in range(4)]
    world.targets[0].append(more, producer_id=OURS, epoch=0, sequence=0)
    assert "no longer has as many" in _refused(world)


def test_somebody_elses_record_where_we_should_be_alone() -> None:
    world = _plain(9, 4)
    world.targets[0].append([Rec(offset=4)], producer_id=FOREIGN, epoch=0, sequence=0)
    assert "somebody else wrote" in _refused(world)


def test_a_source_that_ends_before_our_place() -> None:
    world = _plain(9, 9)
    pairs = {0: Pair(source=9, target=9, sequence=9)}
    world.source.end = 7
    assert "truncated" in _refused(world, pairs)


@pytest.mark.parametrize("side", ["source", "target"])
def test_topics_made_anew(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id of another topic under the same name."""
    name = "SOURCE_ID" if side == "source" else "TARGET_ID"
    world = _plain(9, 4)
    init = FakeCluster.__init__

    def anew(self: FakeCluster, topic: str, topic_id: str, *more: Any) -> None:
        init(self, topic, "c" * 32 if topic_id == globals()[name] else topic_id, *more)

    monkeypatch.setattr(FakeCluster, "__init__", anew)
    assert f"the {side} topic was deleted and made anew" in _refused(world)


@pytest.mark.parametrize(("remembered", "sequence"), [(6, 7), (None, None)])
def test_what_the_log_and_its_offsets_do_not_tell_the_broker_may_remember(
    remembered: int | None, sequence: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write too, and the target has deleted everything since the pair."""
    world = _plain(9, 7)
    world.exclusive = False
    world.targets[0].append([Rec(offset=7)], producer_id=FOREIGN, epoch=0, sequence=0)
    world.targets[0].start = 8
    monkeypatch.setattr(recovery, "last_sequence", lambda *_: remembered)

    answer = world.recover(START)

    if sequence is None:
        assert "how much of that was ours" in str(answer)
    else:
        (found,) = _resumed(answer).outlets
        assert found.pair == Pair(source=7, target=8, sequence=7)


def test_a_later_twin_of_a_copied_record_is_not_taken_for_it() -> None:
    """Source records 0 to 2 were copied, 2 is compacted away; 5 is the same as 1, and new."""
    records = [Rec(offset=i, key=b"%d" % i, value=b"%d" % i) for i in range(6)]
    records[5] = dataclasses.replace(records[1], offset=5)
    world = _plain(6, 3)
    world.compacted = True
    world.source = Log()
    world.source.append([*records[:2], *records[3:]], 6)
    world.targets[0] = Log()
    world.targets[0].append(records[:3], producer_id=OURS, epoch=0, sequence=0)

    (found,) = _resumed(world.recover(START)).outlets

    assert found.pair == Pair(source=2, target=3, sequence=3)
