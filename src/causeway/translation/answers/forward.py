"""From offsets of a source partition to a target partition that it feeds.

The offset map is exact. Inside a span of the map the logs are read (translation/lookup.py);
records behind the last report of the driver are searched on the target (reverse_lookup.py).
Where a log cannot be read, the last place that is known to be at or before the exact one is given,
and why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from causeway.errors import CausewayError
from causeway.link_topics.offset_map import Span
from causeway.model import Pair
from causeway.translation import lookup, reverse_lookup
from causeway.translation.answers.courses import Course, Side
from causeway.translation.answers.values import Place, Why
from causeway.translation.lookup import Sought
from causeway.translation.reverse_lookup import Check

_UNTOLD = "the logs no longer tell its exact place"
_GAP = "no mirrored record has offset {}: the next one is meant"


def places(
    course: Course,
    offsets: Collection[int],
    source: Side,
    target: Side,
    check: Check,
    *,
    read_committed: bool,
) -> dict[int, Place]:
    """For each source offset. `check` is called before each fetch, for the CausewayError that
    it may raise. Raises none itself: what is the matter stands in the place."""
    return _Forward(course, source, target, check, read_committed=read_committed).places(offsets)


class _Forward:
    def __init__(
        self, course: Course, source: Side, target: Side, check: Check, *, read_committed: bool
    ) -> None:
        self._course = course
        self._source, self._target = source, target
        self._check = check
        self._read_committed = read_committed
        self._end_unknown: str | None = None  # why nothing is known behind the map's end

    def places(self, offsets: Collection[int]) -> dict[int, Place]:
        doubt = self._course.doubt
        if doubt is not None and doubt.astray:
            nowhere = self._place(None, doubt.why, doubt.note)
            return dict.fromkeys(offsets, nowhere)
        if any(offset > self._end.source for offset in offsets):
            self._reach()
        wanted = sorted(set(offsets))
        found: dict[int, Place] = {}
        spans: dict[Span, list[int]] = defaultdict(list)
        for offset in wanted:
            place = self._course.map.place(offset)
            if isinstance(place, Span):
                spans[place].append(offset)
            elif place is None:
                note = "it lies before all that this mirror remembers"
                found[offset] = self._place(self._target_start, Why.BEFORE, note)
            elif offset > self._end.source:
                found[offset] = self._behind(offset, place)
            else:
                found[offset] = self._known(offset, place)
        for span, within in spans.items():
            found |= self._looked_up(span, within)
        return {offset: self._judged(found[offset]) for offset in sorted(found)}

    @property
    def _end(self) -> Pair:
        return self._course.map.points[-1]

    @property
    def _target_start(self) -> int | None:
        return self._target.starts.get(self._course.target)

    def _place(self, offset: int | None, why: Why | None = None, note: str | None = None) -> Place:
        topic, partition = self._course.target
        exact = why is None or why is Why.GAP
        return Place(
            topic=topic, partition=partition, offset=offset, exact=exact, why=why, note=note
        )

    def _known(self, offset: int, place: int) -> Place:
        """The map is sure of it."""
        first, since = self._course.map.points[0], self._course.map.since
        # Of an outlet, what came before its first record went elsewhere, or was dropped.
        elsewhere = self._course.transformed and since is not None and offset >= since
        if offset < first.source and not elsewhere:
            return self._before(offset, place, first.source)
        following = self._course.map.place(offset + 1)
        if following == place and offset < self._end.source and not self._course.transformed:
            return self._place(place, Why.GAP, _GAP.format(offset))
        return self._place(place)

    def _before(self, offset: int, place: int, first: int) -> Place:
        """What follows is the mirror's first record; did the source have others before that?"""
        course = self._course
        note = f"the mirror began at offset {first}"
        if (why_not := self._source.why_not(course.source.topic)) is not None:
            note += f"; whether there is something before that cannot be looked up: {why_not}"
            return self._place(place, Why.BEFORE, note)
        start = max(offset, self._source.starts.get(course.source, 0))
        try:
            left_out = reverse_lookup.first_relayed(
                self._source.cluster,
                course.source,
                start,
                first,
                self._check,
                read_committed=self._read_committed,
            )
        except CausewayError as error:
            return self._place(place, Why.BEFORE, f"{note}; before that: {error}")
        if left_out is not None:
            note += f"; what the source has from {left_out} on was never mirrored"
            return self._place(place, Why.BEFORE, note)
        return self._place(place, Why.GAP, _GAP.format(offset))

    def _reach(self) -> None:
        """Takes into the map what the target has got since the driver's last word."""
        course = self._course
        why_not = self._source.why_not(course.source.topic)
        if course.transformed:
            why_not = why_not or "a transform lies between"
        end = self._target.ends.get(course.target)
        if self._target.error is not None or end is None:
            self._end_unknown = f"the target cannot be read: {self._target.error or 'no answer'}"
            return
        try:
            pair = reverse_lookup.reached(
                self._sought(Span(self._end, self._end), ()),
                None if why_not else self._source.cluster,
                self._target.cluster,
                end,
                self._check,
            )
        except CausewayError as error:
            self._end_unknown = str(error)
            return
        if pair is None:
            self._end_unknown = why_not or "the logs do not tell how far the mirror has come"
        else:
            course.map.reach(pair)

    def _behind(self, offset: int, place: int) -> Place:
        """What lies behind the end of the mirror."""
        course = self._course
        end = self._end.source
        if self._end_unknown is not None:
            note = f"more than offset {end} is mirrored, but not known how far: {self._end_unknown}"
            return self._place(place, Why.UNREACHABLE, note)
        source_end = self._source.ends.get(course.source)
        if source_end is not None and offset > source_end:
            note = f"the source ends at {source_end}"
            return self._place(place, Why.BEYOND_END, note)
        note = f"mirrored up to offset {end}: what lies between comes again when it is mirrored"
        if (why_not := self._source.why_not(course.source.topic)) is not None:
            return self._place(place, Why.NOT_YET, f"{note}; {why_not}")
        try:
            due = reverse_lookup.first_relayed(
                self._source.cluster,
                course.source,
                end,
                offset,
                self._check,
                read_committed=self._read_committed,
            )
        except CausewayError as error:
            return self._place(place, Why.NOT_YET, f"{note}; {error}")
        # Nothing is to come between the two, so the next record is the same.
        return self._place(place) if due is None else self._place(place, Why.NOT_YET, note)

    def _looked_up(self, span: Span, offsets: list[int]) -> dict[int, Place]:
        """Of offsets inside `span`, ascending."""
        course = self._course
        why_not = self._source.why_not(course.source.topic)
        at_start = [offset for offset in offsets if offset <= span.start.source]
        inside = [offset for offset in offsets if offset > span.start.source]
        found: dict[int, Place] = {}
        try:
            # The span's own start tells which record it is: the source need not be read.
            if at_start and (course.transformed or why_not):
                there = lookup.find_start(
                    self._sought(span, at_start), self._target.cluster, self._go_on
                )
                found = {offset: self._place(place) for offset, place in there.items()}
            elif at_start:
                inside = offsets
            if inside and course.transformed:
                note = "only a lane can count what its transform makes of the records between"
                found |= self._near(span, inside, Why.TRANSFORMED, note)
            elif inside and why_not is not None:
                note = f"the source's log would have to be read: {why_not}"
                found |= self._near(span, inside, Why.UNREACHABLE, note)
            elif inside:
                found |= self._counted(span, inside)
        except CausewayError as error:
            found = self._near(span, offsets, Why.UNREACHABLE, str(error)) | found
        return self._near(span, offsets, Why.UNTOLD, _UNTOLD) | found

    def _near(self, span: Span, offsets: Collection[int], why: Why, note: str) -> dict[int, Place]:
        """The last place that is surely at or before that of each offset: no more records follow
        it in the span than there are source offsets."""
        start, end = span.start, span.end
        if span.foreign or self._course.multiplied:
            return dict.fromkeys(offsets, self._place(start.target, why, note))
        return {
            offset: self._place(max(start.target, end.target - (end.source - offset)), why, note)
            for offset in offsets
        }

    def _counted(self, span: Span, offsets: list[int]) -> dict[int, Place]:
        """Each with the one after it, which tells whether a record has the offset itself."""
        end = span.end.source
        asked = sorted({one for offset in offsets for one in (offset, offset + 1) if one < end})
        there = lookup.find(
            self._sought(span, asked), self._source.cluster, self._target.cluster, self._go_on
        )
        there[end] = span.end.target
        found: dict[int, Place] = {}
        for offset in offsets:
            if offset not in there:
                continue
            gap = there[offset] == there.get(offset + 1)
            why, note = (Why.GAP, _GAP.format(offset)) if gap else (None, None)
            found[offset] = self._place(there[offset], why, note)
        return found

    def _go_on(self) -> bool:
        self._check()
        return True

    def _sought(self, span: Span, offsets: Collection[int]) -> Sought:
        return Sought(
            source=self._course.source,
            target=self._course.target,
            producer_id=self._course.outlet.producer_id,
            read_committed=self._read_committed,
            span=span,
            offsets=list(offsets),
        )

    def _judged(self, place: Place) -> Place:
        """What counts for all places of the course."""
        course, start = self._course, self._target_start
        if place.offset is not None and start is not None and place.offset < start:
            note = f"the target's log starts at {start}: what lay before that is gone there"
            return replace(place, offset=start, exact=False, why=Why.RETENTION, note=note)
        end = self._target.ends.get(course.target)
        if place.offset is not None and end is not None and place.offset > end:
            place = replace(place, offset=end)  # what it lost there comes again from its end on
        if not place.exact:
            return place
        if course.doubt is not None:
            return replace(place, exact=False, why=course.doubt.why, note=course.doubt.note)
        if course.shared:
            note = "others feed that partition as well: take the least of their places"
            return replace(place, exact=False, why=Why.SHARED, note=note)
        return place
