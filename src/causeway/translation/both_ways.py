"""Finds where groups go on if programs write a topic on both clusters under the same name.

    A   a0 a1 b0' a2 b1' a3      the group has read all before offset 4: a0 a1 b0' a2
    B   b0 a0' b1 a1' a2' b2     it has read b0 a0' a1' a2', and goes on at b1

No record may be skipped, so the group goes on at the least offset of these two:

    the first record of A that it has not read     the offset map of the link, A->B
    the first record of B that it has not read     the offset map of the reverse link, B->A, read
                                                   backwards: the origin of the first copy that is
                                                   at the group's offset or later

No later offset is right. The group reads some records again: those behind the lower offset and
before the higher one that it has read on A.

The reverse link may run in another driver: its progress topic on A shows its progress, which may be
old. Then the offset on B is lower, never higher (`model.Pair`). The logs show the rest, as for
`causeway translate`. Records that were on B before the reverse link began never came to A.
`UnreadRecords` looks for them.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from msgspec import structs

from causeway.cluster import Cluster
from causeway.config import LinkSettings, ReverseFlow
from causeway.control import (
    GroupCommits,
    Translated,
    TranslatedOffset,
    only_treated,
    with_treatments,
)
from causeway.errors import CausewayError
from causeway.link_topics import (
    PartitionProgress,
    ProgressContents,
    offset_maps_of,
)
from causeway.model import State, TopicPartition
from causeway.relay import Topics, steps_become
from causeway.translation import counting, directions
from causeway.translation.course import Course, CourseKey
from causeway.translation.logs import LinkLogs, MappedCourse, logs_on, problem_of
from causeway.translation.reverse import ReverseProgress
from causeway.translation.unread import UnreadRange
from causeway.translation.values import MappedOffset, OffsetNote

_LOOK_S = 10.0  # a round reads logs for this time; the next round reads the rest


class Again(NamedTuple):
    """The number of records that a group reads again: at least, and at most."""

    least: int
    most: int

    def within(self, most: int) -> Again:
        return Again(min(self.least, most), min(self.most, most))


# OffsetMap.read_again for the map of the link itself.
ReadAgain = Callable[[CourseKey, int, int], tuple[int, int]]


def first_unread(
    mapped: MappedCourse, offsets: Collection[int], logs: LinkLogs
) -> dict[int, MappedOffset]:
    """Finds, for each offset of a group on the target of `mapped`, the first record of the source
    that the group has not read, or an earlier offset. `mapped` is a course of the reverse link.
    Raises nothing."""
    course, problem = mapped.course, mapped.problem
    if problem is not None:
        note = problem.note
        return {offset: MappedOffset(course.source, None, problem.why, note) for offset in offsets}
    found = directions.translate(mapped, offsets, logs, back=True)
    return {
        offset: _at_the_beginning(mapped, logs) if place.why is OffsetNote.BEFORE else place
        for offset, place in found.items()
    }


def _at_the_beginning(mapped: MappedCourse, logs: LinkLogs) -> MappedOffset:
    """Returns the result for an offset before the first record that the reverse link brought."""
    at = mapped.course.source
    start, first = logs.source.starts.get(at), mapped.map.points[0].source
    if start is not None and first <= start:  # the log has no earlier record
        return MappedOffset(at, start)
    note = "it is before all offsets that the reverse link remembers"
    return MappedOffset(at, start, OffsetNote.BEFORE, note)


def next_record(mapped: MappedCourse, start: int, end: int, logs: LinkLogs) -> int:
    """Returns the source offset of the first record in `start` to `end` - 1 that the reverse link
    mirrors, or `end` if there is none. Raises CausewayError."""
    found = counting.first_relayed(
        logs.source.cluster,
        mapped.course.source,
        start,
        end,
        logs.check,
        read_committed=logs.read_committed,
        becomes=mapped.becomes,
    )
    return end if found is None else found


class _Clear(NamedTuple):
    """Source offsets from `start` to `end` - 1 without a record that the producer id mirrors."""

    producer_id: int
    start: int
    end: int

    def covers(self, offset: int) -> bool:
        return self.start <= offset <= self.end


class GroupsBothWays:
    """Finds the offsets of the groups of one link, A->B. Not thread-safe. `unfinished`: the next
    look may soon find better answers than the last look."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        link: LinkSettings,
        reverse: ReverseFlow,
        read_again: ReadAgain,
    ) -> None:
        self._source, self._target = source, target
        self._link, self._reverse = link, reverse
        self._read_again = read_again
        self._name = f"{link.target.alias}->{link.source.alias}"
        self._progress = ReverseProgress(source, link)
        # Exact results, by partition and offset on A; and ranges of B without own records.
        self._known: dict[TopicPartition, tuple[int, dict[int, MappedOffset]]] = {}
        self._clear: dict[TopicPartition, _Clear] = {}
        self._mapped: dict[TopicPartition, MappedCourse] = {}
        self._whole: frozenset[TopicPartition] = frozenset()
        self._last: TopicPartition | None = None  # the last partition for which there was time
        self.again: Mapping[str, Again] = {}
        self.unfinished = False

    def from_the_beginning(self, translated: Translated) -> Translated:
        """`translated` without the partitions whose log on B has records before the first one that
        the reverse link mirrors: a group may not have read them."""
        return {
            group: {at: place for at, place in places.items() if at in self._whole}
            for group, places in translated.items()
        }

    def before_the_beginning(
        self, ranges: Mapping[str, Mapping[TopicPartition, UnreadRange]]
    ) -> dict[str, dict[TopicPartition, UnreadRange]]:
        """Returns the parts of `ranges`, on B, before the first record that the reverse link
        mirrors."""
        begun_at = {at: each.map.points[0].source for at, each in self._mapped.items()}
        return {
            group: {
                at: UnreadRange(start, min(place, begun_at[at]))
                for at, (start, place) in parts.items()
                if at in begun_at and start < begun_at[at]
            }
            for group, parts in ranges.items()
        }

    def bound(
        self, followed: GroupCommits, translated: Translated
    ) -> tuple[Translated, dict[str, str]]:
        """Returns `translated`, bounded by the first record of B that each group has not read. If
        that record is not known, the offset is missing. Also returns the reasons, by group and
        partition of the source."""
        until = time.monotonic() + _LOOK_S

        def check() -> None:
            if time.monotonic() > until:
                cause = f"it takes longer than {_LOOK_S:g} s"
                raise CausewayError("look up offsets", self._name, cause, retriable=True)

        self.unfinished = False
        asking: dict[TopicPartition, list[str]] = defaultdict(list)
        for group, places in translated.items():
            for at in places:
                asking[at].append(group)
        wanted = {
            at: {known[at].offset for group in groups if at in (known := followed.commits[group])}
            for at, groups in asking.items()
        }
        reasons: dict[TopicPartition, str] = {}
        logs: LinkLogs | None = None
        self._mapped, self._whole = {}, frozenset()
        try:
            contents = self._progress.read()
            found = self._partitions(contents, wanted, reasons)
            logs = LinkLogs(
                source=logs_on(self._target, found),
                target=logs_on(self._source, found, found),
                check=check,
                read_committed=self._reverse.read_committed,
            )
            self._mapped = self._courses(contents, found, logs, reasons)
            starts = logs.source.starts
            self._whole = frozenset(
                at
                for at, mapped in self._mapped.items()
                if at in starts and mapped.map.points[0].source <= starts[at]
            )
        except CausewayError as error:
            self.unfinished = error.retriable
            reasons |= dict.fromkeys(wanted, f"{self._name} cannot be followed now: {error}")
        bounded: dict[str, dict[TopicPartition, TranslatedOffset]] = {g: {} for g in translated}
        notes: dict[str, str] = {}
        again: dict[str, Again] = {}
        for at in self._in_turn(asking):
            own: Mapping[int, MappedOffset] = {}
            if logs is not None and at in self._mapped:
                if time.monotonic() <= until:
                    self._last = at
                own = self._first_unread(self._mapped[at], wanted[at], logs)
            for group in asking[at]:
                committed = followed.commits[group].get(at)
                first = None if committed is None else own.get(committed.offset)
                if committed is None or first is None or first.offset is None or logs is None:
                    why = reasons.get(at) or (first and first.note) or "not known yet"
                    notes[f"{group} on {at}"] = f"{self._name}: {why}"
                    continue
                place = translated[group][at]
                bounded[group][at] = bound = self._lower(at, place, first, logs)
                repeated = self._repeated(at, committed.offset, bound.downstream, place, first)
                before = again.get(group, Again(0, 0))
                again[group] = Again(before.least + repeated.least, before.most + repeated.most)
        self.again = again
        return bounded, notes

    def _in_turn(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Returns the partitions in the order of a look. A look may have no time for its last
        partitions, and groups may commit new offsets before the next look. So the next look begins
        after the last partition for which there was time."""
        ordered = sorted(partitions)
        begin = 0 if self._last is None else bisect_right(ordered, self._last)
        return ordered[begin:] + ordered[:begin]

    # -- the reverse link --------------------------------------------------------------------------

    def _partitions(
        self,
        contents: ProgressContents | None,
        wanted: Collection[TopicPartition],
        reasons: dict[TopicPartition, str],
    ) -> dict[TopicPartition, PartitionProgress]:
        """Returns the reverse link's progress of each partition. If it cannot be used, adds the
        reason to `reasons`."""
        if contents is None:
            why = f"{self._link.source.alias} has no progress topic of {self._name}"
            reasons |= dict.fromkeys(wanted, why)
            return {}
        identity = with_treatments(None, self._reverse.treatments)
        found: dict[TopicPartition, PartitionProgress] = {}
        for at in wanted:
            progress = contents.partitions.get(at)
            if progress is None or not progress.outlets:
                reasons[at] = "it has not begun this partition"
            elif progress.state is State.STOPPED:
                reasons[at] = f"it has stopped: {progress.reason or 'the reason is not known'}"
            elif [each.at for each in progress.outlets] != [at]:
                reasons[at] = "it mirrors to another partition"
            elif progress.transform != identity:
                reasons[at] = "it leaves out or changes records by other rules than their origin"
            elif progress.lost:
                reasons[at] = "it has passed over records that a group here never reads"
            else:
                found[at] = progress
        for at in reasons:  # the next time, other topics may have these names
            self._known.pop(at, None)
            self._clear.pop(at, None)
        return found

    def _courses(
        self,
        contents: ProgressContents | None,
        found: Mapping[TopicPartition, PartitionProgress],
        logs: LinkLogs,
        reasons: dict[TopicPartition, str],
    ) -> dict[TopicPartition, MappedCourse]:
        courses: dict[TopicPartition, MappedCourse] = {}
        for at, progress in found.items():
            (outlet,) = progress.outlets
            records = {} if contents is None else contents.maps.get(at, {})
            maps = offset_maps_of(progress, records, multiplied=False)
            if at not in maps:
                reasons[at] = "it delivers at least once, so its offsets cannot be mapped"
                continue
            # It is not known how a flow of another file reads its source, so nothing is counted.
            counted = () if self._reverse.assumed else self._reverse.treatments
            steps = only_treated(counted, progress)
            course = Course.of(progress, outlet)
            courses[at] = MappedCourse(
                course=course if steps is None else course.replace(transformed=False),
                map=maps[at],
                problem=problem_of(progress, outlet, logs),
                becomes=steps_become(steps or (), Topics(at.topic, outlet.topic)),
            )
        return courses

    def _first_unread(
        self, mapped: MappedCourse, offsets: Collection[int], logs: LinkLogs
    ) -> dict[int, MappedOffset]:
        """See first_unread. Keeps exact results while they are inside the map."""
        at, producer_id = mapped.course.source, mapped.course.outlet.producer_id
        end = mapped.end.target
        before, known = self._known.get(at, (-1, {}))
        if before != producer_id or mapped.problem is not None:
            known = {}
        # After a loss on A the same offsets may belong to other records.
        kept = {offset: known[offset] for offset in offsets if offset in known and offset < end}
        found = kept | first_unread(mapped, set(offsets) - kept.keys(), logs)
        exact = {o: place for o, place in found.items() if place.exact and o < end}
        self._known[at] = producer_id, exact
        self.unfinished |= any(place.why is OffsetNote.UNREACHABLE for place in found.values())
        return found

    # -- the lower of both -------------------------------------------------------------------------

    def _lower(
        self, at: TopicPartition, place: TranslatedOffset, first: MappedOffset, logs: LinkLogs
    ) -> TranslatedOffset:
        mapped, theirs = self._mapped[at], place.downstream
        assert first.offset is not None
        own = first.offset
        if own < theirs and not mapped.course.transformed:
            own = self._next_record(mapped, own, theirs, logs)
        certain = place.certain and first.exact
        return structs.replace(place, downstream=min(own, theirs), certain=certain)

    def _repeated(
        self,
        at: TopicPartition,
        committed: int,
        begin: int,
        place: TranslatedOffset,
        first: MappedOffset,
    ) -> Again:
        """Returns how many records a group at `committed` on A reads again from `begin` on B on.
        They are copies of records of A, and records of B of which it has read the copies. If an
        offset is exact, the group has read no record behind it."""
        copies = Again(*self._read_again(CourseKey(at, at), committed, begin))
        if place.certain:
            copies = copies.within(place.downstream - begin)
        own = Again(*self._mapped[at].map.read_again(begin, committed, back=True))
        if first.exact and first.offset is not None:
            own = own.within(max(0, first.offset - begin))
        return Again(copies.least + own.least, copies.most + own.most)

    def _next_record(self, mapped: MappedCourse, start: int, end: int, logs: LinkLogs) -> int:
        """See next_record. If the logs cannot be read: `start`, or a later offset that is known."""
        at, producer_id = mapped.course.source, mapped.course.outlet.producer_id
        clear = self._clear.get(at)
        if clear is None or clear.producer_id != producer_id or not clear.covers(start):
            clear = _Clear(producer_id, start, start)
        begin = min(clear.end, end)
        try:
            found = next_record(mapped, begin, end, logs)
        except CausewayError:
            self.unfinished = True
            return begin
        self._clear[at] = clear._replace(end=max(found, clear.end))
        return found
