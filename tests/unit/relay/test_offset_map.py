"""The offset map against a list that says of each record where it went."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.link_topics import OffsetMap, Span
from causeway.link_topics.offset_map import decode, encode
from causeway.model import Pair


class Truth:
    """A mirror: which source offsets were relayed, and where each of them lies."""

    def __init__(self, steps: list[tuple[int, int, int]]) -> None:
        """`steps`: (foreign records on the target, gap in the source, run of records)."""
        self.went: dict[int, int] = {}
        self.points = [Pair(0, 0, 0)]
        source = target = 0
        for foreign, gap, run in steps:
            target += foreign
            source += gap
            self.points.append(Pair(source, target, len(self.went)))
            for _ in range(run):
                self.went[source] = target
                source, target = source + 1, target + 1
            self.points.append(Pair(source, target, len(self.went)))
        self.end = source

    def place(self, offset: int) -> int | None:
        """Of the first relayed record from `offset` on; None where there is none yet."""
        return next((self.went[o] for o in range(offset, self.end) if o in self.went), None)


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=12
)


def check(known: OffsetMap, truth: Truth) -> None:
    for offset in range(truth.end):
        expected, place = truth.place(offset), known.place(offset)
        if isinstance(place, Span):
            assert offset < place.end.source
            if expected is not None and expected < place.end.target:
                assert place.start.target <= expected
        elif expected is not None:
            assert place == expected, offset


@given(STEPS)
def test_every_offset_has_its_place(steps: list[tuple[int, int, int]]) -> None:
    truth = Truth([(0, gap, run) for _, gap, run in steps])
    known = OffsetMap(truth.points)

    for offset in range(truth.end):
        place = known.place(offset)
        assert not isinstance(place, Span), "every break is known, nothing is to be looked up"
    check(known, truth)


@given(STEPS, st.randoms())
def test_missing_points_cost_time_not_truth(
    steps: list[tuple[int, int, int]], chance: random.Random
) -> None:
    truth = Truth(steps)
    kept = [point for point in truth.points[1:-1] if chance.random() < 0.5]

    check(OffsetMap([truth.points[0], *kept, truth.points[-1]]), truth)


def test_one_run_is_two_points_however_often_it_is_reported() -> None:
    known = OffsetMap(Pair(n, n, n) for n in range(0, 10_000, 7))

    assert len(known.points) == 2


@pytest.mark.parametrize("most", [16, 100])
def test_it_is_bounded_and_keeps_its_ends(most: int) -> None:
    points = [Pair(n * 11, n * 10, n * 10) for n in range(3_000)]
    known = OffsetMap(points, most=most)

    assert len(known.points) <= most
    assert (known.points[0], known.points[-1]) == (points[0], points[-1])
    reaches = [b.source - a.source for a, b in pairwise(known.points)]
    assert max(reaches[-most // 4 :]) == 11, "the newest are all there"


def test_what_is_not_mirrored_yet_gets_the_end() -> None:
    assert OffsetMap([Pair(0, 0, 0), Pair(10, 10, 10)]).place(50) == 10


def test_what_lies_before_a_mirror_begins_with_it_if_that_is_its_very_beginning() -> None:
    assert OffsetMap([Pair(100, 0, 0), Pair(110, 10, 10)]).place(7) == 0
    assert OffsetMap([Pair(100, 40, 40), Pair(110, 50, 50)]).place(7) is None


def test_old_news_changes_nothing() -> None:
    known = OffsetMap([Pair(0, 0, 0), Pair(10, 8, 8)])
    known.add(Pair(5, 4, 4))

    assert list(known.points) == [Pair(0, 0, 0), Pair(10, 8, 8)]


def test_what_the_target_has_lost_is_forgotten() -> None:
    known = OffsetMap([Pair(0, 0, 0), Pair(10, 8, 8), Pair(20, 15, 15)])
    known.rewind(Pair(12, 9, 9))
    again = Pair(12, 9, 9), Pair(20, 18, 15)
    for point in again:
        known.add(point)

    assert list(known.points) == [Pair(0, 0, 0), Pair(10, 8, 8), *again]
    assert known.rewinds == 1
    known.rewind(Pair(20, 18, 15))
    assert known.rewinds == 1, "nothing was lost"


def test_trimmed_below_the_log_start() -> None:
    known = OffsetMap([Pair(0, 0, 0), Pair(10, 8, 8), Pair(20, 15, 15), Pair(30, 20, 20)])
    known.trim(15)

    assert known.points[0] == Pair(10, 8, 8)
    assert known.changed


def test_sequences_wrap() -> None:
    start, end = Pair(0, 5, 2**31 - 3), Pair(10, 15, 7)

    assert OffsetMap([start, end]).place(4) == 9


def test_a_straight_stretch_longer_than_sequences_count() -> None:
    """Five days at 5,000 records a second."""
    known = OffsetMap([Pair(0, 0, 0)])
    reached = 0
    while reached <= 2**31 + 1_000:
        reached += 1 << 20
        known.add(Pair(reached, reached, reached % 2**31))

    assert len(known.points) <= 5
    for offset in (0, 77, 2**31 - 1, 2**31, 2**31 + 500):
        assert known.place(offset) == offset


@given(STEPS)
def test_encoded_and_back(steps: list[tuple[int, int, int]]) -> None:
    points = Truth(steps).points

    assert decode(encode(points)) == points


def test_what_only_others_wrote_moves_no_offset() -> None:
    """A group that has read all of the source goes on right after our last record: what follows it
    is others', and the group has not read it."""
    offsets = OffsetMap([Pair(0, 0, 0), Pair(10, 10, 10)])
    offsets.reach(Pair(10, 90, 10))
    assert offsets.place(10) == 10
    offsets.reach(Pair(12, 99, 12))
    assert offsets.place(12) == 99


@given(STEPS, st.integers(0, 80), st.integers(4, 40))
def test_each_offset_up_to_there_is_a_record_of_the_mirror(
    steps: list[tuple[int, int, int]], target: int, most: int
) -> None:
    truth = Truth(steps)
    known = OffsetMap(truth.points, most=most)
    until = known.alone_until(target)
    assert until >= target
    assert set(range(target, until)) <= set(truth.went.values())


def test_a_group_in_a_deleted_stretch_goes_on_after_it() -> None:
    """The pair behind a loss has the sequence and the target offset of the one before."""
    offsets = OffsetMap([Pair(0, 0, 0), Pair(100, 100, 100)])
    offsets.reach(Pair(150, 100, 100))
    offsets.reach(Pair(170, 120, 120))
    assert [offsets.place(at) for at in (99, 100, 130, 150, 151)] == [99, 100, 100, 100, 101]
    assert offsets.place_back(100) == 150
    offsets.trim(150)
    assert [offsets.place(at) for at in (150, 160)] == [100, 110]
