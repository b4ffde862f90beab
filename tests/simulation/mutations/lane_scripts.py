"""As scripts.py, for lanes alone."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from causeway.model import State
from causeway.wire import apis
from tests.harness.simulated_brokers import LATE_S, SOURCE, Late
from tests.harness.simulated_driver import SimulatedDriver
from tests.harness.simulated_lane import EVENTS

_STEP_S: Final = 0.1
_MOST_S: Final = 60.0


def _has_markers(connection: Any) -> bool:
    return any(
        int.from_bytes(frame[4:6]) == apis.WRITE_TXN_MARKERS.key for frame in connection.under_way
    )


def _step(driver: SimulatedDriver, waits: Callable[[Any], bool]) -> None:
    """All brokers answer, except on connections that `waits` names."""
    driver.clock.now += _STEP_S
    driver.lane.turn()
    for connection in list(driver.brokers.connections):
        if not waits(connection):
            for _ in range(len(connection.under_way)):
                connection.serve_next()
            driver.lane.happens(connection, EVENTS)
    while driver.lane.helpers.step():
        pass
    driver.hear()


def _until(driver: SimulatedDriver, so: Callable[[], bool], waits: Callable[[Any], bool]) -> None:
    end = driver.clock.now + _MOST_S
    while not so() and driver.clock.now < end:
        _step(driver, waits)


def _die_with_markers(driver: SimulatedDriver, for_s: float) -> None:
    """A lane dies while its markers are on their way: they may arrive for so many seconds."""
    brokers = driver.brokers
    brokers.faulty = False
    _until(driver, lambda: any(map(_has_markers, brokers.live)), _has_markers)
    for connection in filter(_has_markers, brokers.live):
        on_the_way = deque(connection.under_way)
        brokers.late.append(Late(connection.serve, on_the_way, driver.clock.now + for_s))
        connection.under_way.clear()
        connection.dead = True
    driver.succeed()


def _serve_late(driver: SimulatedDriver) -> None:
    while driver.brokers.late:
        driver.brokers.serve_late()
    driver.relay_the_rest()


def markers_between_two_recoveries(driver: SimulatedDriver) -> None:
    """A lane dies while its markers are on their way. The next lane recovers. Before it knows of a
    gap, other brokers lead the source, so it recovers again. Then the markers arrive."""
    _die_with_markers(driver, LATE_S)

    def runs() -> bool:
        return all(flow.state is State.RUNNING for flow in driver.lane.flows.values())

    _until(driver, runs, lambda connection: connection.cluster == SOURCE)
    for log in driver.brokers.sources.values():
        log.lead((log.node + 1) % driver.setting.kind.brokers, told=True)
    for _ in range(30):
        _step(driver, lambda _: False)
    _serve_late(driver)


def markers_before_the_first(driver: SimulatedDriver) -> None:
    """A lane dies while its markers are on their way. They arrive right before the first ones of
    the next lane."""
    _die_with_markers(driver, LATE_S)
    _until(driver, lambda: any(map(_has_markers, driver.brokers.live)), _has_markers)
    _serve_late(driver)


def markers_after_all(driver: SimulatedDriver) -> None:
    """A lane dies while its markers are on their way. They arrive after any time-out."""
    _die_with_markers(driver, math.inf)
    _until(driver, driver.has_relayed, lambda _: False)
    _serve_late(driver)
