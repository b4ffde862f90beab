"""Are we done? By what the clusters say; no broker takes part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config import RunSettings, Settings
from causeway.errors import AuthorizationError, CausewayError, ConfigError, UnreachableError
from causeway.model import State
from causeway.operate import wait as waits
from causeway.operate.wait import Waited, Waiting, Want, judge, wait
from causeway.status import (
    LAGS,
    NO_DRIVER,
    SOURCE_UNAVAILABLE,
    DriverStatus,
    LinkProblem,
    LinkStatus,
    PartitionStatus,
    Preserving,
    verdict,
)
from tests.builders.settings import link
from tests.builders.status import KEPT
from tests.harness.statuses import ends

SETTINGS = Settings(links=(link(),), run=RunSettings(), spark={})
RUNNING = DriverStatus(owner="host-1", running=True, last_seen_ms=0)


def partition(number: int = 0, **more: Any) -> PartitionStatus:
    given: dict[str, Any] = {
        "topic": "orders",
        "partition": number,
        "target_topic": "A.orders",
        "source_end": 10,
        "mirrored_to": 10,
        "lag_records": 0,
        "lag_ms": 0,
        "state": State.RUNNING,
        "reason": None,
        **more,
    }
    return PartitionStatus(**given)


def of(
    *partitions: PartitionStatus, driver: DriverStatus | None = RUNNING, **more: Any
) -> LinkStatus:
    given: dict[str, Any] = {"problems": (), **more}
    return LinkStatus(**ends(link()), driver=driver, partitions=partitions, **given)


def reached(*partitions: PartitionStatus, want: Want | None = None, **more: Any) -> bool:
    return judge([of(*partitions, **more)], want or Want(), 0).reached


def test_all_is_there_when_no_partition_lacks_more_than_is_allowed() -> None:
    assert reached(partition(), partition(1))
    assert not reached(partition(), partition(1, lag_records=1))
    assert reached(partition(lag_records=5), want=Want(lag=5))
    assert not reached(partition(lag_records=None)), "not known is not done"
    assert reached(partition(), partition(1, gone_ms=0, lag_records=None, state=State.STOPPED))
    assert reached(partition(state=NO_DRIVER)), "also after the run that did it has ended"


def test_a_stopped_partition_is_not_done_even_without_lag() -> None:
    seen = judge([of(partition(state=State.STOPPED, reason="truncated"))], Want(), 0)
    assert (seen.reached, seen.stopped) == (False, True)
    assert seen.stuck == ("A->B orders-0 stopped: truncated",)


def test_a_state_can_be_waited_for_with_any_lag_or_with_one() -> None:
    paused = partition(state=State.PAUSED, lag_records=7)
    assert reached(paused, want=Want(lag=None, state="paused"))
    assert not reached(paused, want=Want(lag=0, state="paused"))
    assert not reached(partition(), paused, want=Want(lag=None, state="paused"))
    assert reached(partition(), partition(1, state=State.DONE), want=Want(state="mirroring"))


def test_a_topic_that_cannot_be_mirrored_is_not_done() -> None:
    problem = LinkProblem(topic="bills", reason=str(AuthorizationError("look up topic", "bills")))
    assert not reached(partition(), problems=(problem,))
    of_one_that_is = LinkProblem(
        topic="orders", reason=str(AuthorizationError("describe", "orders"))
    )
    assert reached(partition(), problems=(of_one_that_is,)), "it is mirrored all the same"


def test_heartbeats_are_not_waited_for_beside_other_topics() -> None:
    """A driver writes one every second: the last is always yet to come."""
    beat = partition(topic="heartbeats", lag_records=1, heartbeats=True)
    seen = judge([of(partition(), beat)], Want(), 0)
    assert (seen.reached, seen.partitions, seen.lag_records) == (True, 1, 0)
    assert verdict([of(partition(), beat)], 0) == 0
    assert not reached(beat), "nothing else was asked for"
    assert verdict([of(beat)], 0) == LAGS
    ended = partition(state=State.PROMOTED)
    assert reached(ended, beat, want=Want(lag=None, state="promoted")), "they never end"


def test_nothing_to_wait_for_is_an_error_and_not_a_success() -> None:
    with pytest.raises(ConfigError, match="mirrors nothing"):
        judge([of()], Want(), 0)


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep, time=lambda: 5.0)
        monkeypatch.setattr(waits, "time", clock)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    @contextmanager
    def nowhere() -> Iterator[None]:
        yield

    monkeypatch.setattr(waits, "clusters", nowhere)
    return Clock(monkeypatch)


def run(
    monkeypatch: pytest.MonkeyPatch, *looks: LinkStatus | CausewayError, **more: Any
) -> tuple[Waited, list[Waiting | CausewayError]]:
    """The last look is what every later one sees."""
    left, told = list(looks), list[Waiting | CausewayError]()

    def look(*_: object) -> LinkStatus:
        seen = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(seen, CausewayError):
            raise seen
        return seen

    monkeypatch.setattr(waits, "status_of", look)
    return wait(SETTINGS, Want(), on_look=told.append, **more), told


def test_it_ends_when_it_is_done_and_tells_pace_and_time_left(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    looks = [of(partition(lag_records=lag)) for lag in (1000, 900, 0)]

    waited, told = run(monkeypatch, *looks)

    assert (waited.code, waited.reason, waited.waited_s) == (0, None, 1.0)
    assert [cast(Waiting, each).records_per_s for each in told] == [None, 200.0]
    assert cast(Waiting, told[1]).eta_s == 4.5


def test_it_ends_in_time_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    waited, _ = run(monkeypatch, of(partition(lag_records=3), driver=None), timeout_s=10)

    assert (waited.code, waited.waited_s) == (11, 10.0)
    assert waited.reason == "1 of 1 partitions are not there yet; no driver runs"
    found = waits.as_json(waited)
    assert (found["reached"], found["behind"][0]["lag_records"]) == (False, 3)


def test_without_a_limit_it_waits_for_a_driver_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    idle, driven = of(partition(lag_records=3), driver=None), of(partition(lag_records=3))

    waited, _ = run(monkeypatch, idle)
    assert (waited.code, waited.waited_s) == (9, waits.UNDRIVEN_S)
    assert "no driver has run for 10 minutes" in str(waited.reason)
    waited, _ = run(monkeypatch, idle, *[driven] * 5000, of(partition()))
    assert waited.code == 0, "one has come, and takes its time"
    waited, _ = run(monkeypatch, idle, timeout_s=2 * waits.UNDRIVEN_S)
    assert (waited.code, waited.waited_s) == (11, 2 * waits.UNDRIVEN_S)


def test_no_time_at_all_is_one_look(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    waited, told = run(monkeypatch, of(partition(lag_records=3)), timeout_s=0)
    assert (waited.code, len(told)) == (11, 1)


def test_what_stopped_ends_it_at_once_and_what_fails_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    stopped = of(partition(lag_records=1, state=State.STOPPED, reason="truncated"))
    failed = of(partition(lag_records=1, state=State.FAILED, reason="a broker is down"))

    waited, _ = run(monkeypatch, stopped)
    assert (waited.code, waited.waited_s) == (7, 0.0)
    assert "truncated" in str(waited.reason)
    waited, _ = run(monkeypatch, failed)
    assert (waited.code, waited.waited_s) == (7, 60.0)
    waited, _ = run(monkeypatch, *[failed] * 100, of(partition()))
    assert waited.code == 0, "what fails is tried again by itself"


def test_a_cluster_that_goes_away_meanwhile_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    gone = UnreachableError("connect to", "A", retriable=True)

    waited, told = run(monkeypatch, of(partition(lag_records=1)), gone, of(partition()))
    assert waited.code == 0
    assert told[1] is gone
    with pytest.raises(UnreachableError):
        run(monkeypatch, of(partition(lag_records=1)), gone, timeout_s=5)
    with pytest.raises(UnreachableError):
        run(monkeypatch, gone, of(partition()))


def test_a_state_that_is_none_is_refused(clock: Clock) -> None:
    with pytest.raises(ConfigError, match="like it: running"):
        wait(SETTINGS, Want(state="runing"))


def test_what_a_source_that_is_away_had_proves_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    away = of(partition(state=SOURCE_UNAVAILABLE), unavailable="no broker answered")
    monkeypatch.setattr(waits, "status_of", lambda *_: away)
    look: Any = waits._look
    with pytest.raises(UnreachableError, match="no broker answered"):
        look([link()], None, SETTINGS, None, Want())
    by_state = Want(lag=None, state=SOURCE_UNAVAILABLE)
    assert look([link()], None, SETTINGS, None, by_state).reached


def test_a_partition_whose_beginning_is_filled_is_not_there_yet() -> None:
    assert not reached(partition(preserving=KEPT))
    assert reached(partition(preserving=Preserving(offsets_from=5)))
    assert reached(partition(preserving=KEPT), want=Want(lag=None, state=State.RUNNING))
