"""How long a lane's fetch may wait at the source while some of its flows are held back, and when
the next one is due."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.relay import Rate, Throttle
from causeway.relay.lane.limits import BUSY_BYTES, paced_until
from causeway.relay.lane.outlet import OutletState
from causeway.relay.lane.reader import SourceConnection, SourceKey
from causeway.relay.lane.relay import FLOW_BYTES, HELD_BACK_WAIT_MS, PACED_REST_S, Relay
from causeway.wire import Connection, Fetched, FetchSession, SendQueue, fetch
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


class Answering(Wire):
    """A connection to a source, whose broker has answered the last request with `size` bytes."""

    size = 100

    def receive(self) -> list[memoryview]:
        return [memoryview((len(self.sent) - 1).to_bytes(4) + bytes(self.size - 4))]


class Session(FetchSession):
    def parse(self, _: memoryview) -> tuple[int, list[Fetched]]:
        return 0, []


def source(wire: Wire) -> SourceConnection:
    session = Session(
        version=fetch.HIGHEST_VERSION,
        client_id=b"c",
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        read_committed=True,
    )
    return SourceConnection(cast(Connection, wire), session, 1 << 20)


def attach(relay: Relay, sources: list[SourceConnection]) -> None:
    relay._look_at = float("inf")  # overdue answers do not matter
    keys = [SourceKey("A->B", "a", node, True, 500, 1, 1 << 20) for node in range(len(sources))]
    relay.connections._sources = dict(zip(keys, sources, strict=True))


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
    random.seed(0)
    sources = [source(Wire()) for _ in range(3)]
    read = dict.fromkeys(sources, 0)
    attach(relay, sources)
    for partition, each in enumerate(sources):
        each.add(flow(partition))
    now = time.monotonic()
    for _ in range(1000):
        now += 0.01
        relay.turn((), now)
        for each in sources:
            if each.waiting:  # and answered at once
                for (topic, partition), one in each.flows.items():
                    asked = each.session._cursors.get((topic, partition))
                    if asked is not None:
                        relay._throttles.took(one, asked.max_bytes)
                        read[each] += asked.max_bytes
                        each._news[topic, partition] = None
                each._correlation_id = None
    relay.connections._sources = {}
    assert sum(read.values()) <= 11e6
    assert all(size > 1e6 for size in read.values()), list(read.values())


def test_many_partitions_that_bring_little_are_asked_about_at_a_pace(relay: Relay) -> None:
    """So a request brings the records of many. A backlog does not wait, and no record that follows
    after a pause."""
    wire = Answering()
    trickling = source(wire)
    for partition in range(500):
        trickling.add(flow(partition))
    attach(relay, [trickling])

    def answer(size: int) -> None:
        wire.size = size
        list(trickling.receive())

    def requests(now: float) -> int:
        relay.turn((), now)
        return len(wire.sent)

    now = 1000.001
    assert requests(now) == 1
    assert relay.due_at == float("inf"), "its answer is awaited"
    answer(100)
    assert requests(now + 0.001) == 1
    due_at = relay.due_at
    assert due_at == paced_until(now, 500, 100)
    assert requests(due_at) == 2
    answer(100)
    assert requests(due_at + 0.5) == 3, "the answer came after a pause"
    answer(BUSY_BYTES + 1)
    assert requests(due_at + 0.501) == 4
    relay.connections._sources = {}


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize("sizes", [(100, 100), (100, BUSY_BYTES + 1)])
def test_a_lane_whose_partitions_all_trickle_lets_answers_come_together(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], lacks: bool
) -> None:
    """So it produces the records of several answers in one request. If something else is to be
    sent, or one session is busy, it does not wait."""
    slept: list[float] = []
    sources = []
    for size in sizes:
        wire = Answering()
        wire.size = size
        sources.append(each := source(wire))
        for partition in range(500):
            each.add(flow(partition))
    attach(relay, sources)
    relay.turn((), time.monotonic())
    for each in sources:
        list(each.receive())
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        patch.setattr(relay.connections, "_targets", {0: target(lacks=lacks)})
        relay.rest()
    relay.connections._sources = {}
    assert slept == ([] if lacks or max(sizes) > BUSY_BYTES else [PACED_REST_S])


@pytest.mark.parametrize("transformed", [False, True])
def test_a_lane_that_awaits_no_records_rests_until_the_next_request_is_due(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, transformed: bool
) -> None:
    """Then it takes in the responses of targets and sends the requests in one turn. Records of a
    transform may arrive at any time."""
    wire = Answering()
    each = source(wire)
    for partition in range(500):
        each.add(flow(partition))
    attach(relay, [each])
    now = time.monotonic()
    relay.turn((), now)
    list(each.receive())
    relay.turn((), now)
    slept: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        patch.setattr(time, "monotonic", lambda: relay.due_at - 0.01)
        if transformed:
            patch.setattr(relay, "_transformed", {flow(0): None})
        relay.rest()
    relay.connections._sources = {}
    assert slept == [PACED_REST_S if transformed else pytest.approx(0.01)]


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
