"""Which partitions are read, from where to where, and how that is cut into tasks."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from causeway.cluster import EARLIEST, LATEST, Cluster, TopicMetadata, bytes_an_offset
from causeway.errors import CausewayError, ConfigError
from causeway.model import TopicPartition
from causeway.patterns import compile_pattern
from causeway.spark.options import Bound, ReadOptions

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets `start` up to, not including, `end`."""

    tp: TopicPartition
    start: int
    end: int


def partitions_of(cluster: Cluster, options: ReadOptions) -> list[TopicPartition]:
    """Those that `options` select, in order. Raises CausewayError: a topic that is named and is
    not there, or may not be seen."""
    if options.partitions is not None:
        return sorted(options.partitions)
    if options.topics is not None:
        found = cluster.metadata(options.topics).topics
        topics = [found[name] for name in options.topics]
    else:
        pattern, _ = compile_pattern(options.pattern or "")
        topics = [
            topic
            for name, topic in cluster.metadata().topics.items()
            if not topic.internal and pattern.matches(name)
        ]
    return sorted(tp for topic in topics for tp in _of_topic(topic))


def _of_topic(topic: TopicMetadata) -> list[TopicPartition]:
    if topic.error is not None:
        raise topic.error
    return [TopicPartition(topic.name, index) for index in topic.partitions]


def looked_up(
    cluster: Cluster, tps: Collection[TopicPartition], timestamp: int, read_committed: bool
) -> Offsets:
    """Of each the offset at `timestamp` (ms, EARLIEST or LATEST), -1 where no record is as late.
    Raises the first CausewayError."""
    found: Offsets = {}
    for tp, answer in cluster.list_offsets(tps, timestamp, read_committed).items():
        if isinstance(answer, CausewayError):
            raise answer
        found[tp] = answer.offset
    return found


def resolved(
    cluster: Cluster, tps: Collection[TopicPartition], bound: Bound, options: ReadOptions
) -> Offsets:
    """Where `bound` lies in each of `tps`. Raises ConfigError for partitions that it names and that
    are not read, or does not name."""
    committed = options.read_committed
    if bound.all_at is not None:
        return looked_up(cluster, tps, bound.all_at, committed)
    named = bound.offsets or bound.times
    if named is not None and set(named) != set(tps):
        odd = sorted(set(named) ^ set(tps))[0]
        what = "is not read" if odd in named else "is missing"
        raise ConfigError("use", f"option {bound.name}", f"{odd} {what}: name each partition")
    found = dict(bound.offsets or {})
    for word in (EARLIEST, LATEST):
        found.update(
            looked_up(cluster, [tp for tp, at in found.items() if at == word], word, committed)
        )
    times = bound.times or {tp: bound.all_from for tp in tps if bound.all_from is not None}
    for moment in set(times.values()):
        if moment is not None and moment >= 0:
            asked = [tp for tp, at in times.items() if at == moment]
            found.update(looked_up(cluster, asked, moment, committed))
    late = [tp for tp, at in found.items() if at < 0]
    late += [tp for tp, at in times.items() if at is not None and at < 0]
    if late and bound.name.startswith("starting") and not options.late_start_is_end:
        raise ConfigError(
            "use",
            f"option {bound.name}",
            f"{late[0]} has no record as late as that",
            remedy="set option startingOffsetsByTimestampStrategy to latest to begin at its end",
        )
    found.update(looked_up(cluster, late, LATEST, committed))
    return found


def split(ranges: Collection[Range], least: int | None) -> list[Range]:
    """At least `least` of them, where there are as many offsets, each about equally long."""
    ranges = [part for part in ranges if part.end > part.start]
    if least is None or len(ranges) >= least:
        return list(ranges)
    total = sum(part.end - part.start for part in ranges)
    parts = []
    for whole in ranges:
        length = whole.end - whole.start
        count = min(length, max(1, math.ceil(length * least / total)))
        cuts = [whole.start + length * i // count for i in range(count + 1)]
        parts += [
            Range(tp=whole.tp, start=cuts[i], end=cuts[i + 1])
            for i in range(count)
            if cuts[i + 1] > cuts[i]
        ]
    return parts


def limited(start: Mapping[TopicPartition, int], end: Offsets, most: int) -> Offsets:
    """`end`, or so much less that about `most` offsets lie between, shared by what each has."""
    sizes = {tp: max(0, at - start[tp]) for tp, at in end.items()}
    total = sum(sizes.values())
    if total <= most:
        return end
    shares = {}
    for tp, size in sizes.items():
        share = most * size / total
        # At least one, or a small partition beside large ones would never be read.
        shares[tp] = start[tp] + min(size, math.ceil(share) if share < 1 else math.floor(share))
    return shares


def limited_by_bytes(
    cluster: Cluster, start: Mapping[TopicPartition, int], end: Offsets, most: int
) -> Offsets:
    """`end`, or so much less that about `most` bytes of the log lie between; what an offset takes
    is told from the first SAMPLE_BYTES of each partition. At least one offset of each."""
    behind = {tp: end[tp] - start[tp] for tp in end if end[tp] > start[tp]}
    each = {tp: bytes_an_offset(cluster, tp, start[tp]) for tp in behind}
    total = sum(behind[tp] * each[tp] for tp in behind)
    if total <= most:
        return end
    cut = dict(end)
    for tp, size in behind.items():
        cut[tp] = start[tp] + max(1, math.floor(size * most / total))
    return cut
