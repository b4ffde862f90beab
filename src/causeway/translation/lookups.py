"""Reads spans of offset maps in the background, and keeps the results while they are true.

A look-up reads a span of one course, for all its offsets at once. If a look-up takes long, it goes
on while other courses get their answers, and a later round gets its result. A result is kept while
its offset is asked for and the target keeps the records that it has acknowledged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import Outlet, Span
from causeway.model import TopicPartition
from causeway.relay import offset_lookup
from causeway.translation.counting import Lane, read_span
from causeway.translation.course import Course, CourseKey

ROUND_S = 10.0  # a round's longest wait for look-ups

SpanResult = dict[int, int] | CausewayError


class CourseVersion(NamedTuple):
    """Results stay true while it stays the same. `term`: the term of leadership, because rewinds
    are counted from 0 in each term, and the rewinds of other drivers are not known."""

    term: int
    producer_id: int
    rewinds: int

    @classmethod
    def of(cls, course: Course, term: int) -> CourseVersion:
        return cls(term, course.outlet.producer_id, course.rewinds)


@dataclass(slots=True)
class KnownOffsets:
    """Results of look-ups for one course. `targets`: target offset by source offset. `later`: by
    source offset, a later source offset with no record between both. The next record may be behind
    records of others, or not be there yet."""

    version: CourseVersion
    targets: dict[int, int] = field(default_factory=dict)
    later: dict[int, int] = field(default_factory=dict)

    def nearest(self, offsets: Iterable[int]) -> list[int | None]:
        """Returns, for each offset, the last known source offset that is not above it."""
        ascending = sorted(self.targets)
        indexes = (bisect_right(ascending, offset) for offset in offsets)
        return [ascending[index - 1] if index else None for index in indexes]

    def kept_for(self, version: CourseVersion, offsets: Iterable[int]) -> KnownOffsets:
        """Returns the results for `offsets`, or else for the last known offset before each. Forgets
        the other results, and all of them if the version has changed."""
        kept = KnownOffsets(version)
        if self.version == version and (self.targets or self.later):
            asked = set(offsets)
            kept.later = {one: later for one, later in self.later.items() if one in asked}
            for nearest in self.nearest(kept.later.get(one, one) for one in asked):
                if nearest is not None:
                    kept.targets[nearest] = self.targets[nearest]
        return kept


class SpanToRead(NamedTuple):
    course: Course
    version: CourseVersion
    span: Span

    @property
    def key(self) -> CourseKey:
        return self.course.key


class _LookUp(NamedTuple):
    what: SpanToRead
    offsets: Collection[int]
    result: Future[SpanResult]


# Results of the look-ups that have ended in this round.
Ended = dict[tuple[CourseKey, int], SpanResult]


class SpanLookUps:
    """The look-ups of one link, and their results (`known`). Not thread-safe."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        pool: ThreadPoolExecutor,
        term: Callable[[], int | None],
        lane: Lane,
        *,
        read_committed: bool,
    ) -> None:
        """`term` returns the current term of leadership. Look-ups of a term end with the term."""
        self._source, self._target = source, target
        self._pool = pool
        self._term = term
        self._lane = lane
        self._read_committed = read_committed
        self._under_way: dict[CourseKey, list[_LookUp]] = {}
        self.known: dict[CourseKey, KnownOffsets] = {}

    def keep(self, keys: Collection[CourseKey]) -> None:
        """Forgets the results of all other courses."""
        self.known = {key: known for key, known in self.known.items() if key in keys}

    def known_of(self, course: Course, term: int, offsets: Iterable[int]) -> KnownOffsets:
        """Returns the results of this course that are still true."""
        version = CourseVersion.of(course, term)
        key = course.key
        before = self.known.get(key) or KnownOffsets(version)
        self.known[key] = known = before.kept_for(version, offsets)
        return known

    def look_up(self, wanted: Mapping[SpanToRead, Sequence[int]]) -> Ended:
        """Begins the needed look-ups, and waits for ROUND_S. Results of ended look-ups are in
        `known`. Returns the results and errors of this round."""
        ended = self._take_ended()
        # Short spans first.
        for what in sorted(wanted, key=lambda one: one.span.end.source - one.span.start.source):
            # A group that moves on waits for its running look-up: each group has one at a time.
            offsets = [
                offset
                for offset in wanted[what]
                if (what.key, offset) not in ended and not self._reading(what, offset)
            ]
            if offsets:
                (floor,) = self.earlier(what, offsets[:1])
                result = self._pool.submit(self._read, what, offsets, floor)
                look_up = _LookUp(what, offsets, result)
                self._under_way.setdefault(what.key, []).append(look_up)
        awaited = {
            result
            for what, offsets in wanted.items()
            for offset in offsets
            for result in self._reading(what, offset)
        }
        wait(awaited, ROUND_S)
        return ended | self._take_ended()

    def earlier(self, what: SpanToRead, offsets: Collection[int]) -> list[int]:
        """Returns, for each offset, the last known target offset at or before the exact one."""
        known, start = self.known[what.key], what.span.start.target
        nearest = known.nearest(offsets)
        return [start if each is None else max(start, known.targets[each]) for each in nearest]

    def _reading(self, what: SpanToRead, offset: int) -> list[Future[SpanResult]]:
        """Returns the running look-ups that read `offset`. Spans grow when the map is thinned."""
        at = max(offset, what.span.start.source)  # no relayed record lies between the two
        return [
            each.result
            for each in self._under_way.get(what.key, ())
            if each.what.version == what.version
            and each.what.span.start.source <= at < each.what.span.end.source
        ]

    def _take_ended(self) -> Ended:
        ended: Ended = {}
        for key, look_ups in list(self._under_way.items()):
            done = [each for each in look_ups if each.result.done()]
            self._under_way[key] = [each for each in look_ups if each not in done]
            if not self._under_way[key]:
                del self._under_way[key]
            known = self.known.get(key)
            for each in done:
                if known is not None and each.what.version == known.version:
                    result = each.result.result()
                    ended |= {(key, offset): result for offset in each.offsets}
                    if isinstance(result, CausewayError):
                        continue
                    end = each.what.span.end
                    for offset, target in result.items():
                        if each.what.course.transformed and target == end.target:
                            known.later[offset] = end.source
                        else:
                            known.targets[offset] = target
        return ended

    def _read(self, what: SpanToRead, offsets: list[int], floor: int) -> SpanResult:
        course = what.course
        sought = course.sought(what.span, offsets, read_committed=self._read_committed, floor=floor)
        try:
            return read_span(
                sought,
                self._source,
                self._target,
                lambda: self._term() == what.version.term,
                transformed=course.transformed,
                lane=self._lane,
            )
        except CausewayError as error:
            return error  # an error of one course does not delay the others


class _Series(NamedTuple):
    term: int  # the term of leadership: another driver may have seen a loss
    producer_id: int
    sequence: int  # the sequence of the next record


class _TailLook(NamedTuple):
    end: int
    sought: Mapping[CourseKey, _Series]
    found: Future[dict[int, int]]


class ForeignTails:
    """Reads the records of others behind the last known record of a course. Not thread-safe; the
    look-ups run in `pool`."""

    def __init__(self, target: Cluster, pool: ThreadPoolExecutor) -> None:
        self._target = target
        self._pool = pool
        # Below this target offset there is no further record of the course.
        self._clear: dict[CourseKey, tuple[_Series, int]] = {}
        self._under_way: dict[TopicPartition, _TailLook] = {}

    def look(
        self,
        outlets: Mapping[CourseKey, Outlet],
        ends: Mapping[TopicPartition, int],
        term: int,
        timeout_s: float,
    ) -> dict[CourseKey, int]:
        """Returns the target offset of the first record from each outlet's pair on, or the end in
        `ends` if there is none yet. Courses that are not known in time are missing; the look goes
        on."""
        self._clear = {key: known for key, known in self._clear.items() if key in outlets}
        series = {
            key: _Series(term, each.producer_id, each.pair.sequence)
            for key, each in outlets.items()
        }
        starts: dict[TopicPartition, dict[CourseKey, int]] = defaultdict(dict)
        for key, outlet in outlets.items():
            if key.target in ends and key.target not in self._under_way:
                before, clear = self._clear.get(key, (None, 0))
                known = clear if before == series[key] else 0
                starts[key.target][key] = max(outlet.pair.target, known)
        for target, start_of in starts.items():
            sought = {key: series[key] for key in start_of}
            sequences = {each.producer_id: each.sequence for each in sought.values()}
            start, end = min(start_of.values()), ends[target]
            found = self._pool.submit(
                offset_lookup.first_of, self._target, target, sequences, start, end
            )
            self._under_way[target] = _TailLook(end, sought, found)
        wait([look.found for look in self._under_way.values()], timeout_s)
        answers: dict[CourseKey, int] = {}
        for target, look in list(self._under_way.items()):
            if look.found.done():
                del self._under_way[target]
                self._take(look, series, answers)
        return answers

    def _take(
        self, look: _TailLook, now: Mapping[CourseKey, _Series], answers: dict[CourseKey, int]
    ) -> None:
        try:
            found = look.found.result()
        except CausewayError:
            return  # an error of one partition does not delay the others
        for key, series in look.sought.items():
            place = found.get(series.producer_id)
            if place is None:
                self._clear[key] = series, look.end
            # The course may have sent more since the look began.
            if now.get(key) == series:
                answers[key] = look.end if place is None else place
