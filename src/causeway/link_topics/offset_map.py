"""Where each offset of a source partition went on the target: exact, compact, bounded.

The map is a sorted list of points (source, target, sequence), each of them true by itself. Between
two neighbours a and b lie b.sequence - a.sequence relayed records, and no more needs to be known:

    no record between                      what follows a lies at b
    as many offsets as records, on both    every offset moves by the same
    fewer records than source offsets      gaps: counted in the source's log on demand
    fewer records than target offsets      foreign writes: looked up in the target's log

So a point that is missing makes an answer slower, never wrong. Lanes report both ends of every gap.
If there are too many points, the map drops the closest of the older ones first.

If a transform may make several records of one, counts prove less: one dropped and one doubled
record look like two kept ones. Then the map knows only offsets at a point, or in a stretch without
records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from causeway.model import Pair
from causeway.records import distance

MOST_POINTS = 1024  # of one partition, some 150 bytes each
# Of a span, in offsets of either side: sequences wrap, and count no more records than 2**31.
_WIDEST = 1 << 30
_SOURCE = itemgetter(0)
_TARGET = itemgetter(1)


class Span(NamedTuple):
    """A stretch of the map whose inside has to be looked up in a log."""

    start: Pair
    end: Pair

    @property
    def records(self) -> int:
        """How many relayed records lie in it."""
        return distance(self.start.sequence, self.end.sequence)

    @property
    def straight(self) -> bool:
        """Neither gaps nor foreign writes: one difference holds for the whole span."""
        return self.records == self.end.source - self.start.source == self._width

    @property
    def foreign(self) -> bool:
        """Others wrote between our records on the target."""
        return self.records != self._width

    @property
    def _width(self) -> int:
        return self.end.target - self.start.target


class OffsetMap:
    """Of one source partition and one target partition that it feeds. Not thread-safe.

    `multiplied`: one source record may have become several. `since`: of the source offsets from
    there on nothing went to the target before the first point; None: not known. `changed`: more
    than its end has moved since the owner last set this to False. `rewinds`: how often points were
    no longer true.
    """

    def __init__(
        self,
        points: Iterable[Pair] = (),
        *,
        most: int = MOST_POINTS,
        multiplied: bool = False,
        since: int | None = None,
    ) -> None:
        self._points: list[Pair] = []
        self._most = most
        self.multiplied = multiplied
        self.since = since
        self.rewinds = 0
        for point in points:
            self.add(point)
        self.changed = False

    @property
    def points(self) -> Sequence[Pair]:
        """In order; the last one is how far the mirror has come."""
        return self._points

    def add(self, point: Pair) -> None:
        """The mirror has come to `point`. A point before the end of the map changes nothing."""
        points = self._points
        if points:
            last = points[-1]
            if point.source < last.source or point.target < last.target or point == last:
                return
            if len(points) > 1 and self._continues(points[-2], last, point):
                points[-1] = point
                return
        points.append(point)
        self.changed = True
        if len(points) > self._most:
            self._thin()

    def reach(self, pair: Pair) -> None:
        """The mirror has come to `pair`. If only others wrote to the target since, the map does not
        change: the records behind our last one are theirs, and a group has not read them."""
        last = self._points[-1] if self._points else None
        if last is None or (pair.source, pair.sequence) != (last.source, last.sequence):
            self.add(pair)

    def rewind(self, point: Pair) -> None:
        """The target has lost acknowledged records after `point`. It gets them again, perhaps at
        other offsets."""
        points, before = self._points, len(self._points)
        while points and (points[-1].source > point.source or points[-1].target > point.target):
            points.pop()
        if len(points) < before:
            self.changed = True
            self.rewinds += 1
            if not points:
                self.since = None

    def trim(self, log_start: int) -> None:
        """Removes points below the source's log start: no offset there can be asked for."""
        first = bisect_right(self._points, log_start, key=_SOURCE) - 1
        if first > 0:
            del self._points[:first]
            self.changed = True
            self.since = None

    def place(self, source: int) -> int | Span | None:
        """The target offset of the first relayed record from source offset `source` or later.

        A Span if a log has to be read; None if the map does not reach back so far. An offset that
        is not mirrored yet gets the end of the mirror.
        """
        points = self._points
        if not points:
            return None
        if source >= points[-1].source:
            return points[-1].target
        at = bisect_right(points, source, key=_SOURCE) - 1
        if at < 0:
            return self.place(points[0].source) if self._is_first_after(source) else None
        # After a stretch without records, the next stretch with records counts.
        while at < len(points) - 2 and points[at].sequence == points[at + 1].sequence:
            at += 1
            source = points[at].source
        span = Span(points[at], points[at + 1])
        if not span.records:
            return span.end.target
        if span.straight and not self.multiplied:
            return span.start.target + source - span.start.source
        if source == span.start.source and not span.foreign:
            return span.start.target
        return span

    def place_back(self, target: int) -> int | Span | None:
        """The way back: the source offset from which on exactly those records come that lie at
        target offset `target` or later. A Span if the logs have to be read; None if the map does
        not reach back so far. An offset behind its end gets the end of the mirror."""
        points = self._points
        at = bisect_right(points, target, key=_TARGET) - 1
        if at < 0:
            return None
        # All before a point lie before its target offset, and all else there or later.
        if at == len(points) - 1 or target == points[at].target:
            return points[at].source
        span = Span(points[at], points[at + 1])
        if not span.records:
            return span.end.source
        if span.straight and not self.multiplied:
            return span.start.source + target - span.start.target
        return span

    def alone_until(self, target: int) -> int:
        """From target offset `target` up to the result, each offset is of a record of the mirror;
        `target` itself if that is not known."""
        points = self._points
        at = bisect_right(points, target, key=_TARGET) - 1
        if at < 0:
            return target
        while at < len(points) - 1 and not Span(points[at], points[at + 1]).foreign:
            at += 1
        return max(target, points[at].target)

    def read_again(self, source: int, target: int, *, back: bool = False) -> tuple[int, int]:
        """The least and the most number of records that lie before offset `source` on the source,
        and at offset `target` or later on the target: a group has read them before it moved to the
        target, and reads them again there. `back`: for a group that moves from the target to the
        source."""
        (begin, there), (end, here) = (target, _TARGET), (source, _SOURCE)
        if back:
            (begin, there), (end, here) = (end, here), (begin, there)
        points = self._points
        if not points or self.multiplied:
            return 0, end
        first = max(0, bisect_right(points, begin, key=there) - 1)
        last = max(0, bisect_right(points, end, key=here) - 1)
        before = self._records_to(first, begin, there)
        after = self._records_to(last, end, here)
        low, high = sorted((first, last))
        between = distance(points[low].sequence, points[high].sequence)
        if last < first:
            between = -between
        return max(0, between + after[0] - before[1]), max(0, between + after[1] - before[0])

    def _records_to(self, at: int, offset: int, key: Callable[[Pair], int]) -> tuple[int, int]:
        """The least and the most number of records from point `at` to `offset`; negative before the
        first point."""
        width = offset - key(self._points[at])
        if width < 0:
            return width, 0
        if at == len(self._points) - 1:
            return 0, width
        span = Span(self._points[at], self._points[at + 1])
        return max(0, span.records - (key(span.end) - offset)), min(span.records, width)

    def _is_first_after(self, source: int) -> bool:
        """Whether the first record after source offset `source` is the map's first record."""
        first = self._points[0]
        whole = first.target == first.sequence == 0
        return whole or (self.since is not None and source >= self.since)

    def _thin(self) -> None:
        """Drop a third of all: of the older three quarters, those with the closest neighbours."""
        points = self._points
        older = len(points) * 3 // 4
        reach = {
            at: width
            for at in range(1, older, 2)
            if (width := points[at + 1].source - points[at - 1].source) <= _WIDEST
            and points[at + 1].target - points[at - 1].target <= _WIDEST
        }
        dropped = set(sorted(reach, key=reach.__getitem__)[: len(points) // 3])
        self._points = [point for at, point in enumerate(points) if at not in dropped]

    def _continues(self, before: Pair, last: Pair, point: Pair) -> bool:
        """Whether the other two points imply `last`."""
        if point.source - before.source > _WIDEST:
            return False
        one, other = Span(before, last), Span(last, point)
        if not one.records and not other.records:
            return last.target == point.target
        return one.straight and other.straight and not self.multiplied


class SameOffsets(OffsetMap):
    """The map of a partition that preserves offsets. `begin`: the first offset to mirror; `end`:
    the end of the target's log, which is the position. Nothing has to be looked up. An offset below
    `begin` also stays the same: the target's log has no such offset, or it has records that came
    from there before a failback."""

    def __init__(self, begin: int, end: Pair) -> None:
        super().__init__()
        self._begin = begin
        self.reach(end)

    def add(self, point: Pair) -> None:
        """A gap changes nothing."""

    def reach(self, pair: Pair) -> None:
        first = min(self._begin, pair.source)
        self._points = [pair._replace(source=first, target=first), pair]

    def rewind(self, point: Pair) -> None:
        self.reach(point)

    def trim(self, log_start: int) -> None:
        """Each offset stays the same."""

    def place(self, source: int) -> int:
        return min(source, self._points[-1].source)

    def place_back(self, target: int) -> int:
        return min(target, self._points[-1].target)

    def alone_until(self, target: int) -> int:
        return max(target, self._points[-1].target)


def encode(points: Sequence[Pair]) -> list[int]:
    """For a JSON record: the first point, then the differences of each to the one before."""
    flat: list[int] = list(points[0]) if points else []
    for one, other in pairwise(points):
        flat += (b - a for a, b in zip(one, other, strict=True))
    return flat


def decode(flat: Sequence[int]) -> list[Pair]:
    """The reverse of `encode`. Raises ValueError unless there is a whole number of points."""
    points: list[Pair] = []
    last = (0, 0, 0)
    for step in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        last = (last[0] + step[0], last[1] + step[1], last[2] + step[2])
        points.append(Pair(*last))
    return points
