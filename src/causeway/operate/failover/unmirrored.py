"""Records that lie on one side only, once a mirror has ended without its last word.

    old source  … S ─────── E         from S to E: never mirrored. They stay where they are, and
    old target  … T ──────────────    no mirror brings them over later: what comes back from T on
                                      goes behind them

S is what the cut says, or, where the mirror ended without a last word, what its target tells: the
last record there that is of the mirror is looked for in the source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from causeway.cluster import EARLIEST, LATEST, Cluster, OffsetAt, log_reader, offsets_at, value_of
from causeway.config import LinkSettings
from causeway.control import MirroredTopic
from causeway.daemon.partitions.adopt import find_place
from causeway.daemon.partitions.discovery import Sides
from causeway.daemon.partitions.transform_upgrade import Behind, places_behind
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError
from causeway.link_topics import Cut, PartitionProgress
from causeway.model import NO_TOPIC_ID, TopicPartition, same_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmirrored:
    """Of one partition of the old source: `records` from offset `first` on, before `end`. `surely`
    false: some of them may be on the target all the same, as nothing tells where the mirror
    ended. `ours`: stretches in between, each from an offset to before another, that a mirror
    wrote: none of these. `deleted`: so many offsets before `first` were not mirrored either, and by
    now the old source has deleted them, as its retention says: nobody can save those."""

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
class Sighting:
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


def look(
    link: LinkSettings,
    sides: Sides,
    topics: Mapping[str, MirroredTopic],
    cuts: Mapping[str, Cut],
    progress: Mapping[TopicPartition, PartitionProgress],
) -> Sighting:
    """`topics`: those that the ended link would mirror; of these, the ones with `cuts` are looked
    at. What has none was not mirrored at all, and is when the link goes on. A topic that
    was made anew on either side holds nothing of the mirror there. Raises CausewayError;
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
        # Of a target that was made anew, all that the old source has is only there.
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
            batches = log_reader.relayed(
                sides.source, at, first, read_committed=link.fetch.read_committed
            )
            count = sum(batch.records for batch in batches)
            if count or deleted:
                unmirrored.append(
                    Unmirrored(
                        at=at, first=first, end=end, records=count, surely=surely, deleted=deleted
                    )
                )
    return Sighting(
        unmirrored=tuple(unmirrored),
        starts=starts,
        gone=_gone(sides.target, starts),
        lost=tuple(lost),
        ends={at: value_of(end) for at, end in ends.items()},
        ids={topic.target: topic.target_id or NO_TOPIC_ID for topic in topics.values()},
    )


def _gone(target: Cluster, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found = offsets_at(target, starts, EARLIEST)
    return {
        at: first - start
        for at, start in sorted(starts.items())
        if isinstance(first := found[at], int) and first > start
    }


def refuse_open(at: TopicPartition, stable: int, end: int) -> None:
    """Raises PartitionsFailedError where `at` cannot be read as far as `end`, but up to its last
    stable offset only: what lies behind would be taken for rolled back, and be missed later."""
    if stable < end:
        raise PartitionsFailedError(
            "fail back",
            str(at),
            f"a transaction is open there from offset {stable} on, so nobody can tell yet what of "
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
        raise ConfigError(
            "fail back",
            str(at),
            "the old source lost records that had been mirrored, and what it ends with is not "
            "found in one place of the target",
            remedy="delete the topic on the old source and make it anew, empty: it is then "
            "mirrored back as a whole",
        )
    return found
