"""Cuts what is mirrored of one feed into ranges that can be compared by themselves.

    map of offsets   ●──straight──────────────●──gaps──●─●──●──straight──────────●  pair
    ranges           [       ][       ][      ][             ][        ][        ]

Within a straight span any offset can be the start of a range, since one difference holds for all of
it; elsewhere only the points of the map can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from causeway.link_topics import Span
from causeway.model import Pair
from causeway.operate.verify.ranges import Feed, Range
from causeway.records import advance

RANGE_BYTES = 64 * 1024 * 1024  # of the source, about

Stretch = tuple[Pair, Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Where the source's log starts, and where the target's starts and ends."""

    source_start: int
    target_start: int
    target_end: int
    offset_bytes: float


def cut(
    feed: Feed,
    points: Sequence[Pair],
    logs: Logs,
    *,
    from_first: bool,
    done: Sequence[Stretch] = (),
    range_bytes: int | None = None,
) -> list[Range]:
    """What is left to be compared. `points`: of the map, ascending, the last one the pair up to
    which all is mirrored. `from_first`: nothing was mirrored before the first of them. `done`: what
    was found to agree before, in order; it is left out. `range_bytes`: about how long, if not
    RANGE_BYTES."""
    most = max(1, int((range_bytes or RANGE_BYTES) / logs.offset_bytes))
    known = sorted({*points, *(pair for stretch in done for pair in stretch)})
    stretches = [
        (one, other)
        for one, other in pairwise(known)
        if not any(a.source <= one.source and other.source <= b.source for a, b in done)
    ]
    found: list[Range] = []
    if not from_first:
        found += _range(feed, None, known[0], logs)
    # A gap between what is left makes a new range.
    for group in _neighbours(stretches):
        for start, end in _sized(group, most):
            found += _range(feed, start, end, logs)
    return found


def _neighbours(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    group: list[Stretch] = []
    for stretch in stretches:
        if group and group[-1][1] != stretch[0]:
            yield group
            group = []
        group.append(stretch)
    if group:
        yield group


def _sized(stretches: Sequence[Stretch], most: int) -> Iterator[Stretch]:
    """About `most` source offsets each."""
    begin = stretches[0][0]
    for start, end in stretches:
        if Span(start, end).straight:
            while end.source - begin.source > most:
                step = max(begin.source + most, start.source) - start.source
                if not step:
                    break
                place = Pair(
                    start.source + step, start.target + step, advance(start.sequence, step)
                )
                yield begin, place
                begin = place
        if end.source - begin.source >= most:
            yield begin, end
            begin = end
    if begin != stretches[-1][1]:
        yield begin, stretches[-1][1]


def _range(feed: Feed, start: Pair | None, end: Pair, logs: Logs) -> Iterator[Range]:
    """None where a log holds nothing of it any more."""
    if end.source <= logs.source_start or 0 < logs.target_start >= end.target:
        return
    begin = start or Pair(0, 0, 0)
    if start is not None:
        lost = max(logs.source_start - start.source, logs.target_start - start.target)
        if lost > 0 and Span(start, end).straight:
            start = begin = Pair(
                start.source + lost, start.target + lost, advance(start.sequence, lost)
            )
        elif logs.source_start > start.source:
            start = None
    yield Range(
        feed=feed,
        start=start,
        end=end,
        source_from=max(begin.source, logs.source_start),
        target_from=max(begin.target, logs.target_start),
        target_to=min(end.target, logs.target_end),
        cut=logs.target_start > begin.target,
        offset_bytes=logs.offset_bytes,
    )


def earlier(feed: Feed, first: Pair, logs: Logs) -> Range | None:
    """What another tool has mirrored before may be the same, if it lies there without gaps."""
    if first.source <= logs.source_start or first.target <= logs.target_start:
        return None
    return Range(
        feed=replace(feed, earlier=True),
        start=None,
        end=first,
        source_from=logs.source_start,
        target_from=logs.target_start,
        target_to=min(first.target, logs.target_end),
        offset_bytes=logs.offset_bytes,
    )


def behind_all(feed: Feed, last: Pair, logs: Logs) -> Range:
    """Nothing to compare: who else wrote to the target, behind what is mirrored?"""
    return Range(
        feed=feed,
        start=last,
        end=last,
        source_from=last.source,
        target_from=last.target,
        target_to=last.target,
        others_to=logs.target_end,
    )
