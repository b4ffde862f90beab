"""How long a lane is away from its turn, in which it tells the driver that it lives."""

from __future__ import annotations

import selectors
import socket
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.relay.lane import loop
from causeway.relay.lane.loop import TICK_S, LaneLoop, until_next_report
from causeway.relay.messages import Drained


def test_answers_that_take_long_do_not_keep_it_from_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    heard: list[float] = []
    turns: list[float] = []

    def receive() -> list[Any]:
        heard.append(now)
        return []

    control = SimpleNamespace(address="127.0.0.1", send=None, receive=receive)
    lane = LaneLoop(0, cast(Any, control), "secret")
    lane._relay = cast(Any, SimpleNamespace(unfinished=False, due_at=float("inf")))
    monkeypatch.setattr(lane, "_turn", lambda _, at: turns.append(at))
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pairs = [socket.socketpair() for _ in range(8)]

    def unpack(_: int) -> None:
        nonlocal now
        now += 0.6 * TICK_S

    for ours, theirs in pairs:
        theirs.send(b"x")
        lane._selector.register(ours, selectors.EVENT_READ, unpack)
    lane._take_in()
    assert now == pytest.approx(8 * 0.6 * TICK_S), "none is left for later, as the first come again"
    assert turns == heard == pytest.approx([2 * n * 0.6 * TICK_S for n in (1, 2, 3, 4)])
    for pair in pairs:
        for one in pair:
            one.close()
    lane._helpers.close()
    lane._selector.close()


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_lane_with_something_to_send_does_not_wait(unfinished: bool) -> None:
    control = SimpleNamespace(address="127.0.0.1", send=None)
    lane = LaneLoop(0, cast(Any, control), "secret")
    lane._report_at = time.monotonic() + 3600
    relay = SimpleNamespace(unfinished=unfinished, due_at=float("inf"))
    lane._relay = cast(Any, relay)
    try:
        assert lane._timeout() == (0.0 if unfinished else TICK_S)
        relay.due_at = time.monotonic() + TICK_S / 2
        assert lane._timeout() <= TICK_S / 2, "a request is due before"
    finally:
        lane._helpers.close()
        lane._selector.close()


def test_many_partitions_that_move_are_reported_less_often_but_in_time_for_the_lease() -> None:
    intervals = [until_next_report(count, 1.0, 10.0) for count in (0, 500, 1000, 1250, 100_000)]
    assert intervals == pytest.approx([1.0, 1.0, 2.0, 2.5, 2.5])
    assert until_next_report(100_000, 0.75, 3.0) == pytest.approx(0.75), "a quarter of the lease"
    assert until_next_report(100_000, 1.0, 3600.0) < 3.0, "the status shows rates that long"


def test_a_lane_that_has_ended_sleeps_until_the_driver_has_read_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if a broker has answered meanwhile: nothing reads that answer any more."""
    ticks = 5
    monkeypatch.setattr(loop, "TICK_S", 0.02)
    monkeypatch.setattr(loop, "GOODBYE_S", ticks * loop.TICK_S)
    sent: list[object] = []
    looks: list[None] = []
    driver, broker = socket.socketpair(), socket.socketpair()
    control = SimpleNamespace(
        address="127.0.0.1",
        fileno=driver[0].fileno,
        send=sent.append,
        flush=lambda: looks.append(None),
        receive=list,
    )
    connections = SimpleNamespace(crowded=False, small_requests=0)
    relay = SimpleNamespace(
        abandon=lambda: None,
        close_unused_stages=lambda: None,
        take_touched=list,
        connections=connections,
    )
    lane = LaneLoop(0, cast(Any, control), "secret")
    lane._selector.register(broker[0], selectors.EVENT_READ, lambda _: None)
    broker[1].send(b"an answer")
    try:
        lane._end(cast(Any, relay), time.monotonic())
        assert isinstance(sent[-1], Drained)
        assert len(looks) <= ticks + 1
    finally:
        lane._helpers.close()
        lane._selector.close()
        for one in (*driver, *broker):
            one.close()
