"""Finds records on the target that a group has not read, before its translated offset there.

    target  [local][ours 0…9][C's][ours 10…19]│        the group has read 15 records of ours: by the
             ▲                ▲         ▲              mirror alone it goes on at 15, and would skip
             1                2         place          1 and 2, which others wrote

A commit must not pass such a record. The group has read all before its own commit on the target,
our records up to its translated offset, and another link's records up to its checkpoint by that
link. All other records are unread: records of programs, records of a source on which the group has
committed nothing, and our records of topics on which it has committed nothing.

If the offset map shows that each offset is one of our records, the log is not read. Other
ranges are read once for all groups, and each group continues from the end of its last look.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from causeway.cluster import EARLIEST, Cluster, OffsetAt
from causeway.config import LinkSettings
from causeway.control import Commits, Translated, UnreadRecord, groups
from causeway.errors import CausewayError
from causeway.link_topics import MapRecords, PartitionProgress
from causeway.model import TopicPartition
from causeway.translation.course import Course, ProgressCourses
from causeway.translation.unread_look import (
    AloneUntil,
    GroupLook,
    OtherWriters,
    PartitionLook,
    PartitionWriters,
    UnreadRange,
)

_LOOK_S = 10.0  # a round reads for this long; the next round reads the rest


class UnreadRecords:
    """The unread records of one link's groups. Not thread-safe. `unfinished`: the last look ran out
    of time, and the next one finds more."""

    def __init__(self, target: Cluster, link: LinkSettings) -> None:
        self._target = target
        self._others = OtherWriters(target, link)
        self._courses: Collection[Course] = ()
        self._alone_until: AloneUntil = lambda _, offset: offset
        self._shared: set[TopicPartition] = set()  # in all looks
        self._known: dict[tuple[str, TopicPartition], GroupLook] = {}
        self.unfinished = False

    def take(self, courses: Iterable[Course], alone_until: AloneUntil) -> set[TopicPartition]:
        """Takes the courses as they are now, for `ranges` and `look`. Returns the target partitions
        that others may write to, and whose source partitions are just being taken up again after a
        restart. No commit may be made there."""
        self._courses = list(courses)
        self._alone_until = alone_until
        self._shared |= self.shared()
        return self._shared - {each.target for each in self._courses}

    def shared(self) -> set[TopicPartition]:
        """Target partitions that may hold records of others."""
        return {each.target for each in self._courses if not each.outlet.exclusive}

    def forget(self) -> None:
        """Another driver may have led since."""
        self._known.clear()
        self._shared.clear()
        self._others.refresh(feeds=True)

    def ranges(
        self,
        places: Translated,
        there: Mapping[str, Commits | CausewayError],
        ends: Mapping[TopicPartition, int],
    ) -> dict[str, dict[TopicPartition, UnreadRange]]:
        """The ranges to look at. `there`: the groups' commits on the target; `ends`: the ends of
        the target's logs. Raises CausewayError."""
        shared = self.shared() & ends.keys()
        asked = {at for stands in places.values() for at in stands} & shared
        found = self._target.list_offsets(sorted(asked), EARLIEST) if asked else {}
        starts = {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}
        ranges: dict[str, dict[TopicPartition, UnreadRange]] = {}
        for group, stands in places.items():
            own = there.get(group, {})
            if isinstance(own, CausewayError):
                continue
            ranges[group] = {
                at: UnreadRange(
                    start=max(own[at].offset if at in own else 0, starts.get(at, 0)),
                    place=min(stand.downstream, ends[at]),
                )
                for at, stand in stands.items()
                if at in asked
            }
        return ranges

    def reasons(
        self,
        unread: Mapping[str, Mapping[TopicPartition, UnreadRecord]],
        followed: Mapping[str, Commits],
    ) -> dict[str, str]:
        """Why groups are held back, by group and partition of the source."""
        feeding: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
        for each in self._courses:
            feeding[each.target].append(each.source)
        return {
            f"{group} on {source}": groups.held_back(at, held)
            for group, found in unread.items()
            for at, held in found.items()
            for source in feeding[at]
            if source in followed[group]
        }

    def look(
        self,
        wanted: Mapping[str, Mapping[TopicPartition, UnreadRange]],
        commits: Mapping[str, Commits] | None,
    ) -> dict[str, dict[TopicPartition, UnreadRecord]]:
        """The first unread record before each place, or else how far a look has come; nothing
        if all is read. `commits`: of the groups on the source; None: each group has read all
        that the link brought before its place. Raises CausewayError."""
        self.unfinished = False
        self._others.refresh()
        asked = {(group, at) for group, ranges in wanted.items() for at in ranges}
        self._known = {key: known for key, known in self._known.items() if key in asked}
        by_partition: dict[TopicPartition, dict[str, UnreadRange]] = defaultdict(dict)
        for group, ranges in wanted.items():
            for at, one in ranges.items():
                by_partition[at][group] = one
        until = time.monotonic() + _LOOK_S
        found: dict[str, dict[TopicPartition, UnreadRecord]] = defaultdict(dict)
        for at, partition in self._writers(by_partition).items():
            groups = by_partition[at]
            known = {
                group: self._known_of(
                    group, at, max(one.start, min(partition.copied_to, one.place))
                )
                for group, one in groups.items()
            }
            look = PartitionLook(self._others, partition, groups, known, commits, self._alone_until)
            for group, unread in look.run(until).items():
                found[group][at] = unread
            self.unfinished |= look.unfinished
        return found

    def look_by_progress(
        self,
        partitions: Iterable[PartitionProgress],
        records: Mapping[TopicPartition, MapRecords],
        places: Translated,
        there: Mapping[str, Commits | CausewayError],
        commits: Mapping[str, Commits] | None,
        *,
        wait_s: float,
    ) -> Mapping[str, Mapping[TopicPartition, UnreadRecord]]:
        """The first unread record before each place, by group, without a running driver.

        `records`: the offset maps of the progress topic; `there`: the groups' commits on the
        target; `commits`: see `look`. Records that are not checked after `wait_s` count as unread.
        Raises CausewayError.
        """
        shared = [one for one in partitions if not all(each.exclusive for each in one.outlets)]
        if not shared:
            return {}
        courses = ProgressCourses(shared, records)
        self.take(courses.all(), courses.alone_until)
        ends: dict[TopicPartition, int] = {}
        for stands in places.values():
            for at, stand in stands.items():
                ends[at] = max(ends.get(at, 0), stand.downstream)
        deadline = time.monotonic() + wait_s
        while True:
            found = self.look(self.ranges(places, there, ends), commits)
            if not self.unfinished or time.monotonic() > deadline:
                return found

    def _known_of(self, group: str, at: TopicPartition, start: int) -> GroupLook:
        """The earlier result for the group, if it holds from `start` on; else a new one."""
        known = self._known.get((group, at))
        if known is None or not known.start <= start <= known.position:
            known = self._known[group, at] = GroupLook(start, start)
        return known

    def _writers(
        self, wanted: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionWriters]:
        feeding: dict[TopicPartition, list[Course]] = defaultdict(list)
        for each in self._courses:
            if each.target in wanted:
                feeding[each.target].append(each)
        return {
            at: PartitionWriters(
                at=at,
                ours={
                    number: each.source
                    for each in together
                    for number in (*each.outlet.earlier, each.outlet.producer_id)
                    if number >= 0
                },
                keys=[each.key for each in together],
                copied_to=max(each.outlet.copied_to for each in together),
            )
            for at, together in feeding.items()
        }
