"""The gaps of an outlet that keeps offsets: in which order, and in which way they are filled."""

from __future__ import annotations

import pytest

from causeway.link_topics import Filled
from causeway.records import Batch, Gap
from causeway.relay import Preserve
from causeway.relay.lane.gaps import Gaps


def gaps(begin: int = 0, filler_from: int | None = None, *, stops: bool = False) -> Gaps:
    return Gaps(
        Preserve(
            begin=begin,
            gaps="markers",
            transactional_id="causeway.A.B.offsets",
            filler_from=filler_from,
            stops=stops,
        )
    )


def batch(first: int, payload: bytes | memoryview = b"payload") -> Batch:
    return Batch(payload, 0, 0, 0, 1, first, first + 1, 0)


def test_batches_behind_a_gap_are_due_once_it_is_filled_up_to_the_next_gap() -> None:
    one = gaps()
    for run in (Gap(3, 5), batch(5), batch(6), Gap(7, 8), batch(8)):
        one.put(run)
    assert one.first == Gap(3, 5)
    assert one.size == 3 * batch(5).size

    assert one.filled_to(4) == []
    assert one.first == Gap(4, 5)
    assert one.filled_to(5) == [batch(5), batch(6)]
    assert one.first == Gap(7, 8)
    assert one.size == batch(8).size
    assert one.filled_to(8) == [batch(8)]
    assert one.first is None
    assert one.size == 0


def test_neighbouring_gaps_become_one() -> None:
    one = gaps()
    one.put(Gap(3, 5))
    one.put(Gap(5, 9))
    assert list(one.queue) == [Gap(3, 9)]


def test_the_beginning_is_a_gap_of_its_own() -> None:
    one = gaps(begin=5)
    one.put(Gap(0, 9))
    assert list(one.queue) == [Gap(0, 5), Gap(5, 9)]
    assert one.way(Gap(0, 5)) == "beginning"
    assert one.way(Gap(5, 9)) == "markers"


def test_a_batch_that_waits_keeps_no_answer_in_memory() -> None:
    one = gaps()
    one.put(Gap(3, 5))
    one.put(batch(5, memoryview(b"payload")))
    assert type(one.filled_to(5)[0].payload) is bytes


@pytest.mark.parametrize(
    ("size", "filler_from", "stops", "way"),
    [
        (10**9, None, False, "markers"),
        (99, 100, False, "markers"),
        (100, 100, False, "filler"),
        (100, 100, True, None),
        (99, 100, True, "markers"),
    ],
)
def test_only_large_gaps_of_compacted_topics_are_filled_with_filler(
    size: int, filler_from: int | None, stops: bool, way: str | None
) -> None:
    assert gaps(0, filler_from, stops=stops).way(Gap(7, 7 + size)) == way


def test_what_is_filled_is_counted_by_its_way() -> None:
    one = gaps(begin=5)
    one.note("beginning", 5, whole=True)
    one.note("markers", 2, whole=False)
    one.note("markers", 1, whole=True)
    one.note("filler", 100, whole=True)
    assert one.filled == Filled(gaps=2, beginning=5, markers=3, filler=100)


def test_a_doubt_outlives_a_second_recovery() -> None:
    one = gaps()
    one.reset(doubtful=True)
    one.reset(doubtful=False)
    assert one.doubtful
