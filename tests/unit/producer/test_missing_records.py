"""Records that a log lacks although it has later ones: they are found, and sent again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from causeway_producer import DualProducer
from causeway_producer.cluster import Reading
from causeway_producer.spool import Place
from tests.harness.dual_producer import (
    Open,
    alike,
    crash,
    opened,
    settled,
    side_of,
    until,
)
from tests.harness.two_sides import Cluster, TwoSides, two_sides

__all__ = ["opened", "two_sides"]

HOUR_S = 3600
TWO_DAYS_MS = 48 * HOUR_S * 1000


def produce(producer: DualProducer, numbers: range, *, age_ms: int = 0) -> None:
    now_ms = int(time.time() * 1000)
    for number in numbers:
        producer.produce("orders", b"%d" % number, partition=0, timestamp=now_ms - age_ms)


def numbers(cluster: Cluster) -> list[int]:
    return [int(value) for value in cluster.values()["orders", 0]]


def first_copies(cluster: Cluster) -> list[int]:
    return list(dict.fromkeys(numbers(cluster)))


def reached(
    expected: range | list[int], *ours: int | tuple[int, int], removed: bool = False
) -> int:
    """`ours`: positions in the log, with the number of offsets before that have no record."""
    rows = [each if isinstance(each, tuple) else (each, 0) for each in ours]
    return Reading(Place(10, 0), ours=rows).reached(expected, lambda: removed)


def test_a_log_is_believed_up_to_the_first_record_that_is_missing() -> None:
    journal = range(11, 20)
    assert reached(journal) == 10
    assert reached(journal, 11, 12, 13) == 13
    assert reached(journal, 11, 13, 14) == 11
    assert reached(journal, 12, 13) == 10
    assert reached(journal, 11, 12, 11, 12, 13) == 13, "a second copy"
    assert reached(journal, 11, 13, 14, 12) == 12, "13 and 14 are sent again, behind 12"
    assert reached(journal, 11, 13, 14, 12, 13, 14, 15) == 15


def test_a_log_may_have_what_the_journal_has_no_more() -> None:
    assert reached([11, 14], 11, 12, 13, 14) == 14, "a damaged place of the spool"
    assert reached([11], 11, 12, 13) == 13
    assert reached([11, 13, 15], 11, 12, 15) == 12


def test_records_that_the_log_may_have_removed_are_not_missed() -> None:
    journal = range(11, 20)
    assert reached(journal, (14, 3), (15, 3), removed=True) == 15
    assert reached(journal, (14, 3), (15, 3)) == 10
    assert reached(journal, (14, 2), (15, 2), removed=True) == 10, "no room for all three"
    assert reached(journal, (14, 3), (16, 3), removed=True) == 14, "nothing was removed before 16"


def refused_and_appended(producer: DualProducer, sides: TwoSides) -> None:
    """West refuses a record, and appends the one behind it, as it has forgotten the client. The
    producer does not read the log before `settle_s`."""
    sides.west.fails = (0.0, 0.0)
    sides.west.refuses = frozenset({b"40"})
    produce(producer, range(40), age_ms=TWO_DAYS_MS)
    settled(producer)
    produce(producer, range(40, 60), age_ms=TWO_DAYS_MS)
    until(producer, lambda: 41 in numbers(sides.west))
    assert 40 not in numbers(sides.west)


def test_a_process_that_is_killed_after_a_refusal_hides_no_record(
    two_sides: TwoSides, opened: Open
) -> None:
    producer = opened(settle_s=60)
    refused_and_appended(producer, two_sides)
    crash(producer, two_sides)
    two_sides.west.refuses = frozenset()
    producer = opened()
    settled(producer)
    assert set(numbers(two_sides.west)) == set(range(60))
    assert numbers(two_sides.west)[-20:] == list(range(40, 60))
    assert numbers(two_sides.east) == list(range(60))


def test_a_refused_record_is_not_missed_at_the_next_start(
    two_sides: TwoSides, opened: Open
) -> None:
    two_sides.west.refuses = frozenset({b"40"})
    producer = opened()
    produce(producer, range(80))
    settled(producer)
    two_sides.west.up = False
    produce(producer, range(80, 100))
    until(producer, lambda: 99 in numbers(two_sides.east))
    crash(producer, two_sides, (0, 5))
    two_sides.west.up = True
    producer = opened()
    settled(producer)
    assert numbers(two_sides.west) == [number for number in range(100) if number != 40]


@pytest.mark.parametrize("compacted", [True, False])
def test_records_that_the_cluster_removed_are_not_sent_again(
    compacted: bool, two_sides: TwoSides, opened: Open
) -> None:
    producer = opened()
    produce(producer, range(10))
    settled(producer)
    two_sides.west.up = False
    produce(producer, range(10, 50))
    until(producer, lambda: side_of(producer, "west")["in_flight"] == 40)
    crash(producer, two_sides, (40, 40))
    two_sides.west.up = True
    two_sides.west.compacted = compacted
    gone = range(10, 40, 3) if compacted else range(30)
    two_sides.west.removed = {(("orders", 0), offset) for offset in gone}
    producer = opened()
    settled(producer)
    assert numbers(two_sides.west) == list(range(50))


@pytest.mark.parametrize("seed", range(5))
def test_a_process_that_was_stopped_for_a_day_believes_no_answer(
    seed: int, two_sides: TwoSides, opened: Open
) -> None:
    """The client sends its batches in the moment in which the process goes on. Offsets do not show
    that records are missing, as another application writes as well."""
    producer = opened(on_side_delivery=lambda *each: None)  # each record gets an answer
    west = two_sides.west
    west.fails = (0.0, 0.0)
    produce(producer, range(10))
    settled(producer)
    west.up = False
    produce(producer, range(10, 60))
    until(producer, lambda: side_of(producer, "west")["in_flight"] == 50)

    def stopped() -> None:
        random.seed(seed)
        west.fails = (0.5, 0.0)
        two_sides.clock_s += 30 * HOUR_S
        west.forgets_after_ms *= 2  # so brokers remember the batches that they append now
        west.sequences.clear()
        west.up = True
        west.logs["orders", 0] += [("orders", b"-1", None, 0, None, None, 0, [])] * 100

    west.clients[-1].before_poll = stopped
    until(producer, lambda: west.up)
    settled(producer)
    assert set(numbers(west)) == {-1, *range(60)}


@pytest.mark.parametrize(
    ("forgets_after_ms", "tells", "in_flight"),
    [(HOUR_S * 1000, True, 1), (48 * HOUR_S * 1000, True, 5), (48 * HOUR_S * 1000, False, 5)],
)
def test_brokers_that_forget_early_get_one_request_at_a_time(
    forgets_after_ms: int, tells: bool, in_flight: int, two_sides: TwoSides, opened: Open
) -> None:
    two_sides.west.forgets_after_ms, two_sides.west.tells = forgets_after_ms, tells
    producer = opened()
    produce(producer, range(10))
    settled(producer)
    assert two_sides.west.clients[-1].in_flight == in_flight
    assert two_sides.east.clients[-1].in_flight == 5
    assert side_of(producer, "west")["forgets_after_ms"] == (forgets_after_ms if tells else None)
    alike(two_sides)


@pytest.mark.parametrize("seed", range(5))
def test_brokers_that_forget_early_and_fail_lose_nothing(
    seed: int, two_sides: TwoSides, opened: Open
) -> None:
    random.seed(seed)
    two_sides.west.forgets_after_ms = 1
    two_sides.west.fails = (0.2, 0.1)
    producer = opened()
    for number in range(0, 200, 20):
        produce(producer, range(number, number + 20))
        producer.poll(0.01)
    settled(producer)
    assert first_copies(two_sides.west) == list(range(200))


def lose(sides: TwoSides, *values: bytes) -> Callable[[], None]:
    def lose() -> None:
        sides.west.clients[-1].drops = frozenset(values)

    return lose


@pytest.mark.parametrize("answered", [False, True])
def test_a_record_that_fails_in_the_client_without_an_answer_is_sent_again(
    answered: bool, two_sides: TwoSides, opened: Open
) -> None:
    """librdkafka fails the records of a topic that is deleted, and takes others if it is made
    again. Only some records have an answer of their own."""
    heard: list[Any] = []
    producer = opened(on_side_delivery=(lambda *each: heard.append(each)) if answered else None)
    produce(producer, range(10))
    settled(producer)
    client = two_sides.west.clients[-1]
    client.before_produce = lose(two_sides, b"15", b"16")
    produce(producer, range(10, 60))
    settled(producer)
    assert set(numbers(two_sides.west)) == set(range(60))
    assert two_sides.west.clients[-1] is not client
    assert numbers(two_sides.west)[-45:] == list(range(15, 60))
