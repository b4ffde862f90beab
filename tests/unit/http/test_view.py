"""A look at the run, and what the next one takes over from it."""

from __future__ import annotations

from dataclasses import replace

from causeway.http.view import View
from causeway.model import State
from tests.unit.metrics.snapshots import NOW, full, link, partition


def test_what_has_not_changed_is_not_reckoned_again() -> None:
    still = [replace(partition(number), position=100) for number in range(3)]
    first = View(full(link(*still)))
    second = View(replace(full(link(*still)), taken_at=NOW + 5), first)
    assert second.links["A->B"].topics is first.links["A->B"].topics
    assert second.links["A->B"].states == {State.RUNNING: 3}
    assert second.now_ms == first.now_ms + 5000


def test_what_has_changed_is() -> None:
    still = [replace(partition(number), position=100) for number in range(3)]
    first = View(full(link(*still)))
    stopped = [*still[:2], replace(still[2], state=State.STOPPED)]
    assert View(full(link(*stopped)), first).links["A->B"].states[State.STOPPED] == 1
    (topic,) = View(full(link(*still[:2])), first).links["A->B"].topics
    assert topic.partitions == 2


def test_a_lag_grows_older_while_nothing_moves() -> None:
    lagging = partition(0)
    first = View(full(link(lagging)))
    later = View(replace(full(link(lagging)), taken_at=NOW + 5), first)
    assert [view.links["A->B"].topics[0].lag_ms for view in (first, later)] == [5_000, 10_000]
