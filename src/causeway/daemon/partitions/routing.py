"""Decides which target partitions a source partition feeds, also after partitions were added.

    keys do not decide (like MirrorMaker 2)    the one of the same number; the target grows along
    equal numbers at the beginning             the one of the same number, as long as there is one
    other numbers at the beginning             by key: any partition of the target
    the source outgrows the target             by key, from a source offset on; all records below
                                               it go to the partition of the same number
    the target grows while keys decide         stop: keys would change their partition

With equal numbers on both sides, the hash of a key gives the same partition on source and target.
After the source has grown, its producers use other partitions for keys; then Causeway must keep
each key in its target partition. Transformed records stay in the partition of the same number,
unless the transform decides otherwise.

The sequences of records depend on which records go by key, so all lanes that ever relay a partition
must agree. Therefore the offset at which routing by key begins is past everything that a lane can
have read. Before a lane continues, the progress topic has this offset, and the claims of the other
target partitions.
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
    """Returns `topics` with their current routing. `known`: all claims."""
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
    """Returns the target partitions that source partition `partition` feeds from now on."""
    return tuple(range(topic.target_partitions)) if topic.by_key else (partition,)


def is_other(topic: MirroredTopic, progress: PartitionProgress) -> bool:
    """Returns whether the claim of a partition has other target partitions than it feeds from now
    on."""
    return _fed(progress) != set(targets_of(topic, progress.partition))


def keys_stay(topic: MirroredTopic) -> bool:
    """Returns whether each key stays in its target partition if partitions go by key from now on.
    It does if earlier claims fed all existing target partitions."""
    return topic.by_key and topic.fed == topic.target_partitions


def why_keys_move(topic: MirroredTopic) -> str:
    return (
        f"{topic.source} ({topic.partitions} partitions) went to {topic.fed} partitions of "
        f"{topic.target}, which now has {topic.target_partitions}: partitions were added at "
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
    """Returns `progress` with routing by key from source offset `offset` on. The outlet of the same
    number stays. `producers`: (id, epoch) of the other outlets."""
    own = {outlet.partition: outlet for outlet in progress.outlets}
    outlets = tuple(
        own.get(target)
        or new_outlet(topic, target, producers[target], offset, target_ends[target], link)
        for target in targets_of(topic, progress.partition)
    )
    return progress.replace(outlets=outlets, keys_from=offset, state=State.WAITING, reason=None)


def new_outlet(
    topic: MirroredTopic,
    target: int,
    producer: tuple[int, int],
    start: int,
    end: int,
    link: LinkSettings,
) -> Outlet:
    """Returns the outlet to target partition `target`, whose log ends at `end`, from source offset
    `start` on. `producer`: id and epoch."""
    return Outlet(
        topic=topic.target,
        partition=target,
        topic_id=topic.target_id or NO_TOPIC_ID,
        producer_id=producer[0],
        producer_epoch=producer[1],
        pair=Pair(source=start, target=end, sequence=0),
        exclusive=link.is_sole_writer(topic.source),
        claimed_at=end,
    )


def led_to(known: Iterable[PartitionProgress]) -> frozenset[TopicPartition]:
    """Returns the target partitions to which transforms have led. Several source partitions may
    feed them, so an offset does not identify our record there: no outlet to them is `exclusive`.
    This follows from the claims and is not stored."""
    return frozenset(
        TopicPartition(outlet.topic, outlet.partition)
        for progress in known
        for outlet in progress.outlets
        if outlet.routed is not None
    )


def among_others(progress: PartitionProgress, led: Collection[TopicPartition]) -> PartitionProgress:
    """Returns `progress` in which no outlet to one of `led` is exclusive."""
    outlets = tuple(
        outlet.replace(exclusive=False)
        if outlet.exclusive and (outlet.topic, outlet.partition) in led
        else outlet
        for outlet in progress.outlets
    )
    return progress if outlets == progress.outlets else progress.replace(outlets=outlets)


def _fed(progress: PartitionProgress) -> frozenset[int]:
    return frozenset(outlet.partition for outlet in claim_checks.own_outlets(progress))
