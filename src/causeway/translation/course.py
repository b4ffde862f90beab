"""A course: one source partition and one target partition that it feeds.

Offsets are translated course by course. The driver knows its courses from its registry, a command
from the progress topic (`ProgressCourses`); both give the same `Course` and the same offset maps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from causeway.link_topics import (
    MapRecords,
    OffsetMap,
    Outlet,
    PartitionProgress,
    Span,
    offset_maps_of,
)
from causeway.model import State, TopicPartition
from causeway.relay import Sought


class CourseKey(NamedTuple):
    source: TopicPartition
    target: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """`topic_id`: of the source topic. `placed`: a lane has found the partition's position under
    this leader, so the topics are the same as before. `rewinds`: of the offset maps."""

    source: TopicPartition
    topic_id: str
    outlet: Outlet
    stopped: bool = False
    transformed: bool = False
    placed: bool = True
    rewinds: int = 0

    @classmethod
    def of(
        cls, progress: PartitionProgress, outlet: Outlet, *, placed: bool = True, rewinds: int = 0
    ) -> Course:
        return cls(
            source=progress.source,
            topic_id=progress.topic_id,
            outlet=outlet,
            stopped=progress.state is State.STOPPED,
            transformed=progress.transform is not None,
            placed=placed,
            rewinds=rewinds,
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


class ProgressCourses:
    """The courses of one link by its progress topic, without a running driver.

    `records`: the offset maps of the topic. `multiplied`: see OffsetMap, for a transformed
    partition.
    """

    def __init__(
        self,
        partitions: Iterable[PartitionProgress],
        records: Mapping[TopicPartition, MapRecords],
        multiplied: Callable[[PartitionProgress], bool] = lambda _: True,
    ) -> None:
        self._partitions = tuple(partitions)
        self.maps: dict[CourseKey, OffsetMap] = {
            CourseKey(each.source, target): known
            for each in self._partitions
            for target, known in offset_maps_of(
                each, records.get(each.source, {}), multiplied=multiplied(each)
            ).items()
        }

    @property
    def transforms(self) -> bool:
        return any(each.transform is not None for each in self._partitions)

    def courses(self) -> list[Course]:
        return [
            Course.of(each, outlet)
            for each in self._partitions
            if each.is_mapped
            for outlet in each.outlets
        ]

    def all(self) -> list[Course]:
        """Also the courses of partitions whose keys decide the target partition."""
        return [Course.of(each, outlet) for each in self._partitions for outlet in each.outlets]

    def place(self, key: CourseKey, offsets: Iterable[int]) -> dict[int, int | Span | None] | None:
        known = self.maps.get(key)
        return None if known is None else {offset: known.place(offset) for offset in offsets}

    def end(self, key: CourseKey) -> int | None:
        known = self.maps.get(key)
        return known.points[-1].target if known is not None and known.points else None

    def alone_until(self, key: CourseKey, target: int) -> int:
        """See OffsetMap.alone_until; `target` if the course has no map."""
        known = self.maps.get(key)
        return target if known is None else known.alone_until(target)

    def trim(self, log_starts: Mapping[TopicPartition, int]) -> None:
        for key, known in self.maps.items():
            if key.source in log_starts:
                known.trim(log_starts[key.source])


def shared_by(courses: Iterable[Course]) -> dict[TopicPartition, Collection[TopicPartition]]:
    """The target partitions that several source partitions feed, with the source partitions."""
    sources: dict[TopicPartition, set[TopicPartition]] = defaultdict(set)
    for each in courses:
        sources[each.target].add(each.source)
    return {target: feeding for target, feeding in sources.items() if len(feeding) > 1}
