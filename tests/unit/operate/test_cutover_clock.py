"""A fence's time is measured on the driver's clock, which may differ from this machine's."""

from __future__ import annotations

import pytest

from causeway.control import fences
from causeway.link_topics import FenceDirective, LeaseRecord, LinkDirectives
from causeway.operate.cutover import CutoverEnd
from causeway.operate.cutover.observe import DriverClock
from tests.builders.cutover import ENDED, Clusters, look, made, run_to_end

__all__ = ["made"]  # a fixture that each test has

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


def lease(written_at: int, *, owner: str = "host-1", released: bool = False) -> LeaseRecord:
    return LeaseRecord(
        link="A->B",
        owner=owner,
        producer_id=1,
        producer_epoch=0,
        lease_s=10,
        written_at=written_at,
        released=released,
    )


def test_a_driver_whose_clock_is_ahead() -> None:
    clock = DriverClock()
    clock.see([lease(NOW + HOUR_MS - 3_000)], NOW)
    assert clock.ahead_ms == HOUR_MS - 3_000
    clock.see([lease(NOW + HOUR_MS - 3_000)], NOW + 400)
    assert clock.ahead_ms == HOUR_MS - 3_000, "the same renewal is no older clock"
    assert not clock.is_known, "the renewal may be as old as a third of the lease"
    clock.see([lease(NOW + HOUR_MS + 500)], NOW + 600)
    assert clock.is_known
    assert clock.ahead_ms == HOUR_MS - 100
    assert clock.driver is not None
    assert clock.driver.running


def test_a_driver_whose_clock_is_behind_runs_as_its_renewals_tell() -> None:
    clock = DriverClock()
    clock.see([lease(NOW - HOUR_MS)], NOW)
    assert clock.ahead_ms == 0, "it may have died an hour ago"
    clock.see([lease(NOW - HOUR_MS + 3_300)], NOW + 3_400)
    assert clock.ahead_ms == -HOUR_MS - 100
    assert clock.driver is not None
    assert clock.driver.running


def test_without_a_running_driver_this_machine_s_clock_counts() -> None:
    clock = DriverClock()
    clock.see([], NOW)
    assert (clock.driver, clock.ahead_ms) == (None, 0)
    clock.see([lease(NOW + HOUR_MS)], NOW)
    clock.see([lease(NOW + HOUR_MS)], NOW + 21_000)
    assert clock.ahead_ms == 0, "it has not renewed its lease for two of them"
    clock.see([lease(NOW + HOUR_MS, released=True)], NOW)
    assert clock.ahead_ms == 0


def test_another_driver_has_another_clock() -> None:
    clock = DriverClock()
    clock.see([lease(NOW + HOUR_MS)], NOW)
    clock.see([lease(NOW + HOUR_MS), lease(NOW + 50, owner="host-2")], NOW + 60)
    assert clock.ahead_ms == -10
    assert not clock.is_known


def test_a_fence_lasts_as_long_as_was_asked_by_the_clock_of_the_driver_that_lifts_it(
    monkeypatch: pytest.MonkeyPatch, made: list[FenceDirective]
) -> None:
    """The driver's clock is an hour ahead: by this machine's it would have been over at once."""
    monkeypatch.setattr("time.time", lambda: NOW / 1000)
    first = look()
    waiting = Clusters(first, ahead_ms=HOUR_MS)
    waiting.knows_clock = False
    assert run_to_end(waiting, first).end is CutoverEnd.TIMEOUT
    assert not made, "the clock is not known yet"
    assert run_to_end(Clusters(first, ENDED, ahead_ms=HOUR_MS), first).end is CutoverEnd.DONE

    (fence,) = made
    directives = LinkDirectives({fence.key: fence})
    by_the_driver = NOW + HOUR_MS
    assert fences.expired(directives, by_the_driver + 299_000) == ()
    assert fences.expired(directives, by_the_driver + 300_000) == (fence,)
