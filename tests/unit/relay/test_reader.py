"""Which flows a source connection reads."""

from __future__ import annotations

from typing import Any, cast

from causeway.link_topics import Outlet
from causeway.model import Pair
from causeway.relay import Assignment
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.reader import Allowance, SourceConnection
from causeway.wire import Connection, FetchSession, fetch
from tests.builders.relay import Wire


def _flow(link: str, partition: int = 0, **more: Any) -> Flow:
    outlet = Outlet(
        topic="A.t",
        partition=0,
        topic_id="b" * 32,
        producer_id=7,
        producer_epoch=0,
        pair=Pair(source=0, target=0, sequence=0),
    )
    return Flow.of(
        Assignment(
            link=link,
            source="a",
            target="b",
            topic="t",
            partition=partition,
            topic_id="a" * 32,
            leader_epoch=-1,
            outlets=(outlet,),
            **more,
        )
    )


def _session(kind: type[FetchSession] = FetchSession) -> FetchSession:
    return kind(
        version=fetch.HIGHEST_VERSION,
        client_id=b"c",
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1,
        read_committed=True,
    )


def test_those_that_are_held_back_come_first_next_time() -> None:
    """And the others wait at the broker no longer than it takes until they may be asked for."""
    asked: list[tuple[tuple[int, ...], int]] = []

    class Session(FetchSession):
        def build(self, _: int, *, wait_ms: int) -> bytes:
            assert all(cursor.max_bytes == 77 for cursor in self._cursors.values())
            asked.append((tuple(cursor.partition for cursor in self._cursors.values()), wait_ms))
            return b""

    source = SourceConnection(cast(Connection, Wire()), _session(Session), 1)
    for partition in range(3):
        source.add(_flow("A->B", partition))
    for room in (1, 1, 1, 2, 3):
        left = [77] * room
        allowance = Allowance(
            room=True,
            ask=lambda _, left=left: left.pop() if left else 0,  # type: ignore[misc]
            wait_ms=lambda: 40,
            by_turns=True,
        )
        source.request(allowance, 0.0)
        source._correlation_id = None
    assert asked == [((0,), 40), ((1,), 40), ((2,), 40), ((0, 1), 40), ((0, 1, 2), 500)]


def test_another_links_flow_of_the_same_partition_is_left_alone() -> None:
    source = SourceConnection(cast(Connection, None), _session(), 1)
    ours, other = _flow("A->B"), _flow("A->C")
    source.add(ours)

    source.remove(other)
    assert list(source.flows.values()) == [ours]

    source.remove(ours)
    assert not source.flows


def test_a_request_looks_at_nothing_but_what_is_new_or_held_back() -> None:
    """With ten thousand idle partitions it must not look at each of them twice a second."""
    source = SourceConnection(cast(Connection, Wire()), _session(), 1)
    flows = [_flow("A->B", partition) for partition in range(4)]
    for flow in flows:
        source.add(flow)
    looked: list[int] = []

    def ask(flow: Flow) -> int:
        looked.append(flow.assignment.partition)
        return 0 if flow is flows[3] and not flows[3].records else 77

    def request(*, room: bool = True) -> list[int]:
        looked.clear()
        source.request(Allowance(room=room, ask=ask, wait_ms=lambda: 40), 0.0)
        source._correlation_id = None
        return list(looked)

    assert request(room=False) == []
    assert request() == [0, 1, 2, 3]
    assert request() == [3], "it is held back still"
    flows[3].records = 1
    source.remove(flows[1])
    assert request() == [3]
    assert [source.session.asked(source._key(flow)) for flow in flows] == [0, None, 0, 0]
    assert request() == []
    source.add(flows[1])
    assert request() == [1]


def test_a_far_partition_may_fill_an_answer_unless_the_file_or_a_throttle_says_less() -> None:
    def asked(source: SourceConnection, flow: Flow, *, throttled: bool = False) -> int:
        source.session.max_bytes = 16 << 20
        source.add(flow)
        allowance = Allowance(
            room=True, ask=lambda flow: flow.answer_bytes, wait_ms=lambda: 40, by_turns=throttled
        )
        source.request(allowance, 0.0)
        source._correlation_id = None
        return source.session._cursors[source._key(flow)].max_bytes >> 20

    near = SourceConnection(cast(Connection, Wire()), _session(), 16 << 20)
    assert asked(near, _flow("A->B")) == 4
    far = SourceConnection(cast(Connection, Wire()), _session(), 16 << 20, 0.1)
    flow = _flow("A->B", 0)
    assert asked(far, flow) == 16
    assert asked(far, _flow("A->B", 1)) == 8
    assert asked(far, _flow("A->B", 2, max_partition_bytes=1 << 20)) == 1
    assert asked(far, _flow("A->B", 3), throttled=True) == 4
    assert asked(near, flow) == 4, "it has moved to a near broker"
