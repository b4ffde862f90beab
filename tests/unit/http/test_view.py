"""A look at the run, and what the next one takes over from it."""

from __future__ import annotations

from dataclasses import replace

from causeway.http.view import View
from causeway.model import State
from tests.unit.metrics.snapshots import NOW, full, link, partition

PLACES = [(topic, number) for topic in ("a", "b", "c") for number in range(2)]


def test_only_the_topics_that_have_moved_are_reckoned_again() -> None:
    at_rest = [replace(partition(number), topic=name, position=100) for name, number in PLACES]
    first = View(full(link(*at_rest)))
    moved = [*at_rest[:3], replace(at_rest[3], records=7), *at_rest[4:]]
    second = View(replace(full(link(*moved)), taken_at=NOW + 5), first)
    then, now = (view.links["A->B"].topics for view in (first, second))
    assert [a is b for a, b in zip(then, now, strict=True)] == [True, False, True]
    assert now == View(full(link(*moved))).links["A->B"].topics
    assert second.links["A->B"].states == {State.RUNNING: 6}
    assert second.now_ms == first.now_ms + 5000


def test_other_states_and_other_partitions_are_seen() -> None:
    at_rest = [replace(partition(number), topic=name, position=100) for name, number in PLACES]
    first = View(full(link(*at_rest)))
    stopped = [*at_rest[:5], replace(at_rest[5], state=State.STOPPED)]
    view = View(full(link(*stopped)), first).links["A->B"]
    assert view.states == {State.RUNNING: 5, State.STOPPED: 1}
    assert view.topics[2].state is State.STOPPED
    assert [
        row.partitions for row in View(full(link(*at_rest[:5])), first).links["A->B"].topics
    ] == [2, 2, 1]
    # As many as before, of other topics.
    others = [replace(each, topic="d") if each.topic == "c" else each for each in at_rest]
    names = [row.topic for row in View(full(link(*others)), first).links["A->B"].topics]
    assert names == ["a", "b", "d"]


def test_a_lag_grows_older_while_nothing_moves() -> None:
    lagging = partition(0)
    first = View(full(link(lagging)))
    later = View(replace(full(link(lagging)), taken_at=NOW + 5), first)
    assert [view.links["A->B"].topics[0].lag_ms for view in (first, later)] == [5_000, 10_000]
