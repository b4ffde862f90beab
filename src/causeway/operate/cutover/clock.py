"""The clock of the driver that leads. That driver lifts fences, so its clock measures their time.

A driver writes its own time into each renewal of its lease. A renewal is read a moment later, so
the clock seems a little behind. Of several renewals the one that seems furthest ahead is nearest to
the truth. A renewal is no older than a third of the lease, and a watch sees it within a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from causeway.link_topics import LeaseRecord
from causeway.status.from_clusters import Driver, driver_of

_RENEWALS: Final = 3  # the newest ones count, so that a corrected clock counts soon


class DriverClock:
    """Of one link. `driver`: who led at the last look, by that clock. Not thread-safe."""

    def __init__(self) -> None:
        self._seen: LeaseRecord | None = None
        self._ahead: deque[int] = deque(maxlen=_RENEWALS)
        self.is_known = False  # true once a renewal was seen to arrive
        self.driver: Driver | None = None

    def see(self, leases: list[LeaseRecord], now_ms: int) -> None:
        """All leases, the newest last, as they were read at `now_ms` of this machine."""
        self._note(leases, now_ms)
        known = max(self._ahead, default=0)
        self.driver = driver_of(leases, now_ms + known)

    def _note(self, leases: Sequence[LeaseRecord], now_ms: int) -> None:
        newest, before = leases[-1] if leases else None, self._seen
        self._seen = newest
        if newest is None or before is None or newest.owner != before.owner:
            self._ahead.clear()
            self.is_known = False
        if newest is None or newest == before:
            return
        renewed = before is not None and newest.owner == before.owner
        self.is_known |= renewed
        fresh = driver_of([newest], now_ms)
        if renewed or (fresh is not None and fresh.running):
            self._ahead.append(newest.written_at - now_ms)

    @property
    def ahead_ms(self) -> int:
        """By how much it is ahead of this machine's clock; 0 where no driver runs."""
        running = self.driver is not None and self.driver.running
        return max(self._ahead, default=0) if running else 0
