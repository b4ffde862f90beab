"""Which target partitions a source partition feeds, also after numbers of partitions have changed.

    keys do not decide (as MirrorMaker 2)      the one of the same number; the target grows along
    as many on both sides at the beginning     the one of the same number, as long as there is one
    other numbers at the beginning             by key: any of the target's
    the source outgrows the target             by key, from a source offset on; below it, all of
                                               a partition goes to the one of the same number
    the target grows while keys decide         stop: keys would change their partition

With as many on both sides, a key lies where its hash has it, on the source as in the target. The
source's producers hash anew when it grows; that the target's keys stay is up to us from then on.
What goes through a transform stays in the partition of its number, unless the transform says where.

Which records go by key is part of what their sequences mean, so all who ever relay a partition must
agree on it. Hence the offset where that begins lies past all that any lane can have read before,
and is in the progress topic, with the claims of the other target partitions, before one reads on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from causeway.config import LinkSettings
from causeway.control import MirroredTopic, claim_checks
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import NO_TOPIC_ID, Pair, State, TopicPartition


def routed(
    topics: Collection[MirroredTopic],
    known: Mapping[TopicPartition, PartitionProgress],
    link: LinkSettings,
) -> list[MirroredTopic]:
    """`topics` with the way that their records go from now on; `known`: what has been claimed."""
    if link.partitioning != "by-key":
        return list(topics)
    claimed: dict[str, dict[int, frozenset[int]]] = {}
    for at, progress in known.items():
        if progress.outlets:
            claimed.setdefault(at.topic, {})[at.partition] = _fed(progress)
    return [
        _routed(topic, claimed.get(topic.source, {}))
        if link.transform_of(topic.source) is None
        else topic
        for topic in topics
    ]


def _routed(topic: MirroredTopic, claimed: Mapping[int, frozenset[int]]) -> MirroredTopic:
    by_key = (
        any(fed != {partition} for partition, fed in claimed.items())
        or topic.partitions > topic.target_partitions
        or (not claimed and topic.partitions != topic.target_partitions)
    )
    return replace(topic, by_key=by_key, fed=len(frozenset[int]().union(*claimed.values())))


def targets_of(topic: MirroredTopic, partition: int) -> tuple[int, ...]:
    """The target partitions that source partition `partition` feeds from now on."""
    return tuple(range(topic.target_partitions)) if topic.by_key else (partition,)


def is_other(topic: MirroredTopic, progress: PartitionProgress) -> bool:
    """Whether a partition was claimed for other target partitions than it feeds from now on."""
    return _fed(progress) != set(targets_of(topic, progress.partition))


def keys_stay(topic: MirroredTopic) -> bool:
    """Whether each key stays in its target partition if a partition that did not go by key does
    from now on: what was claimed until now has fed as many partitions as there are."""
    return topic.by_key and topic.fed == topic.target_partitions


def why_keys_move(topic: MirroredTopic) -> str:
    return (
        f"{topic.source} ({topic.partitions} partitions) went to {topic.fed} partitions of "
        f"{topic.target}, which has {topic.target_partitions} by now: partitions were added at "
        "the target, and keys would change theirs"
    )


def by_key_from(
    topic: MirroredTopic,
    progress: PartitionProgress,
    offset: int,
    target_ends: Mapping[int, int],
    producers: Mapping[int, tuple[int, int]],
    link: LinkSettings,
) -> PartitionProgress:
    """`progress` of a partition that fed the one of its number, by key from source offset `offset`
    on. That one's outlet stays what it was; `producers` has (id, epoch) of the others."""
    own = {outlet.partition: outlet for outlet in progress.outlets}
    outlets = tuple(
        own.get(target)
        or Outlet(
            topic=topic.target,
            partition=target,
            topic_id=topic.target_id or NO_TOPIC_ID,
            producer_id=producers[target][0],
            producer_epoch=producers[target][1],
            pair=Pair(source=offset, target=target_ends[target], sequence=0),
            exclusive=link.sole_writer,
            claimed_at=target_ends[target],
        )
        for target in targets_of(topic, progress.partition)
    )
    return progress.replace(outlets=outlets, keys_from=offset, state=State.WAITING, reason=None)


def led_to(known: Iterable[PartitionProgress]) -> frozenset[TopicPartition]:
    """The target partitions that transforms have led to. Others may feed them too, another such
    partition as well as one whose mirror it is, so no offset of theirs tells a record of ours: no
    outlet there is `exclusive`. That follows from the claims, and so needs no record of its own."""
    return frozenset(
        TopicPartition(outlet.topic, outlet.partition)
        for progress in known
        for outlet in progress.outlets
        if outlet.routed is not None
    )


def among_others(progress: PartitionProgress, led: Collection[TopicPartition]) -> PartitionProgress:
    """`progress` with no outlet exclusive that is in `led`."""
    outlets = tuple(
        outlet.replace(exclusive=False)
        if outlet.exclusive and (outlet.topic, outlet.partition) in led
        else outlet
        for outlet in progress.outlets
    )
    return progress if outlets == progress.outlets else progress.replace(outlets=outlets)


def _fed(progress: PartitionProgress) -> frozenset[int]:
    return frozenset(outlet.partition for outlet in claim_checks.own_outlets(progress))
