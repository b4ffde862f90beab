"""A producer at random: brokers that fail, refuse and forget, and processes that are killed."""

from __future__ import annotations

import random
import time

import pytest

from tests.harness.dual_producer import Open, crash, opened, settled
from tests.harness.two_sides import Cluster, TwoSides, two_sides

__all__ = ["opened", "two_sides"]

HOUR_MS = 3600 * 1000


def numbers(cluster: Cluster, partition: int) -> list[int]:
    return [int(value) for value in cluster.values().get(("orders", partition), ())]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_and_the_last_copies_are_in_order(
    seed: int, two_sides: TwoSides, opened: Open
) -> None:
    chance = random.Random(seed)
    random.seed(seed)
    west = two_sides.west
    west.fails = two_sides.east.fails = (0.0, 0.0)
    west.forgets_after_ms = chance.choice([1, HOUR_MS, 24 * HOUR_MS])
    refused: set[int] = set()
    producer, count = opened(), 0
    for _ in range(chance.randint(5, 25)):
        match chance.choice(["produce"] * 5 + ["fail", "refuse", "vanish", "wait", "die"]):
            case "produce":
                ms = int(time.time() * 1000) - chance.choice([0, 0, 48 * HOUR_MS])
                for number in range(count, count := count + chance.randint(1, 30)):
                    producer.produce("orders", b"%d" % number, partition=number % 2, timestamp=ms)
            case "fail":
                west.fails = chance.choice([(0.3, 0.2), (0.0, 0.0), (0.1, 0.5)])
            case "refuse":
                refused.add(number := chance.randint(max(0, count - 20), count + 20))
                west.refuses |= {b"%d" % number}
            case "vanish":
                west.up = not west.up
            case "wait":
                two_sides.clock_s += chance.choice([1, 61, 3700])
            case "die":
                crash(producer, two_sides)
                producer = opened()
        for _ in range(chance.randint(0, 6)):
            producer.poll(0.002)
    west.up = True
    settled(producer)
    for partition in range(2):
        wanted = list(range(partition, count, 2))
        assert numbers(two_sides.east, partition) == wanted
        last_copies = list(dict.fromkeys(reversed(numbers(west, partition))))[::-1]
        assert last_copies == sorted(last_copies)
        assert set(wanted) - set(last_copies) <= refused
