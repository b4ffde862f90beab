"""How long a lane is away from its turn, in which it tells the driver that it lives."""

from __future__ import annotations

import selectors
import socket
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.model import State
from causeway.relay.lane import loop
from causeway.relay.lane.loop import TICK_S, LaneLoop
from causeway.relay.messages import Drained
from tests.builders.relay import flow, open_relay


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


def test_many_partitions_that_keep_running_take_turns_in_reports() -> None:
    with open_relay() as relay:
        flows = [flow(number, settled=True) for number in range(1000)]
        for one in flows:
            relay.take_over(one)
            one.state = State.RUNNING
            one.report()
        (failed := flows[-1]).state = State.FAILED
        taken, round_s = relay.take_touched(1.0)
        assert round_s == pytest.approx(4.0)
        assert taken == [*flows[:250], failed], "a new state is reported at once"
        for number in range(1, 4):
            taken, _ = relay.take_touched(round_s / 4)
            assert taken[0] is flows[250 * number], "the longest wait comes first"
            assert len(taken) < 1000
        while taken:
            taken, _ = relay.take_touched(1.0)
        relay.take_over(flows[0])
        assert relay.take_touched(1.0) == ([flows[0]], 1.0)


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
        take_touched=lambda _: ([], 1.0),
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
