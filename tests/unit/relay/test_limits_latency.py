"""How much is asked for at once, of brokers near and far."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from causeway.relay.lane.limits import (
    BUSY_BYTES,
    FIRST_ANSWER_BYTES,
    MOST_PACE_S,
    MOST_SESSIONS,
    answer_bytes,
    next_answer_bytes,
    paced_until,
    partition_bytes,
    requests,
    sessions,
)

MB = 1 << 20


def test_a_near_broker_is_read_over_two_connections_and_a_far_one_over_more() -> None:
    assert [sessions(ms / 1000) for ms in (0, 1, 9.9, 20, 50, 100, 900)] == [2, 2, 2, 2, 5, 8, 8]
    assert [requests(ms / 1000) for ms in (0, 1, 9.9, 20, 100, 900)] == [16, 16, 16, 64, 320, 1000]


def test_all_answers_together_hold_a_part_of_the_buffer() -> None:
    assert [answer_bytes(64 * MB, n) for n in (1, 2, 8)] == [32 * MB, 16 * MB, 4 * MB]


def test_an_answer_holds_more_of_few_partitions_than_of_many() -> None:
    near = [partition_bytes(0.001, 24 * MB, n) // MB for n in (1, 2, 6, 8, 12, 400)]
    assert near == [4, 4, 4, 3, 2, 2]
    assert [partition_bytes(0.1, 16 * MB, n) // MB for n in (1, 2, 8, 400)] == [16, 8, 2, 2]


def test_answers_grow_while_they_come_quickly_and_shrink_on_a_thin_line() -> None:
    asked, sizes = FIRST_ANSWER_BYTES, []
    for _ in range(5):
        asked = next_answer_bytes(asked, 16 * MB, asked, 0.1 + 0.4, 0.1)
        sizes.append(asked // MB)
    assert sizes == [2, 4, 8, 16, 16]
    assert next_answer_bytes(MB, 16 * MB, MB, 0.1 + 0.15, 0.1) == 3 * MB, "in half a second"
    assert next_answer_bytes(MB, 16 * MB, MB, 0.05, 0.1) == 8 * MB, "at the most"
    assert next_answer_bytes(16 * MB, 16 * MB, 16 * MB, 1.0, 0.1) == 16 * MB, "neither"
    assert next_answer_bytes(16 * MB, 16 * MB, 16 * MB, 9.0, 0.1) == 8 * MB
    assert next_answer_bytes(16 * MB, 16 * MB, 100, 9.0, 0.1) == 16 * MB, "there was no more"
    assert next_answer_bytes(16 * MB, 16 * MB, 100, 0.1, 0.1) == 16 * MB
    assert next_answer_bytes(16 * MB, 4 * MB, 16 * MB, 0.1, 0.1) == 4 * MB, "others read as well"


@given(
    st.floats(0, 2),
    st.integers(1 << 20, 1 << 30),
    st.lists(st.tuples(st.integers(0, 1 << 26), st.floats(0, 60)), max_size=30),
)
def test_no_answer_is_ever_asked_to_hold_more_than_it_may(
    round_trip_s: float, buffer_bytes: int, answers: list[tuple[int, float]]
) -> None:
    count = sessions(round_trip_s)
    assert 1 <= count <= MOST_SESSIONS
    most = answer_bytes(buffer_bytes, count)
    assert count * most <= buffer_bytes // 2
    asked = min(FIRST_ANSWER_BYTES, most)
    for got, took_s in answers:
        asked = next_answer_bytes(asked, most, got, took_s, round_trip_s)
        assert min(FIRST_ANSWER_BYTES, most) <= asked <= most


def test_a_session_of_many_partitions_that_bring_little_is_asked_at_a_pace() -> None:
    sent_at = 1000.0001
    waits = [paced_until(sent_at, partitions, 10_000) for partitions in (0, 1, 4, 50)]
    assert waits == [0.0] * 4, "a busy partition of a few waits for nothing"
    paces = [paced_until(sent_at, partitions, 10_000) - sent_at for partitions in (200, 500, 5_000)]
    assert paces == pytest.approx([0.008, 0.02, MOST_PACE_S], abs=0.001)
    assert MOST_PACE_S <= 0.04
    assert paced_until(sent_at, 500, BUSY_BYTES) > 0.0
    assert paced_until(sent_at, 500, BUSY_BYTES + 1) == 0.0, "a backlog waits for nothing"


@given(st.floats(0, 1e7), st.integers(100, 10_000), st.integers(0, BUSY_BYTES))
def test_sessions_with_the_same_pace_are_asked_at_the_same_times(
    sent_at: float, partitions: int, got: int
) -> None:
    due_at = paced_until(sent_at, partitions, got)
    assert 0.0 <= due_at - sent_at <= MOST_PACE_S + 1e-6
    between = (sent_at + due_at) / 2  # another session, whose request came later
    assume(sent_at < between < due_at - 1e-6)
    assert paced_until(between, partitions, got) == due_at
