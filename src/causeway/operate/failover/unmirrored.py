"""Finds records that only the old source has: not mirrored before the end, or written after it.

The second kind is written by others while the reverse link writes to the old source:

    old source  … E ──[ours]──[theirs]──[ours]──[ours]── T …     E: it was read up to here
                  n offsets; the sequences show how many of them the reverse link wrote

From T on, where the reverse link ended, the link itself mirrors again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from causeway.cluster import (
    EARLIEST,
    LATEST,
    Cluster,
    OffsetAt,
    log_reader,
    offsets_at,
    raw_batches,
    relayed,
    value_of,
)
from causeway.config import LinkSettings
from causeway.control import MirroredTopic
from causeway.daemon import Sides
from causeway.daemon.partitions import Behind, find_place, places_behind
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError
from causeway.link_topics import Cut, Outlet, PartitionProgress
from causeway.model import NO_TOPIC_ID, TopicPartition, same_topic
from causeway.operate.failover.reverse_link import Looked
from causeway.records import CONTROL, HEADER, SEQUENCE_SPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmirrored:
    """Of one partition of the old source: `records` from offset `first` on, before `end`. `surely`
    false: some of them may be on the target all the same, as nothing tells where the mirror
    ended. `ours`: stretches in between, each from an offset to before another, that a mirror
    wrote: none of these. `deleted`: so many offsets before `first` were not mirrored either, and by
    now the old source has deleted them, by its retention: these are lost."""

    at: TopicPartition
    first: int
    end: int
    records: int
    surely: bool
    ours: tuple[tuple[int, int], ...] = ()
    deleted: int = 0

    def has(self, offset: int) -> bool:
        """Whether what lies there is one of these."""
        if not self.first <= offset < self.end:
            return False
        place = bisect_right(self.ours, offset, key=lambda stretch: stretch[0]) - 1
        return place < 0 or offset >= self.ours[place][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmirroredRecords:
    """`unmirrored`: of the partitions that have such records. `starts`: where a mirror the other
    way begins, by partition of the old target; `gone`: so many offsets from there on the old target
    has deleted by now, as its retention says; `lost`: those of the old source that end before what
    was mirrored of them, so that it begins earlier there; `ends`: up to where each partition of the
    old source was looked at; `ids`: of the topics of the old target."""

    unmirrored: tuple[Unmirrored, ...]
    starts: Mapping[TopicPartition, int]
    gone: Mapping[TopicPartition, int]
    lost: tuple[TopicPartition, ...]
    ends: Mapping[TopicPartition, int]
    ids: Mapping[str, str]


def find_unmirrored(
    link: LinkSettings,
    sides: Sides,
    topics: Mapping[str, MirroredTopic],
    cuts: Mapping[str, Cut],
    progress: Mapping[TopicPartition, PartitionProgress],
) -> UnmirroredRecords:
    """`topics`: those that the ended link would mirror; of these, the ones with `cuts` are looked
    at. What has none was not mirrored at all, and is when the link goes on. A topic that
    was recreated on either side holds nothing of the mirror there. Raises CausewayError;
    ConfigError where the old source lacks a topic, or has lost records and it can't be told
    which; PartitionsFailedError where a transaction is open there."""
    topics = {name: topic for name, topic in topics.items() if name in cuts}
    if missing := sorted(cuts.keys() - topics.keys()):
        raise ConfigError(
            "fail back",
            missing[0],
            f"its mirror has ended, and by now {link.source.alias} lacks it, or the file says that "
            f"{link.name} does not mirror it",
            remedy="put the topic back into the file; or use --create-topics: it creates the topic "
            "there, empty, and then all its records are brought back",
        )
    places = [TopicPartition(t.source, n) for t in topics.values() for n in range(t.partitions)]
    ends = offsets_at(sides.source, places, LATEST)
    firsts = offsets_at(sides.source, places, EARLIEST)
    stable = offsets_at(sides.source, places, LATEST, read_committed=link.fetch.read_committed)
    recovered = _recovered(link, sides, topics, cuts, progress)
    unmirrored, lost = [], []
    # A partition that had not begun holds nothing of the mirror.
    starts = {
        TopicPartition(t.target, n): 0 for t in topics.values() for n in range(t.target_partitions)
    }
    for at in sorted(places):
        end, start = value_of(ends[at]), value_of(firsts[at])
        first = start
        topic, cut = topics[at.topic], cuts[at.topic]
        point = cut.point(at.partition)
        surely = True
        # If the target was recreated, only the old source has its records.
        there = same_topic(cut.target_id, topic.target_id)
        if point is not None and there and same_topic(cut.source_id, topic.source_id):
            first = recovered.get(at, point.source)
            surely = point.exact or at in recovered
            starts |= dict(point.targets)
            if end < first:
                (target, _), *_ = point.targets
                starts[target] = _where_it_ends(sides, at, target) if end else 0
                lost.append(at)
        if end > first:
            deleted, first = max(0, start - first), max(first, start)
            refuse_open(at, value_of(stable[at]), end)
            committed = link.fetch.read_committed
            batches = log_reader.relayed(sides.source, at, first, read_committed=committed)
            count = sum(batch.records for batch in batches)
            if count or deleted:
                unmirrored.append(
                    Unmirrored(
                        at=at, first=first, end=end, records=count, surely=surely, deleted=deleted
                    )
                )
    return UnmirroredRecords(
        unmirrored=tuple(unmirrored),
        starts=starts,
        gone={
            at: first - starts[at]
            for at, first in sorted(offsets_at(sides.target, starts, EARLIEST).items())
            if isinstance(first, int) and first > starts[at]
        },
        lost=tuple(lost),
        ends={at: value_of(end) for at, end in ends.items()},
        ids={topic.target: topic.target_id or NO_TOPIC_ID for topic in topics.values()},
    )


def refuse_open(at: TopicPartition, stable: int, end: int) -> None:
    """Raises PartitionsFailedError where `at` cannot be read as far as `end`, but up to its last
    stable offset only: what lies behind would be taken for rolled back, and be missed later."""
    if stable < end:
        raise PartitionsFailedError(
            "fail back",
            str(at),
            f"a transaction is open there from offset {stable} on, so it is unknown yet which of "
            f"it and behind it counts, up to {end}",
            remedy="try again once it has ended: by itself after its producer's "
            "transaction.timeout.ms, or by `kafka-transactions.sh abort`",
            retriable=True,
        )


def _recovered(
    link: LinkSettings,
    sides: Sides,
    topics: Mapping[str, MirroredTopic],
    cuts: Mapping[str, Cut],
    progress: Mapping[TopicPartition, PartitionProgress],
) -> dict[TopicPartition, int]:
    """Up to which source offset all is mirrored, of those whose cut does not tell exactly. By now
    others may have written to the target, as they should: what lies behind the cut is not read."""
    unsure = [
        (topics[name], known)
        for name, cut in cuts.items()
        for point in cut.points
        if not point.exact
        and name in topics
        and (known := progress.get(TopicPartition(name, point.partition))) is not None
        and known.transform is None
    ]
    if not unsure:
        return {}
    ends = {at: end for cut in cuts.values() for p in cut.points for at, end in p.targets}
    target = cast(Cluster, _EndsThere(sides.target, ends))
    link = replace(link, sole_writer=False)
    found = places_behind(unsure, replace(sides, target=target), link)
    return {at: each.start for at, each in found.items() if isinstance(each, Behind)}


class _EndsThere:
    """A cluster as it was when logs ended there: nothing of the mirror has come since."""

    def __init__(self, cluster: Cluster, ends: Mapping[TopicPartition, int]) -> None:
        self._cluster = cluster
        self._ends = ends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def list_offsets(
        self, tps: Collection[TopicPartition], timestamp: int, **options: Any
    ) -> dict[TopicPartition, OffsetAt | CausewayError]:
        found = self._cluster.list_offsets(tps, timestamp, **options)
        if timestamp != LATEST:
            return found
        return {
            at: replace(each, offset=min(each.offset, self._ends.get(at, each.offset)))
            if isinstance(each, OffsetAt)
            else each
            for at, each in found.items()
        }

    def log_ends(
        self, tps: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | CausewayError]:
        return {
            at: end if isinstance(end, CausewayError) else min(end, self._ends.get(at, end))
            for at, end in self._cluster.log_ends(tps).items()
        }


def _where_it_ends(sides: Sides, at: TopicPartition, target: TopicPartition) -> int:
    """Where the old target has the record after the last one that the old source kept."""
    found = find_place(sides.target, target, sides.source, at)
    if found is None:
        cause = "the old source lost records that had been mirrored, and what it ends with is not "
        cause += "found in one place of the target"
        remedy = "delete the topic on the old source and recreate it, empty: it is then mirrored "
        remedy += "back as a whole"
        raise ConfigError("fail back", str(at), cause, remedy=remedy)
    return found


_NO_PRODUCER: Final = -1


def find_late_writes(
    source: Cluster,
    looked: Mapping[TopicPartition, Looked],
    back: Iterable[PartitionProgress],
    *,
    until: Mapping[TopicPartition, int],
    read_committed: bool,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Unmirrored, ...]:
    """Of the old source, from where each partition was `looked` through until its end by now, or
    `until`. `back`: the progress of the way back. Where nothing foreign lies between, hardly
    anything is read. A log whose beginning is being filled is looked at later. With
    causeway.delivery = at-least-once nothing tells who wrote what, and nothing is found. Raises
    CausewayError; PartitionsFailedError where others have a transaction open."""
    ends = {at: value_of(end) for at, end in offsets_at(source, looked, LATEST).items()}
    writers: dict[TopicPartition, list[Outlet]] = {}
    preserved, filling = set[TopicPartition](), set[TopicPartition]()
    for each in back:
        for outlet in each.outlets:
            writers.setdefault(outlet.at, []).append(outlet)
            if each.preserves:
                (filling if each.begins else preserved).add(outlet.at)
    found = []
    for at, first in sorted(looked.items()):
        ours = writers.get(at, [])
        end = min(ends[at], until.get(at, ends[at]))
        if any(outlet.producer_id == _NO_PRODUCER for outlet in ours) or at in filling:
            continue
        if first.kept >= 0:
            start = first.kept
        elif at in preserved:  # the lane stops at the first offset that another has taken
            start = max(first.first, *(outlet.pair.target for outlet in ours))
        else:
            start = _known_until(first.first, ours)
        if start >= end:
            continue
        if ours and start < max(outlet.pair.target for outlet in ours):
            say(f"looking through what others wrote to {at}")
        theirs = _theirs(source, at, start, end, {outlet.producer_id for outlet in ours})
        if theirs is not None and (records := _count_foreign(source, theirs, read_committed)):
            found.append(replace(theirs, records=records))
    return tuple(found)


def _known_until(first: int, ours: list[Outlet]) -> int:
    """Up to where there is nothing but ours: each offset is a record of ours, and the sequences
    begin at 0."""
    end = max((outlet.pair.target for outlet in ours), default=first)
    written = sum(outlet.pair.sequence for outlet in ours)
    return end if end >= first and (end - first - written) % SEQUENCE_SPACE == 0 else first


def _theirs(
    source: Cluster, at: TopicPartition, start: int, end: int, ours: set[int]
) -> Unmirrored | None:
    """The batches of others between, not counted yet."""
    first, stop = -1, -1
    stretches: list[tuple[int, int]] = []
    for raw in raw_batches(source, at, start, end):
        fields = HEADER.unpack_from(raw)
        base, following = fields[0], fields[0] + fields[6] + 1
        if fields[9] in ours:
            if stretches and stretches[-1][1] == base:
                stretches[-1] = stretches[-1][0], following
            else:
                stretches.append((base, following))
        elif not fields[5] & CONTROL:
            first = base if first < 0 else first
            stop = following
    if first < 0:
        return None
    inside = tuple(each for each in stretches if first < each[1] and each[0] < stop)
    return Unmirrored(at=at, first=first, end=stop, records=0, surely=True, ours=inside)


def _count_foreign(source: Cluster, theirs: Unmirrored, read_committed: bool) -> int:
    """Those of them that a mirror would take: not what was rolled back."""
    places = [theirs.at]
    stable = offsets_at(source, places, LATEST, read_committed=read_committed)
    refuse_open(theirs.at, value_of(stable[theirs.at]), theirs.end)
    count = 0
    for batch in relayed(source, theirs.at, theirs.first, read_committed=read_committed):
        count += sum(theirs.has(batch.source_offset(index)) for index in range(batch.records))
        if batch.next >= theirs.end:
            break
    return count
