"""A model that knows what was copied, over logs that live in memory.

It writes a source log (transactions, gaps) and copies a prefix of the relayed series to the target,
in batches cut anyhow, perhaps between other writers' records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hypothesis import strategies as st

from causeway.cluster import (
    Cluster,
    ClusterMetadata,
    ConfigEntry,
    FetchedPartition,
    OffsetAt,
    PartitionMetadata,
    TopicMetadata,
)
from causeway.errors import CausewayError, DivergedError
from causeway.link_topics import Outlet
from causeway.model import Pair, TopicPartition
from causeway.records import CONTROL, HEADER, Batch, PlainRecord, advance, build, decode, records_of
from causeway.relay import Assignment, Series, as_relayed, partition_of
from causeway.relay.recovery import RecoveryRequest, ResumedOutlet, Resumption, recover
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
    stable: int | None = None  # where a transaction is open still

    def stable_end(self, read_committed: bool) -> int:
        return self.end if self.stable is None or not read_committed else self.stable

    def append(self, records: Sequence[Rec], span: int | None = None, **more: Any) -> None:
        span = len(records) if span is None else span
        last = self.end + span - 1
        self.batches.append((self.end, last, raw_batch(records, base=self.end, last=last, **more)))
        self.end += span


class FakeCluster:
    """What recovery asks of a cluster."""

    timeout_s = 10.0

    def __init__(
        self,
        topic: str,
        topic_id: str,
        logs: dict[int, Log],
        compacted: bool,
        shown: int | None = None,
    ) -> None:
        """`shown`: the leader of each log was elected a moment ago, and does not know yet that more
        than this is committed."""
        self.topic, self.topic_id, self.logs, self.compacted = topic, topic_id, logs, compacted
        self.shown = shown
        self.remembered: Mapping[int, Mapping[int, int]] = {}

    def note_leader_epoch(self, topic_id: str, partition: int, epoch: int) -> None:
        """All of its leaders are up to date."""

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
                offset=self.logs[place.partition].stable_end(read_committed)
                if timestamp == -1
                else self.logs[place.partition].start,
                timestamp=-1,
                leader_epoch=0,
            )
            for place in places
        }

    def log_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.logs[place.partition].end for place in places}

    def last_sequences(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, Mapping[int, int]]:
        return {place: self.remembered.get(place.partition, {}) for place in places}

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
        shown = log.stable_end(read_committed) if self.shown is None else self.shown
        batches = [(last, raw) for _, last, raw in log.batches if offset <= last < shown]
        return FetchedPartition(
            high_watermark=shown,
            last_stable=shown,
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


# What a record becomes: target partition, key and value of each.
Transform = Callable[[int, bytes | None, bytes | None], list[tuple[int, bytes, bytes]]]


def transformed(transform: Transform) -> Series:
    """As a lane's, without a stage."""

    def series(
        assignment: Assignment, batches: Iterator[Batch]
    ) -> Iterator[Sequence[Batch | None]]:
        for batch in batches:
            parts: dict[int, list[Rec]] = {}
            for index, record in enumerate(records_of(batch)):
                offset = batch.source_offset(index)
                for partition, key, value in transform(offset, record.key, record.value):
                    one = Rec(offset=offset, timestamp=record.timestamp or 0, key=key, value=value)
                    parts.setdefault(partition, []).append(one)
            yield [
                _built(parts[outlet.partition], batch) if outlet.partition in parts else None
                for outlet in assignment.outlets
            ]

    return series


def _built(records: list[Rec], whole: Batch) -> Batch:
    return build(
        [
            PlainRecord(index, record.timestamp, record.key, record.value, [])
            for index, record in enumerate(records)
        ],
        codec=0,
        first=records[0].offset,
        next=whole.next,
        leader_epoch=whole.leader_epoch,
        offsets=[record.offset for record in records],
    )


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
    sole_writer: bool | None = None  # where it is not as `exclusive` says
    compacted: bool = False
    keys_from: int = 0  # below, all of the source partition went to its namesake
    # By target partition: the last sequence of each producer that the broker has not forgotten.
    remembered: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    transform: Transform | None = None
    treated: bool = False  # `transform` is a treatment: one record becomes one or none
    series_hook: Series | None = None  # where it is not as `transform` says
    leader_epoch: int = -1  # of the last record relayed
    diverging: bool = False  # the source has no entry for that epoch

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

    def recover(
        self, pairs: dict[int, Pair], *, unsettled: bool = False
    ) -> Resumption | CausewayError:
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
            leader_epoch=self.leader_epoch,
            outlets=outlets,
            keys_from=self.keys_from,
            sole_writer=self.exclusive if self.sole_writer is None else self.sole_writer,
            transform=None if self.transform is None or self.treated else "t",
            treated=self.treated,
        )
        source = FakeCluster("t", SOURCE_ID, {0: self.source}, self.compacted)
        target = FakeCluster(TARGET, TARGET_ID, self.targets, self.compacted)
        target.remembered = self.remembered
        request = RecoveryRequest(
            assignment=assignment,
            unsettled=unsettled,
            diverging=self.diverging,
            series=self.series_hook
            or (as_relayed if self.transform is None else transformed(self.transform)),
        )
        answers = recover([request], cast(Cluster, source), cast(Cluster, target))
        return answers[SOURCE]

    def check(self, partition: int, found: ResumedOutlet) -> None:
        """It resumes with the first record that was not copied."""
        share, copied = self.shares[partition], self.copied[partition]
        assert found.pair.sequence == advance(self.first_sequence, copied)
        assert found.pair.target == found.end == self.targets[partition].end
        left = {offset for offset in offsets_of(self.source) if offset >= found.pair.source}
        assert {r.offset for r in share[copied:]} & offsets_of(self.source) == left & {
            r.offset for r in share
        }


def offsets_of(log: Log) -> set[int]:
    """Of every record that the log still has."""
    return {
        record.offset
        for _, _, raw in log.batches
        for record in decode(raw)
        if record.offset >= log.start
    }


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    outlets: int = 1,
    foreign: bool = False,
    keys: int = 50,
    transform: Transform | None = None,
) -> World:
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
    keys_from = draw(st.integers(0, source.end)) if outlets > 1 and not transform else 0
    for record in series:
        if transform:
            for at, key, value in transform(record.offset, record.key, record.value):
                shares[at].append(replace(record, key=key, value=value))
            continue
        by_key = record.offset >= keys_from
        at = partition_of(record.key, record.offset, outlets) if by_key else SOURCE.partition
        shares[at].append(record)
    world = World(
        source=source,
        targets={},
        series=series,
        shares=shares,
        copied={},
        places={},
        first_sequence=draw(st.sampled_from([0, 2**31 - 5, 2**31 - 1])),
        exclusive=not foreign and outlets == 1,
        keys_from=keys_from,
        transform=transform,
    )
    for partition, share in shares.items():
        _copy(draw, world, partition, share, foreign)
    return world


def _copy(draw: st.DrawFn, world: World, partition: int, share: list[Rec], foreign: bool) -> None:
    log, places = Log(), []
    copied = _whole(share, draw(st.integers(0, len(share))))
    at = 0
    while at < copied:
        if foreign and draw(st.booleans()):
            log.append([Rec(offset=log.end)], producer_id=FOREIGN, epoch=0, sequence=at)
        count = _whole(share, draw(st.integers(at + 1, copied))) - at
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


def _whole(share: list[Rec], index: int) -> int:
    """`index`, or further on, so that all that one source record became lies before it."""
    while 0 < index < len(share) and share[index].offset == share[index - 1].offset:
        index += 1
    return index


def compact(log: Log, below: int, aborted: list[tuple[int, int, int]]) -> None:
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


def plain_world(count: int, copied: int) -> World:
    """`count` records from offset 0 on, the first `copied` of them in one batch of the target."""
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


def resumed(answer: Resumption | CausewayError) -> Resumption:
    if isinstance(answer, CausewayError):
        raise answer
    return answer


START = {0: Pair(source=0, target=0, sequence=0)}


def refused(world: World, pairs: dict[int, Pair] | None = None, *, unsettled: bool = False) -> str:
    answer = world.recover(pairs or START, unsettled=unsettled)
    assert isinstance(answer, DivergedError), answer
    return str(answer)
