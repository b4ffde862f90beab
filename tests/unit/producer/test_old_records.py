"""Old records: brokers may forget the producer while its records are sent. Nothing is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from causeway_producer import DualProducer
from tests.harness.dual_producer import pass_time
from tests.harness.two_sides import Cluster, TwoSides, two_sides
from tests.harness.waiting import await_until

__all__ = ["two_sides"]

TWO_DAYS_MS = 2 * 24 * 3600 * 1000
AFTER_OLD_RECORDS_S = 61.0  # then several requests are sent at a time again


@pytest.fixture
def producer(two_sides: TwoSides, tmp_path: Path) -> Any:
    producer = DualProducer(
        {"bootstrap.servers": "east"}, {"bootstrap.servers": "west"}, spool=tmp_path, settle_s=0
    )
    yield producer
    producer.close(timeout=0)


def produce(producer: DualProducer, numbers: range, *, age_ms: int = 0) -> None:
    now = int(time.time() * 1000)
    for number in numbers:
        producer.produce("orders", b"%d" % number, partition=number % 2, timestamp=now - age_ms)


def poll_until(producer: DualProducer, condition: Callable[[], object]) -> None:
    def polled() -> object:
        producer.poll(0.001)
        return condition()

    await_until(polled, 60, poll_s=0)


def all_there(producer: DualProducer) -> None:
    poll_until(
        producer,
        lambda: (
            not len(producer)
            and all(
                not (each["in_flight"] or each["behind_bytes"])
                for each in producer.stats()["sides"].values()
            )
        ),
    )


def first_copies(cluster: Cluster) -> dict[int, list[int]]:
    """The numbers in each partition, without second copies of a record."""
    return {
        partition: list(dict.fromkeys(int(sent[1]) for sent in log))
        for (_, partition), log in cluster.logs.items()
    }


def copies(cluster: Cluster) -> int:
    return sum(map(len, cluster.logs.values()))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ages", ["old", "young", "old then young", "mixed"])
def test_brokers_that_fail_and_forget_lose_and_reorder_nothing(
    ages: str,
    seed: int,
    two_sides: TwoSides,
    producer: DualProducer,
) -> None:
    chance = random.Random(seed)
    random.seed(seed)
    two_sides.west.fails = (0.2, 0.1)
    for number in range(0, 400, 20):
        old = {"old": True, "young": False, "old then young": number < 200}.get(
            ages, chance.random() < 0.5
        )
        produce(producer, range(number, number + 20), age_ms=TWO_DAYS_MS if old else 0)
        producer.poll(0.01)
        two_sides.clock_s += AFTER_OLD_RECORDS_S
        if chance.random() < 0.1:
            two_sides.west.clients[-1].broken = KafkaError(KafkaError._FATAL)
    all_there(producer)
    wanted = {partition: list(range(partition, 400, 2)) for partition in range(2)}
    assert first_copies(two_sides.east) == wanted
    assert first_copies(two_sides.west) == wanted
    if ages == "young":
        assert copies(two_sides.west) == 400


def test_old_records_are_sent_one_request_at_a_time(
    two_sides: TwoSides, producer: DualProducer
) -> None:
    west = two_sides.west
    produce(producer, range(10))
    all_there(producer)
    assert [client.in_flight for client in west.clients] == [5]
    produce(producer, range(10, 20), age_ms=TWO_DAYS_MS)
    produce(producer, range(20, 30))
    all_there(producer)
    assert [client.in_flight for client in west.clients] == [5, 1]
    assert producer.stats()["sides"]["west"]["reason"] == ""
    two_sides.clock_s += AFTER_OLD_RECORDS_S
    produce(producer, range(30, 40))
    all_there(producer)
    assert [client.in_flight for client in west.clients][-1] == 5
    assert copies(west) == copies(two_sides.east) == 40


def test_records_that_grow_old_in_a_client_are_taken_from_it(
    two_sides: TwoSides, producer: DualProducer
) -> None:
    west = two_sides.west
    produce(producer, range(10))
    all_there(producer)
    west.up = False
    produce(producer, range(10, 20))
    while producer.stats()["sides"]["west"]["state"] != "checking":
        pass_time(producer, two_sides, hours=1)
    assert west.clients[0].broken is not None
    west.up = True
    all_there(producer)
    assert copies(west) == 20


def note(reports: dict[int, Any], number: int, error: Any, _: Any) -> None:
    reports[number] = error


def test_a_batch_behind_a_refused_one_hides_no_record(two_sides: TwoSides, tmp_path: Path) -> None:
    """librdkafka sends a prepared batch after an error.

    A broker that forgot the client appends it."""
    two_sides.west.fails = (0.0, 0.0)
    two_sides.west.refuses = frozenset({b"40", b"81"})
    reports: dict[int, Any] = {}
    with DualProducer(
        {"bootstrap.servers": "east"}, {"bootstrap.servers": "west"}, spool=tmp_path, settle_s=0
    ) as producer:
        old_ms = int(time.time() * 1000) - TWO_DAYS_MS
        for number in range(200):
            producer.produce(
                "orders",
                b"%d" % number,
                partition=number % 2,
                timestamp=old_ms,
                on_delivery=partial(note, reports, number),
            )
        all_there(producer)
        producer.flush()
        assert producer.stats()["sides"]["west"]["refused"] == 2
    assert {number for number, error in reports.items() if error is not None} == {40, 81}
    assert set().union(*first_copies(two_sides.west).values()) == set(range(200)) - {40, 81}


def test_a_batch_behind_a_refused_one_is_not_doubled_if_the_broker_remembers_clients(
    two_sides: TwoSides, tmp_path: Path
) -> None:
    """The records are old, but a broker remembers them: so only a new client is unknown to it."""
    two_sides.west.fails = (0.0, 0.0)
    two_sides.west.refuses = frozenset({b"0", b"40", b"81"})
    with DualProducer(
        {"bootstrap.servers": "east"}, {"bootstrap.servers": "west"}, spool=tmp_path, settle_s=0
    ) as producer:
        produce(producer, range(200), age_ms=13 * 3600 * 1000)
        all_there(producer)
    assert copies(two_sides.west) == 197
