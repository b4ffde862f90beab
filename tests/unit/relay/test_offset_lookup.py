"""Looking up what an offset map leaves out, against a model that knows where each record went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import Span
from causeway.model import TopicPartition
from causeway.relay import Sought
from causeway.relay import offset_lookup as lookup
from tests.harness.examples import examples
from tests.harness.raw_batches import ABORT, Rec, marker
from tests.harness.world import (
    OURS,
    SOURCE,
    SOURCE_ID,
    TARGET,
    TARGET_ID,
    FakeCluster,
    Log,
    World,
    compact,
    offsets_of,
    plain_world,
    worlds,
)

MANY = settings(max_examples=examples(300))


def find(
    world: World,
    first: int,
    shown: int | None = None,
    floor: int = 0,
    go_on: Callable[[], bool] = lambda: True,
) -> dict[int, int]:
    """Every offset of the stretch from the `first` record to the last one copied. `shown`: see
    FakeCluster, of the source."""
    copied = world.copied[0]
    start, end = (world.pair(0, index, 0) for index in (first, copied))
    # What is copied ends where the next record is due, whatever others have written behind it.
    end = end._replace(target=world.places[0][copied - 1] + 1)
    sought = Sought(
        source=SOURCE,
        target=TopicPartition(TARGET, 0),
        producer_id=OURS,
        read_committed=True,
        span=Span(start, end),
        offsets=range(start.source, end.source),
        floor=floor,
    )
    source = FakeCluster("t", SOURCE_ID, {0: world.source}, compacted=False, shown=shown)
    target = FakeCluster(TARGET, TARGET_ID, world.targets, compacted=False)
    return lookup.find(sought, cast(Cluster, source), cast(Cluster, target), go_on)


def truth(world: World, offset: int) -> int:
    places = world.places[0]
    for record, place in zip(world.series, places, strict=False):
        if record.offset >= offset:
            return place
    return places[-1] + 1


def test_a_source_that_does_not_show_all_records_yet() -> None:
    """It must not pass for one that holds no more: readers would skip what it does not show."""
    world = plain_world(9, 9)
    world.source = Log()
    for record in world.series:
        world.source.append([record])
    assert find(world, 0) == {offset: offset for offset in range(9)}
    for shown in range(9):
        with pytest.raises(CausewayError, match=f"shows it up to offset {shown} only"):
            find(world, 0, shown)


@pytest.mark.parametrize("foreign", [True, False])
def test_each_log_is_read_once_for_all_offsets(
    foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where others write to the target, so that only reading it tells the places."""
    world = plain_world(40, 40)
    world.source, world.targets[0], world.places[0] = Log(), Log(), []
    for index, record in enumerate(world.series):
        world.source.append([record])
        if foreign:
            world.targets[0].append([Rec(offset=world.targets[0].end)], producer_id=-1)
        place = world.targets[0].end
        there = Rec(offset=place, value=record.value)
        world.targets[0].append([there], producer_id=OURS, epoch=0, sequence=index)
        world.places[0].append(place)
    fetches: list[str] = []
    fetch = FakeCluster.fetch

    def counted(cluster: FakeCluster, *args: Any, **kwargs: Any) -> Any:
        fetches.append(cluster.topic)
        return fetch(cluster, *args, **kwargs)

    monkeypatch.setattr(FakeCluster, "fetch", counted)
    assert find(world, 0) == {offset: truth(world, offset) for offset in range(40)}
    batches = {"t": 40, TARGET: 80 if foreign else 40}  # two of them come with each answer
    assert Counter(fetches) == {topic: pytest.approx(n / 2, abs=1) for topic, n in batches.items()}


def test_a_long_stretch_of_rolled_back_records_is_read_as_far_as_needed() -> None:
    """Nothing of it is relayed."""
    world = plain_world(2, 2)
    log = world.source = Log()
    for offset in range(100):
        log.append([Rec(offset=offset)], producer_id=5, epoch=0, sequence=0, transactional=True)
    log.batches.append((100, 100, marker(100, 5, ABORT)))
    log.aborted, log.end = [(5, 0, 100)], 101
    asked: list[bool] = []

    def go_on() -> bool:
        asked.append(len(asked) < 3)
        return asked[-1]

    with pytest.raises(CausewayError, match="the answer is no longer needed"):
        find(world, 0, go_on=go_on)
    assert len(asked) == 4


@MANY
@given(worlds(), st.data())
def test_every_offset_is_found(world: World, data: st.DataObject) -> None:
    assume(world.copied[0])
    found = find(world, data.draw(st.integers(0, world.copied[0] - 1)))
    assert found == {offset: truth(world, offset) for offset in found}
    assert found, "an offset of a log that is still there is always found"


@MANY
@given(worlds(foreign=True), st.data())
def test_also_between_other_writers_records(world: World, data: st.DataObject) -> None:
    """Also where a place at or before all of them is known already."""
    assume(world.copied[0])
    first = data.draw(st.integers(0, world.copied[0] - 1))
    found = find(world, first, floor=data.draw(st.integers(0, world.places[0][first])))
    assert found == {offset: truth(world, offset) for offset in found}
    assert found


@MANY
@given(worlds(keys=3), st.data())
def test_a_source_that_was_compacted_since_is_never_misread(
    world: World, data: st.DataObject
) -> None:
    """Whoever reads the source goes on with the next record that is still there."""
    assume(world.copied[0] > 1)
    compact(world.source, data.draw(st.integers(0, world.source.end)), world.source.aborted)
    left = offsets_of(world.source)
    remaining = [record.offset for record in world.series if record.offset in left]
    for offset, place in find(world, 0).items():
        following = next((each for each in remaining if each >= offset), world.source.end)
        assert place == truth(world, following)
