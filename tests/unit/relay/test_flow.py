"""What a flow states of itself must be true at any instant, for it is what recovery starts from."""

from __future__ import annotations

from causeway.link_topics import Outlet
from causeway.model import Pair, Spread, State
from causeway.records import Batch, as_is
from causeway.relay import Assignment, LaneReport
from causeway.relay.lane.flow import Flow
from causeway.relay.messages import decode, encode
from tests.harness.raw_batches import Rec, raw_batch


def _flow(*starts: int, state: State = State.RUNNING) -> Flow:
    flow = Flow.of(
        Assignment(
            link="A->B",
            source="a",
            target="b",
            topic="t",
            partition=0,
            topic_id="a" * 32,
            leader_epoch=1,
            outlets=tuple(
                Outlet(
                    topic="A.t",
                    partition=index,
                    topic_id="b" * 32,
                    producer_id=index,
                    producer_epoch=0,
                    pair=Pair(source=start, target=500, sequence=7),
                )
                for index, start in enumerate(starts)
            ),
        )
    )
    flow.state = state
    flow.unsettled = False  # its place was found
    return flow


def _batch(first: int, count: int) -> Batch:
    return as_is(raw_batch([Rec(offset=first + i) for i in range(count)], leader_epoch=4))


def test_a_flow_begins_at_the_position_of_its_last_outlet() -> None:
    assert _flow(40, 10, 30).position == 10


def test_an_idle_flow_states_that_it_is_past_what_was_dropped() -> None:
    flow = _flow(10)
    flow.position = flow.through = 25
    flow.leader_epoch = 3
    report = flow.report()
    assert report.outlets[0].pair == Pair(source=25, target=500, sequence=7)
    assert (report.position, report.leader_epoch) == (25, 3)


def test_only_outlets_with_nothing_under_way_move() -> None:
    flow = _flow(10, 10, 10)
    waiting, sent, idle = flow.outlets
    flow.position = flow.through = 25
    flow.leader_epoch = 3
    waiting.put(_batch(12, 2))
    sent.sent(_batch(20, 2))
    report = flow.report()
    assert [o.pair.source for o in report.outlets] == [10, 10, 25]
    assert (report.position, report.leader_epoch) == (10, 3)  # of the one furthest on
    assert idle.pair.sequence == 7


def test_an_outlet_that_is_further_on_stays_there() -> None:
    flow = _flow(10, 40)
    flow.position = flow.through = 25
    assert [o.pair.source for o in flow.report().outlets] == [25, 40]


def test_a_flow_in_doubt_states_nothing_new() -> None:
    flow = _flow(10, state=State.RECOVERING)
    flow.position = flow.through = 25
    assert flow.report().outlets[0].pair.source == 10


def test_a_flow_that_leaves_states_nothing_of_what_it_let_go() -> None:
    flow = _flow(10)
    flow.position = flow.through = 12
    flow.outlets[0].put(_batch(10, 2))
    flow.leave()
    flow.outlets[0].drop_pending()
    assert flow.report(final=True).outlets[0].pair.source == 10


def test_a_flow_that_leaves_idle_states_all_that_it_saw() -> None:
    flow = _flow(10)
    flow.position = flow.through = 12
    flow.leave()
    assert flow.report(final=True).outlets[0].pair.source == 12


def test_what_was_given_up_unanswered_is_not_stated() -> None:
    """As where a lane ends while its target does not answer: it may have arrived, or not."""
    flow = _flow(10)
    (outlet,) = flow.outlets
    outlet.sent(_batch(10, 2))
    flow.position = flow.through = 12
    outlet.unanswered, flow.unsettled = 0, True
    report = flow.report(final=True)
    assert report.outlets[0].pair.source == 10
    assert not report.settled


def test_an_acknowledged_batch_is_the_newest_pair() -> None:
    flow = _flow(10)
    (outlet,) = flow.outlets
    sent = outlet.sent(_batch(10, 3))
    assert (outlet.sequence, outlet.end, sent.expected) == (10, 503, 500)
    outlet.unanswered -= 1
    outlet.acknowledged(sent, 500)
    assert outlet.pair == Pair(source=13, target=503, sequence=10)
    assert flow.idle


def test_a_target_that_lost_records_is_reported_though_it_has_got_more_since() -> None:
    flow = _flow(10)
    (outlet,) = flow.outlets
    outlet.acknowledged(outlet.sent(_batch(12, 2)), 500)
    outlet.resume(Pair(source=10, target=500, sequence=7))
    outlet.resume(outlet.pair)  # an end that is no loss
    outlet.sequence = 7
    outlet.acknowledged(outlet.sent(_batch(12, 20)), 600)
    (trace,) = flow.report().traces
    assert trace.resumed == Pair(source=10, target=500, sequence=7)
    assert trace.breaks[0] == trace.resumed
    assert all(point.target >= 600 for point in trace.breaks[1:]), "nothing of what was lost"
    assert flow.report().traces[0].resumed is None


def test_a_report_tells_what_was_noted_since_the_last_one() -> None:
    flow = _flow(10)
    assert flow.report().latencies is None
    for ms in (5, 9, 3, 4):
        flow.latencies.note(ms)
    flow.ages.note(-2)
    report = flow.report()
    assert (report.latencies, report.ages) == (Spread(4, 21, 3, 9), Spread.of(-2))
    flow.latencies.note(7)
    assert flow.report().latencies == Spread.of(7)


def test_a_reason_that_is_no_utf8_is_still_reported() -> None:
    """A header's name may be of any bytes, and an error may name it."""
    flow = _flow(0, state=State.STOPPED)
    flow.reason = b"header \xff".decode(errors="surrogateescape")
    report = decode(encode(LaneReport(lane_time=0.0, partitions=(flow.report(),))))
    assert isinstance(report, LaneReport)
    assert report.partitions[0].reason == "header \\udcff"
