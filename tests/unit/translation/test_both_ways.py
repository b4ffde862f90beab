"""Where groups go on if both clusters write a topic, against a model that knows each record.

The order of writing and copying is random, and so is how much the progress of the reverse link
knows. In each case no record before the place is unread; with whole logs no later place is right.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.cluster import Cluster, Committed, FetchedPartition
from causeway.config import ReverseFlow, Settings
from causeway.control import GroupCommits, TranslatedOffset
from causeway.link_topics import ProgressContents, offset_maps_of
from causeway.model import Pair, State, TopicPartition
from causeway.translation import both_ways, directions
from causeway.translation.both_ways import GroupsBothWays
from causeway.translation.course import CourseKey
from causeway.translation.logs import ClusterLogs, LinkLogs, mapped_courses
from causeway.translation.unread import UnreadRange
from tests.builders import settings as built
from tests.harness.examples import examples
from tests.harness.two_ways import (
    AT,
    IDS,
    SharedCluster,
    Side,
    TwoWays,
    other,
    provenance,
    two_ways,
)

SETTINGS = cast(Settings, SimpleNamespace(spark={}))
MANY = settings(max_examples=examples(200))
GROUP = "g"


def drawn_points(data: st.DataObject, world: TwoWays, source: str) -> dict[int, bool]:
    """What the progress of the link from `source` knows: of any time, with any points."""
    copied = len(world.side(other(source)).copies)
    first = data.draw(st.sampled_from([0, 0, data.draw(st.integers(0, copied))]))
    more = data.draw(st.sets(st.integers(first, copied)), label=f"points of {source}")
    return {index: data.draw(st.booleans()) for index in sorted({first, *more})}


class Link:
    """The groups of the link from `source`, with the reverse link's progress at `contents`."""

    def __init__(
        self,
        world: TwoWays,
        source: str,
        contents: ProgressContents,
        own: ProgressContents,
        *,
        assumed: bool = False,
    ) -> None:
        target = other(source)
        mapped = offset_maps_of(own.partitions[AT], own.maps[AT], multiplied=False)[AT]

        def read_again(_: CourseKey, source: int, target: int) -> tuple[int, int]:
            return mapped.read_again(source, target)

        self.world, self.source, self.target = world, source, target
        self.groups = GroupsBothWays(
            cast(Cluster, world.side(source).cluster()),
            cast(Cluster, world.side(target).cluster()),
            built.link(source, target),
            ReverseFlow(treatments=(provenance(target),), assumed=assumed),
            read_again,
        )
        self.groups._progress.read = lambda: contents  # type: ignore[method-assign]

    def place(
        self, position: int, by_link: int | None = None, *, certain: bool = True
    ) -> TranslatedOffset | None:
        """For a group at `position`, which is at `by_link` by this link alone."""
        if by_link is None:
            by_link = self.world.first_copy_unread(position, self.source)
        followed = GroupCommits(commits={GROUP: {AT: Committed(offset=position)}}, left_out=())
        alone = {GROUP: {AT: TranslatedOffset(position, by_link, certain=certain)}}
        found, self.notes = self.groups.bound(followed, alone)
        return found[GROUP].get(AT)

    @property
    def again(self) -> tuple[int, int]:
        return self.groups.again[GROUP]


def linked(data: st.DataObject, world: TwoWays, source: str) -> Link:
    target = other(source)
    contents = world.contents(target, drawn_points(data, world, target))
    return Link(world, source, contents, world.contents(source, drawn_points(data, world, source)))


@MANY
@given(two_ways(), st.data())
def test_no_record_is_skipped_and_no_later_place_is_right(
    world: TwoWays, data: st.DataObject
) -> None:
    link = linked(data, world, "A")
    position = data.draw(st.integers(0, world.a.log.end), label="position")
    place = link.place(position)
    assert place is not None, link.notes
    read = world.read("A", position)
    best = world.first_unread(read, "B")
    assert place.downstream <= best
    if place.certain:
        lower = [at for at in world.places("B").values() if place.downstream <= at < best]
        assert not lower, (place, best)
    again = {one for one, at in world.places("B").items() if at >= place.downstream} & read
    least, most = link.again
    assert least <= len(again) <= most, (place, link.again, len(again))


@MANY
@given(two_ways(), st.data())
def test_a_group_that_goes_to_and_fro_reads_each_record(
    world: TwoWays, data: st.DataObject
) -> None:
    """It reads on one side, moves to where the other side has it continue, and back, while both
    links sync its places. In the end it has read all on one side."""
    read: set[tuple[str, int]] = set()
    commits = {"A": 0, "B": 0}
    links = {source: linked(data, world, source) for source in "AB"}
    for at in data.draw(st.lists(st.sampled_from("AB"), max_size=6)):
        # It continues from its commit there and reads some records.
        end = data.draw(st.integers(commits[at], world.side(at).log.end))
        read |= {one for one, o in world.places(at).items() if commits[at] <= o < end}
        commits[at] = end
        place = links[at].place(end)
        if place is not None:
            there = other(at)
            commits[there] = max(commits[there], place.downstream)
        for side, position in commits.items():
            assert world.read(side, position) <= read, (side, position)


@MANY
@given(two_ways(), st.data())
def test_with_an_older_place_by_the_link_nothing_is_skipped_either(
    world: TwoWays, data: st.DataObject
) -> None:
    link = linked(data, world, "B")
    position = data.draw(st.integers(0, world.b.log.end))
    exact = world.first_copy_unread(position, "B")
    place = link.place(position, data.draw(st.integers(0, exact)), certain=False)
    assert place is not None
    read = world.read("B", position)
    assert place.downstream <= world.first_unread(read, "A")
    again = {one for one, at in world.places("A").items() if at >= place.downstream} & read
    least, most = link.again
    assert least <= len(again) <= most, (place, link.again, len(again))


@MANY
@given(two_ways(), st.data())
def test_offsets_are_counted_through_the_treatment(world: TwoWays, data: st.DataObject) -> None:
    """`causeway translate` treats records itself, in both directions."""
    contents = world.contents("A", drawn_points(data, world, "A"))
    sides = ("A", world.a, world.a.own), ("B", world.b, world.b.copies)
    source, target = (
        ClusterLogs(
            cluster=cast(Cluster, side.cluster()),
            ids={AT.topic: IDS[alias]},
            starts={AT: 0},
            ends={AT: side.log.end},
        )
        for alias, side, _ in sides
    )
    logs = LinkLogs(source=source, target=target, check=lambda: None, read_committed=True)
    progress = contents.partitions[AT]
    link = built.link(treatments=(provenance("A"),))
    (mapped,) = mapped_courses(link, SETTINGS, contents, [progress], logs)[AT]
    first = mapped.map.points[0]
    copied = list(zip(world.a.own, world.b.copies, strict=False))
    asked = range(first.source, world.a.log.end + 1)
    for offset, place in directions.translate(mapped, asked, logs, back=False).items():
        unread = [at for record, at in copied if record.offset >= offset]
        if unread:
            assert place.exact, (offset, place)
            assert place.offset == unread[0]
    asked = range(first.target, world.b.log.end + 1)
    for offset, place in directions.translate(mapped, asked, logs, back=True).items():
        assert place.exact, (offset, place)
        assert place.offset is not None
        own = {record.offset for record, at in copied if at < offset}
        due = {record.offset for record in world.a.own} - own
        assert all(at < place.offset for at in own)
        assert all(at >= place.offset for at in due)


def small() -> TwoWays:
    """Each side writes a record and brings the other side's."""
    world = TwoWays(Side("A"), Side("B"))
    for side in (world.a, world.b):
        side.write([False], "plain")
    world.b.bring(world.a, 1)
    world.a.bring(world.b, 1)
    return world


def place_with(contents: ProgressContents | None) -> str:
    """Why a group gets no place."""
    world = small()
    known = world.contents("B", {0: False, 1: False})
    link = Link(world, "A", known, world.contents("A", {0: False, 1: False}))
    link.groups._progress.read = lambda: contents  # type: ignore[method-assign]
    assert link.place(2) is None
    (note,) = link.notes.values()
    return note


def changed(**changes: object) -> ProgressContents:
    contents = small().contents("B", {0: False, 1: False})
    contents.partitions[AT] = contents.partitions[AT].replace(**changes)
    return contents


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (None, "A has no progress topic of B->A"),
        (ProgressContents(), "it has not begun this partition"),
        (changed(state=State.STOPPED, reason="truncated"), "it has stopped: truncated"),
        (changed(lost=3), "it has passed over records"),
        (changed(transform="another"), "by other rules than their origin"),
        (changed(topic_id="c" * 32), "was deleted and recreated on the source"),
    ],
)
def test_a_group_gets_no_place_without_a_reverse_link(
    contents: ProgressContents | None, why: str
) -> None:
    assert why in place_with(contents)


def test_records_of_a_reverse_flow_of_another_file_are_not_counted() -> None:
    """It may mirror records of aborted transactions as well."""
    world = TwoWays(Side("A"), Side("B"))
    world.b.write([False, False], "aborted")
    progress = world.contents("B", {0: False}), world.contents("A", {0: False})
    places = [Link(world, "A", *progress, assumed=each).place(0) for each in (False, True)]
    assert [place and place.downstream for place in places] == [world.b.log.end, 0]


class ManyPartitions(SharedCluster):
    """Each partition has the same log. `fetched` is called with the partition of each fetch."""

    def __init__(self, side: Side, partitions: range, fetched: Callable[[int], None]) -> None:
        super().__init__(side.alias, side.log)
        self.logs = dict.fromkeys(partitions, side.log)
        self._fetched = fetched

    def fetch(self, place: TopicPartition, *args: Any, **options: Any) -> FetchedPartition:
        self._fetched(place.partition)
        return super().fetch(place, *args, **options)


def test_each_partition_gets_time_if_a_look_has_too_little_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is time for one partition and for the begin of another one. The group commits on all
    of them before each look, so places of earlier looks do not help."""
    world = TwoWays(Side("A"), Side("B"))
    world.b.write([False, True] * 6, "plain")  # so the map alone does not show the places
    world.a.bring(world.b, 6)
    partitions, now, begun = range(3), [0.0], set[int]()
    places = [AT._replace(partition=partition) for partition in partitions]

    def fetched(partition: int) -> None:
        now[0] += 0.0 if partition in begun else 0.6 * both_ways._LOOK_S
        begun.add(partition)

    monkeypatch.setattr("causeway.translation.both_ways.time.monotonic", lambda: now[0])
    contents = world.contents("B", {0: False, 6: False})
    progress, record = contents.partitions[AT], contents.maps[AT][None]
    (outlet,) = progress.outlets
    for at in places:
        n = at.partition
        own = outlet.replace(partition=n)
        contents.partitions[at] = progress.replace(partition=n, outlets=(own,))
        contents.maps[at] = {None: record.replace(partition=n)}
    link = Link(world, "A", contents, world.contents("A", {0: False}))
    link.groups._source = cast(Cluster, ManyPartitions(world.a, partitions, fetched))
    link.groups._target = cast(Cluster, ManyPartitions(world.b, partitions, fetched))
    certain = set[TopicPartition]()
    for position in (1, 2, 3):
        begun.clear()
        commits = {GROUP: dict.fromkeys(places, Committed(offset=position))}
        alone = {GROUP: dict.fromkeys(places, TranslatedOffset(position, world.b.log.end))}
        found, _ = link.groups.bound(GroupCommits(commits=commits, left_out=()), alone)
        assert link.groups.unfinished
        certain |= {at for at, place in found[GROUP].items() if place.certain}
    assert certain == set(places)


def test_records_before_the_reverse_link_began_are_looked_at() -> None:
    """B had records before B->A began at offset 5, from its end on."""
    world = TwoWays(Side("A"), Side("B"))
    world.b.write([False] * 5, "plain")
    contents = world.contents("B", {0: False})
    (outlet,) = contents.partitions[AT].outlets
    began = Pair(source=5, target=0, sequence=0)
    contents.partitions[AT] = contents.partitions[AT].replace(
        outlets=(outlet.replace(pair=began),), position=5
    )
    record = contents.maps[AT][None]
    contents.maps[AT][None] = record.replace(points=(began,), since=0)
    link = Link(world, "A", contents, world.contents("A", {0: False}))
    place = link.place(0)
    assert place is not None
    assert place.downstream == 5  # by the flows
    assert link.groups.from_the_beginning({GROUP: {AT: place}}) == {GROUP: {}}
    ranges = {GROUP: {AT: UnreadRange(0, 5)}}
    assert link.groups.before_the_beginning(ranges) == ranges
    beyond = {GROUP: {AT: UnreadRange(5, 7)}}
    assert link.groups.before_the_beginning(beyond) == {GROUP: {}}
    world.b.log.start = 5  # B has deleted them
    freed = link.place(0)
    assert freed is not None
    assert link.groups.from_the_beginning({GROUP: {AT: freed}}) == {GROUP: {AT: freed}}


@MANY
@given(two_ways(early=True), st.data())
def test_after_another_claim_of_the_reverse_link_no_record_is_skipped(
    world: TwoWays, data: st.DataObject
) -> None:
    """Each record before the place on B is read, is before the group's commit there, or is looked
    at: records of B from before the claim may not be on A."""
    link = linked(data, world, "A")
    position = data.draw(st.integers(0, world.a.log.end), label="position")
    commit = data.draw(st.integers(0, world.b.log.end), label="commit on B")
    place = link.place(position)
    assert place is not None, link.notes
    end = place.downstream
    assert end <= world.first_unread(world.read("A", position), "B")
    ranges = {GROUP: {AT: UnreadRange(commit, end)}}
    none = UnreadRange(0, 0)
    start, stop = link.groups.before_the_beginning(ranges)[GROUP].get(AT, none)
    assert set(range(commit, min(end, world.b.begun))) <= set(range(start, stop))
