"""Which flows a source connection reads."""

from __future__ import annotations

from typing import cast

from causeway.model import Pair
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.reader import SourceConnection
from causeway.relay.messages import Assignment, Outlet
from causeway.wire.connection import Connection
from causeway.wire.fetch import HIGHEST_VERSION, FetchSession


def _flow(link: str) -> Flow:
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
            partition=0,
            topic_id="a" * 32,
            leader_epoch=-1,
            outlets=(outlet,),
        )
    )


def test_another_links_flow_of_the_same_partition_is_left_alone() -> None:
    session = FetchSession(
        version=HIGHEST_VERSION,
        client_id=b"c",
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1,
        read_committed=True,
    )
    source = SourceConnection(cast(Connection, None), session)
    ours, other = _flow("A->B"), _flow("A->C")
    source.add(ours)

    source.remove(other)
    assert list(source.flows.values()) == [ours]

    source.remove(ours)
    assert not source.flows
