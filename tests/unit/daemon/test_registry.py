from __future__ import annotations

import logging

import pytest

from causeway.control import Held
from causeway.daemon.lanes import ReportedPartition
from causeway.daemon.partitions import Registry, rows
from causeway.link_topics import PartitionProgress, ProgressContents
from causeway.model import State, TopicPartition
from causeway.relay import Trace
from tests.builders.daemon import holds, row, says

AT = TopicPartition("orders", 0)


def test_what_is_held_gets_its_reason_while_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("causeway.control.open_transactions.HELD_MS", 0)
    registry = Registry("A->B")
    registry.add([row()])
    registry.take_reports([holds(140)])

    held = registry.held()

    assert held[AT][:2] == (100, 140)
    with caplog.at_level(logging.WARNING, "causeway.link"):
        registry.explain(held, {AT: "whose it is"})
        registry.explain(held, {AT: "whose it is, a minute later"})
    assert [record.message for record in caplog.records] == ["partition held"], "said once"
    registry.take_reports([holds(150, 120)])
    registry.explain({AT: Held(100, 140, 0)}, {AT: "late news"})
    assert [each.reason for each in registry.status()] == [None]


def test_all_that_is_known_is_written_again_where_progress_was_lost() -> None:
    """Also what the file leaves out by now: its claim must be found when it comes back."""
    ours = row()
    left_out = ours.progress.replace(topic="payments")
    registry = Registry("A->B")
    registry.begin(ProgressContents(partitions={AT: ours.progress, left_out.source: left_out}))
    registry.add([ours])
    assert registry.take_dirty()[1] == []

    registry.mark_all_dirty()

    written = [entry for entry in registry.take_dirty()[1] if isinstance(entry, PartitionProgress)]
    assert {entry.source for entry in written} == {AT, left_out.source}
    assert registry.take_dirty()[1] == []


def test_the_newest_pairs_of_moved_partitions_are_reported_once() -> None:
    registry = Registry("A->B")
    registry.add([row(), *(_other(number) for number in (1, 2))])
    for number in range(3):
        registry.take_reports([_reaches(number, 10)])
    assert len(registry.newest(moved=False)) == 3
    registry.take_reports([_reaches(1, 20)])

    assert registry.newest(moved=True) == {AT._replace(partition=1): (19, 19)}
    assert registry.newest(moved=True) == {}
    assert registry.newest(moved=False)[AT] == (9, 9)


def test_the_status_stays_sorted_as_partitions_come_and_go() -> None:
    registry = Registry("A->B")
    registry.add([_other(number) for number in (2, 0)])
    assert [each.partition for each in registry.status()] == [0, 2]
    registry.add([_other(1)])
    assert [each.partition for each in registry.status()] == [0, 1, 2]
    registry.set_aside([AT])
    assert [each.partition for each in registry.status()] == [1, 2]
    registry.let_go(registry.get([AT._replace(partition=2)]))
    assert [each.partition for each in registry.status()] == [1]
    registry.clear()
    assert registry.status() == ()


def test_positions_are_those_of_what_goes_on() -> None:
    registry = Registry("A->B")
    registry.add([_other(number) for number in (0, 1)])
    registry.take_reports([_reaches(0, 10), _reaches(1, 20)])
    registry.stop({AT: "why"})
    assert registry.positions() == {AT._replace(partition=1): 20}


def _other(number: int) -> rows.Row:
    it = row()
    it.progress = it.progress.replace(partition=number)
    return it


def _reaches(number: int, position: int) -> ReportedPartition:
    reported = says(State.RUNNING, position)
    news = {"partition": number, "traces": (Trace(newest=(position - 1, position - 1)),)}
    return reported.replace(report=reported.report.replace(**news))


def test_what_has_ended_is_stopped_where_nothing_else_says_so() -> None:
    """Whether it was taken up by now or not."""
    ended, left = row(State.FAILED_OVER), row(State.PROMOTED).progress.replace(topic="payments")
    known = row(State.PROMOTED).progress.replace(topic="known")
    registry = Registry("A->B")
    registry.begin(ProgressContents(partitions={each.source: each for each in (left, known)}))
    registry.add([ended])
    assert registry.stop_ended(lambda at: at.topic == "known", "but nothing says so") == 2
    (status,) = registry.status()
    assert (status.state, status.reason) == (
        State.STOPPED,
        "its mirror was failed over, but nothing says so",
    )
    written = {
        e.topic: e.state for e in registry.take_dirty()[1] if isinstance(e, PartitionProgress)
    }
    assert written == {
        "orders": State.STOPPED,
        "payments": State.STOPPED,
        "known": State.PROMOTED,
    }
