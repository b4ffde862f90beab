"""What a throttle lets a lane read, in any order of answers, on a clock that the test turns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.relay import Rate
from causeway.relay.lane.limits import PARTITION_BYTES
from causeway.relay.lane.throttle import BURST_S, LEAST_BYTES, Throttles, TokenBucket, whole
from tests.builders.relay import flow
from tests.harness.examples import examples


def answer(*sizes: int, cut_off: int = 0) -> memoryview:
    """Batches of so many bytes each, and the beginning of another one."""
    data = b"".join(bytes(8) + (size - 12).to_bytes(4, "big") + bytes(size - 12) for size in sizes)
    return memoryview(data + bytes(8) + (1 << 20).to_bytes(4, "big") + bytes(cut_off))


def link_at(rate: float) -> Rate:
    return Rate(link="A->B", topic=None, bytes_per_s=rate)


@given(
    st.floats(1_000, 1e9),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 5_000_000)), max_size=60),
)
def test_a_bucket_never_gives_more_than_its_rate_and_a_burst(
    rate: float, turns: list[tuple[float, int]]
) -> None:
    """Whoever takes only while something is there takes, up to his last answer, no more than the
    rate allows and one burst."""
    now, taken, last = 100.0, 0, 0
    bucket = TokenBucket(rate, now)
    for passed, size in turns:
        now += passed
        if bucket.level(now) > 0:
            bucket.take(size)
            taken, last = taken + size, size
    assert taken - last <= rate * (now - 100.0) + rate * BURST_S * 1e-6 + 1
    assert bucket.level(now) <= rate * BURST_S


@settings(max_examples=examples(40), deadline=None)
@given(st.floats(10_000, 1e8), st.integers(1, 5), st.integers(100, 1_000_000))
def test_who_always_has_something_to_read_reads_at_the_rate(
    rate: float, partitions: int, batch: int
) -> None:
    throttles, flows = Throttles(), [flow(n) for n in range(partitions)]
    throttles.set([link_at(rate)], 0.0)
    now, read, most = 0.0, 0, 0
    seconds = max(20.0, 40 * batch / rate, 40 * LEAST_BYTES / rate)
    while now < seconds:
        now += BURST_S / 4
        while asked := [(each, size) for each in flows if (size := throttles.ask(each, now))]:
            for each, size in asked:
                found = batch * max(1, size // batch)
                throttles.took(each, found)
                read, most = read + found, max(most, found)
            flows = flows[1:] + flows[:1]
    # By the end, an answer may be owed, or one not be asked for yet.
    assert rate * seconds * 0.95 - most <= read <= rate * seconds * 1.05 + most


@pytest.mark.parametrize("answer_s", [0.02, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("every", [1, 3])
def test_answers_that_take_long_leave_a_lagging_topic_its_rate(
    answer_s: float, partitions: int, every: int
) -> None:
    """Each answer holds what was asked for, or only each third one does, as where others of the
    session have more than goes into one."""
    throttles, flows = Throttles(), [flow(n) for n in range(partitions)]
    rate = 2_000_000.0
    throttles.set([link_at(rate)], 0.0)
    now, read, peak, rounds = 0.0, 0, 0.0, 0
    while now < 60:
        asked = [(each, size) for each in flows if (size := throttles.ask(each, now))]
        now, rounds = now + answer_s / every, rounds + 1
        if rounds % every:
            continue
        for each, size in asked:
            throttles.took(each, size)
            read += size
        done = [each for each, _ in asked]
        flows = [*(each for each in flows if each not in done), *done]
        peak = max(peak, read - rate * now)
    assert read > 0.97 * rate * 60
    assert peak < 0.6 * rate, "never more than the rate and a little"


def test_an_unused_rate_is_not_saved_for_later() -> None:
    throttles, one = Throttles(), flow()
    throttles.set([link_at(1_000_000)], 0.0)
    throttles.took(one, throttles.ask(one, 0.1))
    one.position = one.source_end
    for tenths in range(2, 60):
        assert throttles.ask(one, tenths / 10) <= 1_000_000, "for what may come"
    one.source_end += 1
    assert throttles.ask(one, 6.0) == 250_000


def test_what_is_cut_off_counts_when_it_is_read_whole() -> None:
    assert whole(answer(500, 700, cut_off=400)) == 1_200
    assert whole(memoryview(b"")) == 0
    assert whole(memoryview(bytes(5))) == 0


def test_what_is_asked_for_is_kept_from_others_until_it_is_answered() -> None:
    throttles, one, other = Throttles(), flow(0), flow(1)
    throttles.set([link_at(1_000_000)], 0.0)
    assert throttles.ask(one, 0.1) == 250_000
    assert throttles.ask(other, 0.1) == 0
    wait = throttles.ready_in(0.1)
    assert wait == pytest.approx(0.15)
    throttles.took(one, 0)
    assert throttles.ask(other, 0.1) == 250_000
    throttles.forget(other)
    assert throttles.ready_in(0.1) is None


def test_partitions_that_keep_up_do_not_keep_the_others_waiting() -> None:
    throttles, idle, busy = Throttles(), flow(0, lag=False), flow(1)
    throttles.set([link_at(1_000_000)], 0.0)
    assert throttles.ask(idle, 0.1)
    assert throttles.ask(busy, 0.1)


def test_a_topic_holds_to_both_its_own_limit_and_the_links() -> None:
    throttles, orders, bills = Throttles(), flow(), flow(topic="bills")
    own = Rate(link="A->B", topic="orders", bytes_per_s=100_000)
    throttles.set([link_at(1_000_000), own], 0.0)
    assert throttles.ask(orders, 0.5) == LEAST_BYTES
    throttles.took(orders, 100_000)
    assert throttles.ask(orders, 0.5) == 0
    assert throttles.ask(bills, 0.5)
    throttles.took(bills, 1_000_000)
    assert throttles.ask(bills, 0.5) == 0
    assert throttles.ask(orders, 1.05) == 0, "the link's is used up"


def test_no_limit_any_more() -> None:
    throttles, one = Throttles(), flow()
    throttles.set([link_at(1_000)], 0.0)
    assert throttles
    throttles.ask(one, 0.1)
    throttles.took(one, 1_000_000)
    throttles.set([], 0.2)
    assert not throttles
    assert throttles.ask(one, 0.2) == PARTITION_BYTES


def test_a_far_lower_limit_does_not_wait_for_what_was_owed_at_the_higher_one() -> None:
    throttles, one = Throttles(), flow()
    throttles.set([link_at(1e8)], 0.0)
    throttles.ask(one, 0.1)
    throttles.took(one, 50_000_000)
    throttles.set([link_at(10_000)], 0.2)
    assert throttles.ask(one, 1.3) > 0
