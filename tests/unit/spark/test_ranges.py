"""How ranges are cut, and how much a micro-batch takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from causeway.model import TopicPartition
from causeway.spark.log import ReadRange, limited, split

lengths = st.lists(st.integers(0, 1000), min_size=1, max_size=8)


@given(lengths, st.integers(1, 40))
def test_parts_are_the_whole_in_order_and_as_many_as_asked_for(
    sizes: list[int], least: int
) -> None:
    whole = [
        ReadRange(tp=TopicPartition("t", index), start=10, end=10 + size)
        for index, size in enumerate(sizes)
    ]
    parts = split(whole, least)
    for one in whole:
        own = [
            offset for part in parts if part.tp == one.tp for offset in range(part.start, part.end)
        ]
        assert own == list(range(one.start, one.end))
    assert len(parts) >= min(least, sum(sizes))


@given(lengths, st.integers(1, 3000))
def test_a_limit_is_shared_and_nothing_is_starved(sizes: list[int], most: int) -> None:
    start = {TopicPartition("t", index): 5 for index in range(len(sizes))}
    end = {tp: 5 + size for tp, size in zip(start, sizes, strict=True)}
    found = limited(start, end, most)
    taken = {tp: found[tp] - start[tp] for tp in start}
    assert sum(taken.values()) <= most + len(sizes)
    for tp in start:
        assert (taken[tp] > 0) == (end[tp] > start[tp])
        assert found[tp] <= end[tp]
