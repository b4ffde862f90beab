"""`DualProducer` on doubles of both clusters: policies, a side that is down, a full spool, and a
crash at any moment."""

from __future__ import annotations

import asyncio
import resource
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as some
from prometheus_client import CollectorRegistry, generate_latest

from causeway_producer import (
    ID_HEADER,
    AsyncDualProducer,
    DualProducer,
    SettingsError,
    SpoolInUseError,
)
from causeway_producer.metrics import Collector
from tests.harness.dual_producer import (
    Open,
    alike,
    crash,
    make,
    opened,
    settled,
    told,
    until,
)
from tests.harness.examples import examples
from tests.harness.two_sides import Cluster, TwoSides, two_sides
from tests.harness.waiting import await_until

__all__ = ["opened", "two_sides"]


def produce_many(
    producer: DualProducer, value: bytes, count: int, told: Callable[..., Any] | None = None
) -> None:
    for _ in range(count):
        producer.produce("orders", value, on_delivery=told)


@pytest.mark.parametrize(
    ("policy", "east_alone", "west_alone"),
    [("both", False, False), ("primary", True, False), ("any", True, True)],
)
def test_the_policy_decides_when_a_record_is_delivered(
    policy: str, east_alone: bool, west_alone: bool, two_sides: TwoSides, opened: Open
) -> None:
    reports: list[tuple[int, Any]] = []
    producer = opened(policy=policy)
    told(producer, 0, reports)
    settled(producer)
    assert reports == [(0, None)]
    number = 1
    for cluster, delivers in ((two_sides.west, east_alone), (two_sides.east, west_alone)):
        cluster.up = False
        told(producer, number, reports)
        other = two_sides.east if cluster is two_sides.west else two_sides.west
        until(producer, lambda: len(other.ids()) > number)  # noqa: B023
        for _ in range(10):
            producer.poll(0.01)
        assert len(reports) == number + delivers
        assert (len(producer) == 0) == delivers
        cluster.up = True
        settled(producer)
        assert reports[number:] == [(number, None)]
        number += 1
    alike(two_sides)


def test_both_copies_are_the_same_record(two_sides: TwoSides, opened: Open) -> None:
    producer = opened()
    producer.produce("orders", "värde", "k", headers={"h": "1", ID_HEADER: b"else/1-1"})
    producer.produce("orders", None, timestamp=77, partition=1, headers=[("n", None)])
    settled(producer)
    rows = []
    for cluster in two_sides.both:
        (one,) = [s for log in cluster.logs.values() for s in log if s[1] is not None]
        (two,) = [s for log in cluster.logs.values() for s in log if s[1] is None]
        assert one[1:3] == ("värde".encode(), b"k")
        assert one[7] == [("h", b"1"), (ID_HEADER, f"{producer.name}/1-1".encode())]
        assert (two[3], two[6], two[7][0]) == (1, 77, ("n", None))
        rows.append((one[:4], one[6:], two[:4], two[6:]))
    assert rows[0] == rows[1]
    assert rows[0][1][0] > 1_700_000_000_000


def test_a_side_that_is_down_gets_all_in_order_later(two_sides: TwoSides, opened: Open) -> None:
    """More than its client can hold, and more than one life."""
    producer = opened(policy="primary", kbytes=1)
    reports: list[tuple[int, Any]] = []
    for number in range(2):
        told(producer, number, reports)
    settled(producer)
    two_sides.west.up = False
    for number in range(2, 1000):
        told(producer, number, reports)
    until(producer, lambda: len(reports) == 1000)
    figures = producer.stats()["sides"]["west"]
    assert figures["state"] == "feeding"
    assert 0 < figures["in_flight"] < 900
    assert figures["behind_bytes"] > 0
    assert figures["silent_seconds"] > 0
    assert producer.close(timeout=0.05) is False
    producer = opened(policy="primary")
    for number in range(1000, 1100):
        told(producer, number, reports)
    until(producer, lambda: len(reports) == 1100)
    assert producer.stats()["sides"]["west"]["state"] == "checking"
    two_sides.west.up = True
    settled(producer)
    await_until(lambda: producer.stats()["sides"]["west"]["behind_bytes"] == 0, 30)
    assert alike(two_sides) == {
        ("orders", p): [b"%d" % number for number in range(p, 1100, 2)] for p in range(2)
    }
    assert producer.close() is True


def test_a_client_that_gave_up_is_replaced(two_sides: TwoSides, opened: Open) -> None:
    producer = opened()
    reports: list[tuple[int, Any]] = []
    for number in range(500):
        told(producer, number, reports)
        if number % 100 == 50:
            client = two_sides.west.clients[-1]
            client.arrive(7)
            client.broken = KafkaError(KafkaError._FATAL)
    settled(producer)
    producer.flush()
    assert len(reports) == 500
    assert len(two_sides.west.clients) > 1
    assert sorted(v for log in alike(two_sides).values() for v in log) == sorted(
        b"%d" % number for number in range(500)
    )


def test_a_record_that_a_side_refuses_is_reported_and_skipped(
    two_sides: TwoSides, opened: Open
) -> None:
    """The other records of its batch are not lost."""
    two_sides.west.refuses = frozenset({b"41"})
    heard: list[tuple[str, Any]] = []
    producer = opened(on_side_delivery=lambda side, error, _: heard.append((side, error)))
    reports: list[tuple[int, Any]] = []
    for number in range(100):
        told(producer, number, reports)
    settled(producer)
    producer.flush()
    errors = {number: error for number, error in reports if error is not None}
    assert {n: e.code() for n, e in errors.items()} == {41: KafkaError.MSG_SIZE_TOO_LARGE}
    assert len(reports) == 100
    assert producer.stats()["sides"]["west"]["refused"] == 1
    assert len([1 for side, error in heard if side == "east" and error is None]) == 100
    assert len([1 for side, error in heard if side == "west" and error is not None]) == 1
    assert two_sides.west.values()["orders", 0] == two_sides.east.values()["orders", 0]
    odd = two_sides.east.values()["orders", 1]
    assert two_sides.west.values()["orders", 1] == [value for value in odd if value != b"41"]


def test_on_delivery_gets_the_answer_of_the_primary_side(two_sides: TwoSides, opened: Open) -> None:
    producer = opened()
    offsets: list[int] = []
    for _ in range(20):
        producer.produce(
            "orders", b"", partition=0, on_delivery=lambda e, m: offsets.append(m.offset())
        )
    settled(producer)
    assert offsets == list(range(20))


def test_the_other_side_becomes_the_primary_one_and_back(two_sides: TwoSides, opened: Open) -> None:
    swaps: list[tuple[str, str]] = []
    producer = opened(
        policy="primary", failover_after_s=0.3, on_failover=lambda *who: swaps.append(who)
    )
    reports: list[tuple[int, Any]] = []
    told(producer, 0, reports)
    settled(producer)
    two_sides.east.up = False
    for number in range(1, 20):
        told(producer, number, reports)
    until(producer, lambda: len(reports) == 20)
    assert swaps == [("east", "west")]
    assert producer.primary == "west"
    told(producer, 20, reports)
    until(producer, lambda: len(reports) == 21)
    assert {error for _, error in reports} == {None}
    two_sides.east.up = True
    until(producer, lambda: producer.primary == "east")
    settled(producer)
    assert swaps[-1] == ("west", "east")
    assert producer.stats()["failovers"] == len(swaps)
    alike(two_sides)


@pytest.mark.parametrize("when_full", ["back-pressure", "refuse"])
def test_a_full_spool_is_reported_at_once(
    when_full: str, two_sides: TwoSides, opened: Open
) -> None:
    producer = opened(policy="any", spool_max_bytes=1 << 20, when_full=when_full, kbytes=1)
    reports: list[Any] = []
    producer.produce("orders", b"")
    settled(producer)
    two_sides.west.up = False
    refused = []
    for _ in range(20):
        try:
            producer.produce("orders", b"v" * 100_000, on_delivery=lambda e, m: reports.append(e))
        except BufferError as error:
            refused.append(str(error))
    until(producer, lambda: not len(producer))
    errors = [error for error in reports if error is not None]
    assert len(reports) + len(refused) == 20
    assert len(errors) + len(refused) > 5
    if when_full == "refuse":
        assert refused == []
        assert {error.code() for error in errors} == {KafkaError._QUEUE_FULL}
    else:
        assert errors == []
        assert set(refused) == {"the spool is full (1048576 bytes)"}
    assert producer.stats()["spool_bytes"] <= 1 << 20
    two_sides.west.up = True
    settled(producer)
    producer.produce("orders", b"again")
    settled(producer)
    alike(two_sides)


def test_a_full_disk_is_reported_at_once(two_sides: TwoSides, opened: Open) -> None:
    producer = opened()
    reports: list[Any] = []
    producer.produce("orders", b"")
    settled(producer)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(BufferError, match="the spool cannot be written"):
            produce_many(producer, b"v" * 9000, 100, lambda e, m: reports.append(e))
        assert "cannot be written" in producer.stats()["full"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    settled(producer)
    producer.flush()
    kept = [error for error in reports if error is None]
    lost = [error for error in reports if error is not None]
    assert {error.code() for error in lost} == {KafkaError._QUEUE_FULL}
    assert sum(map(len, alike(two_sides).values())) == 1 + len(kept)
    await_until(lambda: not producer.stats()["full"], 30)
    producer.produce("orders", b"again")
    settled(producer)
    assert sum(map(len, alike(two_sides).values())) == 2 + len(kept)


def test_too_many_unreported_records_are_reported_at_once(
    two_sides: TwoSides, opened: Open
) -> None:
    producer = opened(most=10)
    producer.produce("orders", b"")
    settled(producer)
    two_sides.west.up = False
    with pytest.raises(BufferError, match="Queue full"):
        produce_many(producer, b"", 11)
    assert producer.flush(0.05) == 10
    two_sides.west.up = True
    assert producer.flush() == 0
    producer.produce("orders", b"")


def test_partitions_must_agree_or_the_least_are_used(
    two_sides: TwoSides, opened: Open, tmp_path: Path
) -> None:
    two_sides.west.partitions = 1
    with pytest.raises(
        SettingsError, match="different numbers of partitions: 2 on east, 1 on west"
    ):
        opened().produce("orders", b"")
    producer = opened(directory=tmp_path / "other", partition_counts="least")
    for number in range(20):
        producer.produce("orders", b"%d" % number)
    with pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        producer.produce("orders", b"", partition=1)
    settled(producer)
    assert set(alike(two_sides)) == {("orders", 0)}


def test_one_cluster_under_two_addresses_is_refused(two_sides: TwoSides, opened: Open) -> None:
    two_sides.west.name = "east"
    with pytest.raises(SettingsError, match="east and west are the same cluster"):
        opened().produce("orders", b"")


def test_another_cluster_than_the_spool_is_for_gets_nothing(
    two_sides: TwoSides, opened: Open, tmp_path: Path
) -> None:
    producer = opened(policy="any")
    producer.produce("orders", b"")
    settled(producer)
    producer.close()
    two_sides.west.name = "elsewhere"
    told_of: list[Any] = []
    producer = DualProducer(
        {"bootstrap.servers": "east"},
        {"bootstrap.servers": "west", "error_cb": told_of.append},
        spool=tmp_path / "spool",
        policy="any",
    )
    try:
        until(producer, lambda: told_of)
        assert "it is cluster elsewhere, and the spool is for west" in str(told_of[0])
    finally:
        producer.close(timeout=0)


def test_a_spool_has_one_owner(opened: Open, tmp_path: Path, two_sides: TwoSides) -> None:
    opened()
    with pytest.raises(SpoolInUseError):
        opened()
    first = opened(directory=tmp_path / "other")
    first.close()
    with pytest.raises(SettingsError, match="belongs to producer shop"):
        DualProducer(
            {"bootstrap.servers": "east"},
            {"bootstrap.servers": "west"},
            spool=tmp_path / "other",
            name="bakery",
        )


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"value": 1}, TypeError),
        ({"timestamp": -5}, ValueError),
        ({"headers": {1: b""}}, TypeError),
        ({"partition": 9}, KafkaException),
        ({"value": b"v" * 1_000_000}, KafkaException),
    ],
)
def test_what_no_client_takes_is_refused_before_it_is_written(
    given: dict[str, Any], error: type[Exception], two_sides: TwoSides, opened: Open
) -> None:
    producer = opened()
    with pytest.raises(error):
        producer.produce("orders", **given)
    assert len(producer) == 0
    producer.produce("orders", b"good")
    settled(producer)
    assert sum(map(len, alike(two_sides).values())) == 1


def test_prometheus_has_each_side(two_sides: TwoSides, opened: Open) -> None:
    producer = opened()
    registry = CollectorRegistry()
    registry.register(Collector(producer))
    producer.produce("orders", b"")
    settled(producer)
    text = generate_latest(registry).decode()
    for side in ("east", "west"):
        labels = f'{{producer="shop",side="{side}"}}'
        assert f"causeway_producer_acknowledged_total{labels} 1.0" in text
        assert f"causeway_producer_side_direct{labels} 1.0" in text
    assert 'causeway_producer_unreported{producer="shop"} 0.0' in text


def test_asyncio_waits_for_each_delivery(two_sides: TwoSides, tmp_path: Path) -> None:
    async def main() -> list[Any]:
        async with AsyncDualProducer(
            {"bootstrap.servers": "east", "queue.buffering.max.messages": 20},
            {"bootstrap.servers": "west"},
            spool=tmp_path / "spool",
            name="shop",
            settle_s=0,
        ) as producer:
            two_sides.west.refuses = frozenset({b"13"})
            waiting = [
                await producer.produce("orders", b"%d" % number, partition=0)
                for number in range(100)
            ]
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert await producer.flush() == 0
            return done

    done = asyncio.run(main())
    assert [number for number, each in enumerate(done) if isinstance(each, Exception)] == [13]
    assert len(two_sides.east.values()["orders", 0]) == 100


SIDE = some.sampled_from(["east", "west"])
ACTION = some.one_of(
    some.tuples(some.just("produce"), some.integers(1, 600)),
    some.tuples(some.just("poll"), some.integers(1, 5)),
    some.tuples(some.just("down"), SIDE),
    some.tuples(some.just("up"), SIDE),
    some.tuples(some.just("break"), SIDE),
    some.tuples(some.just("crash"), some.tuples(some.integers(0, 300), some.integers(0, 300))),
)


@pytest.mark.parametrize("policy", ["both", "primary", "any"])
@settings(
    max_examples=examples(15),
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(actions=some.lists(ACTION, max_size=12))
@example(actions=[("produce", 300), ("crash", (200, 3)), ("produce", 5), ("crash", (0, 5))])
@example(actions=[("down", "west"), ("produce", 600), ("crash", (9, 9)), ("produce", 300)])
def test_a_crash_at_any_moment_loses_and_doubles_nothing(
    policy: str, two_sides: TwoSides, actions: list[tuple[str, Any]]
) -> None:
    two_sides.east, two_sides.west = Cluster("east"), Cluster("west")
    reports: list[tuple[int, Any]] = []
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        producer = make(Path(folder), policy=policy, kbytes=4)
        told(producer, number, reports)
        settled(producer)
        for what, how in actions:
            if what == "produce":
                for _ in range(how):
                    number += 1
                    told(producer, number, reports)
            elif what == "poll":
                for _ in range(how):
                    producer.poll(0)
            elif what in ("up", "down"):
                getattr(two_sides, how).up = what == "up"
            elif what == "break":
                client = getattr(two_sides, how).clients[-1]
                client.broken = KafkaError(KafkaError._FATAL)
            else:
                crash(producer, two_sides, how)
                producer = make(Path(folder), policy=policy, kbytes=4)
        for cluster in two_sides.both:
            cluster.up = True
        settled(producer)
        producer.close()
    logs = alike(two_sides)
    for where, values in logs.items():
        numbers = [int(value) for value in values]
        assert numbers == sorted(numbers)
        assert {n % 2 for n in numbers} <= {where[1]}
    written = {int(value) for values in logs.values() for value in values}
    assert {number for number, error in reports if error is None} <= written
