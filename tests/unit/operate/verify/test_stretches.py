"""What is mirrored of a feed, cut into ranges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.model import Pair
from causeway.operate.verify import stretches
from causeway.operate.verify.outcome import Range
from causeway.operate.verify.stretches import Logs, cut, same_offsets
from tests.builders.verify import FEED

STEP = 100  # offsets of a range


def _logs(source_start: int = 0, target_start: int = 0, target_end: int = 10**9) -> Logs:
    return Logs(
        source_start=source_start,
        target_start=target_start,
        target_end=target_end,
        offset_bytes=stretches.RANGE_BYTES / STEP,
    )


def _cut(points: Sequence[Pair], logs: Logs | None = None, **more: object) -> list[Range]:
    given: dict[str, object] = {"from_first": True, "range_bytes": stretches.RANGE_BYTES, **more}
    return cut(FEED, points, logs or _logs(), **given)  # type: ignore[arg-type]


def _spans(ranges: Sequence[Range]) -> list[tuple[int, int]]:
    return [(one.source_from, one.end.source) for one in ranges]


def test_a_straight_span_is_cut_anywhere() -> None:
    ranges = _cut([Pair(10, 0, 0), Pair(260, 250, 250)])
    assert _spans(ranges) == [(10, 110), (110, 210), (210, 260)]
    assert [one.start for one in ranges] == [
        Pair(10, 0, 0),
        Pair(110, 100, 100),
        Pair(210, 200, 200),
    ]


def test_one_with_gaps_only_at_the_points_of_the_map() -> None:
    points = [Pair(0, 0, 0), Pair(60, 50, 50), Pair(130, 100, 100), Pair(150, 110, 110)]
    assert _spans(_cut(points)) == [(0, 130), (130, 150)]


def test_what_agreed_before_is_left_out() -> None:
    points = [Pair(0, 0, 0), Pair(400, 400, 400)]
    first = [(Pair(0, 0, 0), Pair(120, 120, 120)), (Pair(250, 250, 250), Pair(300, 300, 300))]
    assert _spans(_cut(points, done=first)) == [(120, 220), (220, 250), (300, 400)]
    assert _cut(points, done=[(points[0], points[1])]) == []


def test_what_a_log_has_deleted_is_left_out() -> None:
    points = [Pair(0, 0, 0), Pair(300, 300, 300)]
    assert _spans(_cut(points, _logs(source_start=150))) == [(150, 200), (200, 300)]
    ranges = _cut(points, _logs(target_start=150))
    assert _spans(ranges)[0] == (100, 200) or ranges[0].start == Pair(150, 150, 150)
    assert ranges[0].target_from == 150
    assert not any(one.cut for one in ranges)
    assert _cut(points, _logs(source_start=300)) == []


def test_within_gaps_records_are_counted_from_the_end() -> None:
    points = [Pair(0, 0, 0), Pair(100, 90, 90), Pair(200, 190, 190)]
    first, second = _cut(points, _logs(source_start=40))
    assert (first.start, first.source_from, first.target_from) == (None, 40, 0)
    assert second.start == points[1]
    first, second = _cut(points, _logs(target_start=40))
    assert (first.start, first.source_from, first.target_from, first.cut) == (
        points[0],
        0,
        40,
        True,
    )
    assert not second.cut


def test_a_map_that_does_not_reach_back_leaves_its_beginning_to_be_counted() -> None:
    points = [Pair(500, 400, 400), Pair(550, 450, 450)]
    ranges = _cut(points, from_first=False)
    assert [(one.start, one.end) for one in ranges] == [
        (None, points[0]),
        (points[0], points[1]),
    ]


def test_a_target_that_ends_early_is_read_to_its_end() -> None:
    (last,) = _cut([Pair(0, 0, 0), Pair(90, 90, 90)], _logs(target_end=70))
    assert last.target_to == 70


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300)), max_size=8
    )
)
def test_nothing_is_left_out_and_nothing_is_compared_twice(
    steps: list[tuple[int, int, int]],
) -> None:
    points = [Pair(0, 0, 0)]
    for records, gaps, foreign in steps:
        last = points[-1]
        point = Pair(
            last.source + records + gaps, last.target + records + foreign, last.sequence + records
        )
        if point != last:
            points.append(point)
    ranges = _cut(points)
    if not points[-1].source:  # the source has had nothing, whatever others wrote
        assert ranges == []
        return
    assert ranges[0].start == points[0]
    assert ranges[-1].end == points[-1]
    for one, other in pairwise(ranges):
        assert one.end == other.start
        assert one.end.source > one.source_from or one.end.target > one.target_from


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_each_range_begins_at_a_true_pair(most: int) -> None:
    logs = Logs(
        source_start=0,
        target_start=0,
        target_end=10**9,
        offset_bytes=stretches.RANGE_BYTES / most,
    )
    for one in _cut([Pair(5, 3, 3), Pair(55, 53, 53)], logs):
        assert one.start is not None
        assert one.start.source - one.start.target == 2
        assert one.start.target == one.start.sequence


@pytest.mark.parametrize(("target_start", "begin"), [(50, 50), (60, 50), (20, 30)])
def test_preserved_offsets_are_compared_from_the_first_that_is_on_both_sides(
    target_start: int, begin: int
) -> None:
    """After a failback the target has earlier records, with the offsets of the source."""
    logs = Logs(source_start=30, target_start=target_start, target_end=90, offset_bytes=1.0)
    points = same_offsets(50, 90, logs)
    assert points == [Pair(begin, begin, begin), Pair(90, 90, 90)]
    found = cut(FEED, points, logs, from_first=True, range_bytes=20)
    assert found[0].source_from == max(begin, 30, target_start)
    assert found[-1].target_to == 90
    assert len(found) > 1


def test_a_long_log_with_preserved_offsets_is_cut_everywhere() -> None:
    end = 10**10
    logs = Logs(source_start=0, target_start=0, target_end=end, offset_bytes=1.0)
    found = cut(FEED, same_offsets(0, end, logs), logs, from_first=True, range_bytes=10**9)
    assert len(found) >= 10
    assert all(one.end == other.start for one, other in pairwise(found))
