"""Over which connections a lane reads."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.config import ClientSettings, SaslSettings, Secret, to_wire
from causeway.errors import CausewayError, UnreachableError
from causeway.relay import Clusters, Renewed
from causeway.relay.lane import reader
from causeway.relay.lane import target as target_module
from causeway.relay.lane.connections import Connections
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.reader import SourceConnection, SourceKey
from causeway.relay.lane.target import TargetConnection
from causeway.wire import Buffers, fetch
from tests.builders.relay import flow

MB = 1 << 20
ALIASES = "A/0", "B/1"  # as flows name them


class Later:
    """Helper threads whose work is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.work.append((work, then))

    def finish(self) -> None:
        while self.work:
            self.finish_one(0)

    def finish_one(self, at: int) -> None:
        if self.work:
            work, then = self.work.pop(at % len(self.work))
            try:
                answer = work()
            except CausewayError as error:
                answer = error
            then(answer)


class Broker:
    """A connection to one."""

    client_id_bytes = b"c"
    wants_write = False
    session_expires_at = None

    def __init__(self) -> None:
        self._sockets = socket.socketpair()

    def fileno(self) -> int:
        return self._sockets[0].fileno()

    def api_version(self, *_: int) -> int:
        return fetch.HIGHEST_VERSION

    def share(self, _: Buffers) -> None: ...

    def set_nonblocking(self) -> None: ...

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def sent_by(owner: SourceConnection | TargetConnection) -> None:
    _, theirs = cast(Broker, owner.connection)._sockets
    theirs.send(b"an answer")


class Brokers:
    def __init__(self) -> None:
        self.takes = 100  # so many connections more
        self.closed = threading.Event()
        self.settings: ClientSettings | None = None

    def open_connection(self, _: int) -> Broker:
        if not self.takes:
            raise UnreachableError("connect to", "a broker", "it has enough", retriable=True)
        self.takes -= 1
        return Broker()

    def renew(self, settings: ClientSettings) -> None:
        self.settings = settings

    def close(self) -> None:
        self.closed.set()


class Lane:
    def __init__(self, to_target: int = 1) -> None:
        login = SaslSettings(mechanism="PLAIN", username="u", password=Secret("word"))
        settings = to_wire(ClientSettings(alias="a", bootstrap=(("h", 1),), sasl=login))
        clusters = Clusters(
            clusters=dict.fromkeys(ALIASES, settings),
            lease_s=10.0,
            report_interval_s=1.0,
            connections=to_target,
            in_flight=None,
            buffer_bytes=64 * MB,
            far_buffer_bytes=96 * MB,
        )
        self.helpers = Later()
        self.failed: list[Flow] = []
        self.connections = Connections(
            clusters,
            cast(Helpers, self.helpers),
            selectors.DefaultSelector(),
            Buffers(),
            on_source=lambda *_: None,
            on_target=lambda *_: None,
            on_failure=lambda failed, _: self.failed.append(failed),
        )
        self.source, self.target = Brokers(), Brokers()
        brokers = self.source, self.target
        self.connections._clusters._open = dict(zip(ALIASES, cast(Any, brokers), strict=True))

    def attach(self, *flows: Flow) -> None:
        for one in flows:
            self.connections.attach(one)
        self.helpers.finish()

    def close(self) -> None:
        self.connections.close()

    @property
    def read(self) -> list[list[int]]:
        """The partitions that each connection reads."""
        return [
            sorted(one.assignment.partition for one in source.flows.values())
            for source in self.connections.sources
        ]

    @property
    def most(self) -> list[int]:
        return [source.most_bytes // MB for source in self.connections.sources]


@pytest.fixture
def lane() -> Iterator[Lane]:
    with closing(Lane()) as made:
        yield made


@pytest.fixture
def round_trip(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def is_far(seconds: float) -> None:
        for each in (reader, target_module):
            monkeypatch.setattr(each, "round_trip_s", lambda *_: seconds)

    return is_far


def test_a_near_broker_is_read_over_two_connections(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    round_trip(0.001)
    lane.attach(*map(flow, range(4)))
    assert (lane.read, lane.most) == ([[0, 2], [1, 3]], [16, 16])
    assert lane.connections.buffer_bytes == 64 * MB
    assert [target.max_requests for target in lane.connections.targets] == [16]


def test_links_that_read_from_one_broker_share_what_may_be_under_way(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    round_trip(0.001)
    others = [flow(partition) for partition in (2, 3)]
    for other in others:
        other.assignment = other.assignment.replace(link="A->C", max_bytes=2 * MB)
    lane.attach(flow(0), flow(1), *others)
    assert (lane.read, lane.most) == ([[0], [1], [2], [3]], [8, 8, 2, 2])


def test_a_rest_ends_once_a_source_broker_has_sent_something(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    round_trip(0.001)
    lane.attach(flow(0))
    (source,) = lane.connections.sources
    sent_by(source)
    begun = time.monotonic()
    lane.connections.await_source(60)
    assert time.monotonic() < begun + 60


def test_a_rest_lasts_while_targets_answer_or_disconnect(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    round_trip(0.001)
    lane.attach(flow(0), flow(1))
    for target in lane.connections.targets:
        sent_by(target)
    begun = time.monotonic()
    lane.connections.await_source(0.02)
    for lost in lane.connections.sources:
        lost.connection.close()  # as it does where it fails
        lane.connections.drop(lost)
    lane.connections.await_source(0.02)
    assert time.monotonic() >= begun + 0.04


def test_what_a_far_broker_leads_is_spread_and_all_together_is_bounded(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    round_trip(0.03)
    lane.attach(flow(0), flow(1))
    assert (lane.read, lane.most) == ([[0], [1]], [24, 24])
    assert lane.connections.buffer_bytes == 96 * MB
    lane.attach(*map(flow, range(2, 7)))
    assert (lane.read, lane.most) == ([[0, 3, 6], [1, 4], [2, 5]], [16, 16, 16])
    assert [target.max_requests for target in lane.connections.targets] == [96]


def test_a_flow_that_is_read_again_is_read_once(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    round_trip(0.1)
    flows = [flow(partition) for partition in range(3)]
    lane.attach(*flows)
    lane.connections.detach(flows[1])
    assert sorted(lane.read) == [[], [0], [2]]
    lane.attach(flows[1])
    assert sorted(lane.read) == [[0], [1], [2]]


def test_a_cluster_that_no_flow_uses_any_more_is_left(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    """Also over a connection that opens only afterwards. The others stay."""
    round_trip(0.001)
    gone, late = flow(0), flow(1)
    lane.attach(gone)
    lane.connections.attach(late)
    for one in (gone, late):
        lane.connections.detach(one)
    assert lane.helpers.work
    lane.connections.renew(Renewed(clusters={}, gone=("A/0", "never/7")))
    assert lane.connections.sources == []
    lane.helpers.finish()
    assert lane.connections.sources == []
    assert len(lane.connections.targets) == 1
    assert (lane.source.closed.is_set(), lane.target.closed.is_set()) == (True, False)
    assert lane.source.settings is not None
    assert lane.source.settings.sasl is None
    assert lane.connections.timed_out(time.monotonic()) == []


def test_a_flow_that_still_leaves_a_cluster_that_is_gone_fails(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    """Its link may have ended without waiting for its lanes. Then its batches do not wait for ever,
    nor do they count as relayed."""
    round_trip(0.001)
    leaves, stays = flow(0), flow(1)
    lane.attach(leaves, stays)
    lane.connections.fetch_no_more(leaves)
    outlet = leaves.outlets[0]
    outlet.pending_bytes = 1
    outlet.pending.append(cast(Any, None))
    lane.connections.offer(leaves, outlet)
    lane.connections.detach(stays)
    lane.connections.renew(Renewed(clusters={}, gone=ALIASES))
    assert lane.failed == [leaves]
    assert not lane.connections.targets


def test_a_lost_connection_leaves_the_others_flows_alone(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    round_trip(0.1)
    flows = [flow(partition) for partition in range(3)]
    lane.attach(*flows)
    (lost,) = (one for one in lane.connections.sources if flows[1] in one.flows.values())
    assert lane.connections.drop(lost) == {flows[1]}
    lane.attach(flows[1])
    assert sorted(lane.read) == [[0], [1], [2]]


def test_a_far_broker_that_takes_no_more_connections_is_read_over_fewer(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    """Half of those that it took are given back, once: others need some. Then nothing is tried
    again while it is read."""
    round_trip(0.1)
    lane.source.takes = 4
    flows = [flow(partition) for partition in range(6)]
    lane.attach(*flows)
    assert len(lane.read) == 2
    assert lane.connections.crowded == ("a -1",)
    given_back = [lane.failed.pop() for _ in range(2)]
    assert lane.failed == []
    for one in given_back:
        lane.connections.detach(one)
    lane.source.takes += 2
    lane.attach(*given_back)
    assert [len(read) for read in lane.read] == [3, 3]
    assert lane.source.takes == 2, "none is opened"

    lane.connections.detach(flows[4])
    lane.attach(flows[4])
    assert [len(read) for read in lane.read] == [3, 3]
    lost = lane.connections.sources[0]
    again = lane.connections.drop(lost)
    lane.attach(*again)
    assert [sorted(read) for read in lane.read] == [[0, 1, 2, 3, 4, 5]]
    assert lane.failed == []
    assert lane.source.takes == 2

    for source in lane.connections.sources:
        lane.connections.drop(source)
    lane.source.takes = 0
    lane.attach(*flows)
    assert sorted(one.assignment.partition for one in lane.failed) == [0, 1, 2, 3, 4, 5]

    lane.source.takes = 100
    lane.attach(*flows)
    assert [len(read) for read in lane.read] == [1] * 6
    assert not lane.connections.crowded


def test_what_the_broker_took_before_it_refused_is_used_whenever_that_is_known(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    """Several are opened at once, and answer in any order."""
    round_trip(0.1)
    flows = [flow(partition) for partition in range(6)]
    for one in flows:
        lane.connections.attach(one)
    lane.helpers.finish_one(0)
    lane.source.takes = 0
    for _ in range(2):
        lane.helpers.finish_one(-1)
    lane.source.takes = 1
    lane.helpers.finish()
    assert lane.connections.crowded == ("a -1",)
    assert sorted(one for read in lane.read for one in read) == [0, 1, 2, 3, 4, 5]
    assert len(lane.read) == 2
    assert lane.failed == []


def test_a_target_that_takes_no_more_connections_is_written_over_fewer(
    round_trip: Callable[[float], None],
) -> None:
    """Until that one is lost, with all that went over it."""
    round_trip(0.001)
    lane = Lane(to_target=2)
    flows = [flow(partition) for partition in range(4)]
    lane.target.takes = 1
    lane.attach(*flows)
    for one in flows:
        (outlet,) = one.outlets
        outlet.pending_bytes = 1
        outlet.pending.append(cast(Any, None))
        lane.connections.offer(one, outlet)
    lane.helpers.finish()
    assert lane.connections.crowded == ("a -1",)
    (target,) = lane.connections.targets
    assert len(target.ready) == len(lane.connections.waiting) == 4
    assert lane.connections.drop(target) == set(flows)
    assert not lane.connections.crowded
    assert lane.failed == []
    lane.target.takes = 100
    for one in flows:
        lane.connections.detach(one)
    lane.attach(*flows)
    assert len(lane.connections.targets) == 2
    lane.close()


def test_answers_of_a_broker_with_a_full_socket_are_read(
    lane: Lane, round_trip: Callable[[float], None]
) -> None:
    """A connection stays, whose flow has gone."""
    round_trip(0.001)
    flows = [flow(partition) for partition in range(2)]
    for one in flows:
        lane.connections.attach(one)
    lane.helpers.finish_one(0)
    lane.source.takes = 0
    lane.connections.detach(flows[0])
    lane.helpers.finish()
    assert (lane.read, lane.failed) == ([[1]], [])
    assert lane.connections.crowded == ("a -1",)


FLOWS = 12


@settings(deadline=None)
@given(
    st.sampled_from([0.001, 0.03, 0.1]),
    st.lists(
        st.tuples(st.sampled_from(["attach", "detach", "finish", "drop", "takes"]), st.integers(0)),
        max_size=60,
    ),
)
def test_a_flow_is_fetched_once_and_answers_are_bounded_in_every_order(
    seconds: float, events: list[tuple[str, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch, closing(Lane()) as lane:
        for each in (reader, target_module):
            patch.setattr(each, "round_trip_s", lambda *_: seconds)
        flows = [flow(partition) for partition in range(FLOWS)]
        attached: set[Flow] = set()
        for event, at in events:
            one = flows[at % FLOWS]
            match event:
                case "attach" if one not in attached:
                    attached.add(one)
                    lane.connections.attach(one)
                case "detach":
                    attached.discard(one)
                    lane.connections.detach(one)
                case "finish":
                    lane.helpers.finish_one(at)
                case "drop" if sources := lane.connections.sources:
                    for lost in lane.connections.drop(sources[at % len(sources)]):
                        attached.discard(lost)
                        lane.connections.detach(lost)
                case "takes":
                    lane.source.takes = at % 10
            while lane.failed:
                lost = lane.failed.pop()
                attached.discard(lost)
                lane.connections.detach(lost)
            read = [one for source in lane.connections.sources for one in source.flows.values()]
            opening = [
                one
                for key, waiting in lane.connections._opening.items()
                if isinstance(key, SourceKey)
                for one in waiting
            ]
            assert sorted(map(id, read + opening)) == sorted(map(id, attached))
            reading = [source for source in lane.connections.sources if source.flows]
            assert all(0 < source.session.max_bytes <= source.most_bytes for source in reading)
            assert (
                sum(source.most_bytes for source in reading) <= (32 if seconds < 0.01 else 48) * MB
            )
