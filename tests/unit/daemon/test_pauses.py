"""Who is taken from a lane, who never gets one, and who goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from causeway.daemon.partitions import Registry
from causeway.daemon.partitions.pauses import Pauses
from causeway.daemon.partitions.restarts import troubled
from causeway.link_topics import (
    BeginDirective,
    DirectiveKind,
    EndDirective,
    LinkDirectives,
    PartitionProgress,
    PauseDirective,
    Scope,
)
from causeway.model import State, TopicPartition
from tests.builders.daemon import part

ORDERS = Scope("orders")


def at(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


def paused(*scopes: Scope, who: str = "anna@ops") -> LinkDirectives:
    return LinkDirectives(
        {
            (DirectiveKind.PAUSE, scope): PauseDirective(scope=scope, who=who, at=0, why="too loud")
            for scope in scopes
        }
    )


class Lanes:
    """Those that a lane keeps are let go of only when the test says so."""

    def __init__(self) -> None:
        self.kept: set[TopicPartition] = set()
        self.asked: list[set[TopicPartition]] = []

    def recall(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, bool]:
        self.asked.append(set(places))
        return {each: True for each in places if each not in self.kept}


@pytest.fixture
def lanes() -> Lanes:
    return Lanes()


@pytest.fixture
def registry() -> Registry:
    found = Registry("A->B")
    found.add([part(0), part(1), part(2, State.STOPPED), part(3, State.FAILED)])
    return found


@pytest.fixture
def pauses(registry: Registry, lanes: Lanes) -> Pauses:
    return Pauses("A->B", registry, lanes.recall)


BY_FILE = (State.PAUSED, "paused by the file: A->B.causeway.paused (line 7)")


def states(registry: Registry) -> list[str]:
    return [each.state for each in registry.status()]


def test_what_its_lane_lets_go_of_is_paused_and_the_rest_later(
    pauses: Pauses, registry: Registry, lanes: Lanes
) -> None:
    lanes.kept = {at(1)}
    pauses.update(paused(ORDERS))
    assert not pauses.pause()
    assert states(registry) == [State.PAUSED, State.RUNNING, State.STOPPED, State.PAUSED]
    lanes.kept = set()
    assert pauses.pause()
    assert states(registry) == [State.PAUSED, State.PAUSED, State.STOPPED, State.PAUSED]
    assert lanes.asked == [{at(0), at(1), at(3)}, {at(1)}]
    reason = registry.status()[0].reason
    assert reason == "paused by anna@ops since 1970-01-01T00:00:00Z: too loud"
    written = [each for each in registry.take_dirty()[1] if isinstance(each, PartitionProgress)]
    assert {each.state for each in written if each.partition != 2} == {State.PAUSED}


def test_while_nothing_changes_no_lane_is_asked_again(pauses: Pauses, lanes: Lanes) -> None:
    assert pauses.pause()
    directives = paused(ORDERS)
    for _ in range(3):
        pauses.update(directives)
        assert pauses.pause()
    assert len(lanes.asked) == 1


def test_a_new_reason_is_shown(pauses: Pauses, registry: Registry) -> None:
    for who in ("anna@ops", "ben@ops"):
        pauses.update(paused(ORDERS, who=who))
        assert pauses.pause()
        assert who in str(registry.status()[0].reason)


def test_what_is_about_to_go_to_a_lane_is_held_back(pauses: Pauses, registry: Registry) -> None:
    assert not pauses.hold([at(0), at(1)])
    pauses.update(paused(Scope("orders", 1)))
    assert pauses.hold([at(0), at(1)]) == {at(1)}
    assert states(registry)[:2] == [State.RUNNING, State.PAUSED]


def test_what_is_resumed_waits_for_a_lane(pauses: Pauses, registry: Registry) -> None:
    pauses.update(paused(ORDERS))
    pauses.pause()
    assert pauses.over() == []
    pauses.update(paused(Scope("orders", 1)))
    assert pauses.over() == [at(0), at(3)]
    registry.take_dirty()
    assert [one.progress.source for one in registry.resume(pauses.over())] == [at(0), at(3)]
    assert states(registry) == [State.WAITING, State.PAUSED, State.STOPPED, State.WAITING]
    assert len(registry.take_dirty()[0]) == 2, "else they would stand as paused without a lane"
    assert pauses.over() == []


def test_what_is_stopped_is_taken_up_as_if_it_were_not(registry: Registry) -> None:
    """But for a topic that the source has lost, which nothing would take up."""
    registry.note_gone({at(2): 5})
    assert [each.progress.partition for each in troubled(registry, [ORDERS])] == [3]
    registry.note_gone({at(2): -1})
    rows = troubled(registry, [Scope("orders", 2), Scope("bills")])
    assert [each.progress.partition for each in rows] == [2]
    registry.let_go(rows, restart=True)
    left = registry.left().partitions
    assert left[at(2)].state is State.WAITING
    assert left[at(2)].reason is None


def ended(how: State, *scopes: Scope) -> LinkDirectives:
    return LinkDirectives(
        {
            (DirectiveKind.END, scope): EndDirective(scope=scope, who="anna@ops", at=0, how=how)
            for scope in scopes
        }
    )


def test_an_ended_partition_that_had_stopped_is_reported_as_ended(
    pauses: Pauses, registry: Registry, lanes: Lanes
) -> None:
    lanes.kept = {at(1)}
    pauses.update(ended(State.FAILED_OVER, ORDERS))
    assert not pauses.pause(), "a lane has it still"
    lanes.kept = {at(2)}  # the fleet knows nothing of what has stopped
    assert pauses.pause()
    assert set(states(registry)) == {State.FAILED_OVER}
    reason = "failed over by anna@ops at 1970-01-01T00:00:00Z"
    assert [each.reason for each in registry.status()] == [
        reason,
        reason,
        f"{reason}; it had stopped: None",
        reason,
    ]
    asked = len(lanes.asked)
    pauses.update(ended(State.FAILED_OVER, ORDERS))
    assert pauses.pause()
    assert len(lanes.asked) == asked, "it is known already"


def test_nothing_is_done_for_what_has_ended(pauses: Pauses, registry: Registry) -> None:
    assert {each.source for each in registry.courses()} == {at(0), at(1), at(2), at(3)}
    pauses.update(ended(State.PROMOTING, ORDERS))
    pauses.pause()
    assert registry.courses(), "its groups are still brought over"
    pauses.update(ended(State.PROMOTED, ORDERS))
    pauses.pause()
    assert not registry.courses()
    assert not registry.topics()
    assert not registry.live()
    assert pauses.has_ended("orders")
    assert not pauses.has_ended("bills")


def test_what_was_to_be_promoted_and_is_not_goes_on(pauses: Pauses, registry: Registry) -> None:
    pauses.update(ended(State.PROMOTING, ORDERS))
    assert pauses.pause()
    assert states(registry) == [State.PROMOTING, State.PROMOTING, State.STOPPED, State.PROMOTING]
    pauses.update(LinkDirectives())
    assert pauses.over() == [at(0), at(1), at(3)]
    assert pauses.renewed() == []


def test_what_had_ended_is_renewed_and_not_resumed(pauses: Pauses, registry: Registry) -> None:
    """Where it goes on may be elsewhere by now."""
    pauses.update(ended(State.PROMOTED, ORDERS))
    assert pauses.pause()
    pauses.update(paused(ORDERS))
    assert pauses.pause()
    assert set(states(registry)) == {State.PROMOTED}
    assert pauses.over() == []
    assert pauses.renewed() == [at(0), at(1), at(2), at(3)]


def test_what_a_lane_says_late_does_not_bring_it_back(pauses: Pauses, registry: Registry) -> None:
    pauses.update(ended(State.FAILED_OVER, ORDERS))
    assert pauses.hold([at(0)]) == {at(0)}
    registry.wait([("A->B", "orders", 0)])
    assert states(registry)[0] is State.FAILED_OVER
    assert registry.resume([at(0)]) == []


def test_where_records_went_is_written_at_once(pauses: Pauses, registry: Registry) -> None:
    registry.take_dirty(final=True)
    pauses.update(ended(State.PROMOTING, ORDERS))
    pauses.pause()
    rows, _ = registry.take_dirty()
    assert {each.progress.state for each in rows} == {State.PROMOTING}
    assert {each.progress.partition for each in rows} == {0, 1, 3}


def test_a_topic_was_begun_where_a_person_has_said_so(pauses: Pauses) -> None:
    """A partition that it got afterwards is new, though the mirror the other way has ended."""
    wish = BeginDirective(scope=ORDERS, who="anna@ops", at=1, starts={0: 70})
    pauses.update(LinkDirectives({wish.key: wish}))
    assert pauses.was_begun("orders")
    assert pauses.start_of(at(1)) is None
    assert not pauses.was_begun("bills")


def test_a_pause_in_the_file_holds_all_partitions(registry: Registry, lanes: Lanes) -> None:
    """Also before a word of the directives is read, and for a part that somebody resumed."""
    pauses = Pauses("A->B", registry, lanes.recall, BY_FILE)
    assert pauses.are_any
    assert pauses.hold({at(0)}) == {at(0)}
    assert pauses.hold_of(at(1)) == BY_FILE
    going = PauseDirective(scope=ORDERS, who="anna@ops", at=0, paused=False)
    pauses.update(LinkDirectives({going.key: going}))
    assert pauses.pause()
    assert states(registry)[:2] == [State.PAUSED, State.PAUSED]
    assert pauses.over() == []


def test_what_has_ended_has_so_though_the_file_pauses(registry: Registry, lanes: Lanes) -> None:
    pauses = Pauses("A->B", registry, lanes.recall, BY_FILE)
    end = EndDirective(scope=ORDERS, who="anna@ops", at=0, how=State.PROMOTED)
    pauses.update(LinkDirectives({end.key: end}))
    held = pauses.hold_of(at(0))
    assert held is not None
    assert held[0] is State.PROMOTED
