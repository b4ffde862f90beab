"""A course: one source partition and one target partition that it feeds.

Offsets are translated course by course. The driver knows its courses from its registry, a command
from the progress topic; both give the same `Course` and the same offset maps. A group has one
offset in each target partition, of all courses that feed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from causeway.cluster import EARLIEST
from causeway.control import GroupCommits, TranslatedOffset
from causeway.link_topics import Outlet, PartitionProgress, Span
from causeway.model import ENDED, State, TopicPartition
from causeway.relay import Sought
from causeway.translation.values import MappedOffset


class CourseKey(NamedTuple):
    source: TopicPartition
    target: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """`topic_id`: of the source topic. `placed`: a lane has found the partition's position under
    this leader, so the topics are the same as before. `rewinds`: of the offset maps. `begins`: see
    PartitionProgress. `ended`: by a person, so that applications write to the target."""

    source: TopicPartition
    topic_id: str
    outlet: Outlet
    stopped: bool = False
    transformed: bool = False
    placed: bool = True
    rewinds: int = 0
    begins: bool = False
    ended: bool = False

    @classmethod
    def of(
        cls, progress: PartitionProgress, outlet: Outlet, *, placed: bool = True, rewinds: int = 0
    ) -> Course:
        return cls(
            source=progress.source,
            topic_id=progress.topic_id,
            outlet=outlet,
            stopped=progress.state is State.STOPPED,
            # Where offsets are preserved, a transform changes none: nothing has to be counted.
            transformed=progress.transform is not None and not progress.preserves,
            placed=placed,
            rewinds=rewinds,
            begins=progress.begins,
            ended=progress.state in ENDED,
        )

    @property
    def target(self) -> TopicPartition:
        return self.outlet.at

    @property
    def key(self) -> CourseKey:
        return CourseKey(self.source, self.outlet.at)

    def sought(
        self, span: Span, offsets: Iterable[int], *, read_committed: bool, floor: int = 0
    ) -> Sought:
        """Asks the logs for `offsets` in `span`, see Sought."""
        return Sought(
            source=self.source,
            target=self.target,
            producer_id=self.outlet.producer_id,
            read_committed=read_committed,
            span=span,
            offsets=list(offsets),
            floor=floor,
        )


class Courses(Protocol):
    """The courses of one link and their offset maps."""

    @property
    def transforms(self) -> bool:
        """Whether a partition is transformed. Otherwise no two courses share a target partition."""

    def courses(self) -> list[Course]:
        """The courses of partitions whose keys do not decide the target partition."""

    def place(self, key: CourseKey, offsets: Iterable[int]) -> dict[int, int | Span | None] | None:
        """See OffsetMap.place; None if the course has no map."""

    def end(self, key: CourseKey) -> int | None:
        """The target offset up to which the map of the course goes."""

    def trim(self, log_starts: Mapping[TopicPartition, int]) -> None:
        """The source no longer has the records below these offsets."""


def shared_by(courses: Iterable[Course]) -> dict[TopicPartition, Collection[TopicPartition]]:
    """The target partitions that several source partitions feed, with the source partitions."""
    sources: dict[TopicPartition, set[TopicPartition]] = defaultdict(set)
    for each in courses:
        sources[each.target].add(each.source)
    return {target: feeding for target, feeding in sources.items() if len(feeding) > 1}


ByCourse = dict[CourseKey, dict[int, MappedOffset]]  # by source offset


class CourseOffsets(NamedTuple):
    """`offsets`: by course and source offset. `shared`: the target partitions that several source
    partitions feed, with the source partitions."""

    offsets: Mapping[CourseKey, Mapping[int, MappedOffset]]
    shared: Mapping[TopicPartition, Collection[TopicPartition]]


def offsets_to_translate(
    followed: GroupCommits, shared: Mapping[TopicPartition, Collection[TopicPartition]]
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
    followed: GroupCommits, found: CourseOffsets
) -> dict[str, dict[TopicPartition, TranslatedOffset]]:
    """By group and target partition: the first record that the group has not read, from any of the
    source partitions. A target partition is missing if the offset of one source is not known."""
    by_source: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
    for key in found.offsets:
        by_source[key.source].append(key.target)
    answer: dict[str, dict[TopicPartition, TranslatedOffset]] = {}
    for group, commits in followed.commits.items():
        topics = {at.topic for at in commits}
        feeding: dict[TopicPartition, set[TopicPartition]] = defaultdict(set)
        for at in commits:
            for target in by_source.get(at, ()):
                feeding[target].add(at)
        answer[group] = {}
        for target, sources in feeding.items():
            sources |= {at for at in found.shared.get(target, ()) if at.topic in topics}
            least: TranslatedOffset | None = None
            certain = True
            for at in sorted(sources):
                committed = commits.get(at)
                offset = EARLIEST if committed is None else committed.offset
                place = found.offsets.get(CourseKey(at, target), {}).get(offset)
                if place is None or place.offset is None:
                    break
                certain &= place.exact and place.mirrored
                if least is None or place.offset < least.downstream:
                    metadata = "" if committed is None else committed.metadata
                    least = TranslatedOffset(max(0, offset), place.offset, metadata)
            else:
                assert least is not None
                alone = len(sources) == 1
                answer[group][target] = least._replace(certain=certain, alone=alone)
    return answer


def inexact(followed: GroupCommits, found: CourseOffsets) -> dict[str, str]:
    """Why offsets are not exact, by group and source partition."""
    notes: dict[str, str] = {}
    for key, offsets in found.offsets.items():
        for group, commits in followed.commits.items():
            committed = commits.get(key.source)
            if committed and (place := offsets.get(committed.offset)) and place.note:
                notes[f"{group} on {key.source}"] = place.note
    return notes
