"""Reasons of flows that wait because a broker throttles this client by a quota.

A throttled flow stays running: nothing failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from causeway.model import State
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.reader import SourceConnection
from causeway.relay.lane.target import TargetConnection
from causeway.wire import throttled_text

LEAST_S: Final = 1.0  # at a quota's edge brokers throttle for milliseconds all the time
LOOK_S: Final = 0.5
SHOWN_S: Final = 2.0  # after the throttle ends: the next answer tells whether it goes on


class _Shown(NamedTuple):
    reason: str
    until: float  # monotonic


class Quotas:
    """Not thread-safe; belongs to one lane's loop. Flows whose reason changes are put in
    `touched`."""

    def __init__(self, touched: dict[Flow, None]) -> None:
        self._touched = touched
        self._shown: dict[Flow, _Shown] = {}
        self._look_at = 0.0

    def look(self, connections: Iterable[SourceConnection | TargetConnection], now: float) -> None:
        """Each LOOK_S: sets the reason of flows that `connections` hold up, and clears old ones."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        for connection in connections:
            if connection.throttled_until >= now + LEAST_S:
                self._note(connection, now)
        for flow, shown in list(self._shown.items()):
            if now >= shown.until:
                del self._shown[flow]
                if flow.reason == shown.reason:
                    self._say(flow, None)

    def _note(self, held_by: SourceConnection | TargetConnection, now: float) -> None:
        until = held_by.throttled_until + SHOWN_S
        reason = f"{throttled_text(held_by.throttled_until - now)}, by {held_by.connection}"
        for flow in held_by.held_up():
            shown = self._shown.get(flow)
            told = shown is not None and shown.until >= until
            if isinstance(held_by, TargetConnection):
                flow.throttled_until = max(flow.throttled_until, held_by.read_by)
            if flow.state is State.RUNNING and not flow.leaving and not told:
                self._shown[flow] = _Shown(reason, until)
                self._say(flow, reason)

    def _say(self, flow: Flow, reason: str | None) -> None:
        flow.reason = reason
        flow.changed = True
        self._touched[flow] = None
