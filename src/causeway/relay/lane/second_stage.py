"""A second stage of a transform, for partitions on whose records the first one gave no answer.

    first stage ── no answer in time ──► all works of the first owner ──► second stage
      ▲                                                                     │
      └── the owner has nothing there, and hung nothing there for PROBATION_S ◄┘

So the search for the record holds up no other partition: a new attempt of the first stage treats
them. A cluster may have a core for only one of the two stages. Then the second one ends, and the
first one treats all partitions for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from causeway.relay.lane.chunks import Work
from causeway.relay.lane.stage import Stage

PROBATION_S = 600.0  # after a slow record, others like it may follow
LINGERS_S = 60.0  # before a second stage ends that no partition needs
SPARE_S = 120.0  # within which both stages must be ready


class FirstStage(Stage):
    """A stage that hands over to a second one the owners that it hangs on. `make_second` makes that
    stage, which reports the owner of a work that it hung on."""

    def __init__(
        self, *given: Any, make_second: Callable[[Callable[[object], None]], Stage]
    ) -> None:
        self._make_second = make_second
        self._without_until = 0.0  # monotonic: there is no core for a second stage
        self.second: Stage | None = None  # while it is needed
        self._owners: dict[object, float] = {}  # until when they stay there, monotonic
        self._second_needed_at = 0.0
        super().__init__(*given)

    @property
    def size(self) -> int:
        return self.chunks.size + (0 if self.second is None else self.second.size)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self,) if self.second is None else (self, self.second)

    def submit(self, work: Work) -> None:
        if self.second is not None and work.owner in self._owners:
            self.second.submit(work)
        else:
            super().submit(work)

    def cancel(self, owner: object) -> None:
        super().cancel(owner)
        if self.second is not None:
            self.second.cancel(owner)
        if not self._owners.get(owner):
            self._owners.pop(owner, None)

    def turn_second(self, now: float) -> None:
        second = self.second
        if second is None:
            return
        for owner, until in list(self._owners.items()):
            if now > until and not second.has(owner):
                del self._owners[owner]
        if self._owners or second.size:
            self._second_needed_at = now
        elif now > self._second_needed_at + LINGERS_S:
            self._close_second()
            return
        second.turn(now)
        self.answered_at = max(self.answered_at, second.answered_at)
        if now - min(self.ready_at, second.ready_at) > SPARE_S:
            self._without_until = now + PROBATION_S
            self.chunks.take_over(second.chunks)
            self._close_second()

    def close(self) -> None:
        self._close_second()
        super().close()

    def lost_by_hang(self) -> None:
        if time.monotonic() < self._without_until:
            super().lost_by_hang()
            return
        works = self.chunks.give_up()
        if not works:
            return
        self._owners.setdefault(works[0].owner, 0.0)
        if self.second is None:
            self.second = self._make_second(self._second_hung)
        self.second.suspect(works)

    def _close_second(self) -> None:
        second, self.second = self.second, None
        self._owners.clear()
        if second is not None:
            second.close()

    def _second_hung(self, owner: object) -> None:
        if owner in self._owners:
            self._owners[owner] = time.monotonic() + PROBATION_S
