"""What goes into requests, when, and what is made of the answers. No sockets."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from google_crc32c import value
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.cluster import REMEMBERED_S
from causeway.errors import ProtocolError
from causeway.model import Pair
from causeway.records import HEADER, Batch, as_is, records_of, unpacked_size
from causeway.relay.lane import clock
from causeway.relay.lane.outlet import (
    LEAST_BATCH_BYTES,
    OutletState,
    next_batch,
    send_smaller,
)
from causeway.relay.lane.target import (
    FIRST_REST_S,
    MOST_REST_S,
    PLENTY_BYTES,
    PLENTY_REQUESTS,
    RESTED_BYTES,
    SMALL_BYTES,
)
from tests.builders.relay import Bench
from tests.harness.examples import examples
from tests.harness.raw_batches import Rec, raw_batch


def _batch(first: int, count: int = 1, size: int = 3000, **more: Any) -> Batch:
    records = [
        Rec(offset=first + i, value=b"%d " % (first + i) + b"x" * size) for i in range(count)
    ]
    return as_is(raw_batch(records, **more))


def _view(batch: Batch) -> Batch:
    payload = bytes(batch.payload)
    return batch._replace(payload=memoryview(payload), unread=(value(payload), value(b"")))


def _sequences(requests: Sequence[dict[tuple[str, int], bytes]]) -> list[int]:
    return [HEADER.unpack_from(raw)[11] for request in requests for raw in request.values()]


def test_one_batch_in_flight_until_the_broker_has_answered() -> None:
    bench = Bench()
    flow = bench.flow()
    (outlet,) = flow.outlets
    bench.offer(flow, outlet, *(_batch(i) for i in range(9)))

    first = bench.send()
    assert _sequences(first) == [2**31 - 2]
    assert bench.send() == []

    bench.wire.answer(bench.wire.requests[0])
    assert len(bench.receive()) == 1
    assert _sequences(bench.send()) == [2**31 - 1, 0, 1, 2, 3]


OLD_MS, YOUNG_MS = 1_600_000_000_000, 1 << 41


def _timed(first: int, timestamp: int) -> Batch:
    value = b"%d " % first + b"x" * 3000
    return as_is(raw_batch([Rec(offset=first, timestamp=timestamp, value=value)]))


@pytest.mark.parametrize("exclusive", [False, True], ids=["shared", "exclusive"])
def test_an_old_batch_is_the_last_in_flight_where_others_write(exclusive: bool) -> None:
    """The broker may expire the producer once the old batch is its newest. If it refuses the batch
    behind that one then, it takes the next one as a first."""
    bench = Bench()
    flow = bench.flow()
    (outlet,) = flow.outlets
    outlet.exclusive = exclusive
    times = [YOUNG_MS, YOUNG_MS, OLD_MS, YOUNG_MS, YOUNG_MS, OLD_MS, OLD_MS, YOUNG_MS, YOUNG_MS]
    bench.offer(flow, outlet, *(_timed(i, time) for i, time in enumerate(times)))

    in_flight = []
    answered = 0
    while requests := bench.send():
        in_flight.append(len(requests))
        for request in bench.wire.requests[answered:]:
            bench.wire.answer(request)
            bench.receive()
        answered = len(bench.wire.requests)

    assert in_flight == ([1, 5, 3] if exclusive else [1, 2, 1, 2, 1, 1, 1])
    assert answered == len(times)


@pytest.mark.parametrize("exclusive", [False, True], ids=["shared", "exclusive"])
def test_young_batches_are_in_flight_together(exclusive: bool) -> None:
    bench = Bench()
    flow = bench.flow()
    (outlet,) = flow.outlets
    outlet.exclusive = exclusive
    bench.offer(flow, outlet, *(_timed(i, YOUNG_MS) for i in range(20)))

    in_flight = []
    for request in range(20):
        in_flight.append(len(bench.send()))
        bench.wire.answer(bench.wire.requests[request])
        bench.receive()

    assert in_flight[:3] == [1, 5, 1]
    assert sum(in_flight[:16]) == 20


def test_requests_leave_together_and_ask_the_socket_again_once_it_has_room() -> None:
    bench = Bench()
    flow = bench.flow(producer_id=-1)
    (outlet,) = flow.outlets
    bench.wire.full = True
    bench.offer(flow, outlet, *(_batch(i) for i in range(3)))
    assert bench.send() == []
    assert bench.wire.flushes == 1

    bench.offer(flow, outlet, _batch(3))
    assert bench.send() == []
    assert bench.wire.flushes == 1

    bench.wire.full = False
    bench.target.flush(bench.lease)
    assert len(bench.wire.requests) == 4


def test_without_a_lease_nothing_leaves_that_waits_for_room() -> None:
    bench = Bench()
    flow = bench.flow()
    bench.wire.full = True
    bench.offer(flow, flow.outlets[0], _batch(0))
    bench.send()

    bench.wire.full = False
    bench.lease.renew(0.0)
    bench.target.flush(bench.lease)

    assert bench.wire.requests == []


def test_a_broker_has_plenty_once_half_of_what_may_be_under_way_is() -> None:
    bench = Bench(2 * PLENTY_REQUESTS)
    flow = bench.flow(producer_id=-1)
    (outlet,) = flow.outlets
    assert not bench.target.has_plenty
    assert not bench.target.lacks

    bench.offer(flow, outlet, _batch(0))
    assert bench.target.lacks
    bench.send()
    assert not bench.target.has_plenty
    assert not bench.target.lacks

    bench.offer(flow, outlet, *(_batch(i) for i in range(1, PLENTY_REQUESTS)))
    bench.send()
    assert bench.target.has_plenty
    bench.offer(flow, outlet, _batch(PLENTY_REQUESTS))
    assert not bench.target.lacks

    bench.wire.full = True
    bench.send()
    assert not bench.target.has_plenty  # what it could work on is still here


def test_where_few_requests_may_be_under_way_no_number_of_small_ones_is_plenty() -> None:
    """They are answered sooner than a rest is over."""
    bench = Bench(1)
    flow = bench.flow(producer_id=-1)
    bench.offer(flow, flow.outlets[0], _batch(0), _batch(1))
    bench.send()
    assert not bench.target.has_plenty
    assert bench.target.lacks


def test_few_large_batches_are_plenty_too() -> None:
    bench = Bench()
    flow = bench.flow(producer_id=-1)
    (outlet,) = flow.outlets
    bench.offer(flow, outlet, _batch(0, size=PLENTY_BYTES))
    bench.send()
    assert bench.target.has_plenty


def test_a_broker_that_reads_slower_than_we_write_has_plenty() -> None:
    """Its socket is full, of what it will be at work on for a while."""
    bench = Bench(20)
    flow = bench.flow(producer_id=-1)
    (outlet,) = flow.outlets
    bench.offer(flow, outlet, _batch(0, size=PLENTY_BYTES + 1000))
    bench.send()
    bench.wire.full = True
    bench.offer(flow, outlet, *(_batch(i, size=PLENTY_BYTES) for i in range(1, 4)))
    bench.send()
    assert bench.wire.queued
    assert bench.target.has_plenty
    assert not bench.target.lacks

    bench.wire.answer(bench.wire.requests[0])
    bench.receive()
    assert not bench.target.has_plenty  # all that it could work on is still here


def test_a_part_of_a_request_is_nothing_that_a_broker_can_work_on() -> None:
    bench = Bench(20)
    flow = bench.flow(producer_id=-1)
    (outlet,) = flow.outlets
    bench.wire.full = True
    bench.offer(flow, outlet, _batch(0, size=2 * PLENTY_BYTES))
    bench.send()
    bench.wire.outbox.size -= PLENTY_BYTES + 1000  # the socket took as much
    assert not bench.target.has_plenty
    assert bench.target.lacks, "what it needs is still here"


def test_how_long_answers_may_wait_follows_how_fast_the_broker_is() -> None:
    bench = Bench(20)
    flow = bench.flow(producer_id=-1)

    def answered(count: int, after_s: float) -> float:
        bench.now += after_s
        for request in requests[:count]:
            bench.wire.answer(request)
        del requests[:count]
        assert len(bench.receive()) == count
        return bench.target.rest_s

    bench.offer(flow, flow.outlets[0], *(_batch(i) for i in range(100, 120)))
    bench.send()
    requests = list(bench.wire.requests)
    assert bench.target.rest_s == FIRST_REST_S
    assert answered(4, 0.002) == pytest.approx(0.004)  # half of what 16 more take
    assert answered(1, 0.01) == MOST_REST_S
    assert answered(6, 0.0001) == 0.0, "it will have done them at once"
    assert answered(8, 1.0) == 0.0, "with little to do, it shows nothing"


def test_no_more_comes_during_a_rest_than_a_cache_holds() -> None:
    bench = Bench(20)
    flow = bench.flow(producer_id=-1)
    bench.offer(flow, flow.outlets[0], *(_batch(i, size=RESTED_BYTES) for i in range(8)))
    bench.send()
    bench.wire.answer(bench.wire.requests[0])
    bench.now += 0.01
    bench.receive()
    assert bench.target.rest_s == pytest.approx(0.01, rel=0.01), "half of the rest would be 35 ms"


def test_more_requests_may_be_under_way_where_they_are_small() -> None:
    bench = Bench(2, 5)
    flow = bench.flow(producer_id=-1)
    bench.offer(flow, flow.outlets[0], *(_batch(i) for i in range(9)))
    assert len(bench.send()) == 5

    bench = Bench(2, 5)
    flow = bench.flow(producer_id=-1)
    bench.offer(flow, flow.outlets[0], *(_batch(i, size=SMALL_BYTES // 3) for i in range(9)))
    assert len(bench.send()) == 3


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(1, 12),
    st.lists(
        st.tuples(
            st.sampled_from(
                ["offer", "send", "send", "room", "none", "answer", "leased", "over", "withdraw"]
            ),
            st.integers(0, 3),
        ),
        max_size=80,
    ),
)
def test_whenever_a_socket_has_room_what_leaves_is_in_order_and_within_the_lease(
    requests: int, events: list[tuple[str, int]]
) -> None:
    bench = Bench(requests)
    # Two feed one target partition.
    flows = [bench.flow(p, p % 3, producer_id=10 + p) for p in range(4)]
    offered, answered, leased = [0] * 4, 0, True
    for event, at in events:
        flow, before = flows[at], len(bench.wire.requests)
        (outlet,) = flow.outlets
        match event:
            case "offer":
                copied, *more = (_batch(offered[at] + i) for i in range(3))
                bench.offer(flow, outlet, copied, *map(_view, more))
                offered[at] += 3
            case "send":
                bench.send()
            case "room":
                bench.wire.full = False
                bench.target.flush(bench.lease)
            case "none":
                bench.wire.full = True
            case "answer" if answered < before:
                bench.wire.answer(bench.wire.requests[answered])
                answered += 1
                bench.receive()
            case "leased" | "over":
                leased = event == "leased"
                bench.lease.renew(clock() + 3600 if leased else 0.0)
            case "withdraw":
                outlet.drop_pending()
                bench.target.withdraw(outlet)
                offered[at] = 0
        assert outlet.pending_bytes == sum(one.size for one in outlet.pending)
        copies = [one.size for one in outlet.pending if isinstance(one.payload, bytes)]
        assert outlet.copied_bytes == sum(copies)
        assert leased or len(bench.wire.requests) == before
        assert len(bench.wire.requests) + len(bench.wire.queued) - answered <= requests
        assert bench.target.waiting == (len(bench.wire.requests + bench.wire.queued) > answered)
    following = dict.fromkeys(range(10, 14), 2**31 - 2)
    unanswered = dict.fromkeys(range(10, 14), 0)
    for number, request in enumerate(bench.wire.requests + bench.wire.queued):
        parts = [p for topic in request.topic_data for p in topic.partition_data]
        assert len({p.index for p in parts}) == len(parts)
        for part in parts:
            header = HEADER.unpack_from(part.records)
            assert header[11] == following[header[9]]
            following[header[9]] = (header[11] + header[12]) % 2**31
            unanswered[header[9]] += number >= answered
    assert [flow.unanswered for flow in flows] == list(unanswered.values())
    assert bool(bench.target._unanswered_bytes) == bench.target.waiting


def test_a_refusal_proves_nothing() -> None:
    bench = Bench()
    flow = bench.flow()
    bench.offer(flow, flow.outlets[0], *(_batch(i) for i in range(3)))
    bench.send()
    bench.wire.answer(bench.wire.requests[0], error=45)
    bench.receive()
    assert len(bench.send()) == 1


def test_after_a_silence_the_broker_may_have_forgotten() -> None:
    bench = Bench()
    flow = bench.flow()
    bench.offer(flow, flow.outlets[0], _batch(0))
    bench.send()
    bench.wire.answer(bench.wire.requests[0])
    bench.receive()

    bench.now += REMEMBERED_S
    bench.offer(flow, flow.outlets[0], _batch(1), _batch(2))

    assert len(bench.send()) == 1


def test_without_a_producer_id_nothing_holds_back() -> None:
    bench = Bench()
    flow = bench.flow(producer_id=-1)
    bench.offer(flow, flow.outlets[0], *(_batch(i) for i in range(3)))
    requests = bench.send()
    assert _sequences(requests) == [-1, -1, -1]
    assert {HEADER.unpack_from(r["A.t", 0])[9] for r in requests} == {-1}


def test_a_partition_is_once_in_a_request_for_all_its_flows() -> None:
    """The broker would lose the second batch in silence."""
    bench = Bench()
    flows = [bench.flow(p, 0, 1, producer_id=10 * p) for p in (1, 2)]
    for flow in flows:
        for outlet in flow.outlets:
            bench.offer(flow, outlet, _batch(0))

    requests = bench.send()

    assert [sorted(p for _, p in request) for request in requests] == [[0, 1], [0, 1]]
    producers = {HEADER.unpack_from(raw)[9] for r in requests for raw in r.values()}
    assert producers == {10, 11, 20, 21}
    for request in bench.wire.requests:
        bench.wire.answer(request)
    assert {outlet for _, outlet, _, _ in bench.receive()} == {o for f in flows for o in f.outlets}
    assert all(flow.idle for flow in flows)


def test_many_partitions_share_a_request_in_turn() -> None:
    bench = Bench()
    flows = [bench.flow(p) for p in range(4)]
    for flow in flows:
        bench.offer(flow, flow.outlets[0], _batch(0))
    (request,) = bench.send()
    assert sorted(p for _, p in request) == [0, 1, 2, 3]


def test_a_request_is_no_larger_than_its_broker_takes() -> None:
    bench = Bench(30)
    flows = [bench.flow(p) for p in range(20)]
    bench.target.limit.most_bytes = 40_000
    for number, flow in enumerate(flows):
        small = (_batch(i, size=10) for i in range(3))
        bench.offer(flow, flow.outlets[0], *(small if number % 2 else [_batch(0, 8)]))

    requests = bench.send()

    assert len(requests) > 5
    assert all(sum(map(len, one.values())) < 40_000 for one in requests)
    assert [p for request in requests for _, p in request] == list(range(20))
    assert not any(flow.outlets[0].pending_bytes for flow in flows)


def test_a_batch_above_what_its_broker_takes_is_sent_in_parts() -> None:
    bench = Bench(30)
    flow = bench.flow(producer_id=-1)
    bench.target.limit.most_bytes = 20_000
    (outlet,) = flow.outlets
    outlet.limit(bench.target.limit.batch_bytes)
    bench.offer(flow, outlet, _batch(0, 40), _batch(40))
    raws = [raw for request in bench.send() for raw in request.values()]
    assert all(len(raw) < 20_000 for raw in raws)
    assert sum(HEADER.unpack_from(raw)[12] for raw in raws) == 41


def test_the_largest_request_that_a_broker_has_answered_is_known() -> None:
    bench = Bench()
    flow = bench.flow()
    bench.offer(flow, flow.outlets[0], _batch(0))
    bench.send()
    assert bench.target.limit.answered_bytes == 0
    bench.wire.answer(bench.wire.requests[0])
    bench.receive()
    assert 3_000 < bench.target.limit.answered_bytes < 3_500
    assert bench.target.closed_by_broker() == ""


def test_a_broker_that_throttles_gets_nothing_meanwhile_and_then_one_request_at_a_time() -> None:
    bench = Bench()
    flow = bench.flow(producer_id=-1)
    bench.offer(flow, flow.outlets[0], *(_batch(i) for i in range(12)))
    assert len(bench.send()) == 5
    for request in bench.wire.requests[:4]:
        bench.wire.answer(request)
    bench.wire.answer(bench.wire.requests[4], throttle_ms=40_000)
    bench.receive()
    assert bench.wire.borne_s == 40
    assert bench.target.held_up() == {flow}
    bench.now += 39
    assert bench.send() == []

    bench.now += 1
    assert len(bench.send()) == 1
    bench.wire.answer(bench.wire.requests[5])
    bench.receive()
    assert bench.wire.borne_s == 0, "what it may send once its lease is over has a bound"
    assert len(bench.send()) == 5


def test_what_is_unanswered_may_be_throttled_request_by_request() -> None:
    bench = Bench()
    flow = bench.flow(producer_id=-1)
    bench.offer(flow, flow.outlets[0], *(_batch(i) for i in range(5)))
    bench.send()
    bench.wire.answer(bench.wire.requests[0], throttle_ms=40_000)
    bench.receive()
    bench.target.abandon()
    assert flow.late_by == pytest.approx(time.monotonic() + 30 + 4 * 40, abs=10)


def test_nothing_leaves_without_the_lease() -> None:
    bench = Bench()
    flow = bench.flow()
    bench.offer(flow, flow.outlets[0], _batch(0))
    bench.lease.renew(0)
    assert bench.send() == []
    assert not flow.idle


def test_nothing_leaves_where_the_lease_ends_while_a_request_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    flow = bench.flow()
    bench.offer(flow, flow.outlets[0], _batch(0))
    queue = bench.wire.queue

    def slowly(buffers: Sequence[bytes], size: int) -> None:
        queue(buffers, size)
        bench.lease.renew(0)

    monkeypatch.setattr(bench.wire, "queue", slowly)
    assert bench.send() == []
    assert bench.wire.queued
    assert bench.target.abandon() == {flow}


def test_a_session_that_ends_is_given_nothing_more() -> None:
    """Or it would never be without a request for the broker to close it amid."""
    bench = Bench()
    flow = bench.flow()
    bench.wire.session_expires_at = bench.now + 1
    bench.offer(flow, flow.outlets[0], _batch(0), _batch(1))
    assert len(bench.send()) == 1

    bench.now += 1
    bench.wire.answer(bench.wire.requests[0])
    bench.receive()
    assert bench.send() == []
    assert not bench.target.waiting
    assert bench.target.abandon() == {flow}
    assert flow.late_by == 0.0, "nothing of it is on its way"


def test_what_is_withdrawn_does_not_go_over_this_connection() -> None:
    bench = Bench()
    flow = bench.flow()
    bench.offer(flow, flow.outlets[0], _batch(0))
    bench.target.withdraw(flow.outlets[0])
    assert bench.send() == []
    assert not bench.target.ready


def test_what_was_sent_knows_where_it_should_lie() -> None:
    bench = Bench()
    flow = bench.flow()
    (outlet,) = flow.outlets
    outlet.remembered_until = bench.now + 1
    bench.offer(flow, outlet, _batch(5, 3), _batch(8, 2))
    requests = bench.send()

    for request in bench.wire.requests:
        bench.wire.answer(request)
    one, two = [sent for _, _, sent, _ in bench.receive()]

    assert len(requests) == 2
    assert (one.sequence, one.records, one.expected, one.next) == (2**31 - 2, 3, 0, 8)
    assert (two.sequence, two.records, two.expected, two.next) == (1, 2, 3, 10)
    outlet.acknowledged(two, 103)
    assert outlet.pair == Pair(source=10, target=105, sequence=3)


@pytest.mark.parametrize("fault", ["unasked", "left out"])
def test_an_answer_that_does_not_fit_leaves_everything_in_doubt(fault: str) -> None:
    bench = Bench()
    flows = [bench.flow(p) for p in (0, 1)]
    for flow in flows:
        bench.offer(flow, flow.outlets[0], _batch(0))
    bench.send()
    (request,) = bench.wire.requests
    if fault == "unasked":
        request.header.correlation_id += 1
    bench.wire.answer(request, leave_out=1 if fault == "left out" else None)

    with pytest.raises(ProtocolError):
        bench.receive()

    assert bench.target.abandon() == set(flows)
    assert [flow.unanswered for flow in flows] == [0, 0]
    assert bench.wire.closed


def test_abandoned_flows_are_those_with_something_sent_or_to_send() -> None:
    bench = Bench()
    sent, pending, idle = (bench.flow(p) for p in range(3))
    bench.offer(sent, sent.outlets[0], _batch(0))
    bench.send()
    bench.offer(pending, pending.outlets[0], _batch(0))
    assert bench.target.abandon() == {sent, pending}
    assert idle.idle


# -- next_batch ------------------------------------------------------------------------------------


def _outlet(*batches: Batch) -> OutletState:
    (outlet,) = Bench().flow().outlets
    for batch in batches:
        outlet.put(batch)
    return outlet


def _all(outlet: OutletState, limit: int = 1_000_000) -> list[Batch]:
    found = []
    while outlet.pending:
        found.append(next_batch(outlet, limit))
    assert outlet.pending_bytes == 0
    return found


def _values(batches: Sequence[Batch]) -> list[bytes | None]:
    return [record.value for batch in batches for record in records_of(batch)]


def test_small_neighbours_of_one_codec_are_merged() -> None:
    small = [_batch(i, size=10) for i in range(5)]
    gzip = [_batch(i, size=10, compressed=True) for i in (5, 6)]
    large = _batch(7)
    found = _all(_outlet(*small, *gzip, large, _batch(8, size=10)))
    assert [(b.codec, b.records, b.first, b.next) for b in found] == [
        (0, 5, 0, 5),
        (1, 2, 5, 7),
        (0, 1, 7, 8),
        (0, 1, 8, 9),
    ]
    assert found[2] is large


def test_merged_batches_stay_below_the_limit() -> None:
    batches = [_batch(i, size=100) for i in range(100)]
    found = _all(_outlet(*batches), 1000)
    assert all(batch.size <= 1000 for batch in found)
    assert len(found) < 20
    assert _values(found) == _values(batches)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_batch_above_the_limit_is_split(compressed: bool) -> None:
    whole = _batch(3, 40, 100 if not compressed else 2000, compressed=compressed)
    limit = whole.size // 5 + 100
    found = _all(_outlet(whole, _batch(43)), limit)
    assert all(batch.size <= limit for batch in found[:-1])
    assert _values(found[:-1]) == _values([whole])
    assert [b.first for b in found[1:]] == [b.next for b in found[:-1]]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_batch_that_is_too_large_without_compression_is_split(compressed: bool) -> None:
    whole = _batch(3, 4_000, 1_200, compressed=compressed)
    outlet = _outlet(whole, *(_batch(i, size=10, compressed=compressed) for i in (4_003, 4_004)))
    outlet.most_unpacked = 1_000_000
    found = _all(outlet, 5_000_000)
    assert 5 <= len(found) <= 10
    assert all(unpacked_size(batch) <= 1_000_000 for batch in found)
    assert len(set(_values(found))) == 4_002
    assert [b.first for b in found[1:]] == [b.next for b in found[:-1]]


@pytest.mark.parametrize("most", [1024, 2048, 4000])
def test_a_merge_that_would_be_cut_again_is_undone(most: int) -> None:
    """A merged batch is larger than its parts together, because its records are further from the
    first one. If it was cut, its parts would be merged again, without end."""
    chance = random.Random(1)
    for _ in range(50):
        batches, first, at = [], 0, 1_000
        for _ in range(40):
            count, size = chance.randint(1, 8), chance.randint(5, 60)
            records = [Rec(offset=first + i, timestamp=at, value=b"x" * size) for i in range(count)]
            batches.append(as_is(raw_batch(records)))
            first, at = first + count, at + chance.randint(0, 100_000)
        outlet = _outlet(*batches)
        outlet.most_unpacked = most
        found = _all(outlet)
        assert all(batch.size <= most or batch.records == 1 for batch in found)
        assert len(found) < len(batches)
        assert _values(found) == _values(batches)


def test_after_each_refusal_as_too_large_batches_are_smaller() -> None:
    packed, plain = _outlet(), _outlet()
    sent = packed.sent(_batch(0, 40, compressed=True))
    assert send_smaller(packed, sent, 1_000_000)
    assert (packed.most_unpacked, packed.as_is_bytes) == (1_000_000, 0)
    assert send_smaller(packed, sent, 1_000_000)
    assert packed.most_unpacked == 500_000
    assert send_smaller(plain, plain.sent(_batch(0, 40)), 1_000_000)
    assert plain.most_unpacked is not None
    assert plain.most_unpacked < 61_000
    while send_smaller(plain, sent, 1_000_000):
        assert plain.most_unpacked >= LEAST_BATCH_BYTES


def test_a_refused_record_is_not_split() -> None:
    """Nor are those that one source record became: their place in the source is one."""
    outlet = _outlet()
    assert not send_smaller(outlet, outlet.sent(_batch(0)), 1_000_000)
    several = _batch(7, 5)._replace(offsets=[7] * 5)
    assert not send_smaller(outlet, outlet.sent(several), 1_000_000)
    assert outlet.most_unpacked is None
    outlet.most_unpacked = 1_000
    outlet.put(several)
    assert next_batch(outlet, 1_000) is several


def test_what_several_source_records_became_is_split_between_them() -> None:
    outlet = _outlet(_batch(0, 40)._replace(first=0, next=9, offsets=[i // 5 for i in range(40)]))
    found = _all(outlet, 20_000)
    assert [(b.first, b.next) for b in found] == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 5),
        (5, 6),
        (6, 7),
        (7, 9),
    ]


def test_a_record_above_the_limit_goes_out_for_the_broker_to_refuse() -> None:
    large = _batch(0)
    assert next_batch(_outlet(large), 1000) is large


def test_what_the_codec_cannot_read_goes_as_it_is() -> None:
    odd = _batch(1, size=10)._replace(payload=b"\x30no record")
    neighbours = [_batch(0, size=10), odd, _batch(2, size=10)]
    assert _all(_outlet(*neighbours)) == neighbours
    large = _batch(0, 5)._replace(payload=b"\x30" * 5000)
    assert next_batch(_outlet(large), 1000) is large
