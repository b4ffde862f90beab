"""Finds records that only the old source has: not mirrored before the end, or written after it.

Others write records of the second kind while the reverse link writes to the old source:

    old source  … E ──[ours]──[theirs]──[ours]──[ours]── T …     E: the mirror has read up to here
                  n offsets; the sequences show how many of them the reverse link wrote

From T on, the end of the reverse link, the link itself mirrors again.
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
    """The unmirrored records of one partition of the old source: `records` from offset `first` on,
    before `end`. `surely`: False if some of them may be on the target nevertheless, because it is
    not known where the mirror ended. `ours`: stretches in between that a mirror wrote (from an
    offset on, before another); they are not unmirrored. `deleted`: this many offsets before `first`
    were not mirrored either, and the old source has deleted them by its retention: they are
    lost."""

    at: TopicPartition
    first: int
    end: int
    records: int
    surely: bool
    ours: tuple[tuple[int, int], ...] = ()
    deleted: int = 0

    def has(self, offset: int) -> bool:
        """Returns whether a record at this offset is unmirrored."""
        if not self.first <= offset < self.end:
            return False
        place = bisect_right(self.ours, offset, key=lambda stretch: stretch[0]) - 1
        return place < 0 or offset >= self.ours[place][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmirroredRecords:
    """`unmirrored`: the partitions that have such records. `starts`: the offsets at which a mirror
    in the other direction begins, by partition of the old target. `gone`: how many offsets from
    there on the old target has deleted by its retention. `lost`: partitions of the old source that
    end before the end of their mirrored records; the other direction begins earlier for them.
    `ends`: how far each partition of the old source was looked at. `ids`: the ids of the topics of
    the old target."""

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
    """Finds the records that the ended link has not mirrored. `topics`: the topics that it would
    mirror; only those with `cuts` are looked at. A topic without a cut was not mirrored at all, and
    will be when the link goes on. If a topic was recreated on one side, it has nothing of the
    mirror there. Raises CausewayError; ConfigError if the old source lacks a topic, or has lost
    records and it is unknown which; PartitionsFailedError if a transaction is open there."""
    topics = {name: topic for name, topic in topics.items() if name in cuts}
    if missing := sorted(cuts.keys() - topics.keys()):
        raise ConfigError(
            "fail back",
            missing[0],
            f"its mirror has ended, and now {link.source.alias} lacks it, or the file says that "
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
    # A partition that had not begun has nothing of the mirror.
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
    """Raises PartitionsFailedError if `at` can only be read up to its last stable offset, and not
    up to `end`: the records behind it would look like rolled back ones, and be missed later."""
    if stable < end:
        raise PartitionsFailedError(
            "fail back",
            str(at),
            f"a transaction is open there from offset {stable} on, so it is not known yet which "
            f"records before {end} count",
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
    """Returns the source offset up to which all is mirrored, for partitions whose cut is not exact.
    Others may have written to the target by now, as they should: records behind the cut are not
    read."""
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
    """A cluster as it was when the logs ended at these offsets: later records are not the
    mirror's."""

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
    """Returns the old target's offset of the record after the last one that the old source kept."""
    found = find_place(sides.target, target, sides.source, at)
    if found is None:
        cause = "the old source lost records that had been mirrored, and its last records are not "
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
    """Finds records that others wrote to the old source, from the offset where each partition was
    `looked` at until its present end, or `until`. `back`: the progress of the way back. If others
    wrote nothing in between, hardly anything is read. A log whose beginning is being filled is
    looked at later. With causeway.delivery = at-least-once, no field shows who wrote a record, and
    nothing is found. Raises CausewayError; PartitionsFailedError if others have a transaction
    open."""
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
        elif at in preserved:  # the lane stops at the first offset that others have used
            start = max(first.first, *(outlet.pair.target for outlet in ours))
        else:
            start = _known_until(first.first, ours)
        if start >= end:
            continue
        if ours and start < max(outlet.pair.target for outlet in ours):
            say(f"looking for records of others in {at}")
        theirs = _theirs(source, at, start, end, {outlet.producer_id for outlet in ours})
        if theirs is not None and (records := _count_foreign(source, theirs, read_committed)):
            found.append(replace(theirs, records=records))
    return tuple(found)


def _known_until(first: int, ours: list[Outlet]) -> int:
    """Returns the offset up to which all records are ours: there are as many offsets as records of
    ours, and the sequences begin at 0."""
    end = max((outlet.pair.target for outlet in ours), default=first)
    written = sum(outlet.pair.sequence for outlet in ours)
    return end if end >= first and (end - first - written) % SEQUENCE_SPACE == 0 else first


def _theirs(
    source: Cluster, at: TopicPartition, start: int, end: int, ours: set[int]
) -> Unmirrored | None:
    """Returns the batches of others from `start` to `end`, not counted yet."""
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
    """Returns the number of records that a mirror would copy: rolled back ones do not count."""
    places = [theirs.at]
    stable = offsets_at(source, places, LATEST, read_committed=read_committed)
    refuse_open(theirs.at, value_of(stable[theirs.at]), theirs.end)
    count = 0
    for batch in relayed(source, theirs.at, theirs.first, read_committed=read_committed):
        count += sum(theirs.has(batch.source_offset(index)) for index in range(batch.records))
        if batch.next >= theirs.end:
            break
    return count
