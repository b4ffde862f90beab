"""Dual producers over two simulated clusters, and their crash."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from causeway_producer import (
    DualProducer,
)
from tests.harness.two_sides import TwoSides
from tests.harness.waiting import await_until

Open = Callable[..., DualProducer]


@pytest.fixture
def opened(two_sides: TwoSides, tmp_path: Path) -> Iterator[Open]:
    producers: list[DualProducer] = []

    def opened(**more: Any) -> DualProducer:
        producers.append(make(more.pop("directory", tmp_path / "spool"), **more))
        return producers[-1]

    yield opened
    for producer in producers:
        producer.close(timeout=0)


def make(directory: Path, **more: Any) -> DualProducer:
    """`most`: records that may be unreported. `kbytes`: of what a client holds."""
    limits = {
        "queue.buffering.max.messages": more.pop("most", 100_000),
        "queue.buffering.max.kbytes": more.pop("kbytes", 1_000_000),
    }
    return DualProducer(
        {"bootstrap.servers": "east", **limits},
        {"bootstrap.servers": "west"},
        spool=directory,
        name="shop",
        **{"settle_s": 0, **more},
    )


def told(
    producer: DualProducer, number: int, into: list[tuple[int, Any]], key: bytes | None = None
) -> None:
    producer.produce(
        "orders",
        b"%d" % number,
        key,
        partition=number % 2,
        on_delivery=lambda error, _: into.append((number, error)),
    )


def until(producer: DualProducer, condition: Callable[[], object]) -> None:
    """Polls meanwhile."""

    def so() -> object:
        producer.poll(0.001)
        return condition()

    await_until(so, 60, poll_s=0)


def side_of(producer: DualProducer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = producer.stats()["sides"][name]
    return found


def caught_up(producer: DualProducer) -> bool:
    """Both sides have all, and all was reported."""
    return not len(producer) and all(
        side["state"] == "direct" and not side["in_flight"] and not side["behind_bytes"]
        for side in producer.stats()["sides"].values()
    )


def settled(producer: DualProducer) -> None:
    until(producer, lambda: caught_up(producer))


def alike(sides: TwoSides) -> dict[tuple[str, int], list[bytes]]:
    assert sides.east.values() == sides.west.values()
    assert [i for i, count in Counter(sides.east.ids()).items() if count > 1] == []
    return sides.east.values()


def crash(producer: DualProducer, sides: TwoSides, arrive: tuple[int, int] = (0, 0)) -> None:
    """Has the effect of SIGKILL on the disk: an exception interrupts the work, and the producer
    writes nothing after it. Some of the records that the clients hold still arrive, and it hears
    nothing about them."""

    def no_client_left() -> bool:
        for each in sides.both:  # a client may be replaced meanwhile
            each.clients[-1].interrupt = "poll"
        producer.poll(0.01)
        states = {side_of(producer, each.name)["state"] for each in sides.both if not each.up}
        return states == {"checking"} and not any(each.up for each in sides.both)

    with contextlib.suppress(KeyboardInterrupt):
        await_until(no_client_left, 60, poll_s=0)
    sides.cut = True
    for each, count in zip(sides.both, arrive, strict=True):
        for client in each.clients:
            client.interrupt = ""
            client.arrive(count)
            client.forget()
    assert producer.close(timeout=0) is False
    sides.cut = False


def pass_time(producer: DualProducer, sides: TwoSides, hours: float) -> None:
    """In steps, so that the process does not seem to have been stopped."""
    for _ in range(int(hours * 12)):
        polls = {client: client.polls for each in sides.both for client in each.clients[-1:]}
        sides.clock_s += 300
        until(producer, lambda: all(each.polls > n or each.broken for each, n in polls.items()))  # noqa: B023
