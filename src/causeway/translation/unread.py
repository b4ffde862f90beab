"""Finds records on the target that a group has not read, before its translated offset there.

    target  [local][ours 0…9][C's][ours 10…19]│        the group has read 15 records of ours: by the
             ▲                ▲         ▲              mirror alone it goes on at 15, and would skip
             1                2         place          1 and 2, which others wrote

A commit must not pass such a record. The group has read all records before its own commit on the
target, our records up to its translated offset, and another link's records up to its checkpoint by
that link, and all records that a reverse link brought to the source before a failback. All other
records are unread: records of programs, records of a source on which the group has committed
nothing, and our records of topics on which it has committed nothing.

If the offset map shows that each offset is one of our records, the log is not read. Other
ranges are read once for all groups, and each group continues from the end of its last look.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import EARLIEST, Cluster, OffsetAt, log_reader
from causeway.config import LinkSettings
from causeway.control import Commits, Translated, UnreadRecord, groups, read_checkpoints
from causeway.errors import CausewayError
from causeway.link_topics import (
    MapRecords,
    OtherFeed,
    PartitionProgress,
    TopicLog,
    feeds_of_other_links,
    offset_maps_of,
)
from causeway.model import TopicPartition
from causeway.records import CONTROL, MAGIC, MAGIC_AT, BatchHeader
from causeway.translation.course import Course, CourseKey

_LOOK_S = 10.0  # a round reads for this time; the next round reads the rest
_FEEDS_S = 30.0  # after this time, the claims of other links are read again

BroughtTo = Callable[[Course], int]
AloneUntil = Callable[[CourseKey, int], int]  # see OffsetMap.alone_until


class UnreadRange(NamedTuple):
    """The target offsets from a group's commit, or the log start, to its translated offset."""

    start: int
    place: int


class _Batch(NamedTuple):
    base: int
    last: int
    producer_id: int  # -1 if it has none
    control: bool = False


@dataclass(slots=True)
class _GroupLook:
    """The records of a target partition that one group has read: all from `start` to `position`, of
    the records before `place`. `blocked`: the batch that stopped the look, and `why`."""

    group: str
    start: int
    position: int
    place: int = 0
    blocked: _Batch | None = None
    why: str = ""

    @property
    def going(self) -> bool:
        return self.blocked is None and self.position < self.place


class _OtherWriters:
    """Other links that write to the target, and the offsets up to which groups have read their
    records."""

    def __init__(self, target: Cluster, link: LinkSettings) -> None:
        self.target = target
        self._link = link
        self._feeds: Mapping[TopicPartition, Collection[OtherFeed]] | None = None
        self._feeds_at = 0.0
        self._checkpoints: dict[str, Mapping[tuple[str, TopicPartition], int]] = {}
        self.source = link.source.alias

    def refresh(self, *, feeds: bool = False) -> None:
        """Makes checkpoints be read again, and claims if they are old or `feeds` is set."""
        self._checkpoints.clear()
        if feeds or time.monotonic() - self._feeds_at > _FEEDS_S:
            self._feeds = None

    def link_of(self, at: TopicPartition, producer_id: int) -> str | None:
        """Returns the alias of another link's source, if that link has this producer id."""
        if self._feeds is None:
            self._feeds = feeds_of_other_links(self.target, self._link.progress_topic)
            self._feeds_at = time.monotonic()
        for each in self._feeds.get(at, ()):
            if producer_id in each.producers and producer_id >= 0:
                return each.source
        return None

    def checkpoint(self, source: str, group: str, at: TopicPartition) -> int | None:
        """Returns the target offset up to which the group has read the records of `source`."""
        if source not in self._checkpoints:
            topic = TopicLog(self.target, self._link.policy.checkpoints_topic(source))
            try:
                self._checkpoints[source] = _checkpoints(topic)
            except CausewayError:
                self._checkpoints[source] = {}  # then records from that source count as unread
        return self._checkpoints[source].get((group, at))


class _PartitionLook:
    """One look through the target partition that `courses` feed, for all groups with an offset
    there. `unfinished`: the time was too short, or the log could not be read now."""

    def __init__(
        self,
        others: _OtherWriters,
        courses: Sequence[Course],
        looks: Collection[_GroupLook],
        commits: Mapping[str, Commits] | None,
        alone_until: AloneUntil,
    ) -> None:
        """`looks`: those of earlier rounds, which are updated. `commits`: see
        UnreadRecords.look."""
        self._others, self._courses, self._looks = others, courses, looks
        self._at = courses[0].target
        self._ours = {
            number: each.source
            for each in courses
            for number in (*each.outlet.earlier, each.outlet.producer_id)
            if number >= 0
        }
        self._commits = commits
        self._alone_until = alone_until
        self.unfinished = False

    def run(self, until: float) -> dict[str, UnreadRecord]:
        """Returns the unread record of each group that has one."""
        for look in self._looks:
            if look.blocked is not None and look.position < look.place:
                batch, look.blocked = look.blocked, None
                self._take(look, batch)
        reason = "records that are still to be checked"
        try:
            self._go(until)
            self.unfinished = any(look.going for look in self._looks)
        except CausewayError as error:  # an error of one partition does not delay the others
            reason = f"records that cannot be checked now: {error}"
            self.unfinished = error.retriable
        return {
            look.group: UnreadRecord(look.position, reason if look.blocked is None else look.why)
            for look in self._looks
            if look.position < look.place
        }

    def _straight(self, offset: int) -> int:
        """Returns the end of a run of offsets from `offset` on, each a record of the only source
        partition that feeds the partition. Returns `offset` if that is not known."""
        if len(self._courses) != 1:
            return offset
        return max(offset, self._alone_until(self._courses[0].key, offset))

    def _go(self, until: float) -> None:
        """Reads for the groups that are not blocked, until the time is over. Raises
        CausewayError."""
        while going := [look for look in self._looks if look.going]:
            start = min(look.position for look in going)
            straight = self._straight(start)
            if straight > start:
                ours = _Batch(start, straight - 1, self._courses[0].outlet.producer_id)
                for look in going:
                    if look.position < straight:
                        self._take(look, ours)
                continue
            if time.monotonic() > until:
                return
            self._walk(going, start, max(look.place for look in going), until)

    def _walk(self, going: Collection[_GroupLook], start: int, end: int, until: float) -> None:
        reached = start
        for batch in self._batches(start, end):
            if batch.base > reached and self._straight(reached) > reached:
                return  # the map knows the next records
            for look in going:
                if look.blocked is None and look.position <= batch.last:
                    self._take(look, batch)
            reached = batch.last + 1
            if time.monotonic() > until or not any(look.going for look in going):
                return
            if self._straight(reached) > reached:
                return
        for look in going:  # no more records before the end: compaction may have removed them
            if look.blocked is None:
                look.position = max(look.position, end)

    def _batches(self, start: int, end: int) -> Iterator[_Batch]:
        for raw in log_reader.raw_batches(
            self._others.target, self._at, start, end, every_format=True
        ):
            if raw[MAGIC_AT] < MAGIC:
                # The header of such a message set has only its last offset.
                yield _Batch(start, int.from_bytes(raw[:8]), -1)
            else:
                batch = BatchHeader.of(raw)
                control = bool(batch.attributes & CONTROL)
                yield _Batch(batch.base, batch.last, batch.producer_id, control)

    def _take(self, look: _GroupLook, batch: _Batch) -> None:
        """Moves `look` over the records of `batch` that the group has read."""
        read_to, why = self._read_to(look.group, batch)
        look.position = max(look.position, min(read_to, batch.last + 1))
        if read_to <= batch.last and look.position < look.place:
            look.position = max(look.position, batch.base)
            look.blocked, look.why = batch, why

    def _read_to(self, group: str, batch: _Batch) -> tuple[int, str]:
        """Returns the offset up to which the group has read `batch`, and a text about the rest."""
        if batch.control:
            return batch.last + 1, ""
        source = self._ours.get(batch.producer_id)
        if source is not None:
            commits = None if self._commits is None else self._commits.get(group, {})
            if commits is None or any(at.topic == source.topic for at in commits):
                return batch.last + 1, ""
            why = f"a record of {source.topic}, on which the group has committed nothing"
            return batch.base, why
        other = self._others.link_of(self._at, batch.producer_id)
        if other is None:
            return batch.base, f"a record that did not come from {self._others.source}"
        place = self._others.checkpoint(other, group, self._at)
        why = f"a record from {other} that the group has not read there"
        return (batch.base if place is None else place), why


def _checkpoints(topic: TopicLog) -> dict[tuple[str, TopicPartition], int]:
    return {(each.group, each.partition): each.downstream for each in read_checkpoints(topic)}


class UnreadRecords:
    """Finds the unread records of one link's groups. Not thread-safe. `unfinished`: the last look
    had too little time, and the next look continues. `brought_to`: see BeforeFailback."""

    def __init__(
        self, target: Cluster, link: LinkSettings, brought_to: BroughtTo = lambda _: 0
    ) -> None:
        self._target, self._brought_to = target, brought_to
        self._others = _OtherWriters(target, link)
        # With a reverse flow, programs may have written between copies of another tool.
        self._trusts_copies = link.reverse is None
        self._courses: Collection[Course] = ()
        self._alone_until: AloneUntil = lambda _, offset: offset
        self._shared: set[TopicPartition] = set()  # of all calls of `take`
        self._known: dict[tuple[str, TopicPartition], _GroupLook] = {}
        self.unfinished = False

    def take(self, courses: Iterable[Course], alone_until: AloneUntil) -> set[TopicPartition]:
        """Takes the present courses, for `ranges` and `look`. Returns the target partitions that
        others may write to, and whose source partitions are not yet taken up again after a restart.
        No commit may be made there."""
        self._courses = list(courses)
        self._alone_until = alone_until
        self._shared |= self.shared()
        return self._shared - {each.target for each in self._courses}

    def shared(self) -> set[TopicPartition]:
        """Returns the target partitions that may have records of others."""
        return {each.target for each in self._courses if not each.outlet.exclusive}

    def forget(self) -> None:
        """Forgets all results, because another driver may have led."""
        self._known.clear()
        self._shared.clear()
        self._others.refresh(feeds=True)

    def ranges(
        self,
        places: Translated,
        there: Mapping[str, Commits | CausewayError],
        ends: Mapping[TopicPartition, int],
    ) -> dict[str, dict[TopicPartition, UnreadRange]]:
        """Returns the ranges to read. `there`: the groups' commits on the target. `ends`: the ends
        of the target's logs. Raises CausewayError."""
        shared = self.shared() & ends.keys()
        if not shared:
            return {}
        asked = {at for offsets in places.values() for at in offsets} & shared
        found = self._target.list_offsets(sorted(asked), EARLIEST) if asked else {}
        starts = {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}
        ranges: dict[str, dict[TopicPartition, UnreadRange]] = {}
        for group, offsets in places.items():
            own = there.get(group, {})
            if isinstance(own, CausewayError):
                continue
            ranges[group] = {
                at: UnreadRange(
                    start=max(own[at].offset if at in own else 0, starts.get(at, 0)),
                    place=min(translated.downstream, ends[at]),
                )
                for at, translated in offsets.items()
                if at in asked
            }
        return ranges

    def reasons(
        self,
        unread: Mapping[str, Mapping[TopicPartition, UnreadRecord]],
        followed: Mapping[str, Commits],
    ) -> dict[str, str]:
        """Returns why groups are held back, by group and partition of the source."""
        return {
            f"{group} on {each.source}": groups.held_back(at, held)
            for group, found in unread.items()
            for at, held in found.items()
            for each in self._courses
            if each.target == at and each.source in followed[group]
        }

    def look(
        self,
        wanted: Mapping[str, Mapping[TopicPartition, UnreadRange]],
        commits: Mapping[str, Commits] | None,
    ) -> dict[str, dict[TopicPartition, UnreadRecord]]:
        """Returns the first unread record before each place, or else the offset that a look has
        reached; nothing if all is read. `commits`: the groups' commits on the source; None: each
        group has read all records of the link before its place. Raises CausewayError."""
        self.unfinished = False
        self._others.refresh()
        feeding: dict[TopicPartition, list[Course]] = defaultdict(list)
        for each in self._courses:
            feeding[each.target].append(each)
        before, self._known = self._known, {}
        by_partition: dict[TopicPartition, list[_GroupLook]] = defaultdict(list)
        for group, ranges in wanted.items():
            for at, (begin, place) in ranges.items():
                copied_to = max((each.outlet.copied_to for each in feeding[at]), default=0)
                copied_to *= self._trusts_copies
                if len(feeding[at]) == 1:
                    copied_to = max(copied_to, self._brought_to(feeding[at][0]))
                start = max(begin, min(copied_to, place))
                known = before.get((group, at))
                # An earlier look counts if it covered all from `start` on.
                if known is None or not known.start <= start <= known.position:
                    known = _GroupLook(group, start, start)
                known.place = place
                self._known[group, at] = known
                if feeding[at]:
                    by_partition[at].append(known)
        until = time.monotonic() + _LOOK_S
        found: dict[str, dict[TopicPartition, UnreadRecord]] = defaultdict(dict)
        for at, looks in by_partition.items():
            look = _PartitionLook(self._others, feeding[at], looks, commits, self._alone_until)
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
        """Returns the first unread record before each place, by group, without a running driver.

        `records`: the offset maps of the progress topic. `there`: the groups' commits on the
        target. `commits`: see `look`. Records that are not checked after `wait_s` count as unread.
        Raises CausewayError.
        """
        shared = [one for one in partitions if not all(each.exclusive for each in one.outlets)]
        if not shared:
            return {}
        maps = {
            CourseKey(each.source, target): known
            for each in shared
            for target, known in offset_maps_of(each, records.get(each.source, {})).items()
        }
        self.take(
            (Course.of(each, outlet) for each in shared for outlet in each.outlets),
            lambda key, target: maps[key].alone_until(target) if key in maps else target,
        )
        ends: dict[TopicPartition, int] = {}
        for offsets in places.values():
            for at, translated in offsets.items():
                ends[at] = max(ends.get(at, 0), translated.downstream)
        deadline = time.monotonic() + wait_s
        while True:
            found = self.look(self.ranges(places, there, ends), commits)
            if not self.unfinished or time.monotonic() > deadline:
                return found
