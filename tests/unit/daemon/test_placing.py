"""Which lane gets which partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from causeway.daemon.lanes.placing import even_out, spread
from causeway.daemon.lanes.tracked import FLOOR


def weight(bytes_per_s: float) -> float:
    return FLOOR + bytes_per_s


def test_equal_partitions_of_a_topic_are_spread() -> None:
    placed = spread([(n, weight(0)) for n in range(8)], {0: 0.0, 1: 0.0})
    assert [placed[n] for n in range(8)] == [0, 1, 0, 1, 0, 1, 0, 1]


def test_new_partitions_go_to_the_least_loaded_lane() -> None:
    placed = spread([("a", weight(0)), ("b", weight(5e6))], {0: weight(9e6), 1: weight(1e6)})
    assert placed == {"a": 1, "b": 1}


def test_an_even_load_stays() -> None:
    assert even_out({0: {n: weight(0) for n in range(4)}, 1: {9: weight(0), 8: weight(0)}}) == {}
    assert even_out({0: {"a": weight(1e6)}, 1: {"b": weight(1.1e6)}}) == {}


def test_one_lane_keeps_all() -> None:
    assert even_out({0: {"a": weight(1e9)}}) == {}


def test_a_fresh_lane_gets_its_share() -> None:
    found = even_out({0: {n: weight(0) for n in range(100)}, 1: {}}, limit=100)
    assert set(found.values()) == {1}
    assert 40 <= len(found) <= 50


def test_one_heavy_partition_does_not_wander() -> None:
    assert even_out({0: {"heavy": weight(50e6)}, 1: {}}) == {}


def test_the_light_ones_make_room_for_the_heavy_one() -> None:
    found = even_out({0: {"heavy": weight(50e6), "b": weight(20e6), "c": weight(20e6)}, 1: {}})
    assert found == {"b": 1, "c": 1} or found == {"heavy": 1}


@given(
    st.lists(st.floats(0, 1e8), min_size=1, max_size=40),
    st.integers(1, 5),
    st.data(),
)
def test_moves_never_make_the_worst_lane_worse_and_settle(
    rates: list[float], lanes: int, data: st.DataObject
) -> None:
    held: dict[int, dict[int, float]] = {lane: {} for lane in range(lanes)}
    for key, rate in enumerate(rates):
        held[data.draw(st.integers(0, lanes - 1))][key] = weight(rate)
    worst = max(sum(partitions.values()) for partitions in held.values())
    for _ in range(50):
        found = even_out(held)
        if not found:
            break
        where = {key: lane for lane, partitions in held.items() for key in partitions}
        for key, lane in found.items():
            held[lane][key] = held[where[key]].pop(key)
    else:
        raise AssertionError("it never settles")
    assert max(sum(partitions.values()) for partitions in held.values()) <= worst + FLOOR / 1e6
