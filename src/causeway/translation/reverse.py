"""Offsets before the beginning of a mirror that continues after a failback.

    source  ├── by the reverse link ──┤ S ── by this link ──
    target  ├────── their origins ──────┤ T ─────────────────

After a failback this link begins right behind the cut of the reverse link, at S. So a source offset
before S has the offset of its origin on the target. Behind the origin, the target has first the
other records that the reverse link has read, and then the records of this link.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.errors import CausewayError
from causeway.link_topics import (
    DirectiveLog,
    LinkDirectives,
    PartitionProgress,
    ProgressContents,
    ProgressTopic,
    offset_maps_of,
)
from causeway.model import State, TopicPartition, same_topic
from causeway.naming import progress_topic
from causeway.translation.course import Course

_LOOK_S = 10.0  # after this time, both topics are read on


class ReverseProgress:
    """The progress topic of the reverse link. Each look reads the new records."""

    def __init__(self, source: Cluster, link: LinkSettings) -> None:
        name = progress_topic(link.target.alias, link.source.alias)
        self._log = ProgressTopic(source, name)
        self._contents: ProgressContents | None = None

    def read(self) -> ProgressContents | None:
        """Returns the progress; None if there is no such topic. Raises CausewayError."""
        if not self._log.exists():
            self._contents = None
        elif self._contents is None:
            self._contents = self._log.read()
        else:
            before, self._contents = self._contents, None  # after an error, all is read again
            before.update(self._log.read(before.end))
            self._contents = before
        return self._contents


def origin_of(
    at: TopicPartition,
    target: TopicPartition,
    begun: int,
    directives: LinkDirectives,
    reverse: ProgressContents,
) -> PartitionProgress | None:
    """Returns the reverse link's progress of `target`, if the link begins `at` right behind its
    cut. `begun`: see PartitionProgress. `directives`: those of the link."""
    start, there = directives.start_of(at), reverse.partitions.get(target)
    if start is None or there is None or begun != start.by:
        return None
    fed = {outlet.at: outlet.pair.target for outlet in there.outlets}
    return there if fed == {at: start.offset} else None


class BeforeFailback:
    """For a task that runs in rounds. Not thread-safe. Uses only the offset map of the reverse
    link, because the isolation level in which its records would have to be counted is not known."""

    def __init__(self, source: Cluster, target: Cluster, link: LinkSettings) -> None:
        self._progress = ReverseProgress(source, link)
        self._directives = DirectiveLog(target, link.directives_topic)
        self._reverse: ProgressContents | None = None
        self._look_at = 0.0

    def places(self, course: Course, offsets: Collection[int]) -> dict[int, int]:
        """Returns the exact target offsets of those source `offsets` before the beginning of
        `course` that the reverse link has mirrored. Empty if a cluster does not answer."""
        if (there := self._ended_at(course)) is None or self._reverse is None:
            return {}
        (outlet,) = there.outlets
        maps = offset_maps_of(there, self._reverse.maps.get(there.source, {}))
        if (known := maps.get(outlet.at)) is None:
            return {}
        first = known.points[0].target
        places = {offset: known.place_back(offset) for offset in offsets if offset >= first}
        return {offset: place for offset, place in places.items() if isinstance(place, int)}

    def brought_to(self, course: Course) -> int:
        """Returns the target offset below which the reverse link has mirrored all records, to
        source offsets before the beginning of `course`. 0 if that is not known."""
        there = self._ended_at(course)
        return 0 if there is None or there.transform is not None else there.outlets[0].pair.source

    def _ended_at(self, course: Course) -> PartitionProgress | None:
        """Returns the reverse link's progress of the same two partitions. None if it did not end at
        the beginning of `course`, or a cluster does not answer."""
        if course.begun < 0:
            return None
        try:
            self._look()
        except CausewayError:
            self._reverse = None
        if self._reverse is None:
            return None
        directives = self._directives.directives
        there = origin_of(course.source, course.target, course.begun, directives, self._reverse)
        if there is None or there.state is State.STOPPED or there.begins:
            return None
        same = same_topic(there.topic_id, course.outlet.topic_id)
        return there if same and same_topic(there.outlets[0].topic_id, course.topic_id) else None

    def _look(self) -> None:
        if (now := time.monotonic()) < self._look_at:
            return
        self._look_at = now + _LOOK_S  # also after an error: each course would wait for a timeout
        self._reverse = self._progress.read()
        if self._reverse is not None:
            self._directives.look()
