"""Translates offsets of one course, from the source to the target or back.

The offset map is exact. Inside a span of the map, the logs are read. Behind the last report of the
driver, the target's log is read (counting.py). If a log cannot be read, the answer is the last
offset that is known to be at or before the exact one, and the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection

from msgspec import structs

from causeway.errors import CausewayError
from causeway.link_topics import SameOffsets, Span
from causeway.model import TopicPartition
from causeway.records import advance
from causeway.relay import Sought
from causeway.translation import counting
from causeway.translation.logs import ClusterLogs, LinkLogs, MappedCourse
from causeway.translation.values import LOGS_INCOMPLETE, ONLY_A_LANE, MappedOffset, OffsetNote

_END_NOT_SHOWN = "the logs do not show how far the mirror has come"
_GAP = "no mirrored record has offset {}: the next record counts"


def translate(
    mapped: MappedCourse, offsets: Collection[int], logs: LinkLogs, *, back: bool
) -> dict[int, MappedOffset]:
    """Translates each source offset; with `back`, each target offset. Raises nothing: if a read
    fails, the result has a note."""
    return (_Back if back else _There)(mapped, logs).translate(offsets)


class _Direction(ABC):
    """`there`, `at`: the logs and the partition to which offsets are translated. `unreadable`: why
    records cannot be counted. `unknown`: a target offset from which on the map does not know the
    mirrored records, and why."""

    there: ClusterLogs
    at: TopicPartition
    side: str  # the side to which offsets are translated, for texts

    def __init__(self, mapped: MappedCourse, logs: LinkLogs) -> None:
        self.mapped, self.course, self.logs = mapped, mapped.course, logs
        self.source_gone = logs.source.unreadable(mapped.course.source.topic)
        self.unreadable = self.source_gone or (ONLY_A_LANE if self.course.transformed else None)
        self.unknown: tuple[int, str] | None = None

    @property
    @abstractmethod
    def end(self) -> int:
        """The end of the map, in the log of the offsets to translate."""

    @abstractmethod
    def place(self, offset: int) -> int | Span | None:
        """See OffsetMap.place."""

    @abstractmethod
    def _mapped_at(self, offset: int, place: int) -> MappedOffset:
        """Returns the result for an offset that the map translates."""

    @abstractmethod
    def _behind_the_end(self, offset: int, place: int) -> MappedOffset: ...

    @abstractmethod
    def _inside(self, span: Span, offsets: list[int]) -> dict[int, MappedOffset]:
        """Returns the results for ascending offsets inside `span`."""

    def translate(self, offsets: Collection[int]) -> dict[int, MappedOffset]:
        problem = self.mapped.problem
        if problem is not None and problem.other_log:
            return dict.fromkeys(offsets, self._at(None, problem.why, problem.note))
        if any(offset > self.end for offset in offsets):
            self._extend_map()
        found: dict[int, MappedOffset] = {}
        spans: dict[Span, list[int]] = defaultdict(list)
        for offset in sorted(set(offsets)):
            place = self.place(offset)
            if isinstance(place, Span):
                spans[place].append(offset)
            elif place is None:
                note = "it is before the first offset that this mirror knows"
                start = self.there.starts.get(self.at)
                found[offset] = self._at(start, OffsetNote.BEFORE, note)
            elif offset > self.end:
                found[offset] = self._behind_the_end(offset, place)
            else:
                found[offset] = self._mapped_at(offset, place)
        for span, within in spans.items():
            found |= self._inside(span, within)
        return {offset: self._checked(found[offset]) for offset in sorted(found)}

    def _at(
        self, offset: int | None, why: OffsetNote | None = None, note: str | None = None
    ) -> MappedOffset:
        return MappedOffset(self.at, offset, why, note)

    def _extend_map(self) -> None:
        """Adds the target's records since the driver's last report to the map, or sets
        `unknown`."""
        end, target, check = self.mapped.end, self.logs.target, self.logs.check
        target_end = target.ends.get(self.course.target)
        if target.error is not None or target_end is None:
            self.unknown = (
                end.target,
                f"the target cannot be read: {target.error or 'no answer'}",
            )
            return
        last = target.sequences.get(self.course.target, {}).get(self.course.outlet.producer_id)
        if last is not None and advance(last, 1) == end.sequence:
            return  # the target has no newer record, so its log need not be read
        sought = self._sought(Span(end, end), ())
        why = self.unreadable
        try:
            if isinstance(self.mapped.map, SameOffsets):
                reached = self._reached(sought, target_end)
                self.mapped.map.reach(end._replace(source=reached, target=reached))
                return
            if why is None:
                source = self.logs.source.cluster
                becomes = self.mapped.becomes
                pair = counting.reached(sought, source, target.cluster, target_end, check, becomes)
                if pair is not None:
                    self.mapped.map.reach(pair)
                    return
                why = _END_NOT_SHOWN
            first = counting.first_mirrored(sought, target.cluster, target_end, check)
        except CausewayError as error:
            self.unknown = end.target, str(error)
            return
        self.unknown = None if first is None else (first, why)

    def _reached(self, sought: Sought, target_end: int) -> int:
        """Returns the end of a mirror that preserves offsets: the end of the target's log, but not
        beyond the end of the source's log. If the mirror has ended, other programs write behind its
        last record. Raises CausewayError."""
        known, target = self.mapped.end.target, self.logs.target.cluster
        if self.course.ended:
            return counting.behind_last(sought, target, target_end, self.logs.check)
        source_end = self.logs.source.ends.get(self.course.source, target_end)
        return max(known, min(target_end, source_end))

    def _before_preserved(self, offset: int) -> int:
        """Returns the nearest offset for an offset before the first preserved one. This is the
        first one; but after a failback, the target has earlier records at the source's offsets."""
        first = self.mapped.map.points[0].target
        start = self.logs.target.starts.get(self.course.target)
        return offset if start is not None and start < first else first

    def _sought(self, span: Span, offsets: Collection[int]) -> Sought:
        return self.course.sought(span, offsets, read_committed=self.logs.read_committed)

    def _checked(self, found: MappedOffset) -> MappedOffset:
        """Applies the facts that hold for all offsets of the course."""
        start = self.there.starts.get(self.at)
        if found.offset is not None and start is not None and found.offset < start:
            note = f"the {self.side}'s log starts at {start}: it no longer has the earlier records"
            return structs.replace(found, offset=start, why=OffsetNote.RETENTION, note=note)
        problem = self.mapped.problem
        if found.exact and problem is not None:
            return structs.replace(found, why=problem.why, note=problem.note)
        return found


class _There(_Direction):
    """From the source to the target."""

    side = "target"

    def __init__(self, mapped: MappedCourse, logs: LinkLogs) -> None:
        super().__init__(mapped, logs)
        self.there, self.at = logs.target, mapped.course.target

    @property
    def end(self) -> int:
        return self.mapped.end.source

    def place(self, offset: int) -> int | Span | None:
        return self.mapped.map.place(offset)

    def _mapped_at(self, offset: int, place: int) -> MappedOffset:
        first, since = self.mapped.map.points[0], self.mapped.map.since
        # Records before the first one of an outlet went to other outlets, or were dropped.
        elsewhere = self.course.transformed and since is not None and offset >= since
        if offset < first.source and not elsewhere:
            if isinstance(self.mapped.map, SameOffsets):
                place = self._before_preserved(offset)
            return self._before_the_first(offset, place, first.source)
        following = self.mapped.map.place(offset + 1)
        inside = offset < self.mapped.end.source and not self.course.transformed
        if following == place and inside:
            return self._at(place, OffsetNote.GAP, _GAP.format(offset))
        return self._at(place)

    def _before_the_first(self, offset: int, place: int, first: int) -> MappedOffset:
        """Returns the result for an offset before the mirror's first record. It depends on whether
        the source had other records before that record."""
        note = f"the mirror began at offset {first}"
        if self.source_gone is not None:
            note += f"; earlier records of the source cannot be looked up: {self.source_gone}"
            return self._at(place, OffsetNote.BEFORE, note)
        start = max(offset, self.logs.source.starts.get(self.course.source, 0))
        try:
            left_out = self._first_relayed(start, first)
        except CausewayError as error:
            return self._at(place, OffsetNote.BEFORE, f"{note}; before that: {error}")
        if left_out is not None:
            note += f"; the records of the source from {left_out} on were never mirrored"
            return self._at(place, OffsetNote.BEFORE, note)
        return self._at(place, OffsetNote.GAP, _GAP.format(offset))

    def _first_relayed(self, start: int, end: int) -> int | None:
        return counting.first_relayed(
            self.logs.source.cluster,
            self.course.source,
            start,
            end,
            self.logs.check,
            read_committed=self.logs.read_committed,
            becomes=self.mapped.becomes,
        )

    def _behind_the_end(self, offset: int, place: int) -> MappedOffset:
        end = self.mapped.end.source
        if self.unknown is not None:
            note = f"more than offset {end} is mirrored, but the end is unknown: "
            return self._at(place, OffsetNote.UNREACHABLE, note + self.unknown[1])
        source_end = self.logs.source.ends.get(self.course.source)
        if source_end is not None and offset > source_end:
            return self._at(place, OffsetNote.BEYOND_END, f"the source ends at {source_end}")
        note = f"mirrored up to offset {end}: the records between come again when they are mirrored"
        if self.source_gone is not None:
            return self._at(place, OffsetNote.NOT_YET, f"{note}; {self.source_gone}")
        try:
            due = self._first_relayed(end, offset)
        except CausewayError as error:
            return self._at(place, OffsetNote.NOT_YET, f"{note}; {error}")
        # If no record is between the two, both offsets have the same next record.
        return self._at(place) if due is None else self._at(place, OffsetNote.NOT_YET, note)

    def _inside(self, span: Span, offsets: list[int]) -> dict[int, MappedOffset]:
        why, note = OffsetNote.LOGS_INCOMPLETE, LOGS_INCOMPLETE
        start, end = span.start.source, span.end.source
        counts = not self.course.transformed and self.source_gone is None
        asked = set(offsets)
        if counts:
            # The next offset shows whether a record has the offset itself.
            asked |= {offset + 1 for offset in offsets if offset + 1 < end}
        try:
            there = counting.read_span(
                self._sought(span, sorted(asked)),
                self.logs.source.cluster if counts else None,
                self.logs.target.cluster,
                self._go_on,
                transformed=self.course.transformed,
                becomes=self.mapped.becomes,
            )
        except CausewayError as error:
            there, why, note = {}, OffsetNote.UNREACHABLE, str(error)
        found = {}
        for offset in offsets:
            if offset in there:
                following = there.get(offset + 1, span.end.target if offset + 1 == end else None)
                gap = counts and there[offset] == following
                found[offset] = (
                    self._at(there[offset], OffsetNote.GAP, _GAP.format(offset))
                    if gap
                    else self._at(there[offset])
                )
            elif offset > start and self.course.transformed:
                found[offset] = self._near(span, offset, OffsetNote.TRANSFORMED, ONLY_A_LANE)
            elif offset > start and self.source_gone is not None:
                needed = f"the source's log would have to be read: {self.source_gone}"
                found[offset] = self._near(span, offset, OffsetNote.UNREACHABLE, needed)
            else:
                found[offset] = self._near(span, offset, why, note)
        return found

    def _near(self, span: Span, offset: int, why: OffsetNote, note: str) -> MappedOffset:
        """Returns the last target offset that is certainly at or before the exact one: in the span
        follow at most as many records as source offsets."""
        start, end = span.start, span.end
        if span.foreign or self.mapped.map.multiplied:
            return self._at(start.target, why, note)
        return self._at(max(start.target, end.target - (end.source - offset)), why, note)

    def _go_on(self) -> bool:
        self.logs.check()
        return True

    def _checked(self, found: MappedOffset) -> MappedOffset:
        found = super()._checked(found)
        end = self.there.ends.get(self.at)
        if found.offset is not None and end is not None and found.offset > end:
            # The target gets its lost records again from there.
            found = structs.replace(found, offset=end)
        if found.exact and self.mapped.shared:
            note = "other partitions feed that partition as well: take the least of their offsets"
            return structs.replace(found, why=OffsetNote.SHARED, note=note)
        return found


class _Back(_Direction):
    """From the target to the source."""

    side = "source"

    def __init__(self, mapped: MappedCourse, logs: LinkLogs) -> None:
        super().__init__(mapped, logs)
        self.there, self.at = logs.source, mapped.course.source

    @property
    def end(self) -> int:
        return self.mapped.end.target

    def place(self, offset: int) -> int | Span | None:
        return self.mapped.map.place_back(offset)

    def _mapped_at(self, offset: int, place: int) -> MappedOffset:
        first = self.mapped.map.points[0].target
        if isinstance(self.mapped.map, SameOffsets) and offset < first:
            note = f"the mirror began at offset {first}"
            return self._at(self._before_preserved(offset), OffsetNote.BEFORE, note)
        return self._at(place)

    def _behind_the_end(self, offset: int, place: int) -> MappedOffset:
        if self.unknown is not None and offset > self.unknown[0]:
            why = OffsetNote.TRANSFORMED if self.course.transformed else OffsetNote.UNREACHABLE
            note = f"records on the target since the driver's last report: {self.unknown[1]}"
            return self._at(place, why, note)
        end = self.logs.target.ends.get(self.course.target)
        if end is not None and offset > end:
            return self._at(place, OffsetNote.BEYOND_END, f"the target ends at {end}")
        return self._at(place)

    def _inside(self, span: Span, offsets: list[int]) -> dict[int, MappedOffset]:
        start = span.start.source
        why = OffsetNote.TRANSFORMED if self.course.transformed else OffsetNote.UNREACHABLE
        note = ONLY_A_LANE if self.course.transformed else self.unreadable
        there: dict[int, int] = {}
        check = self.logs.check
        try:
            following = counting.following(
                self._sought(span, offsets), self.logs.target.cluster, check
            )
            if self.unreadable is None:
                sought = self._sought(span, ())
                source, becomes = self.logs.source.cluster, self.mapped.becomes
                there = counting.source_offsets(sought, source, following, check, becomes)
                why, note = OffsetNote.LOGS_INCOMPLETE, LOGS_INCOMPLETE
            else:  # these offsets need no counting
                there = {o: span.end.source for o, record in following.items() if record is None}
                there |= {
                    o: start for o, record in following.items() if record and not record.before
                }
        except CausewayError as error:
            why, note = OffsetNote.UNREACHABLE, str(error)
        # Each earlier target offset is a mirrored record with its own source offset.
        alone = not span.foreign and not self.mapped.map.multiplied
        return {
            offset: self._at(there[offset])
            if offset in there
            else self._at(start + (offset - span.start.target) * alone, why, note)
            for offset in offsets
        }
