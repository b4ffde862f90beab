"""What was sent over a connection that is gone may arrive all the same."""

from __future__ import annotations

import time

import pytest

from causeway.cluster import YOUNG_S
from causeway.records import Batch, keep
from causeway.relay.lane.responses import must_wait
from tests.builders.relay import Bench
from tests.harness.raw_batches import Rec, raw_batch

NOW_MS = int(time.time() * 1000)
OLD_MS = NOW_MS - int(YOUNG_S * 1000) - 60_000


def batch(*timestamps: int) -> Batch:
    records = [Rec(offset=i, timestamp=t) for i, t in enumerate(timestamps)]
    (kept,) = keep(memoryview(raw_batch(records)), 0, (), "t").batches
    return kept


@pytest.mark.parametrize(
    ("timestamp", "seconds_left", "waits"),
    [(OLD_MS, 5, True), (-1, 5, True), (NOW_MS, 5, False), (OLD_MS, -5, False), (-1, -5, False)],
    ids=["old", "no time", "young", "old, later", "no time, later"],
)
def test_only_old_records_wait_and_not_for_ever(
    timestamp: int, seconds_left: float, waits: bool
) -> None:
    """Its place was looked for so long before nothing can arrive any more. What arrives after that
    look may be what the flow is about to send, however late it sends."""
    flow = Bench().flow()
    flow.late_by, flow.sought_at = 1000 + seconds_left, 1000

    assert must_wait(flow, [batch(NOW_MS), batch(timestamp)]) is waits


def test_a_batch_waits_for_its_first_record_if_that_one_is_old() -> None:
    """Another lane, or this one, may have sent that record alone."""
    flow = Bench().flow()
    flow.late_by = 1005

    assert must_wait(flow, [batch(OLD_MS, NOW_MS)])


def test_where_no_sequence_keeps_anything_out_nothing_waits() -> None:
    """At least once, without a producer id: the broker has nothing to forget."""
    flow = Bench().flow(producer_id=-1)
    flow.late_by = 1005

    assert not must_wait(flow, [batch(OLD_MS)])


def test_what_is_unanswered_when_its_connection_goes_may_be_late() -> None:
    """By the request's time-out, and as long as the broker has said that it will read nothing."""
    bench = Bench()
    throttled, idle = bench.flow(0), bench.flow(1)
    bench.offer(throttled, throttled.outlets[0], batch(NOW_MS))
    bench.send()
    bench.wire.answer(bench.wire.requests[0], throttle_ms=7_000)
    bench.receive()
    bench.now += 8
    bench.offer(throttled, throttled.outlets[0], batch(NOW_MS))
    bench.send()

    bench.target.abandon()

    assert throttled.late_by == pytest.approx(time.monotonic() + 30 + 7, abs=3)
    assert idle.late_by == 0


def test_what_may_be_late_is_not_settled() -> None:
    """Even where nobody waits for an answer any more: the next lane must know."""
    flow = Bench().flow()
    flow.unsettled = False
    assert flow.report(final=True).settled
    flow.late_by = time.monotonic() + 60
    assert not flow.report(final=True).settled
