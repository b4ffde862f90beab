"""Translation where a transform lies between: lanes are asked, and what others send to the same
target partition is looked through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

import pytest

from causeway.cluster import EARLIEST, ClusterMetadata, OffsetAt, TopicMetadata
from causeway.errors import CausewayError
from causeway.link_topics import OffsetMap, Outlet
from causeway.model import Pair, TopicPartition
from causeway.relay import Sought
from causeway.translation import Course, CourseKey, MappedOffset, OffsetTranslator

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
    """The courses to AT, and their maps by source partition."""

    transforms = True

    def __init__(self, maps: dict[TopicPartition, OffsetMap]) -> None:
        self.maps = maps
        self.before_listing: Callable[[], None] = lambda: None

    def courses(self) -> list[Course]:
        self.before_listing()
        return [
            Course(
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
                transformed=True,
            )
            for number, (source, known) in enumerate(self.maps.items())
        ]

    def place(self, feed: CourseKey, offsets: Iterable[int]) -> dict[int, Any]:
        return {offset: self.maps[feed.source].place(offset) for offset in offsets}

    def end(self, feed: CourseKey) -> int:
        return self.maps[feed.source].points[-1].target

    def trim(self, _: Any) -> None:
        pass


class Lane:
    """Answers with `places`; nobody may ask for anything else."""

    def __init__(self, places: dict[int, int] | CausewayError) -> None:
        self.places = places
        self.asked: list[Sought] = []

    def __call__(self, sought: Sought) -> dict[int, int]:
        self.asked.append(sought)
        if isinstance(self.places, CausewayError):
            raise self.places
        return {offset: self.places[offset] for offset in sought.offsets}


def translator(
    fed: Fed, lane: Lane, source: Logs | None = None, target: Logs | None = None
) -> OffsetTranslator:
    return OffsetTranslator(
        cast(Any, source or Logs()),
        cast(Any, target or Logs()),
        fed,
        read_committed=True,
        term=lambda: 1,
        lane=lane,
    )


def points(*of: tuple[int, int, int]) -> OffsetMap:
    return OffsetMap([Pair(*each) for each in of], multiplied=True, since=0)


def test_a_lane_is_asked_for_what_only_it_can_count() -> None:
    fed = Fed({ONE: points((0, 0, 0), (10, 7, 7), (20, 12, 12))})
    lane = Lane({4: 3, 6: 5, 9: 7})
    it = translator(fed, lane)
    wanted = {ONE: [0, 4, 6, 10, 20]}
    for _ in range(2):
        assert it.translate(wanted).offsets == {
            CourseKey(ONE, AT): {
                0: MappedOffset(AT, 0),
                4: MappedOffset(AT, 3),
                6: MappedOffset(AT, 5),
                10: MappedOffset(AT, 7),
                20: MappedOffset(AT, 12, mirrored=False),
            }
        }
    (asked,) = lane.asked
    assert list(asked.offsets) == [4, 6], "once, and no more than it takes"
    assert asked.target == AT


def test_until_a_lane_answers_there_is_an_earlier_place() -> None:
    fed = Fed({ONE: points((0, 0, 0), (3, 2, 2), (10, 7, 7))})
    lane = Lane(CausewayError("look up", "one-0", "no lane has it now", retriable=True))
    it = translator(fed, lane)
    (place,) = it.translate({ONE: [4]}).offsets[CourseKey(ONE, AT)].values()
    assert (place.offset, place.exact) == (2, False)
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
    place = it.translate({ONE: [9]}).offsets[CourseKey(ONE, AT)][9]
    assert place == MappedOffset(AT, 7, mirrored=False)

    def find_start(sought: Sought, *_: object) -> dict[int, int]:
        assert list(sought.offsets) == [10]
        return {10: 31}

    monkeypatch.setattr("causeway.relay.offset_lookup.find_start", find_start)
    fed.maps[ONE].add(Pair(14, 40, 10))
    assert it.translate({ONE: [9]}).offsets[CourseKey(ONE, AT)][9] == MappedOffset(AT, 31)
    assert len(lane.asked) == 1, "which record it is was known"


def test_a_partition_without_a_commit_counts_from_where_its_log_begins() -> None:
    known = points((0, 0, 0), (10, 7, 7), (20, 12, 12))
    known.trim(10)
    it = translator(Fed({ONE: known}), Lane({}), Logs(start=10))
    assert it.translate({ONE: [EARLIEST]}).offsets[CourseKey(ONE, AT)] == {
        EARLIEST: MappedOffset(AT, 7)
    }


@pytest.mark.parametrize("end", [12, 40])
def test_a_group_that_has_read_all_goes_on_after_the_records_of_others(
    monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    looked: list[tuple[int, int]] = []

    def first_of(_: object, at: TopicPartition, sought: Any, start: int, end: int) -> Any:
        assert at == AT
        looked.append((start, end))
        return {1: 30} if end > 30 else {}  # of TWO: its report is on the way

    monkeypatch.setattr("causeway.relay.offset_lookup.first_of", first_of)
    fed = Fed({ONE: points((0, 0, 0), (20, 5, 5)), TWO: points((0, 5, 0), (20, 12, 7))})
    found = translator(fed, Lane({}), target=Logs(end=end)).translate({ONE: [20], TWO: [20]})
    assert found.shared == {AT: {ONE, TWO}}
    assert looked == [(5, end)]
    assert found.offsets == {
        CourseKey(ONE, AT): {20: MappedOffset(AT, end, mirrored=False)},
        CourseKey(TWO, AT): {20: MappedOffset(AT, min(end, 30), mirrored=False)},
    }


def test_the_end_is_asked_for_before_those_who_feed_it_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else what one that begins in between has sent would count as looked through."""
    monkeypatch.setattr("causeway.relay.offset_lookup.first_of", lambda *_: {})
    fed = Fed({ONE: points((0, 0, 0), (20, 5, 5)), TWO: points((0, 5, 0), (20, 12, 7))})
    target = Logs(end=12)
    it = translator(fed, Lane({}), target=target)

    def before_listing() -> None:
        target.end += 30  # by one that is not in the list yet

    fed.before_listing = before_listing
    found = it.translate({ONE: [20], TWO: [20]})
    assert target.end == 72, "the first list only tells whose ends are wanted"
    assert {p[20].offset for p in found.offsets.values()} == {42}
