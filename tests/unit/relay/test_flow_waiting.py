"""Since when the first record that is not mirrored waits, by what a lane has fetched."""

from __future__ import annotations

from causeway.records import Batch
from causeway.relay.lane.flow import FetchedTimes

NOON = 1_700_000_000_000


def batch(first: int, timestamp: int) -> Batch:
    """Of ten records."""
    return Batch(b"", 0, timestamp, timestamp, 10, first, first + 10, 0)


def fetched(*stamps: int) -> FetchedTimes:
    """A batch at offsets 0, 10, 20 and so on for each of these, in ms after noon."""
    waiting = FetchedTimes()
    waiting.note([batch(10 * at, NOON + stamp) for at, stamp in enumerate(stamps)])
    return waiting


def test_the_time_is_that_of_the_batch_at_the_position() -> None:
    waiting = fetched(0, 3_600_000, 3_601_000)
    assert waiting.first(0) == NOON
    assert waiting.first(10) == NOON + 3_600_000
    assert waiting.first(15) == NOON + 3_600_000
    assert waiting.first(20) == NOON + 3_601_000


def test_batches_of_the_same_second_count_as_one() -> None:
    waiting = fetched(0, 400, 999, 1_300)
    assert [waiting.first(position) for position in (0, 20, 30)] == [NOON, NOON, NOON + 1_300]


def test_times_that_go_back_count_as_they_are() -> None:
    """As of records that were restored: they are as old as they say."""
    waiting = fetched(0, -86_400_000)
    assert waiting.first(10) == NOON - 86_400_000


def test_what_was_not_fetched_is_unknown_or_follows_the_last_one() -> None:
    assert FetchedTimes().first(0) == -1
    waiting = fetched(0, 5_000)
    assert waiting.first(20) == NOON + 5_000, "mirrored just now, and the next record follows"
    waiting.clear()
    assert waiting.first(20) == -1
    waiting.note([batch(20, NOON + 5_100)])
    assert waiting.first(20) == NOON + 5_100
    assert waiting.first(10) == -1, "the target has lost records, and they are fetched again"
