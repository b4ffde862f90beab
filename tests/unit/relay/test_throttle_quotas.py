"""What flows say that a broker throttles."""

from __future__ import annotations

from typing import Any, cast

from causeway.model import State
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.throttle import LOOK_S, SHOWN_S, Quotas
from tests.builders.relay import flow


class Held:
    """A connection."""

    connection = "A broker:9092"
    throttled_until = 0.0

    def __init__(self, *flows: Flow) -> None:
        self.flows = flows

    def held_up(self) -> tuple[Flow, ...]:
        return self.flows


def test_a_flow_that_waits_for_a_quota_runs_and_says_so_until_it_is_over() -> None:
    running, failed = flow(), flow()
    running.state, failed.state, failed.reason = State.RUNNING, State.FAILED, "something else"
    touched: dict[Flow, None] = {}
    quotas, held = Quotas(touched), Held(running, failed)
    now = 1000.0
    held.throttled_until = now + 44
    quotas.look([cast(Any, held)], now)
    assert running.reason == "throttled by quota for 44 s, by A broker:9092"
    assert (running.state, failed.reason) == (State.RUNNING, "something else")
    assert list(touched) == [running]

    touched.clear()
    for passed in range(1, 44):
        quotas.look([cast(Any, held)], now + passed)
    assert not touched, "nothing new"
    held.throttled_until += 10
    quotas.look([cast(Any, held)], now + 44)
    assert running.reason == "throttled by quota for 10 s, by A broker:9092"

    quotas.look([], now + 54 + SHOWN_S + LOOK_S)
    assert running.reason is None


def test_what_lasts_milliseconds_is_not_worth_saying() -> None:
    running = flow()
    running.state = State.RUNNING
    held = Held(running)
    held.throttled_until = 1000.5
    Quotas({}).look([cast(Any, held)], 1000.0)
    assert running.reason is None
