from __future__ import annotations

import pytest

from causeway.model import Pair, State
from causeway.relay.flow import Flow
from causeway.relay.messages import Assignment, Outlet
from causeway.wire.batches import Batch


@pytest.fixture
def flow() -> Flow:
    outlet = Outlet(
        topic="A.t",
        partition=0,
        topic_id="bb" * 16,
        producer_id=1,
        producer_epoch=0,
        pair=Pair(source=100, target=50, sequence=50),
    )
    assignment = Assignment(
        link="A->B",
        source="A/0",
        target="B/1",
        topic="t",
        partition=0,
        topic_id="aa" * 16,
        leader_epoch=3,
        outlets=(outlet,),
    )
    running = Flow.of(assignment)
    running.state = State.RUNNING
    return running


def batch(first: int, records: int) -> Batch:
    return Batch(
        payload=b"x" * 10,
        codec=0,
        base_timestamp=0,
        max_timestamp=0,
        records=records,
        first=first,
        next=first + records,
        leader_epoch=4,
    )


def test_what_was_dropped_needs_no_record_to_be_passed(flow: Flow) -> None:
    flow.position, flow.leader_epoch = 130, 4  # 30 offsets of aborted data

    report = flow.report()

    assert report.position == 130
    assert report.outlets[0].pair == Pair(source=130, target=50, sequence=50)
    assert report.leader_epoch == 4


def test_what_waits_to_be_sent_is_not_passed_when_the_flow_leaves(flow: Flow) -> None:
    """Fetched, not sent, and let go of: whoever relays next begins with just these records."""
    (outlet,) = flow.outlets
    outlet.put(batch(100, 10))
    outlet.put(batch(110, 10))
    flow.position = 120
    sent = outlet.sent(outlet.take())

    flow.leave()
    outlet.drop_pending()
    outlet.unanswered -= 1
    outlet.acknowledged(sent, 50)
    report = flow.report(final=True)

    assert report.position == 110
    assert report.outlets[0].pair == Pair(source=110, target=60, sequence=60)


def test_an_idle_flow_leaves_at_its_position(flow: Flow) -> None:
    flow.position = 130
    flow.leave()

    assert flow.report(final=True).position == 130
