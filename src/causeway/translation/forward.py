"""Translates source offsets of one course to target offsets.

The offset map is exact. Inside a span of the map, the logs are read (relay/offset_lookup.py).
Records behind the last report of the driver are looked for on the target (reverse.py). If a log
cannot be read, the answer is the last offset that is known to be at or before the exact one, and
the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import Span
from causeway.relay import Sought, offset_lookup
from causeway.translation import reverse
from causeway.translation.logs import LinkLogs, MappedCourse
from causeway.translation.values import LOGS_INCOMPLETE, ONLY_A_LANE, MappedOffset, OffsetNote

# Reads a span through the transform of a lane.
Lane = Callable[[Sought], dict[int, int]]

_GAP = "no mirrored record has offset {}: the next record counts"


def read_span(
    sought: Sought,
    source: Cluster | None,
    target: Cluster,
    go_on: Callable[[], bool],
    *,
    transformed: bool,
    lane: Lane | None = None,
) -> dict[int, int]:
    """The exact target offsets of `sought`, by reading the logs. Offsets that the logs, or the
    lane, cannot tell for certain are missing.

    `source`: None if the source cannot be read. A transformed course needs a `lane` for offsets
    behind the span's start. Raises CausewayError.
    """
    if source is not None and not transformed:
        return offset_lookup.find(sought, source, target, go_on)
    # The sequence at the span's start identifies the record: the source need not be read.
    at_start = [offset for offset in sought.offsets if offset <= sought.span.start.source]
    if lane is not None and len(at_start) < len(sought.offsets):
        return lane(sought)
    if not at_start:
        return {}
    return offset_lookup.find_start(sought.of(at_start), target, go_on)


def translate(
    mapped: MappedCourse, offsets: Collection[int], logs: LinkLogs
) -> dict[int, MappedOffset]:
    """Translates each source offset. Raises nothing: a failed read is a note on its offset."""
    return _Forward(mapped, logs).translate(offsets)


class _Forward:
    def __init__(self, mapped: MappedCourse, logs: LinkLogs) -> None:
        self._mapped = mapped
        self._course = mapped.course
        self._logs = logs
        self._source, self._target = logs.source, logs.target
        self._unreadable = logs.source.unreadable(mapped.course.source.topic)
        self._end_unknown: str | None = None  # why nothing is known behind the map's end

    def translate(self, offsets: Collection[int]) -> dict[int, MappedOffset]:
        problem = self._mapped.problem
        if problem is not None and problem.other_log:
            return dict.fromkeys(offsets, self._at(None, problem.why, problem.note))
        if any(offset > self._mapped.end.source for offset in offsets):
            self._extend_map()
        found: dict[int, MappedOffset] = {}
        spans: dict[Span, list[int]] = defaultdict(list)
        for offset in sorted(set(offsets)):
            place = self._mapped.map.place(offset)
            if isinstance(place, Span):
                spans[place].append(offset)
            elif place is None:
                note = "it lies before all that this mirror remembers"
                found[offset] = self._at(self._target_start, OffsetNote.BEFORE, note)
            elif offset > self._mapped.end.source:
                found[offset] = self._behind_the_end(offset, place)
            else:
                found[offset] = self._mapped_at(offset, place)
        for span, within in spans.items():
            found |= self._inside(span, within)
        return {offset: self._checked(found[offset]) for offset in sorted(found)}

    @property
    def _target_start(self) -> int | None:
        return self._target.starts.get(self._course.target)

    def _at(
        self, offset: int | None, why: OffsetNote | None = None, note: str | None = None
    ) -> MappedOffset:
        return MappedOffset(self._course.target, offset, why, note)

    def _mapped_at(self, offset: int, place: int) -> MappedOffset:
        """For an offset that the map translates."""
        first, since = self._mapped.map.points[0], self._mapped.map.since
        # Records before the first one of an outlet went to other outlets, or were dropped.
        elsewhere = self._course.transformed and since is not None and offset >= since
        if offset < first.source and not elsewhere:
            return self._before_the_first(offset, place, first.source)
        following = self._mapped.map.place(offset + 1)
        inside = offset < self._mapped.end.source and not self._course.transformed
        if following == place and inside:
            return self._at(place, OffsetNote.GAP, _GAP.format(offset))
        return self._at(place)

    def _before_the_first(self, offset: int, place: int, first: int) -> MappedOffset:
        """The mirror's first record follows. Did the source have others before that record?"""
        note = f"the mirror began at offset {first}"
        if self._unreadable is not None:
            note += f"; earlier records of the source cannot be looked up: {self._unreadable}"
            return self._at(place, OffsetNote.BEFORE, note)
        start = max(offset, self._source.starts.get(self._course.source, 0))
        try:
            left_out = self._first_relayed(start, first)
        except CausewayError as error:
            return self._at(place, OffsetNote.BEFORE, f"{note}; before that: {error}")
        if left_out is not None:
            note += f"; the records of the source from {left_out} on were never mirrored"
            return self._at(place, OffsetNote.BEFORE, note)
        return self._at(place, OffsetNote.GAP, _GAP.format(offset))

    def _first_relayed(self, start: int, end: int) -> int | None:
        return reverse.first_relayed(
            self._source.cluster,
            self._course.source,
            start,
            end,
            self._logs.check,
            read_committed=self._logs.read_committed,
        )

    def _extend_map(self) -> None:
        """Adds the records to the map that the target got since the driver's last report."""
        end = self._target.ends.get(self._course.target)
        if self._target.error is not None or end is None:
            self._end_unknown = f"the target cannot be read: {self._target.error or 'no answer'}"
            return
        unreadable = self._unreadable
        if self._course.transformed:
            unreadable = unreadable or "the partition goes through a transform"
        try:
            pair = reverse.reached(
                self._sought(Span(self._mapped.end, self._mapped.end), ()),
                None if unreadable else self._source.cluster,
                self._target.cluster,
                end,
                self._logs.check,
            )
        except CausewayError as error:
            self._end_unknown = str(error)
            return
        if pair is None:
            self._end_unknown = unreadable or reverse.END_NOT_SHOWN
        else:
            self._mapped.map.reach(pair)

    def _behind_the_end(self, offset: int, place: int) -> MappedOffset:
        end = self._mapped.end.source
        if self._end_unknown is not None:
            note = f"more than offset {end} is mirrored, but the end is unknown: "
            return self._at(place, OffsetNote.UNREACHABLE, note + self._end_unknown)
        source_end = self._source.ends.get(self._course.source)
        if source_end is not None and offset > source_end:
            return self._at(place, OffsetNote.BEYOND_END, f"the source ends at {source_end}")
        note = f"mirrored up to offset {end}: the records between come again when they are mirrored"
        if self._unreadable is not None:
            return self._at(place, OffsetNote.NOT_YET, f"{note}; {self._unreadable}")
        try:
            due = self._first_relayed(end, offset)
        except CausewayError as error:
            return self._at(place, OffsetNote.NOT_YET, f"{note}; {error}")
        # If no record comes between the two, the next record is the same.
        return self._at(place) if due is None else self._at(place, OffsetNote.NOT_YET, note)

    def _inside(self, span: Span, offsets: list[int]) -> dict[int, MappedOffset]:
        """For ascending offsets inside `span`."""
        why, note = OffsetNote.LOGS_INCOMPLETE, LOGS_INCOMPLETE
        start, end = span.start.source, span.end.source
        counts = not self._course.transformed and self._unreadable is None
        asked = set(offsets)
        if counts:
            # The next offset shows whether a record has the offset itself.
            asked |= {offset + 1 for offset in offsets if offset + 1 < end}
        try:
            there = read_span(
                self._sought(span, sorted(asked)),
                self._source.cluster if counts else None,
                self._target.cluster,
                self._go_on,
                transformed=self._course.transformed,
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
            elif offset > start and self._course.transformed:
                found[offset] = self._near(span, offset, OffsetNote.TRANSFORMED, ONLY_A_LANE)
            elif offset > start and self._unreadable is not None:
                needed = f"the source's log would have to be read: {self._unreadable}"
                found[offset] = self._near(span, offset, OffsetNote.UNREACHABLE, needed)
            else:
                found[offset] = self._near(span, offset, why, note)
        return found

    def _near(self, span: Span, offset: int, why: OffsetNote, note: str) -> MappedOffset:
        """The last target offset that is surely at or before the exact one: no more records follow
        in the span than there are source offsets."""
        start, end = span.start, span.end
        if span.foreign or self._mapped.map.multiplied:
            return self._at(start.target, why, note)
        return self._at(max(start.target, end.target - (end.source - offset)), why, note)

    def _go_on(self) -> bool:
        self._logs.check()
        return True

    def _sought(self, span: Span, offsets: Collection[int]) -> Sought:
        return self._course.sought(span, offsets, read_committed=self._logs.read_committed)

    def _checked(self, found: MappedOffset) -> MappedOffset:
        """Applies what holds for all offsets of the course."""
        start = self._target_start
        if found.offset is not None and start is not None and found.offset < start:
            note = f"the target's log starts at {start}: it no longer has the earlier records"
            return found._replace(offset=start, why=OffsetNote.RETENTION, note=note)
        end = self._target.ends.get(self._course.target)
        if found.offset is not None and end is not None and found.offset > end:
            found = found._replace(offset=end)  # records that the target lost come again there
        if not found.exact:
            return found
        if (problem := self._mapped.problem) is not None:
            return found._replace(why=problem.why, note=problem.note)
        if self._mapped.shared:
            note = "other partitions feed that partition as well: take the least of their offsets"
            return found._replace(why=OffsetNote.SHARED, note=note)
        return found
