"""How long a lane is away from its turn, in which it tells the driver that it lives."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.relay.lane.loop import TICK_S, Lane


@pytest.fixture
def lane() -> Iterator[Lane]:
    made = Lane(0, cast(Any, SimpleNamespace(address="127.0.0.1", send=None)), "secret")
    yield made
    made._helpers.close()
    made._selector.close()


def test_answers_that_take_long_do_not_keep_it_from_its_turn(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    handled: list[int] = []
    pairs = [socket.socketpair() for _ in range(8)]

    def handle(number: int) -> None:
        nonlocal now
        now += 0.6 * TICK_S
        handled.append(number)
        pairs[number][0].recv(1)

    for number, (ours, theirs) in enumerate(pairs):
        theirs.send(b"x")
        lane._selector.register(ours, selectors.EVENT_READ, lambda _, number=number: handle(number))
    turns = 0
    while len(handled) < len(pairs):
        begun = now
        lane._take_in()
        assert now - begun < 2 * TICK_S
        turns += 1
        assert turns <= len(pairs)
    assert sorted(handled) == list(range(8)), "what was left is told of again"
    for pair in pairs:
        for one in pair:
            one.close()
