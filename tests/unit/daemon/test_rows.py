from __future__ import annotations

import threading
from typing import Any

import pytest

from causeway.control import Held
from causeway.daemon.partitions import Registry, Row
from causeway.link_topics import Filled, OffsetMap, OffsetMapRecord
from causeway.model import Pair, State
from causeway.relay import Trace
from causeway.status import Preserving
from causeway.translation import CourseKey
from tests.builders.daemon import MIRROR, holds, outlet, row, says


def test_a_last_stable_offset_that_stays_while_the_log_grows_is_reported() -> None:
    it = row()
    it.take_report(holds(140))
    begun = it.heard_at
    assert it.held(begun + 59) is None
    it.take_report(holds(150))

    assert it.held(begun + 61) == Held(100, 150, 61_000)

    assert it.hold is not None
    it.hold.reason = "whose it is"
    status = it.status(begun + 61, 0)
    assert (status.lag_records, status.held_records, status.held_ms) == (0, 50, 61_000)
    assert (status.state, status.reason) == (State.RUNNING, "whose it is")


def test_it_is_no_news_once_it_moves_on_or_nothing_is_behind_it() -> None:
    for after in (holds(150, 120), holds(150, 150), says(State.FAILED, 100, "no answer")):
        it = row()
        it.take_report(holds(140))
        begun = it.heard_at
        it.take_report(after)
        assert it.held(begun + 59) is None
        assert it.status(begun + 59, 0).reason in (None, "no answer")
    it = row()
    it.take_report(holds(140))
    it.take_report(holds(150, 150))
    assert it.status(it.heard_at + 90, 0).held_ms == 0


@pytest.mark.parametrize("round_s", [1.0, 10.0])
def test_rates_are_shown_until_the_next_report_of_a_moving_partition_is_overdue(
    round_s: float,
) -> None:
    it = row()
    report = says(State.RUNNING, 10)
    it.take_report(report.replace(records_per_s=5.0, bytes_per_s=500.0, round_s=round_s))
    status = it.status(it.heard_at + round_s + 1.0, 0)
    assert (status.records_per_s, status.bytes_per_s) == (5.0, 500.0)
    status = it.status(it.heard_at + round_s + 3.0, 0)
    assert (status.records_per_s, status.bytes_per_s) == (0.0, 0.0)


def test_a_stopped_partition_stays_stopped_despite_late_reports() -> None:
    it = row()
    it.take_report(says(State.RUNNING, 10))
    it.stop(it.progress.replace(state=State.STOPPED, reason="deleted"))
    it.dirty = False

    it.take_report(says(State.RECOVERING, 20))

    assert (it.progress.state, it.progress.reason) == (State.STOPPED, "deleted")
    assert it.progress.outlets[0].pair.source == 20, "its last word on where it stood counts"
    assert it.dirty
    assert it.lane is None


def test_what_is_paused_stays_so_though_an_earlier_terms_lane_lets_go_of_it_late() -> None:
    it = row()
    it.put_on_hold(State.PAUSED, "paused by anna@ops")
    it.take_report(says(State.RUNNING, 20))
    progress = it.progress
    assert (progress.state, progress.reason) == (State.PAUSED, "paused by anna@ops")
    assert (progress.position, it.lane) == (20, None)
    it.take_report(says(State.STOPPED, 20, "diverged"))
    assert it.progress.state is State.STOPPED


def test_a_position_goes_back_only_where_a_lane_has_found_its_place() -> None:
    it = row()
    it.take_report(says(State.RUNNING, 50))

    it.take_report(says(State.RECOVERING, 30))
    assert it.progress.position == 50
    it.take_report(says(State.RUNNING, 30))
    assert it.progress.position == 30


def test_a_moment_of_recovery_is_not_written() -> None:
    it = row()
    it.take_report(says(State.RECOVERING, 0))
    assert not it.dirty
    it.take_report(says(State.FAILED, 0, "broker down"))
    assert it.dirty


def test_each_failure_counts_once_however_often_it_is_reported() -> None:
    it = row()
    for state in (State.FAILED, State.FAILED, State.RUNNING, State.FAILED):
        it.take_report(says(state, 0, "broker down" if state is State.FAILED else None))
    assert it.status(0.0, 0).failures == 2


def test_a_lane_of_an_older_claim_is_not_believed() -> None:
    it = row()
    it.take_report(says(State.RUNNING, 10))
    claimed = outlet(10).replace(producer_id=2)
    it.progress = it.progress.replace(outlets=(claimed,))
    it.dirty = False

    it.take_report(says(State.RUNNING, 20))

    assert it.progress.outlets == (claimed,)
    assert it.progress.position == 10
    assert not it.dirty


def test_what_the_target_lost_is_forgotten_at_once_though_it_has_got_more_since() -> None:
    """By everybody: the next leader would find the old map with a later position."""
    it = row(State.RUNNING)
    known = OffsetMap([Pair(0, 0, 0), Pair(40, 40, 40)])
    it.maps = {MIRROR: known}
    registry = Registry("A->B")
    registry.add([it])
    registry.take_dirty()
    known.changed = False

    report = says(State.RUNNING, 60).report.replace(
        traces=(Trace(resumed=Pair(30, 30, 30), breaks=(Pair(30, 33, 30),)),)
    )
    registry.take_reports([says(State.RUNNING, 60).replace(report=report)])

    places = registry.place(CourseKey(it.progress.source, MIRROR), [20, 35, 60])
    assert places is not None
    assert places[35] != 35
    assert [m.rewinds for m in registry.courses()] == [1]
    rows, entries = registry.take_dirty()
    assert any(isinstance(entry, OffsetMapRecord) for entry in entries)
    registry.give_back(rows)
    _, entries = registry.take_dirty()
    assert any(isinstance(entry, OffsetMapRecord) for entry in entries)
    it.dirty = known.changed = True
    _, entries = registry.take_dirty()
    assert not any(isinstance(entry, OffsetMapRecord) for entry in entries), "once is enough"


def test_who_looks_at_all_rows_keeps_no_report_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry("A->B")
    registry.add([row(State.RUNNING)])

    def amid_a_report(it: Row, *_: object) -> Any:
        report = threading.Thread(target=registry.take_reports, args=([says(State.RUNNING, 20)],))
        report.daemon = True
        report.start()
        report.join(60)
        return it.progress.position

    monkeypatch.setattr(Row, "status", amid_a_report)
    found: tuple[Any, ...] = registry.status()
    assert found == (20,)


def test_it_is_placed_once_a_lane_has_found_its_place() -> None:
    it = row()
    it.take_report(says(State.RECOVERING, 0))
    assert not it.placed
    it.take_report(says(State.RUNNING, 10))
    it.wait()
    assert it.placed, "another lane will find what this one has found"


def test_the_time_that_an_open_transaction_holds_records_back_grows() -> None:
    it = row()
    it.take_report(holds(140))
    first, later = (it.status(it.heard_at + seconds, 0).held_ms for seconds in (100.0, 200.0))
    assert later - first == 100_000


def test_the_beginning_of_a_partition_that_preserves_offsets_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = row()
    it.progress = it.progress.replace(offsets_from=90)
    now = 1_000.0
    monkeypatch.setattr("causeway.daemon.partitions.rows.time.monotonic", lambda: now)
    it.take_report(says(State.RUNNING, 10))
    assert it.status(now, 0).reason == "its beginning is filled: 11% of 90 offsets"
    now = 1_004.0
    it.take_report(says(State.RUNNING, 30).replace(filled=Filled(beginning=30)))

    status = it.status(now, 0)

    assert status.preserving == Preserving(
        offsets_from=90, filled_to=30, per_s=5.0, filled=Filled(beginning=30)
    )
    assert status.reason == "its beginning is filled: 33% of 90 offsets, about 12 s left"
    assert (status.mirrored_to, status.lag_records) == (90, 10), "filler is no lag"
    it.take_report(says(State.RUNNING, 95))
    status = it.status(now, 0)
    assert status.preserving == Preserving(offsets_from=90)
    assert (status.reason, status.mirrored_to, status.lag_records) == (None, 95, 5)
