"""The way back: from offsets of a target partition to a source partition that feeds it.

As forward.py. Where nothing of ours lies between a known place and the offset, no more than the
target needs to be read, so much can be told without the source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from causeway.errors import CausewayError
from causeway.link_topics.offset_map import Span
from causeway.model import Pair
from causeway.translation import reverse_lookup
from causeway.translation.answers.courses import Course, Side
from causeway.translation.answers.values import Place, Why
from causeway.translation.lookup import Sought
from causeway.translation.reverse_lookup import Check, Ours


def places(
    course: Course,
    offsets: Collection[int],
    source: Side,
    target: Side,
    check: Check,
    *,
    read_committed: bool,
) -> dict[int, Place]:
    """For each target offset. `check` is called before each fetch, for the CausewayError that
    it may raise. Raises none itself: what is the matter stands in the place."""
    return _Back(course, source, target, check, read_committed=read_committed).places(offsets)


class _Back:
    def __init__(
        self, course: Course, source: Side, target: Side, check: Check, *, read_committed: bool
    ) -> None:
        self._course = course
        self._source, self._target = source, target
        self._check = check
        self._read_committed = read_committed

    def places(self, offsets: Collection[int]) -> dict[int, Place]:
        doubt = self._course.doubt
        if doubt is not None and doubt.astray:
            nowhere = self._place(None, doubt.why, doubt.note)
            return dict.fromkeys(offsets, nowhere)
        found: dict[int, Place] = {}
        trouble: tuple[Pair, str] | None = None
        if any(offset > self._end.target for offset in offsets):
            trouble = self._reach()
        spans: dict[Span, list[int]] = defaultdict(list)
        for offset in sorted(set(offsets)):
            place = self._course.map.place_back(offset)
            if place is None:
                note = "it lies before all that this mirror remembers"
                start = self._source.starts.get(self._course.source)
                found[offset] = self._place(start, Why.BEFORE, note)
            elif isinstance(place, Span):
                spans[place].append(offset)
            elif offset > self._end.target:
                found[offset] = self._behind(offset, place, trouble)
            else:
                found[offset] = self._place(place)
        for span, within in spans.items():
            found |= self._looked_up(span, within)
        return {offset: self._judged(found[offset]) for offset in sorted(found)}

    @property
    def _end(self) -> Pair:
        return self._course.map.points[-1]

    def _place(self, offset: int | None, why: Why | None = None, note: str | None = None) -> Place:
        topic, partition = self._course.source
        return Place(
            topic=topic,
            partition=partition,
            offset=offset,
            exact=why is None,
            why=why,
            note=note,
        )

    def _reach(self) -> tuple[Pair, str] | None:
        """Takes into the map what the target has got since the driver's last word. Else where the
        next of ours lies on the target, as a pair's target, and why no more is known."""
        course, end = self._course, self._end
        why_not = self._source.why_not(course.source.topic)
        if course.transformed:
            why_not = why_not or "only a lane can count what its transform makes"
        target_end = self._target.ends.get(course.target)
        if self._target.error is not None or target_end is None:
            return end, f"the target cannot be read: {self._target.error or 'no answer'}"
        sought = self._sought(Span(end, end), ())
        try:
            if why_not is None:
                pair = reverse_lookup.reached(
                    sought, self._source.cluster, self._target.cluster, target_end, self._check
                )
                if pair is not None:
                    course.map.reach(pair)
                    return None
                why_not = "the logs do not tell how far the mirror has come"
            first = reverse_lookup.first_ours(sought, self._target.cluster, target_end, self._check)
        except CausewayError as error:
            return end, str(error)
        return None if first is None else (end._replace(target=first), why_not)

    def _behind(self, offset: int, place: int, trouble: tuple[Pair, str] | None) -> Place:
        if trouble is not None and offset > trouble[0].target:
            why = Why.TRANSFORMED if self._course.transformed else Why.UNREACHABLE
            note = f"what lies on the target since the driver's last word: {trouble[1]}"
            return self._place(place, why, note)
        end = self._target.ends.get(self._course.target)
        if end is not None and offset > end:
            return self._place(place, Why.BEYOND_END, f"the target ends at {end}")
        return self._place(place)

    def _looked_up(self, span: Span, offsets: list[int]) -> dict[int, Place]:
        """Of offsets inside `span`, ascending."""
        course, start = self._course, span.start.source
        why_not = self._source.why_not(course.source.topic)
        why = Why.UNREACHABLE
        if course.transformed:
            why, why_not = Why.TRANSFORMED, "only a lane can count what its transform makes"
        there: dict[int, int] = {}
        ours: dict[int, Ours | None] = {}
        try:
            ours = reverse_lookup.ours_from(
                self._sought(span, offsets), self._target.cluster, self._check
            )
            if why_not is None:
                there = reverse_lookup.find(
                    self._sought(span, ()), self._source.cluster, ours, self._check
                )
                why, why_not = Why.UNTOLD, "the logs no longer tell its exact place"
            else:
                # What needs no counting.
                there = {offset: span.end.source for offset, one in ours.items() if one is None}
                there |= {offset: start for offset, one in ours.items() if one and not one.before}
        except CausewayError as error:
            why, why_not = Why.UNREACHABLE, str(error)
        # So many of ours lie before it in the span, each with a source offset of its own.
        alone = not span.foreign and not course.multiplied
        return {
            offset: self._place(there[offset])
            if offset in there
            else self._place(start + (offset - span.start.target) * alone, why, why_not)
            for offset in offsets
        }

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
        start = self._source.starts.get(self._course.source)
        if place.offset is not None and start is not None and place.offset < start:
            note = f"the source's log starts at {start}: what lay before that is gone there"
            return replace(place, offset=start, exact=False, why=Why.RETENTION, note=note)
        doubt = self._course.doubt
        if place.exact and doubt is not None:
            return replace(place, exact=False, why=doubt.why, note=doubt.note)
        return place
