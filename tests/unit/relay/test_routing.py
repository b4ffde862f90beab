from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.link_topics import Outlet
from causeway.model import Pair, State
from causeway.records import HEADER_SIZE, Batch, as_is, records_of
from causeway.relay import Assignment, partition_of, shares
from causeway.relay.lane.flow import Diverging, Flow
from causeway.relay.lane.responses import (
    NeedsRecovery,
    StopPartition,
    account,
    route,
    take,
    take_in,
)
from causeway.relay.treatment import KEYLESS_RUN
from causeway.wire import EpochEnd, Fetched, Produced, codes
from tests.harness.raw_batches import Rec, damaged, raw_batch

# From the tests of Apache Kafka's own Utils.murmur2: key and hash as a Java int.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def _flow(*starts: int, keys_from: int = 0) -> Flow:
    outlets = tuple(
        Outlet(
            topic="A.t",
            partition=index,
            topic_id="0" * 32,
            producer_id=index,
            producer_epoch=0,
            pair=Pair(source=start, target=0, sequence=0),
        )
        for index, start in enumerate(starts)
    )
    return Flow.of(
        Assignment(
            link="A->B",
            source="a",
            target="b",
            topic="t",
            partition=0,
            topic_id="0" * 32,
            leader_epoch=-1,
            outlets=outlets,
            keys_from=keys_from,
        )
    )


def _batch(keys: list[bytes | None], first: int = 0) -> Batch:
    return as_is(
        raw_batch([Rec(offset=first + i, key=k, value=b"%d" % i) for i, k in enumerate(keys)])
    )


@pytest.mark.parametrize(("key", "hashed"), JAVA_HASHES.items())
@pytest.mark.parametrize("count", [1, 2, 5, 7, 100])
def test_keys_go_where_javas_default_partitioner_puts_them(
    key: bytes, hashed: int, count: int
) -> None:
    assert partition_of(key, 12345, count) == (hashed & 0x7FFFFFFF) % count


def test_keyless_records_stay_together_and_take_turns() -> None:
    found = [partition_of(None, offset, 3) for offset in range(4 * KEYLESS_RUN)]
    assert found == [0] * KEYLESS_RUN + [1] * KEYLESS_RUN + [2] * KEYLESS_RUN + [0] * KEYLESS_RUN


@given(
    st.lists(st.none() | st.binary(max_size=8), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(0, 1000),
)
def test_each_record_is_in_one_share_in_order(
    keys: list[bytes | None], count: int, first: int
) -> None:
    whole = _batch(keys, first)

    parts = shares(whole, _flow(*[0] * count).assignment)

    rows = {}
    for index, share in enumerate(parts):
        if share is None:
            continue
        offsets = [share.source_offset(i) for i in range(share.records)]
        assert offsets == sorted(offsets)
        assert (share.first, share.next, share.codec) == (offsets[0], whole.next, whole.codec)
        for offset, record in zip(offsets, records_of(share), strict=True):
            assert partition_of(record.key, offset, count) == index
            rows[offset] = (record.key, record.value)
    assert rows == {first + i: (key, b"%d" % i) for i, key in enumerate(keys)}


def test_with_one_outlet_batches_go_as_they_are() -> None:
    flow = _flow(0)
    raws = [raw_batch([Rec(offset=at, value=b"x" * 3000)]) for at in (0, 1)]

    kept, touched = take(flow, _fetched(b"".join(raws)))

    (outlet,) = touched
    assert list(outlet.pending) == kept.batches
    assert outlet.pending_bytes == len(b"".join(raws))
    assert [batch.payload for batch in kept.batches] == [raw[HEADER_SIZE:] for raw in raws]
    assert take(flow, _fetched(b""))[1] == []


def _big(*offsets: int, timestamp: int) -> memoryview:
    """Of a big answer."""
    records = [Rec(offset=at, value=b"x" * 3000, timestamp=timestamp) for at in offsets]
    return memoryview(bytearray(b"".join(raw_batch([record]) for record in records)))


def _large_and_young(timestamp: int) -> memoryview:
    """Larger than what is sent at a time."""
    records = [Rec(offset=at, value=b"x" * 3000, timestamp=timestamp) for at in (0, 1)]
    return memoryview(bytearray(raw_batch(records)))


def _taken_unread(flow: Flow, records: memoryview) -> list[bool]:
    kept, _ = take(flow, _fetched(b"")._replace(records=records))
    return [batch.unread is not None for batch in kept.batches]


def test_only_a_flow_that_looks_into_nothing_passes_on_what_it_has_not_read() -> None:
    """From its second batch on, while records are young, also in the next answer."""
    now = int(time.time() * 1000)
    flow = _flow(0)
    assert _taken_unread(flow, _big(0, 1, timestamp=now)) == [False, True]
    assert _taken_unread(flow, _big(2, 3, timestamp=now)) == [True, True]
    assert _taken_unread(flow, _big(4, timestamp=now - 13 * 3_600_000)) == [True]
    assert _taken_unread(flow, _big(5, 6, timestamp=now)) == [False, True]
    assert _taken_unread(flow, memoryview(bytes(_big(7, timestamp=now)))) == [False]

    def second(flow: Flow) -> bool:
        return _taken_unread(flow, _big(0, 1, timestamp=now))[1]

    assert second(_flow(0))
    assert not second(_flow(0, 0))
    others = _flow(0), _flow(0), _flow(0), _flow(0)
    others[0].treatment = cast(Any, SimpleNamespace(treat=lambda _, records: records))
    others[1].on_the_way = cast(Any, object())
    others[2].outlets[0].idempotent = False
    others[3].outlets[0].as_is_bytes = 3000
    assert [second(other) for other in others] == [False] * 4
    split = _flow(0)
    split.outlets[0].as_is_bytes = 5000
    assert _taken_unread(split, _large_and_young(now)) == [False]
    assert _taken_unread(split, _big(2, 3, timestamp=now)) == [False, True]


def test_a_place_that_may_follow_from_damage_stops_nothing() -> None:
    """What was fetched before is answered first: if it was damaged, it is refused."""
    flow = _flow(0)
    flow.state = State.RUNNING
    take_in(flow, _fetched(bytes(_big(0, timestamp=int(time.time() * 1000)))))
    truncated = _fetched(b"")._replace(diverging=EpochEnd(0, 0))
    assert take_in(flow, truncated)[0].batches == []
    assert flow.unreadable_at == flow.position == 1
    flow.outlets[0].take()
    with pytest.raises(StopPartition, match="the source was truncated to offset 0"):
        take_in(flow, truncated)


@pytest.mark.parametrize("offset", [1, 5])
def test_an_epoch_that_ends_at_our_place_or_beyond_proves_no_truncation(offset: int) -> None:
    flow = _flow(0)
    flow.state = State.RUNNING
    take_in(flow, _fetched(raw_batch([Rec(offset=0)], leader_epoch=3)))
    flow.outlets[0].take()
    with pytest.raises(NeedsRecovery, match="no entry for leader epoch 3"):
        take_in(flow, _fetched(b"")._replace(diverging=EpochEnd(2, offset)))
    assert flow.diverging == Diverging(3, 2)


def test_damage_is_reported_after_all_records_before_it_are_relayed() -> None:
    good, bad = raw_batch([Rec(offset=0)]), damaged(raw_batch([Rec(offset=1)]))
    flow = _flow(0)
    flow.state = State.RUNNING
    take_in(flow, _fetched(good + bad))
    corrupt = _fetched(b"")._replace(error=codes.CORRUPT_MESSAGE)  # the broker itself may notice it
    for answer in (_fetched(bad), corrupt):
        take_in(flow, answer)
        assert flow.unreadable_at == 1
    flow.outlets[0].take()
    cut_off = _fetched(raw_batch([Rec(offset=1)])[:-1])
    for answer, why in (
        (_fetched(bad), "offset 1 has a wrong CRC"),
        (corrupt, "CORRUPT_MESSAGE"),
        (cut_off, "offset 1 is longer than the source's answer"),
    ):
        with pytest.raises(NeedsRecovery, match=why) as doubt:
            take_in(flow, answer)
        assert doubt.value.damage is not None
        assert (doubt.value.damage.start, doubt.value.damage.to) == (1, -1)


@pytest.mark.parametrize("error", [codes.CORRUPT_MESSAGE, codes.INVALID_RECORD])
def test_what_the_target_refuses_as_damaged_ends_with_the_batch(error: int) -> None:
    flow = _flow(0)
    flow.state = State.RUNNING
    take_in(flow, _fetched(raw_batch([Rec(offset=at) for at in range(3)])))
    (outlet,) = flow.outlets
    sent = outlet.sent(outlet.take())
    with pytest.raises(NeedsRecovery) as doubt:
        account(flow, outlet, sent, Produced(error, -1, -1, "bad"), 0)
    assert doubt.value.damage is not None
    assert (doubt.value.damage.start, doubt.value.damage.to) == (0, 3)


@pytest.mark.parametrize(("base", "lost"), [(99, True), (100, False), (120, False)])
def test_an_answer_below_the_last_one_tells_of_a_loss_where_others_write(
    base: int, lost: bool
) -> None:
    flow = _flow(0)
    flow.state = State.RUNNING
    take_in(flow, _fetched(raw_batch([Rec(offset=at) for at in range(3)])))
    (outlet,) = flow.outlets
    outlet.exclusive = False
    outlet.pair = outlet.pair._replace(target=100)
    sent = outlet.sent(outlet.take())
    produced = Produced(0, base, -1, "")
    if not lost:
        account(flow, outlet, sent, produced, 0)
        assert outlet.pair.target == base + 3
        return
    with pytest.raises(NeedsRecovery, match="has lost records") as doubt:
        account(flow, outlet, sent, produced, 0)
    assert doubt.value.unsettled


def test_an_outlet_that_is_further_on_gets_only_what_it_lacks() -> None:
    keys: list[bytes | None] = [b"%d" % i for i in range(40)]
    flow = _flow(0, 25, 100)

    touched = route(flow, _batch(keys))

    assert touched == flow.outlets[:2]
    arrived = {
        outlet.spec.partition: [batch.source_offset(i) for i in range(batch.records)]
        for outlet in touched
        for batch in outlet.pending
    }
    wanted = {
        p: [o for o in range(40) if partition_of(keys[o], o, 3) == p and o >= start]
        for p, start in ((0, 0), (1, 25))
    }
    assert arrived == wanted
    assert flow.pending_bytes == sum(b.size for o in touched for b in o.pending)


@given(
    st.lists(st.none() | st.binary(max_size=8), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_below_the_offset_where_keys_begin_to_decide_all_stays_together(
    keys: list[bytes | None], count: int, first: int, keys_from: int
) -> None:
    whole = _batch(keys, first)

    parts = shares(whole, _flow(*[0] * count, keys_from=keys_from).assignment)

    found = {
        share.source_offset(i): index
        for index, share in enumerate(parts)
        if share is not None
        for i in range(share.records)
    }
    assert found == {
        offset: 0 if offset < keys_from else partition_of(key, offset, count)
        for offset, key in enumerate(keys, first)
    }
    if first + len(keys) <= keys_from:
        assert parts[0] is whole  # not even decoded


def test_what_is_unpacked_to_be_routed_is_left_to_the_next_fetch_once_it_is_much() -> None:
    flow = _flow(0, 0)
    record = Rec(offset=0, key=b"k", value=b"\0" * 20 * 1024 * 1024)
    data = b"".join(raw_batch([replace(record, offset=i)], compressed=True) for i in range(4))

    kept, touched = take(flow, _fetched(data))

    assert kept.position == 2
    assert sum(len(outlet.pending) for outlet in dict.fromkeys(touched)) == 2


def test_what_cannot_be_routed_holds_back_nothing_before_it() -> None:
    """It stops its partition once that is relayed: who goes on after it must not go without."""
    flow = _flow(0, 0)
    flow.state = State.RUNNING
    good = [_large(offset, 3000) for offset in range(3)]
    bomb = raw_batch([_large(3, 40 * 1024 * 1024)], compressed=True)
    whole = b"".join(raw_batch([one]) for one in good) + bomb

    _, touched = take_in(flow, _fetched(whole))

    assert flow.position == 3
    assert sum(len(outlet.pending) for outlet in touched) == 3
    assert take_in(flow, _fetched(bomb))[1] == []
    assert flow.position == flow.unreadable_at == 3
    for outlet in flow.outlets:
        outlet.drop_pending()  # as if they were relayed
    with pytest.raises(StopPartition, match="bytes unpack to more than"):
        take_in(flow, _fetched(bomb))


def _large(offset: int, size: int) -> Rec:
    return Rec(offset=offset, key=b"k", value=b"\0" * size)


def _fetched(data: bytes) -> Fetched:
    return Fetched(b"t", 0, 0, 4, 4, 0, [], memoryview(data), None)


def test_a_lane_tells_when_the_first_record_that_waits_was_written() -> None:
    """What is mirrored is an hour older; it tells nothing once the source's end was reached."""
    now = 1_700_000_000_000
    flow = _flow(0)
    flow.state, flow.unsettled = State.RUNNING, False
    (outlet,) = flow.outlets

    def mirror() -> None:
        outlet.acknowledged(outlet.sent(outlet.take()), outlet.pair.target)

    def answer(offset: int, timestamp: int, end: int) -> Fetched:
        raw = raw_batch([Rec(offset=offset, timestamp=timestamp)])
        return _fetched(raw)._replace(last_stable=end, high_watermark=end)

    take_in(flow, answer(0, now - 3_600_000, 1))
    assert flow.report().first_unmirrored == now - 3_600_000
    mirror()
    assert flow.report().first_unmirrored == -1, "nothing waits"
    take_in(flow, _fetched(b"")._replace(last_stable=2, high_watermark=2))
    assert flow.report().first_unmirrored == -1, "it has not been fetched"
    take_in(flow, answer(1, now, 3))
    assert flow.report().first_unmirrored == now
    mirror()
    assert flow.report().first_unmirrored == now, "the next one follows it"
