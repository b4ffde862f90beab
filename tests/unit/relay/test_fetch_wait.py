"""How long a lane's fetch may wait at the source while some of its flows are held back."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.relay import Rate, Throttle
from causeway.relay.lane.outlet import OutletState
from causeway.relay.lane.reader import SourceConnection, SourceKey
from causeway.relay.lane.relay import FLOW_BYTES, HELD_BACK_WAIT_MS, Relay
from causeway.wire import Connection, FetchSession, SendQueue, fetch
from tests.builders.relay import Wire, flow, open_relay

BUFFER_BYTES = 64 << 20


class Waiting:
    """A connection to a target, over which `outlet` is to send."""

    def __init__(self, outlet: OutletState) -> None:
        self._outlet = outlet

    @property
    def ready(self) -> list[OutletState]:
        return [self._outlet]

    @property
    def connection(self) -> Any:
        return SimpleNamespace(outbox=SendQueue(cast(Any, None)))


def target(*, ready: bool = False, lacks: bool = False, rest_s: float = 0.0) -> Any:
    has_plenty = rest_s > 0.0
    return SimpleNamespace(ready=ready, lacks=lacks, has_plenty=has_plenty, rest_s=rest_s)


@pytest.fixture
def relay() -> Iterator[Relay]:
    with open_relay(BUFFER_BYTES) as found:
        yield found


def test_a_throttle_is_waited_for_but_not_by_what_only_waits_for_its_target(relay: Relay) -> None:
    relay.throttle(Throttle(rates=(Rate(link="A->B", topic="slow", bytes_per_s=1_000.0),)))
    slow, other, full = flow(topic="slow"), flow(1, topic="slow"), flow(topic="fast")
    now = time.monotonic() + 1.0
    first = relay._allowance(now)
    assert first.ask(slow) > 0  # all that there is for a minute
    then = relay._allowance(now)
    assert then.ask(other) == 0
    assert then.wait_ms() > 30_000
    full.outlets[0].pending_bytes = FLOW_BYTES  # until the target has answered, milliseconds
    assert then.ask(full) == 0
    assert then.wait_ms() == HELD_BACK_WAIT_MS


def test_one_flow_whose_target_is_slow_leaves_the_others_room(relay: Relay) -> None:
    """However large its answers are."""
    slow, other = flow(), flow(1)
    slow.answer_bytes = BUFFER_BYTES // 2
    (outlet,) = slow.outlets
    relay.connections._targets[cast(Any, 0)] = cast(Any, Waiting(outlet))
    try:
        while relay._allowance(0.0).ask(slow):
            outlet.pending_bytes += slow.answer_bytes
        allowance = relay._allowance(0.0)
        assert allowance.room
        assert allowance.ask(other) > 0
    finally:
        relay.connections._targets.clear()


def test_a_throttled_link_is_read_over_all_of_its_connections(relay: Relay) -> None:
    """Whichever of them comes first has records without end."""
    relay.throttle(Throttle(rates=(Rate(link="A->B", topic=None, bytes_per_s=1e6),)))
    relay._look_at = float("inf")
    random.seed(0)
    sources = [
        SourceConnection(
            cast(Connection, Wire()),
            FetchSession(
                version=fetch.HIGHEST_VERSION,
                client_id=b"c",
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=1 << 20,
                read_committed=True,
            ),
            1 << 20,
        )
        for _ in range(3)
    ]
    read = dict.fromkeys(sources, 0)
    keys = [SourceKey("A->B", "a", node, True, 500, 1, 1 << 20) for node in range(len(sources))]
    relay.connections._sources = dict(zip(keys, sources, strict=True))
    for partition, source in enumerate(sources):
        source.add(flow(partition))
    now = time.monotonic()
    for _ in range(1000):
        now += 0.01
        relay.turn((), now)
        for source in sources:
            if source.waiting:  # and answered at once
                for (topic, partition), one in source.flows.items():
                    asked = source.session._cursors.get((topic, partition))
                    if asked is not None:
                        relay._throttles.took(one, asked.max_bytes)
                        read[source] += asked.max_bytes
                        source._news[topic, partition] = None
                source._correlation_id = None
    relay.connections._sources = {}
    assert sum(read.values()) <= 11e6
    assert all(size > 1e6 for size in read.values()), list(read.values())


@pytest.mark.parametrize(
    ("targets", "slept", "awaited"),
    [
        ([], [], []),
        ([target()], [], []),
        ([target(), target(rest_s=0.02, ready=True)], [0.02], []),
        ([target(rest_s=0.02, ready=True), target(rest_s=0.01, ready=True)], [0.01], []),
        ([target(rest_s=0.02, ready=True), target(rest_s=0.01)], [], [0.01]),
        ([target(rest_s=0.02), target(lacks=True)], [], []),
    ],
)
def test_a_lane_rests_while_each_target_has_what_it_can_do(
    relay: Relay,
    monkeypatch: pytest.MonkeyPatch,
    targets: list[Any],
    slept: list[float],
    awaited: list[float],
) -> None:
    """And until more has come, where there is nothing else to send after that."""
    did: dict[str, list[float]] = {"sleep": [], "await": []}
    connections = relay.connections
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", did["sleep"].append)
        patch.setattr(connections, "await_source", did["await"].append)
        patch.setattr(connections, "_targets", dict(enumerate(targets)))
        relay.rest()
    assert did == {"sleep": slept, "await": awaited}
