"""Exact places, both ways, against a model that knows where each record went."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.cluster import Cluster
from causeway.errors import UnreachableError
from causeway.link_topics import OffsetMap, Outlet
from causeway.model import TopicPartition
from causeway.translation import Course, MappedOffset, OffsetNote, directions
from causeway.translation.logs import ClusterLogs, CourseProblem, LinkLogs, MappedCourse
from tests.harness.examples import examples
from tests.harness.raw_batches import Rec
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

MANY = settings(max_examples=examples(400))
THERE = TopicPartition(TARGET, 0)
GONE = UnreachableError("reach", "A", "no broker answers")


def course(
    world: World,
    points: Collection[int],
    *,
    shared: bool = False,
    transformed: bool = False,
    problem: CourseProblem | None = None,
) -> MappedCourse:
    """`points`: the records (by index) of which the map knows; the last is the outlet's pair."""
    pairs = [world.pair(0, index, 0) for index in sorted(points)]
    known = Course(
        source=SOURCE,
        topic_id=SOURCE_ID,
        transformed=transformed,
        outlet=Outlet(
            topic=TARGET,
            partition=0,
            topic_id=TARGET_ID,
            producer_id=OURS,
            producer_epoch=0,
            pair=pairs[-1],
            exclusive=world.exclusive,
        ),
    )
    return MappedCourse(
        course=known,
        map=OffsetMap(pairs, multiplied=transformed),
        shared=shared,
        problem=problem,
    )


def logs(
    world: World, *, source_gone: bool = False, check: Callable[[], None] = lambda: None
) -> LinkLogs:
    def side(topic: str, topic_id: str, log: Log) -> ClusterLogs:
        cluster = FakeCluster(topic, topic_id, {0: log}, compacted=False)
        at = TopicPartition(topic, 0)
        return ClusterLogs(
            cluster=cast(Cluster, cluster),
            ids={topic: topic_id},
            starts={at: log.start},
            ends={at: log.end},
        )

    source = side("t", SOURCE_ID, world.source)
    if source_gone:
        source = ClusterLogs(cluster=source.cluster, error=GONE)
    target = side(TARGET, TARGET_ID, world.targets[0])
    return LinkLogs(source=source, target=target, check=check, read_committed=True)


def there(
    world: World,
    known: MappedCourse,
    *,
    source_gone: bool = False,
    check: Callable[[], None] = lambda: None,
) -> dict[int, MappedOffset]:
    """A place for each source offset, and some behind the end."""
    asked = range(world.source.end + 3)
    both = logs(world, source_gone=source_gone, check=check)
    found = directions.translate(known, asked, both, back=False)
    assert found.keys() == set(asked)
    return found


def home(
    world: World,
    known: MappedCourse,
    *,
    source_gone: bool = False,
    check: Callable[[], None] = lambda: None,
) -> dict[int, MappedOffset]:
    """A place for each target offset, and some behind the end."""
    asked = range(world.targets[0].end + 3)
    both = logs(world, source_gone=source_gone, check=check)
    found = directions.translate(known, asked, both, back=True)
    assert found.keys() == set(asked)
    return found


def check_there(world: World, found: dict[int, MappedOffset]) -> None:
    copied = list(zip(world.series, world.places[0], strict=False))
    due = [record.offset for record in world.series[len(copied) :]]
    for offset, place in found.items():
        assert place.offset is not None
        unread = {at for record, at in copied if record.offset >= offset}
        read = {at for _, at in copied if at >= place.offset}
        assert unread <= read, (offset, place)  # nothing is skipped
        if place.exact:
            assert unread == read, (offset, place)
            assert not any(one < offset for one in due), (offset, place)  # nothing comes again
            is_record = any(record.offset == offset for record in world.series)
            assert not (place.why is OffsetNote.GAP and is_record)
        else:
            assert place.why is not None
            assert place.note


def check_home(world: World, found: dict[int, MappedOffset]) -> None:
    copied = list(zip(world.series, world.places[0], strict=False))
    due = {record.offset for record in world.series[len(copied) :]}
    for offset, place in found.items():
        if place.offset is None:
            assert not place.exact
            assert place.why is OffsetNote.BEFORE
            continue
        unread = {record.offset for record, at in copied if at >= offset} | due
        read = {record.offset for record in world.series if record.offset >= place.offset}
        assert unread <= read, (offset, place)
        if place.exact:
            assert unread == read, (offset, place)
        else:
            assert place.why is not None
            assert place.note


def known_points(data: st.DataObject, world: World) -> list[int]:
    copied = world.copied[0]
    first = data.draw(st.integers(0, copied), label="first point")
    more = data.draw(st.sets(st.integers(first, copied)), label="points")
    return sorted({first, *more})


@pytest.mark.parametrize("foreign", [False, True])
def test_each_place_is_exact_while_both_logs_are_there(foreign: bool) -> None:
    @MANY
    @given(worlds(foreign=foreign), st.data())
    def check(world: World, data: st.DataObject) -> None:
        points = known_points(data, world)
        first, copied = world.pair(0, points[0], 0), world.copied[0]
        found = there(world, course(world, points))
        check_there(world, found)
        end = world.series[copied - 1].offset if copied else -1
        for offset, place in found.items():
            if first.source <= offset <= end + 1:
                assert place.exact, (offset, place)
        found = home(world, course(world, points))
        check_home(world, found)
        for offset, place in found.items():
            if first.target <= offset <= world.targets[0].end:
                assert place.exact, (offset, place)

    check()


@pytest.mark.parametrize("foreign", [False, True])
def test_without_the_source_nothing_that_is_called_exact_is_wrong(foreign: bool) -> None:
    @MANY
    @given(worlds(foreign=foreign), st.data())
    def check(world: World, data: st.DataObject) -> None:
        points = known_points(data, world)
        check_there(world, there(world, course(world, points), source_gone=True))
        check_home(world, home(world, course(world, points), source_gone=True))

    check()


@MANY
@given(worlds(keys=3), st.data())
def test_a_source_that_was_compacted_since_gives_no_wrong_offset(
    world: World, data: st.DataObject
) -> None:
    """What it has no more is not to be read again, nor does it shift what is."""
    points = known_points(data, world)
    compact(world.source, world.source.end, world.source.aborted)
    found = there(world, course(world, points))
    left = offsets_of(world.source)
    copied = list(zip(world.series, world.places[0], strict=False))
    for offset, place in found.items():
        assert place.offset is not None
        unread = {at for record, at in copied if record.offset >= offset and record.offset in left}
        assert all(at >= place.offset for at in unread), (offset, place)
        if place.exact:
            again = {record.offset for record, at in copied if at >= place.offset}
            assert not any(one < offset for one in again & left), (offset, place)
    for offset, place in home(world, course(world, points)).items():
        assert place.offset is not None
        unread = {record.offset for record, at in copied if at >= offset} & left
        assert all(one >= place.offset for one in unread), (offset, place)
        if place.exact:
            read = {record.offset for record, at in copied if at < offset} & left
            assert not any(one >= place.offset for one in read), (offset, place)


@MANY
@given(worlds(foreign=True), st.data())
def test_of_what_a_transform_has_made_only_what_needs_no_counting_is_exact(
    world: World, data: st.DataObject
) -> None:
    points = known_points(data, world)
    check_there(world, there(world, course(world, points, transformed=True)))
    check_home(world, home(world, course(world, points, transformed=True)))


def gapped() -> World:
    """Source 0 1 _ 3 4 5, of which 0 1 3 4 lie at 0 1 2 3; an old word of the driver."""
    world = plain_world(0, 0)
    source, target = Log(), Log()
    records = [Rec(offset=offset, value=b"%d" % offset) for offset in (0, 1, 3, 4, 5)]
    source.append(records, 6)
    target.append(
        [replace(one, offset=at) for at, one in enumerate(records[:4])],
        producer_id=OURS,
        epoch=0,
        sequence=0,
    )
    return replace(
        world,
        source=source,
        targets={0: target},
        series=records,
        shares={0: records},
        copied={0: 4},
        places={0: [0, 1, 2, 3]},
    )


def test_what_the_places_say() -> None:
    world = gapped()
    found = there(world, course(world, [0, 2]))
    assert [(place.offset, place.exact, place.why) for place in found.values()] == [
        (0, True, None),
        (1, True, None),
        (2, True, OffsetNote.GAP),
        (2, True, None),
        (3, True, None),
        (4, True, None),  # the end of the mirror, as the target's log has it
        (4, False, OffsetNote.NOT_YET),
        (4, False, OffsetNote.BEYOND_END),
        (4, False, OffsetNote.BEYOND_END),
    ]
    assert "mirrored up to offset 5" in (found[6].note or "")
    assert "the source ends at 6" in (found[7].note or "")
    assert [place.offset for place in home(world, course(world, [0, 2])).values()] == [
        *(0, 1, 3, 4, 5, 5, 5)
    ]


def test_the_source_is_gone() -> None:
    """The map answers what it can: 3 is the driver's last word, and lies behind no gap."""
    world = gapped()
    found = there(world, course(world, [0, 2]), source_gone=True)
    assert [place.exact for place in found.values()] == [True] + [False] * 2 + [True] + [False] * 5
    assert found[1].why is OffsetNote.UNREACHABLE
    assert "no broker answers" in (found[1].note or "")
    assert found[2].offset == 1  # one record at the most can lie between it and the one at 2
    back_home = home(world, course(world, [0, 2]), source_gone=True)
    assert [(place.offset, place.exact) for place in back_home.values()] == [
        *((0, True), (1, False), (3, True), (3, False), (3, False), (3, False), (3, False))
    ]


def test_a_request_without_a_caller_still_gives_what_the_map_knows() -> None:
    """What the map knows is told all the same."""

    def over() -> None:
        raise GONE

    world = gapped()
    found = there(world, course(world, [0, 2, 4]), check=over)
    assert [place.exact for place in found.values()][:5] == [True, False, False, True, True]
    assert found[1].why is OffsetNote.UNREACHABLE
    back_home = home(world, course(world, [0, 2, 4]), check=over)
    assert [place.exact for place in back_home.values()][:4] == [True, False, True, True]


def test_what_the_target_no_longer_has() -> None:
    world = gapped()
    world.targets[0].start = 2
    found = there(world, course(world, [0, 2, 4]))
    assert [found[offset].why for offset in (0, 1, 3)] == [
        OffsetNote.RETENTION,
        OffsetNote.RETENTION,
        None,
    ]
    assert found[0].offset == 2
    assert not found[0].exact


def test_a_course_with_a_problem_is_never_exact() -> None:
    world = gapped()
    stopped = course(world, [0, 2], problem=CourseProblem(OffsetNote.STOPPED, "truncated"))
    assert {place.why for place in there(world, stopped).values() if place.why} >= {
        OffsetNote.STOPPED
    }
    assert not any(place.exact for place in there(world, stopped).values())
    assert not any(place.exact for place in home(world, stopped).values())
    anew = course(
        world, [0, 2], problem=CourseProblem(OffsetNote.RECREATED, "anew", other_log=True)
    )
    assert {place.offset for place in there(world, anew).values()} == {None}
    shared = course(world, [0, 2], shared=True)
    assert {place.exact for place in there(world, shared).values()} == {False}
    assert home(world, shared)[2].exact  # each of them has its own offsets


def cleaned() -> World:
    """Records 0 1 2 3 _ 5 6 of the source lie at 0 to 5; 0 and 1 were compacted away since."""
    world = plain_world(0, 0)
    source, target = Log(), Log()
    records = [
        Rec(offset=offset, key=key, value=b"%d" % offset)
        for offset, key in zip(
            (0, 1, 2, 3, 5, 6), (b"a", b"b", b"a", b"b", b"c", b"d"), strict=True
        )
    ]
    for at, record in enumerate(records):
        source.end = record.offset
        source.append([record])
        target.append([replace(record, offset=at)], producer_id=OURS, epoch=0, sequence=at)
    compact(source, source.end, [])
    return replace(
        world,
        source=source,
        targets={0: target},
        series=records,
        shares={0: records},
        copied={0: 6},
        places={0: list(range(6))},
    )


def test_what_was_compacted_away_since_is_not_counted() -> None:
    world = cleaned()
    found = home(world, course(world, [0, 6]))
    assert [(place.offset, place.exact) for place in found.values()][:7] == [
        (0, True),
        (1, False),  # that record is gone, and nothing tells which one it was
        *((2, True), (3, True), (5, True), (6, True), (7, True)),
    ]
    assert found[1].why is OffsetNote.LOGS_INCOMPLETE
    places = there(world, course(world, [0, 6]))
    assert [place.offset for place in places.values()][:8] == [0, 2, 2, 3, 4, 4, 5, 6]


def test_what_the_source_had_before_the_mirror_began() -> None:
    """It begins an empty target, so what follows is its first record: others are left out."""
    world = gapped()
    known = course(world, [0, 2])
    pairs = [pair._replace(source=pair.source + 10) for pair in known.map.points]
    later = replace(known, map=OffsetMap(pairs))
    for log in (world.source,):
        log.batches = []
        log.end = 0
        log.append([Rec(offset=3)], 10)  # nothing else before offset 10
        log.append([Rec(offset=10 + one.offset, value=one.value) for one in world.series], 6)
    found = there(world, later)
    assert found[2].why is OffsetNote.BEFORE
    assert "from 3 on were never mirrored" in (found[2].note or "")
    assert (found[4].why, found[4].exact, found[4].offset) == (OffsetNote.GAP, True, 0)
    assert there(world, later, source_gone=True)[4].why is OffsetNote.BEFORE


def test_what_lies_before_the_mirror() -> None:
    world = gapped()
    known = course(world, [2])
    found = there(world, known)
    assert found[1].why is OffsetNote.BEFORE
    assert found[1].offset == 0  # the target's start: nothing is skipped
    assert found[3].exact
