"""A bounded run does not wait for its first lane for ever."""

from __future__ import annotations

import pytest

from causeway.daemon.startup import FirstLane
from causeway.errors import PrerequisiteError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr("causeway.daemon.startup.time.monotonic", lambda: now[0])
    return now


def test_lanes_that_end_before_they_come_end_the_run(clock: list[float]) -> None:
    """A minute after the first was launched, with the reason of the newest."""
    lane = FirstLane()
    lane.check(launched=0, connected=0, trouble=None)
    clock[0] += 3_600
    lane.check(launched=2, connected=0, trouble=None)
    clock[0] += 59
    lane.check(launched=2, connected=0, trouble="lane 1 ended: ImportError")
    clock[0] += 2
    with pytest.raises(PrerequisiteError, match="none connected in 61 s: lane 1 ended"):
        lane.check(launched=2, connected=0, trouble="lane 1 ended: ImportError")


def test_lanes_that_spark_never_starts_end_the_run_later(clock: list[float]) -> None:
    lane = FirstLane()
    lane.check(launched=1, connected=0, trouble=None)
    clock[0] += 599
    lane.check(launched=1, connected=0, trouble=None)
    clock[0] += 2
    with pytest.raises(PrerequisiteError, match="Spark started no task"):
        lane.check(launched=1, connected=0, trouble=None)


def test_once_one_has_come_others_may_be_lost(clock: list[float]) -> None:
    lane = FirstLane()
    lane.check(launched=1, connected=1, trouble=None)
    clock[0] += 3_600
    lane.check(launched=1, connected=0, trouble="lane 0 ended: it was killed")
