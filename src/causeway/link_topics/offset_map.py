"""The offset map: the target offset of each offset of a source partition, exact and bounded.

The map is a sorted list of points (source, target, sequence). Each point is true by itself. Between
two neighbours a and b there are b.sequence - a.sequence relayed records. That is enough:

    no record between                        the record after a is at b
    as many records as offsets, on both      each offset moves by the same difference
    fewer records than source offsets        gaps: records are counted in the source's log on demand
    fewer records than target offsets        foreign writes: looked up in the target's log

So a missing point makes an answer slower, never wrong. Lanes report both ends of each gap. If there
are too many points, the map first drops older points that are close together.

If a transform may make several records of one, counts prove less: one dropped and one doubled
record look like two kept ones. Then the map knows only offsets at a point, or in a span without
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

MOST_POINTS = 1024  # of one partition, about 150 bytes each
# The most offsets of a span, on each side: sequences wrap, and cannot count more than 2**31.
_WIDEST = 1 << 30
_SOURCE = itemgetter(0)
_TARGET = itemgetter(1)


class Span(NamedTuple):
    """A range of the map. The offsets inside it have to be looked up in a log."""

    start: Pair
    end: Pair

    @property
    def records(self) -> int:
        """The number of relayed records in the span."""
        return distance(self.start.sequence, self.end.sequence)

    @property
    def straight(self) -> bool:
        """Whether the whole span has one difference: it has neither gaps nor foreign writes."""
        return self.records == self.end.source - self.start.source == self._width

    @property
    def foreign(self) -> bool:
        """Whether others wrote between our records on the target."""
        return self.records != self._width

    @property
    def _width(self) -> int:
        return self.end.target - self.start.target


class OffsetMap:
    """The map of one source partition and one target partition that it feeds. Not thread-safe.

    `multiplied`: one source record may have become several. `since`: no record between this source
    offset and the first point went to the target; None if that is not known. `changed`: more than
    the end of the map has changed since the owner last set this to False. `rewinds`: how often
    points were no longer true.
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
        """The points in order. The last point is how far the mirror has come."""
        return self._points

    def add(self, point: Pair) -> None:
        """Adds `point`: the mirror has come there. A point before the end changes nothing."""
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
        """Adds `pair`: the mirror has come there. If only others wrote to the target since, the map
        does not change: a group has not read the others' records behind our last record."""
        last = self._points[-1] if self._points else None
        if last is None or (pair.source, pair.sequence) != (last.source, last.sequence):
            self.add(pair)

    def rewind(self, point: Pair) -> None:
        """Removes points behind `point`: the target has lost acknowledged records there. They are
        sent again, perhaps to other offsets."""
        points, before = self._points, len(self._points)
        while points and (points[-1].source > point.source or points[-1].target > point.target):
            points.pop()
        if len(points) < before:
            self.changed = True
            self.rewinds += 1
            if not points:
                self.since = None

    def trim(self, log_start: int) -> None:
        """Removes points below the source's log start: offsets there are no longer asked for."""
        first = bisect_right(self._points, log_start, key=_SOURCE) - 1
        if first > 0:
            del self._points[:first]
            self.changed = True
            self.since = None

    def place(self, source: int) -> int | Span | None:
        """Returns the target offset of the first relayed record at source offset `source` or later.

        A Span if a log has to be read. None if the map does not reach back so far. The end of the
        mirror if the offset is not mirrored yet.
        """
        points = self._points
        if not points:
            return None
        if source >= points[-1].source:
            return points[-1].target
        at = bisect_right(points, source, key=_SOURCE) - 1
        if at < 0:
            return self.place(points[0].source) if self._is_first_after(source) else None
        # If the span has no records, the next span with records counts.
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
        """The way back: the source offset of the first record that is at target offset `target` or
        later. A Span if the logs have to be read. None if the map does not reach back so far. The
        end of the mirror if the offset is behind the end of the map."""
        points = self._points
        at = bisect_right(points, target, key=_TARGET) - 1
        if at < 0:
            return None
        # Records before a point are below its target offset; all others are there or later.
        if at == len(points) - 1 or target == points[at].target:
            return points[at].source
        span = Span(points[at], points[at + 1])
        if not span.records:
            return span.end.source
        if span.straight and not self.multiplied:
            return span.start.source + target - span.start.target
        return span

    def alone_until(self, target: int) -> int:
        """From target offset `target` to the result, each offset has a record of the mirror. The
        result is `target` if that is not known."""
        points = self._points
        at = bisect_right(points, target, key=_TARGET) - 1
        if at < 0:
            return target
        while at < len(points) - 1 and not Span(points[at], points[at + 1]).foreign:
            at += 1
        return max(target, points[at].target)

    def read_again(self, source: int, target: int, *, back: bool = False) -> tuple[int, int]:
        """Returns the least and the most number of records that a group reads again when it moves
        from the source to the target: they are before offset `source` on the source, and at offset
        `target` or later on the target. `back`: the group moves from the target to the source."""
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
        """Returns the least and the most number of records from point `at` to `offset`. They are
        negative if `offset` is before the first point."""
        width = offset - key(self._points[at])
        if width < 0:
            return width, 0
        if at == len(self._points) - 1:
            return 0, width
        span = Span(self._points[at], self._points[at + 1])
        return max(0, span.records - (key(span.end) - offset)), min(span.records, width)

    def _is_first_after(self, source: int) -> bool:
        """Returns whether the first record after source offset `source` is the map's first
        record."""
        first = self._points[0]
        whole = first.target == first.sequence == 0
        return whole or (self.since is not None and source >= self.since)

    def _thin(self) -> None:
        """Drops a third of all points: of the older three quarters, those with the closest
        neighbours."""
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
        """Returns whether the other two points imply `last`."""
        if point.source - before.source > _WIDEST:
            return False
        one, other = Span(before, last), Span(last, point)
        if not one.records and not other.records:
            return last.target == point.target
        return one.straight and other.straight and not self.multiplied


class SameOffsets(OffsetMap):
    """The map of a partition that preserves offsets. `begin`: the first offset to mirror. `end`:
    the end of the target's log, which is the position. Nothing has to be looked up. An offset below
    `begin` stays the same, too: either the target's log has no such offset, or the source's records
    there came from the target before a failback."""

    def __init__(self, begin: int, end: Pair) -> None:
        super().__init__()
        self._begin = begin
        self.reach(end)

    def add(self, point: Pair) -> None:
        """Does nothing: gaps do not change the map."""

    def reach(self, pair: Pair) -> None:
        first = min(self._begin, pair.source)
        self._points = [pair._replace(source=first, target=first), pair]

    def rewind(self, point: Pair) -> None:
        self.reach(point)

    def trim(self, log_start: int) -> None:
        """Does nothing: each offset stays the same."""

    def place(self, source: int) -> int:
        return min(source, self._points[-1].source)

    def place_back(self, target: int) -> int:
        return min(target, self._points[-1].target)

    def alone_until(self, target: int) -> int:
        return max(target, self._points[-1].target)


def encode(points: Sequence[Pair]) -> list[int]:
    """Returns the points for a JSON record: the first point, then each difference to the point
    before."""
    flat: list[int] = list(points[0]) if points else []
    for one, other in pairwise(points):
        flat += (b - a for a, b in zip(one, other, strict=True))
    return flat


def decode(flat: Sequence[int]) -> list[Pair]:
    """Returns the reverse of `encode`. Raises ValueError unless there is a whole number of
    points."""
    points: list[Pair] = []
    last = (0, 0, 0)
    for step in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        last = (last[0] + step[0], last[1] + step[1], last[2] + step[2])
        points.append(Pair(*last))
    return points
