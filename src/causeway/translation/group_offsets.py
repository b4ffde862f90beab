"""Combines translated offsets to the offsets of groups in the target partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from causeway.cluster import EARLIEST, Committed
from causeway.control import Followed, TranslatedOffset
from causeway.model import TopicPartition
from causeway.translation.course import CourseKey
from causeway.translation.values import MappedOffset

ByCourse = dict[CourseKey, dict[int, MappedOffset]]  # by source offset


class CourseOffsets(NamedTuple):
    """`offsets`: by course and source offset. `shared`: the target partitions that several source
    partitions feed, with the source partitions."""

    offsets: Mapping[CourseKey, Mapping[int, MappedOffset]]
    shared: Mapping[TopicPartition, Collection[TopicPartition]]


def offsets_to_translate(
    followed: Followed, shared: Mapping[TopicPartition, Collection[TopicPartition]]
) -> dict[TopicPartition, set[int]]:
    """The source offsets to translate. If several partitions of a topic feed one target partition,
    and a group has committed on some of them, it has read nothing of the others."""
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    together: dict[str, set[TopicPartition]] = defaultdict(set)
    for feeding in shared.values():
        for at in feeding:
            together[at.topic].add(at)
    for commits in followed.commits.values():
        for at, committed in commits.items():
            offsets[at].add(committed.offset)
        for topic in {at.topic for at in commits} & together.keys():
            for at in together[topic] - commits.keys():
                offsets[at].add(EARLIEST)
    return offsets


def group_offsets(
    followed: Followed, found: CourseOffsets
) -> dict[str, dict[TopicPartition, TranslatedOffset]]:
    """By group and target partition: the first record that the group has not read, from any of the
    source partitions. A target partition is missing if the offset of one source is not known."""
    by_source: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
    for key in found.offsets:
        by_source[key.source].append(key.target)
    answer: dict[str, dict[TopicPartition, TranslatedOffset]] = {}
    for group, commits in followed.commits.items():
        topics = {at.topic for at in commits}
        targets = {target for at in commits for target in by_source.get(at, ())}
        answer[group] = {}
        for target in targets:
            feeding = {at for at in found.shared.get(target, ()) if at.topic in topics}
            feeding |= {at for at in commits if target in by_source.get(at, ())}
            stand = _stand(target, {at: commits.get(at) for at in feeding}, found)
            if stand is not None:
                answer[group][target] = stand
    return answer


def _stand(
    target: TopicPartition,
    commits: Mapping[TopicPartition, Committed | None],
    found: CourseOffsets,
) -> TranslatedOffset | None:
    least: TranslatedOffset | None = None
    certain = True
    for at, committed in sorted(commits.items()):
        offset = EARLIEST if committed is None else committed.offset
        place = found.offsets.get(CourseKey(at, target), {}).get(offset)
        if place is None or place.offset is None:
            return None
        certain &= place.exact and place.mirrored
        if least is None or place.offset < least.downstream:
            metadata = "" if committed is None else committed.metadata
            least = TranslatedOffset(
                upstream=max(0, offset), downstream=place.offset, metadata=metadata
            )
    if least is None:
        return None
    return least._replace(certain=certain, alone=len(commits) == 1)


def inexact(followed: Followed, found: CourseOffsets) -> dict[str, str]:
    """Why offsets are not exact, by group and source partition."""
    notes: dict[str, str] = {}
    for key, offsets in found.offsets.items():
        for group, commits in followed.commits.items():
            committed = commits.get(key.source)
            if committed and (place := offsets.get(committed.offset)) and place.note:
                notes[f"{group} on {key.source}"] = place.note
    return notes
