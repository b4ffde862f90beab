"""Translation of many offsets at once: a partition whose logs cannot be read, or take long to
read, holds up no other, and what was read is remembered for as long as it is true."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import pytest

from causeway.cluster import LATEST, ClusterMetadata, OffsetAt, TopicMetadata
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import OffsetMap, Outlet
from causeway.model import Pair, TopicPartition
from causeway.relay import Sought
from causeway.translation import Course, CourseKey, MappedOffset, OffsetTranslator
from causeway.translation import lookups as module
from tests.harness.waiting import await_until

DARK, LIGHT = TopicPartition("orders", 0), TopicPartition("orders", 1)
dark, light = (partial(MappedOffset, TopicPartition("A.orders", n)) for n in (0, 1))


def metadata_of(names: Collection[str], topic_id: str = "a" * 32) -> ClusterMetadata:
    topics = {name: TopicMetadata(name=name, topic_id=topic_id, partitions={}) for name in names}
    return ClusterMetadata(cluster_id="c", brokers={}, controller=1, topics=topics)


class DarkLogs:
    """Both clusters: who asks for the log of partition 0 is told that it has no leader."""

    def metadata(self, names: Collection[str]) -> ClusterMetadata:
        return metadata_of(names)

    def list_offsets(self, places: list[TopicPartition], *_: Any, **__: Any) -> dict[Any, Any]:
        return dict.fromkeys(places, NO_LEADER)

    def fetch(self, *_: Any, **__: Any) -> Any:
        raise NO_LEADER


NO_LEADER = BrokerError("fetch", "orders-0", code=5, name="LEADER_NOT_AVAILABLE", retriable=True)


class Mapped:
    """Two courses of partitions whose source has gaps between offsets 0 and 10."""

    transforms = False

    def __init__(self, *, exclusive: bool = True) -> None:
        self.exclusive = exclusive
        self.rewinds = 0
        self.stopped = False
        self.placed = True
        self.begins = False
        self.points = [Pair(0, 0, 0), Pair(10, 5, 5), Pair(20, 15, 15)]

    def courses(self) -> list[Course]:
        return [
            Course(
                source=at,
                outlet=Outlet(
                    topic="A.orders",
                    partition=at.partition,
                    topic_id="a" * 32,
                    producer_id=1,
                    producer_epoch=0,
                    pair=Pair(source=20, target=15, sequence=15),
                    exclusive=self.exclusive,
                ),
                topic_id="a" * 32,
                stopped=self.stopped,
                placed=self.placed,
                rewinds=self.rewinds,
                begins=self.begins,
            )
            for at in (DARK, LIGHT)
        ]

    def place(self, _: CourseKey, offsets: Iterable[int]) -> dict[int, Any]:
        known = OffsetMap(self.points)
        return {offset: known.place(offset) for offset in offsets}

    def end(self, _: CourseKey) -> int | None:
        return self.points[-1].target

    def trim(self, _: Any) -> None:
        pass


def test_a_partition_without_a_leader_is_reported_and_the_others_are_translated() -> None:
    logs = cast(Any, DarkLogs())
    translator = translator_at(logs, logs, Mapped())

    found = places_of(translator, {DARK: {7}, LIGHT: {12, 25}})

    assert found[LIGHT] == {
        12: light(7),
        25: light(15, mirrored=False),
    }
    assert found[DARK][7].offset is None
    assert "cannot be looked up" in (found[DARK][7].note or "")


class LitLogs:
    """Both clusters; logs begin at 0."""

    topic_id = "a" * 32

    def metadata(self, names: Collection[str]) -> ClusterMetadata:
        return metadata_of(names, self.topic_id)

    def list_offsets(self, places: list[TopicPartition], *_: Any, **__: Any) -> dict[Any, Any]:
        return {at: OffsetAt(offset=0, timestamp=-1, leader_epoch=0) for at in places}


class LookUps:
    """Half of each offset is its place. `held`: partitions that take long to read."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[TopicPartition, tuple[int, ...]]] = Counter()
        self.shift = 0
        self.floors: list[int] = []
        self.ended = 0
        self.held: set[TopicPartition] = set()
        self.release = threading.Event()

    def __call__(self, sought: Sought, *_: Any) -> dict[int, int]:
        self.asked[sought.source, tuple(sought.offsets)] += 1
        if sought.source in self.held:
            assert self.release.wait(60)
        self.floors.append(sought.floor)
        self.ended += 1
        return {offset: offset // 2 + self.shift for offset in sought.offsets}


@pytest.fixture
def look_ups(monkeypatch: pytest.MonkeyPatch) -> Iterator[LookUps]:
    them = LookUps()
    monkeypatch.setattr("causeway.relay.offset_lookup.find", them)
    yield them
    them.release.set()


def translator_of(registry: Mapped, term: Callable[[], int | None] = lambda: 1) -> OffsetTranslator:
    logs = cast(Any, LitLogs())
    return translator_at(logs, logs, registry, term)


def no_lane(sought: Sought) -> dict[int, int]:
    raise AssertionError(f"nothing is transformed: {sought}")


def translator_at(
    source: Any, target: Any, courses: Mapped, term: Callable[[], int | None] = lambda: 1
) -> OffsetTranslator:
    return OffsetTranslator(source, target, courses, read_committed=True, term=term, lane=no_lane)


def places_of(
    translator: OffsetTranslator, wanted: Mapping[TopicPartition, Collection[int]]
) -> dict[TopicPartition, Mapping[int, MappedOffset]]:
    """By source partition."""
    return {at.source: places for at, places in translator.translate(wanted).offsets.items()}


@pytest.mark.parametrize("exclusive", [True, False])
def test_what_was_looked_up_is_remembered_until_the_target_has_lost_something(
    look_ups: LookUps, exclusive: bool
) -> None:
    """Also where others write to the target, as with the identity policy."""
    registry = Mapped(exclusive=exclusive)
    translator = translator_of(registry)
    for _ in range(3):
        assert places_of(translator, {DARK: {6, 8}})[DARK] == {
            6: dark(3),
            8: dark(4),
        }
    assert look_ups.asked == {(DARK, (6, 8)): 1}, "once, and in one pass"

    registry.rewinds += 1
    assert places_of(translator, {DARK: {8}})[DARK] == {8: dark(4)}
    assert look_ups.asked[DARK, (8,)] == 1
    assert places_of(translator, {DARK: {6, 8}})[DARK] == {
        6: dark(3),
        8: dark(4),
    }
    assert look_ups.asked[DARK, (6,)] == 1, "what nobody asks for is forgotten"


def test_what_was_looked_up_is_not_remembered_into_another_term(look_ups: LookUps) -> None:
    """Another driver may have led in between, and have seen the target lose what we had found."""
    term: list[int | None] = [1]
    translator = translator_of(Mapped(), lambda: term[0])
    assert places_of(translator, {DARK: {6}})[DARK] == {6: dark(3)}
    term[0] = None
    with pytest.raises(CausewayError, match="another driver may lead"):
        translator.translate({DARK: {6}})
    term[0], look_ups.shift = 2, -1
    assert places_of(translator, {DARK: {6}})[DARK] == {6: dark(2)}


def test_a_long_look_up_goes_on_while_the_others_are_answered(
    look_ups: LookUps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROUND_S", 0.2)
    look_ups.held = {DARK}
    translator = translator_of(Mapped())

    found = places_of(translator, {DARK: {8}, LIGHT: {6}})
    assert found[LIGHT] == {6: light(3)}
    assert found[DARK][8].offset == 0, "at or before the true place"
    assert "being looked up" in (found[DARK][8].note or "")
    assert translator.unfinished

    look_ups.release.set()
    await_until(
        lambda: places_of(translator, {DARK: {8}})[DARK] == {8: dark(4)},
        what="the exact place",
    )
    assert look_ups.asked[DARK, (8,)] == 1
    assert not translator.unfinished


def test_a_group_that_moves_while_its_place_is_looked_up_gets_the_one_before(
    look_ups: LookUps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a look-up takes: the next one begins where that one has ended."""
    monkeypatch.setattr(module, "ROUND_S", 0.2)
    look_ups.held = {DARK}
    translator = translator_of(Mapped())
    translator.translate({DARK: {6}})
    look_ups.release.set()
    await_until(lambda: look_ups.ended == 1, what="the first look-up's end")
    look_ups.release.clear()

    for offset in (8, 9, 9):
        place = places_of(translator, {DARK: {offset}})[DARK][offset]
        assert (place.offset, place.exact) == (3, False), "that of 6"
        assert "being looked up" in (place.note or "")
        assert translator.unfinished

    assert look_ups.asked.total() == 2, "one at a time"
    look_ups.release.set()
    await_until(
        lambda: places_of(translator, {DARK: {9}})[DARK] == {9: dark(4)},
        what="the exact place",
    )
    assert look_ups.floors[:2] == [0, 3]


def test_a_look_up_is_not_begun_again_where_the_map_was_thinned_out(
    look_ups: LookUps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROUND_S", 0.2)
    look_ups.held = {DARK}
    registry = Mapped()
    translator = translator_of(registry)
    translator.translate({DARK: {8}})
    del registry.points[1]
    assert "being looked up" in (places_of(translator, {DARK: {8}})[DARK][8].note or "")
    look_ups.release.set()
    await_until(
        lambda: places_of(translator, {DARK: {8}})[DARK] == {8: dark(4)},
        what="the exact place",
    )
    assert look_ups.asked == {(DARK, (8,)): 1}


@pytest.mark.parametrize(
    "what", ["stopped", "source recreated", "target recreated", "not placed", "begins"]
)
def test_nothing_is_said_where_the_map_may_be_another_logs(what: str) -> None:
    """What a group has committed on a topic recreated, or on another end of its log, has nothing to
    do with what was mirrored."""
    registry, source, target = Mapped(), LitLogs(), LitLogs()
    registry.stopped = what == "stopped"
    registry.placed = what != "not placed"
    registry.begins = what == "begins"
    for logs in {"source recreated": [source], "target recreated": [target]}.get(what, []):
        logs.topic_id = "c" * 32
    translator = translator_at(source, target, registry)

    (place,) = places_of(translator, {LIGHT: {12}})[LIGHT].values()

    assert place.offset is None
    assert (place.note is None) == (what == "not placed")
    assert translator.unfinished == (what == "not placed")
    assert translator.fallbacks == 0


class SharedLogs(LitLogs):
    """Programs write to the target, which ends at 40. `last`: of the mirror's producer."""

    def __init__(self, last: int | None) -> None:
        self.last = last

    def list_offsets(self, places: list[TopicPartition], when: int, **__: Any) -> dict[Any, Any]:
        offset = 40 if when == LATEST else 0
        return {at: OffsetAt(offset=offset, timestamp=-1, leader_epoch=0) for at in places}

    def last_sequences(self, places: Collection[TopicPartition]) -> dict[Any, Any]:
        return {at: {} if self.last is None else {1: self.last} for at in places}


@pytest.mark.parametrize(
    ("last", "first", "place"),
    [
        (14, None, 40),  # the pair's sequence is 15: no later record is in the log
        (15, 30, 30),
        (None, None, 40),  # the broker has forgotten the producer, so the log is read
        (None, 30, 30),
    ],
)
def test_behind_the_last_record_those_of_programs_count_as_well(
    monkeypatch: pytest.MonkeyPatch, last: int | None, first: int | None, place: int
) -> None:
    """A group that has read all of a quiet source reads nothing again on a busy target."""
    read: list[TopicPartition] = []

    def first_of(_: Any, at: TopicPartition, *__: Any) -> dict[int, int]:
        read.append(at)
        return {} if first is None else {1: first}

    monkeypatch.setattr("causeway.relay.offset_lookup.first_of", first_of)
    logs = cast(Any, SharedLogs(last))
    translator = OffsetTranslator(
        logs,
        logs,
        Mapped(),
        read_committed=True,
        term=lambda: 1,
        lane=no_lane,
        others_write=True,
    )
    found = places_of(translator, {LIGHT: {12, 25}})[LIGHT]
    assert found == {12: light(7), 25: light(place, mirrored=False)}
    assert bool(read) == (last != 14)
