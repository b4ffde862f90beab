"""A course: one source partition and one target partition that it feeds.

Offsets are translated for each course. The driver knows its courses from its registry, and a
command knows them from the progress topic; both give the same `Course` and the same offset maps. A
group has one offset in each target partition, for all courses that feed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from msgspec import structs

from causeway.cluster import EARLIEST
from causeway.control import Commits, GroupCommits, TranslatedOffset
from causeway.link_topics import Outlet, PartitionProgress, Span, Value
from causeway.model import ENDED, State, TopicPartition
from causeway.relay import Sought
from causeway.translation.values import MappedOffset


class CourseKey(NamedTuple):
    source: TopicPartition
    target: TopicPartition


class Course(Value):
    """`topic_id`: that of the source topic. `placed`: a lane has found the partition's position
    under this leader, so the topics are the same as before. `rewinds`: those of the offset maps.
    `begins`, `begun`: see PartitionProgress. `ended`: a person has ended the mirror, so
    applications write to the target."""

    source: TopicPartition
    topic_id: str
    outlet: Outlet
    stopped: bool = False
    transformed: bool = False
    placed: bool = True
    rewinds: int = 0
    begins: bool = False
    begun: int = -1
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
            # If offsets are preserved, a transform changes none, so nothing has to be counted.
            transformed=progress.transform is not None and not progress.preserves,
            placed=placed,
            rewinds=rewinds,
            begins=progress.begins,
            begun=progress.begun,
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
        """Returns the question for `offsets` in `span`, see Sought."""
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
        """Whether any partition is transformed. If not, no two courses share a target partition."""

    def courses(self) -> list[Course]:
        """Returns the courses of all partitions, except those whose keys decide the target
        partition."""

    def place(self, key: CourseKey, offsets: Iterable[int]) -> dict[int, int | Span | None] | None:
        """See OffsetMap.place. None if the course has no map."""

    def end(self, key: CourseKey) -> int | None:
        """Returns the target offset at which the map of the course ends; None if it has no map."""

    def trim(self, log_starts: Mapping[TopicPartition, int]) -> None:
        """Called if the source no longer has the records below these offsets."""


def shared_by(courses: Iterable[Course]) -> dict[TopicPartition, Collection[TopicPartition]]:
    """Returns the target partitions that several source partitions feed, and these source
    partitions."""
    sources: dict[TopicPartition, set[TopicPartition]] = defaultdict(set)
    for each in courses:
        sources[each.target].add(each.source)
    return {target: feeding for target, feeding in sources.items() if len(feeding) > 1}


ByCourse = dict[CourseKey, dict[int, MappedOffset]]  # by source offset


class CourseOffsets(NamedTuple):
    """`offsets`: the results by course and source offset. `shared`: the target partitions that
    several source partitions feed, with the source partitions."""

    offsets: Mapping[CourseKey, Mapping[int, MappedOffset]]
    shared: Mapping[TopicPartition, Collection[TopicPartition]]


def offsets_to_translate(
    followed: GroupCommits, shared: Mapping[TopicPartition, Collection[TopicPartition]]
) -> dict[TopicPartition, set[int]]:
    """Returns the source offsets to translate. Several partitions of a topic may feed one target
    partition. If a group has committed only on some of them, it has read nothing of the others
    (EARLIEST)."""
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    together: dict[str, set[TopicPartition]] = defaultdict(set)
    for feeding in shared.values():
        for at in feeding:
            together[at.topic].add(at)
    for commits in followed.commits.values():
        for at, committed in commits.items():
            offsets[at].add(committed.offset)
        for topic in {at.topic for at in commits} & together.keys() if together else ():
            for at in together[topic] - commits.keys():
                offsets[at].add(EARLIEST)
    return offsets


def group_offsets(
    followed: GroupCommits, found: CourseOffsets
) -> dict[str, dict[TopicPartition, TranslatedOffset]]:
    """Returns, by group and target partition, the first record that the group has not read, from
    all source partitions. A target partition is missing if the offset of one source is unknown."""
    by_source: dict[TopicPartition, list[tuple[TopicPartition, dict[int, TranslatedOffset]]]]
    by_source = defaultdict(list)
    shared: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
    for key, offsets in found.offsets.items():
        if key.target in found.shared:
            shared[key.source].append(key.target)
            continue
        places = {
            offset: TranslatedOffset(offset, place.offset, certain=place.certain)
            for offset, place in offsets.items()
            if place.offset is not None
        }
        by_source[key.source].append((key.target, places))
    answer: dict[str, dict[TopicPartition, TranslatedOffset]] = {}
    for group, commits in followed.commits.items():
        answer[group] = own = {}
        for at, committed in commits.items():
            for target, places in by_source.get(at, ()):
                if (place := places.get(committed.offset)) is not None:
                    metadata = committed.metadata
                    own[target] = structs.replace(place, metadata=metadata) if metadata else place
        fed = {target: None for at in commits for target in shared.get(at, ())} if shared else {}
        for target in fed:
            if (least := _least(commits, target, found)) is not None:
                own[target] = least
    return answer


def _least(
    commits: Commits, target: TopicPartition, found: CourseOffsets
) -> TranslatedOffset | None:
    """Returns the offset of a group with these `commits` in a target partition that several source
    partitions feed."""
    topics = {at.topic for at in commits}
    least: TranslatedOffset | None = None
    certain = True
    sources = sorted(at for at in found.shared[target] if at.topic in topics)
    for at in sources:
        committed = commits.get(at)
        offset = EARLIEST if committed is None else committed.offset
        place = found.offsets.get(CourseKey(at, target), {}).get(offset)
        if place is None or place.offset is None:
            return None
        certain &= place.certain
        if least is None or place.offset < least.downstream:
            metadata = "" if committed is None else committed.metadata
            least = TranslatedOffset(max(0, offset), place.offset, metadata)
    assert least is not None
    return structs.replace(least, certain=certain, alone=len(sources) == 1)


def inexact(followed: GroupCommits, found: CourseOffsets) -> dict[str, str]:
    """Returns the reasons why offsets are not exact, by group and source partition."""
    notes: dict[str, str] = {}
    for key, offsets in found.offsets.items():
        noted = {offset: place.note for offset, place in offsets.items() if place.note}
        if not noted:
            continue
        for group, commits in followed.commits.items():
            committed = commits.get(key.source)
            if committed is not None and (note := noted.get(committed.offset)):
                notes[f"{group} on {key.source}"] = note
    return notes
