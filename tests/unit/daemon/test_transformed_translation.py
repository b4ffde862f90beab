"""Translation where a transform lies between: lanes are asked, and what others send to the same
target partition is looked through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

import pytest

from causeway.cluster import EARLIEST, ClusterMetadata, OffsetAt, TopicMetadata
from causeway.daemon.lanes.lookups import LookUps
from causeway.daemon.partitions.discovery import Sides
from causeway.daemon.partitions.mirrored import Feed, Mirrored
from causeway.daemon.partitions.registry import Registry
from causeway.errors import CausewayError
from causeway.link_topics.offset_map import OffsetMap
from causeway.model import Pair, TopicPartition
from causeway.relay.messages import Outlet
from causeway.translation.lookup import Sought
from causeway.translation.places import Place
from causeway.translation.translator import Translator

ONE, TWO = TopicPartition("one", 0), TopicPartition("two", 0)
AT = TopicPartition("A.paid", 0)


class Logs:
    """Both clusters; the source's logs begin at `start`, the target's end at `end`."""

    def __init__(self, start: int = 0, end: int = 0) -> None:
        self.start, self.end = start, end

    def metadata(self, names: Collection[str]) -> ClusterMetadata:
        topics = {n: TopicMetadata(name=n, topic_id="a" * 32, partitions={}) for n in names}
        return ClusterMetadata(cluster_id="c", brokers={}, controller=1, topics=topics)

    def list_offsets(self, places: Iterable[Any], timestamp: int, **_: Any) -> dict[Any, OffsetAt]:
        offset = self.start if timestamp == EARLIEST else self.end
        return {at: OffsetAt(offset=offset, timestamp=-1, leader_epoch=0) for at in places}


class Fed:
    """A registry: the outlets at AT by source partition, and their maps."""

    transforms = True

    def __init__(self, maps: dict[TopicPartition, OffsetMap]) -> None:
        self.maps = maps
        self.before_listing: Callable[[], None] = lambda: None

    def fed(self) -> list[Mirrored]:
        self.before_listing()
        return [
            Mirrored(
                source=source,
                topic_id="a" * 32,
                outlet=Outlet(
                    topic=AT.topic,
                    partition=AT.partition,
                    topic_id="a" * 32,
                    producer_id=number,
                    producer_epoch=0,
                    pair=known.points[-1],
                    exclusive=False,
                ),
                position=known.points[-1].source,
                stopped=False,
                placed=True,
                transformed=True,
            )
            for number, (source, known) in enumerate(self.maps.items())
        ]

    def place(self, feed: Feed, offsets: Iterable[int]) -> dict[int, Any]:
        return {offset: self.maps[feed.source].place(offset) for offset in offsets}

    def end(self, feed: Feed) -> int:
        return self.maps[feed.source].points[-1].target

    def trim(self, _: Any) -> None:
        pass


class Lane:
    """Answers with `places`; nobody may ask for anything else."""

    def __init__(self, places: dict[int, int] | CausewayError) -> None:
        self.places = places
        self.asked: list[Sought] = []

    def find(self, key: tuple[str, str, int], sought: Sought) -> dict[int, int]:
        assert key == ("A->B", *sought.source)
        self.asked.append(sought)
        if isinstance(self.places, CausewayError):
            raise self.places
        return {offset: self.places[offset] for offset in sought.offsets}


def translator(fed: Fed, lane: Lane, source: Logs | None = None, end: int = 0) -> Translator:
    one, other = cast(Any, source or Logs()), cast(Any, Logs(end=end))
    sides = Sides(source=one, target=other, source_admin=one, target_admin=other)
    return Translator(
        sides,
        cast(Registry, fed),
        link="A->B",
        read_committed=True,
        term=lambda: 1,
        lookups=cast(LookUps, lane),
    )


def points(*of: tuple[int, int, int]) -> OffsetMap:
    return OffsetMap([Pair(*each) for each in of], multiplied=True, since=0)


def test_a_lane_is_asked_for_what_only_it_can_count() -> None:
    fed = Fed({ONE: points((0, 0, 0), (10, 7, 7), (20, 12, 12))})
    lane = Lane({4: 3, 6: 5, 9: 7})
    it = translator(fed, lane)
    wanted = {ONE: [0, 4, 6, 10, 20]}
    for _ in range(2):
        assert it.translate(wanted).places == {
            Feed(ONE, AT): {
                0: Place(0),
                4: Place(3),
                6: Place(5),
                10: Place(7),
                20: Place(12, mirrored=False),
            }
        }
    (asked,) = lane.asked
    assert list(asked.offsets) == [4, 6], "once, and no more than it takes"
    assert asked.target == AT


def test_until_a_lane_answers_there_is_an_earlier_place() -> None:
    fed = Fed({ONE: points((0, 0, 0), (3, 2, 2), (10, 7, 7))})
    lane = Lane(CausewayError("look up", "one-0", "no lane has it now", retriable=True))
    it = translator(fed, lane)
    (place,) = it.translate({ONE: [4]}).places[Feed(ONE, AT)].values()
    assert (place.target, place.certain) == (2, False)
    assert "no lane has it now" in (place.note or "")
    assert it.unfinished


def test_where_nothing_follows_up_to_the_end_of_a_stretch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next record may lie behind those of others, and is looked for where the next stretch
    begins; where there is none, the place moves on with the map."""
    fed = Fed({ONE: points((0, 0, 0), (10, 7, 7))})
    lane = Lane({9: 7})
    it = translator(fed, lane)
    place = it.translate({ONE: [9]}).places[Feed(ONE, AT)][9]
    assert place == Place(7, mirrored=False)

    def find_start(sought: Sought, *_: object) -> dict[int, int]:
        assert list(sought.offsets) == [10]
        return {10: 31}

    monkeypatch.setattr("causeway.translation.lookup.find_start", find_start)
    fed.maps[ONE].add(Pair(14, 40, 10))
    assert it.translate({ONE: [9]}).places[Feed(ONE, AT)][9] == Place(31)
    assert len(lane.asked) == 1, "which record it is was known"


def test_a_partition_without_a_commit_counts_from_where_its_log_begins() -> None:
    known = points((0, 0, 0), (10, 7, 7), (20, 12, 12))
    known.trim(10)
    it = translator(Fed({ONE: known}), Lane({}), Logs(start=10))
    assert it.translate({ONE: [EARLIEST]}).places[Feed(ONE, AT)] == {EARLIEST: Place(7)}


@pytest.mark.parametrize("end", [12, 40])
def test_who_has_read_all_stands_behind_what_others_have_sent(
    monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    looked: list[tuple[int, int]] = []

    def first_of(_: object, at: TopicPartition, sought: Any, start: int, end: int) -> Any:
        assert at == AT
        looked.append((start, end))
        return {1: 30} if end > 30 else {}  # of TWO: its report is on the way

    monkeypatch.setattr("causeway.translation.lookup.first_of", first_of)
    fed = Fed({ONE: points((0, 0, 0), (20, 5, 5)), TWO: points((0, 5, 0), (20, 12, 7))})
    found = translator(fed, Lane({}), end=end).translate({ONE: [20], TWO: [20]})
    assert found.shared == {AT: {ONE, TWO}}
    assert looked == [(5, end)]
    assert found.places == {
        Feed(ONE, AT): {20: Place(end, mirrored=False)},
        Feed(TWO, AT): {20: Place(min(end, 30), mirrored=False)},
    }


def test_the_end_is_asked_for_before_those_who_feed_it_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else what one that begins in between has sent would count as looked through."""
    monkeypatch.setattr("causeway.translation.lookup.first_of", lambda *_: {})
    fed = Fed({ONE: points((0, 0, 0), (20, 5, 5)), TWO: points((0, 5, 0), (20, 12, 7))})
    it = translator(fed, Lane({}), end=12)
    target = cast(Logs, it._sides.target)

    def before_listing() -> None:
        target.end += 30  # by one that is not in the list yet

    fed.before_listing = before_listing
    found = it.translate({ONE: [20], TWO: [20]})
    assert target.end == 72, "the first list only tells whose ends are wanted"
    assert {p[20].target for p in found.places.values()} == {42}
