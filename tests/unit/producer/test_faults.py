"""`DualProducer` with faults of the application, the spool, the topics or one side."""

from __future__ import annotations

import asyncio
import enum
import os
import shutil
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from causeway_producer import AsyncDualProducer, DualProducer
from tests.harness.dual_producer import (
    Open,
    alike,
    caught_up,
    crash,
    make,
    opened,
    pass_time,
    settled,
    side_of,
    told,
    until,
)
from tests.harness.two_sides import TwoSides, two_sides
from tests.harness.waiting import await_until

__all__ = ["opened", "two_sides"]


class Name(enum.StrEnum):
    TRACE = "trace"


def test_another_cluster_than_the_spool_is_for_gets_nothing_however_long_it_is_tried(
    two_sides: TwoSides, opened: Open
) -> None:
    producer = opened(policy="any")
    producer.produce("orders", b"")
    settled(producer)
    producer.close()
    two_sides.west.name = "elsewhere"
    producer = opened(policy="any")
    producer.produce("orders", b"not for elsewhere")
    until(producer, lambda: producer.stats()["sides"]["west"]["reason"])
    for _ in range(100):
        producer.poll(0.005)
    assert len(two_sides.west.ids()) == 1
    assert len(two_sides.east.ids()) == 2


def test_one_cluster_under_two_addresses_gets_each_record_once(
    two_sides: TwoSides, opened: Open
) -> None:
    """Also where one of them did not answer when the topic was looked for."""
    two_sides.west.name = "east"
    two_sides.west.up = False
    producer = opened(policy="any")
    producer.produce("orders", b"")
    until(producer, lambda: two_sides.east.ids())
    two_sides.west.up = True
    until(producer, lambda: "same cluster as east" in producer.stats()["sides"]["west"]["reason"])
    for _ in range(50):
        producer.poll(0.005)
    assert two_sides.west.ids() == []


def test_a_cluster_whose_id_is_unknown_gets_no_record(two_sides: TwoSides, opened: Open) -> None:
    """A deleted topic does not delay other topics, once one of these has shown the cluster's id."""
    producer = opened(policy="any")
    for topic in ("gone", "orders"):
        producer.produce(topic, b"")
    settled(producer)
    producer.close()
    two_sides.west.error_of = {
        "gone": KafkaError.UNKNOWN_TOPIC_OR_PART,
        "orders": KafkaError._TRANSPORT,
    }
    producer = opened(policy="any")
    producer.produce("orders", b"1")
    until(producer, lambda: len(two_sides.east.ids()) == 3)
    for _ in range(50):
        producer.poll(0.005)
    assert len(two_sides.west.ids()) == 2
    del two_sides.west.error_of["orders"]
    settled(producer)
    alike(two_sides)


def test_spools_with_one_name_do_not_take_each_other_s_records_for_their_own(
    two_sides: TwoSides, tmp_path: Path
) -> None:
    """Replicas of an application, say, each with a disk of its own."""
    one, other = make(tmp_path / "one"), make(tmp_path / "other")
    for producer in (one, other):
        told(producer, 0, [])
        settled(producer)
    assert one.name != other.name
    assert one.stats()["name"] == other.stats()["name"] == "shop"
    two_sides.west.up = False
    for number in (2, 4):
        told(other, number, [])
    until(other, lambda: len(two_sides.east.ids()) == 4)
    two_sides.west.up = True
    for number in range(6, 60, 2):
        told(one, number, [])
        settled(one)
    one.close()
    two_sides.west.up = False
    crash(other, two_sides)
    two_sides.west.up = True
    other = make(tmp_path / "other")
    settled(other)
    other.close()
    assert {b"2", b"4"} <= set(two_sides.west.values()["orders", 0])


def test_an_old_copy_of_a_spool_is_detected(two_sides: TwoSides, tmp_path: Path) -> None:
    """As of a snapshot: its ids were given to others since."""
    producer = make(tmp_path / "spool", policy="any")
    told(producer, 0, [])
    settled(producer)
    two_sides.west.up = False
    told(producer, 2, [])
    until(producer, lambda: len(two_sides.east.ids()) == 2)
    producer.close(timeout=0)
    shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    two_sides.west.up = True
    producer = make(tmp_path / "spool", policy="any")
    for number in range(4, 60, 2):
        told(producer, number, [])
    settled(producer)
    producer.close()
    producer = make(tmp_path / "copy", policy="both")
    reports: list[tuple[int, Any]] = []
    for number in range(60, 80, 2):
        told(producer, number, reports)
    until(producer, lambda: "old copy" in producer.stats()["sides"]["west"]["reason"])
    assert reports == [], "a record that is not there is not reported as delivered"
    producer.close(timeout=0)


def test_records_behind_a_damaged_place_of_the_spool_arrive_and_the_damage_is_reported(
    two_sides: TwoSides, tmp_path: Path
) -> None:
    heard: list[str] = []

    def opened() -> DualProducer:
        return DualProducer(
            {"bootstrap.servers": "east", "error_cb": lambda error: heard.append(error.str())},
            {"bootstrap.servers": "west"},
            spool=tmp_path,
            policy="any",
            settle_s=0,
        )

    producer = opened()
    told(producer, 0, [])
    settled(producer)
    two_sides.west.up = False
    for number in range(1, 10):
        told(producer, number, [])
        until(producer, lambda: not len(producer))
    producer.close(timeout=0)
    (log,) = tmp_path.glob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    two_sides.west.up = True
    producer = opened()
    settled(producer)
    (damage,) = producer.stats()["damage"]
    producer.close()
    assert "is damaged" in damage
    assert [each for each in heard if "damaged" in each] == [damage]
    arrived = {int(v) for log in two_sides.west.values().values() for v in log}
    assert len(arrived) == 9
    assert {0, 1, 9} <= arrived


def spooled(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


@pytest.mark.parametrize("policy", ["both", "primary"])
def test_a_record_whose_place_in_the_spool_is_damaged_before_a_side_got_it_is_not_delivered(
    policy: str, two_sides: TwoSides, tmp_path: Path
) -> None:
    producer = make(tmp_path, policy=policy, kbytes=200)
    reports: list[tuple[int, Any]] = []
    told(producer, 0, reports)
    settled(producer)
    two_sides.west.up = False
    for number in range(1, 50):  # a write for each; a file is not read ahead by so many bytes
        before = spooled(tmp_path)
        told(producer, number, reports, key=b"k" * 20_000)
        until(producer, lambda: spooled(tmp_path) > before)  # noqa: B023
    (log,) = tmp_path.glob("*.log")
    content = bytearray(log.read_bytes())
    content[content.index(b"s\x02\0\0\x0030")] ^= 1  # a value, behind its length
    log.write_bytes(content)
    two_sides.west.up = True
    settled(producer)
    producer.close()
    failed = {number: error.code() for number, error in reports if error is not None}
    assert failed == ({30: KafkaError._STATE} if policy == "both" else {})
    assert sorted(number for number, _ in reports) == list(range(50))
    arrived = sorted(int(v) for log in two_sides.west.values().values() for v in log)
    assert arrived == [number for number in range(50) if number != 30]


@pytest.mark.parametrize(
    ("kind", "from_the_start"), [("denies", True), ("denies", False), ("lacks", False)]
)
def test_a_topic_that_a_side_refuses_does_not_delay_other_topics(
    kind: str, from_the_start: bool, two_sides: TwoSides, opened: Open
) -> None:
    bad: set[str] = getattr(two_sides.west, kind)
    producer = opened(policy="any")
    if from_the_start:
        bad.add("bad")
    for number in range(20):
        producer.produce("bad", b"%d" % number, partition=number % 2)
        told(producer, number, [])
    if not from_the_start:
        settled(producer)
        bad.add("bad")
        if kind == "lacks":  # it was deleted, which a client that is replaced finds out
            two_sides.west.up = False
    for number in range(20, 60):
        producer.produce("bad", b"%d" % number, partition=number % 2)
        told(producer, number, [])
    if not two_sides.west.up:
        until(producer, lambda: two_sides.east.values()["bad", 1][-1:] == [b"59"])
        two_sides.west.clients[-1].broken = KafkaError(KafkaError._FATAL)
        two_sides.west.up = True
    good = two_sides.west.logs
    until(producer, lambda: len(good["orders", 0]) + len(good["orders", 1]) == 60)
    until(producer, lambda: list(producer.stats()["sides"]["west"]["waiting"]) == ["bad"])
    assert not caught_up(producer)
    bad.clear()
    settled(producer)
    assert producer.stats()["sides"]["west"]["waiting"] == {}
    for log in alike(two_sides).values():
        assert [int(v) for v in log] == sorted(int(v) for v in log)
        assert len(log) == 30


def test_names_of_headers_are_what_spool_and_clients_can_write(
    two_sides: TwoSides, opened: Open
) -> None:
    producer = opened()
    producer.produce("orders", b"", headers={Name.TRACE: "1"})
    with pytest.raises(UnicodeEncodeError):
        producer.produce("orders", b"", headers={"\ud800": "1"})
    producer.produce("orders", b"")
    settled(producer)
    assert len(two_sides.east.ids()) == 2
    alike(two_sides)


@pytest.mark.parametrize(
    ("policy", "refuses", "error"),
    [
        ("both", "west", True),
        ("primary", "west", False),
        ("primary", "east", True),
        ("any", "east", False),
        ("any", "both", True),
    ],
)
def test_a_refusal_counts_where_the_policy_asks_that_side(
    policy: str, refuses: str, error: bool, two_sides: TwoSides, opened: Open
) -> None:
    for cluster in two_sides.both:
        if refuses in (cluster.name, "both"):
            cluster.refuses = frozenset({b"7"})
    heard: list[tuple[str, Any]] = []
    producer = opened(policy=policy, on_side_delivery=lambda side, e, _: heard.append((side, e)))
    reports: list[tuple[int, Any]] = []
    told(producer, 1, reports)
    settled(producer)
    for cluster in two_sides.both:
        cluster.up = refuses in (cluster.name, "both")  # so that the refusal is heard first
    told(producer, 7, reports)
    until(producer, lambda: [1 for _, e in heard if e is not None])
    for cluster in two_sides.both:
        cluster.up = True
    told(producer, 9, reports)
    settled(producer)
    assert [number for number, e in reports if e is not None] == ([7] if error else [])
    assert sorted(number for number, _ in reports) == [1, 7, 9]
    refused = {side for side, e in heard if e is not None}
    assert refused == ({"east", "west"} if refuses == "both" else {refuses})


def test_logs_are_read_without_the_right_to_use_a_group(two_sides: TwoSides, opened: Open) -> None:
    """Its consumer asks for its group, and gets an error. Nothing is committed there."""
    producer = opened()
    told(producer, 0, [])
    settled(producer)
    two_sides.west.up = False
    told(producer, 2, [])
    until(producer, lambda: len(two_sides.east.ids()) == 2)
    crash(producer, two_sides, (0, 1))
    two_sides.west.up = True
    two_sides.denies_groups = True
    producer = opened()
    settled(producer)
    assert alike(two_sides)["orders", 0] == [b"0", b"2"]


def test_closed_is_closed(two_sides: TwoSides, opened: Open) -> None:
    producer = opened()
    producer.produce("orders", b"")
    settled(producer)
    two_sides.west.up = False
    producer.produce("orders", b"")
    assert producer.close(timeout=0.05) is False
    assert producer.close() is False
    assert producer.flush() == 1  # it follows at the next start
    for topic in ("orders", "others"):
        with pytest.raises(RuntimeError, match="was closed"):
            producer.produce(topic, b"")


def test_a_partitioner_that_names_no_partition_is_refused(
    two_sides: TwoSides, tmp_path: Path
) -> None:
    producer = DualProducer(
        {"bootstrap.servers": "east", "partitioner": lambda topic, key, count: -1},
        {"bootstrap.servers": "west"},
        spool=tmp_path,
    )
    with producer, pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        producer.produce("orders", b"")


def test_records_are_sent_though_the_application_makes_no_calls(
    two_sides: TwoSides, opened: Open
) -> None:
    producer = opened()
    producer.produce("orders", b"")
    settled(producer)
    producer.produce("orders", b"")
    await_until(lambda: len(two_sides.west.ids()) == 2, 30)  # no poll


def test_an_error_in_the_background_thread_is_shown_and_does_not_end_it(
    two_sides: TwoSides, opened: Open
) -> None:
    producer = opened()
    producer.produce("orders", b"")
    settled(producer)

    def fail() -> None:
        raise ValueError("unforeseen")

    two_sides.west.clients[-1].before_poll = fail
    await_until(lambda: "unforeseen" in producer.stats()["full"], 30)
    await_until(lambda: not producer.stats()["full"], 30)
    producer.produce("orders", b"")
    await_until(lambda: len(two_sides.west.ids()) == 2, 30)


def test_deliveries_are_reported_although_a_callback_raises(
    two_sides: TwoSides, tmp_path: Path
) -> None:
    def raising(side: str, error: Any, message: Any) -> None:
        raise ValueError(side)

    async def main() -> list[dict[str, Any]]:
        raised: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, each: raised.append(each))
        async with AsyncDualProducer(
            {"bootstrap.servers": "east"},
            {"bootstrap.servers": "west"},
            spool=tmp_path,
            on_side_delivery=raising,
        ) as producer:
            for _ in range(3):
                await (await producer.produce("orders", b""))
            while len(producer):
                await asyncio.sleep(0.001)
        return raised

    assert {str(each["exception"]) for each in asyncio.run(main())} <= {"east", "west"}


@pytest.mark.parametrize("what", ["produce", "flush", "close"])
def test_a_signal_handler_within_a_call_cannot_write_ahead_of_the_records_of_the_call(
    what: str, two_sides: TwoSides, opened: Open
) -> None:
    reports: list[tuple[int, Any]] = []
    producer = opened()
    told(producer, 0, reports)
    settled(producer)

    def handle() -> None:
        if what == "close":
            assert producer.close() is False
        else:
            with pytest.raises(RuntimeError, match="interrupted within a call"):
                told(producer, 100, reports) if what == "produce" else producer.flush()

    for number in range(2, 1024, 2):  # so many are written at once
        told(producer, number, reports)
    two_sides.east.clients[-1].before_produce = handle
    told(producer, 1024, reports)
    assert producer.close() is False
    producer = opened()
    settled(producer)
    written = [int(value) for value in alike(two_sides)["orders", 0]]
    assert written == list(range(0, 1026, 2))


def test_waiting_for_a_delivery_fails_when_the_producer_is_closed(
    two_sides: TwoSides, tmp_path: Path
) -> None:
    async def main() -> tuple[Any, ...]:
        async with AsyncDualProducer(
            {"bootstrap.servers": "east"}, {"bootstrap.servers": "west"}, spool=tmp_path
        ) as producer:
            first = await producer.produce("orders", b"")
            await first
            two_sides.west.up = False
            second = await producer.produce("orders", b"")
            assert await producer.close(0.05) is False
            return await asyncio.gather(first, second, return_exceptions=True)

    _, second = asyncio.run(main())
    assert "the producer was closed before" in str(second)


@pytest.mark.parametrize("where", ["east", "west", "answers"])
def test_ctrl_c_at_any_moment_loses_and_doubles_nothing(
    where: str, two_sides: TwoSides, opened: Open
) -> None:
    """It can come between any two steps, also after a client has taken a record and before we have
    noted that. Records that were taken and not yet written may be on neither side."""
    reports: list[tuple[int, Any]] = []
    producer = opened()
    told(producer, 0, reports)
    settled(producer)
    if where == "answers":
        two_sides.east.clients[-1].interrupt = "poll"
    else:
        getattr(two_sides, where).clients[-1].interrupt = "produce"
    numbers = iter(range(2, 100_000, 2))

    def write(number: int) -> None:
        told(producer, number, reports)
        producer.poll(0.003)

    with pytest.raises(KeyboardInterrupt):
        await_until(lambda: write(next(numbers)), 60, poll_s=0)
    with pytest.raises(RuntimeError, match="interrupted within a call"):
        told(producer, 1, reports)
    assert producer.close() is False
    producer = opened()
    last = next(numbers)
    told(producer, last, reports)
    settled(producer)
    producer.flush()
    written = [int(value) for value in alike(two_sides)["orders", 0]]
    assert written == sorted(written)
    assert {number for number, _ in reports} <= set(written)
    assert last in written


def test_a_side_whose_client_is_replaced_counts_for_the_number_of_partitions(
    two_sides: TwoSides, opened: Open
) -> None:
    two_sides.west.partitions = 1
    producer = opened(partition_counts="least")
    producer.produce("orders", b"")
    settled(producer)
    two_sides.west.up = False
    producer.produce("orders", b"")  # else there is no log to read
    two_sides.reads_logs.clear()
    two_sides.west.clients[-1].broken = KafkaError(KafkaError._FATAL)
    two_sides.west.up = True
    until(producer, lambda: side_of(producer, "west")["state"] == "checking")
    threading.Timer(0.3, two_sides.reads_logs.set).start()
    with pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        producer.produce("others", b"", partition=1)
    producer.produce("others", b"")
    settled(producer)
    assert set(alike(two_sides)) == {("orders", 0), ("others", 0)}


def test_a_forked_process_does_not_touch_the_spool(two_sides: TwoSides, opened: Open) -> None:
    producer = opened()
    producer.produce("orders", b"")
    settled(producer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is what this is about
        child = os.fork()
    if not child:
        code = 1
        try:
            producer.produce("orders", b"")
        except RuntimeError:
            producer.flush()
            producer.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    producer.produce("orders", b"")
    settled(producer)
    assert len(two_sides.west.ids()) == 2


def test_records_after_half_a_day_without_any_reach_both_sides(
    two_sides: TwoSides, opened: Open
) -> None:
    producer = opened()
    heard: list[tuple[int, Any]] = []
    for number in range(4):
        told(producer, number, heard)
    settled(producer)
    pass_time(producer, two_sides, hours=13)
    for number in range(4, 40):
        told(producer, number, heard)
    settled(producer)
    assert len(heard) == sum(map(len, alike(two_sides).values())) == 40


def test_a_side_that_was_down_for_half_a_day_gets_more_than_its_client_holds(
    two_sides: TwoSides, opened: Open
) -> None:
    """The client's queue ends within a chunk, so the records before the end have no answer yet."""
    producer = opened(policy="primary", kbytes=2)
    old_ms = int((time.time() - 13 * 3600) * 1000)
    for number in range(320):
        producer.produce("orders", b"%d" % number, partition=number % 2, timestamp=old_ms)
        if number == 3:
            settled(producer)
            two_sides.west.up = False
        if number % 30 == 3:
            until(producer, lambda: not len(producer))
    pass_time(producer, two_sides, hours=13)
    two_sides.west.up = True
    settled(producer)
    assert sum(map(len, alike(two_sides).values())) == 320


def test_a_new_client_sends_the_first_record_of_a_partition_alone_although_one_was_refused(
    two_sides: TwoSides, opened: Open
) -> None:
    two_sides.west.refuses = frozenset({b"30"})
    producer = opened()
    heard: list[tuple[int, Any]] = []
    for number in range(60):
        told(producer, number, heard)
    settled(producer)
    assert dict(heard)[30] is not None
    assert len(two_sides.west.clients) > 1
    assert not two_sides.west.early
