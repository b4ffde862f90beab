"""A second stage of a transform, for partitions on whose records the first one gave no answer.

    stage ── no answer in time ──► what the first owner has under way and waiting ──► aside
      ▲                                                                                │
      └──── the owner has nothing there, and hung nothing there for PROBATION_S ◄──────┘

So the search for the record holds up no other partition: a new attempt of the first stage treats
them. A cluster may have a core for only one of the two stages. Then the second one ends, and the
first one treats all partitions for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from causeway.relay.lane.chunks import Chunks, Work

if TYPE_CHECKING:
    from causeway.relay.lane.stage import Stage

PROBATION_S = 600.0  # after a slow record, others like it may follow
LINGERS_S = 60.0  # before a second stage ends that no partition needs
SPARE_S = 120.0  # within which both stages must be ready


class Aside:
    """`make`: makes a stage, which reports the owner of a work that it hung on. `chunks`: of the
    first stage."""

    def __init__(self, make: Callable[[Callable[[object], None]], Stage], chunks: Chunks) -> None:
        self._make = make
        self._chunks = chunks
        self._without_until = 0.0  # monotonic: there is no core for a second stage
        self.stage: Stage | None = None  # while it is needed
        self._owners: dict[object, float] = {}  # until when they stay, monotonic
        self._needed_at = 0.0

    def has(self, owner: object) -> bool:
        """Whether works of `owner` go to the second stage."""
        return owner in self._owners

    @property
    def may_take(self) -> bool:
        return time.monotonic() >= self._without_until

    @property
    def size(self) -> int:
        return 0 if self.stage is None else self.stage.size

    def take(self, works: Sequence[Work]) -> None:
        """Takes the works of one owner; the first stage gave no answer to the first of them."""
        if not works:
            return
        self._owners.setdefault(works[0].owner, 0.0)
        if self.stage is None:
            self.stage = self._make(self._hung)
        self.stage.suspect(works)

    def submit(self, work: Work) -> None:
        assert self.stage is not None
        self.stage.submit(work)

    def cancel(self, owner: object) -> None:
        if self.stage is not None:
            self.stage.cancel(owner)
        if not self._owners.get(owner):
            self._owners.pop(owner, None)

    def turn(self, now: float, ready_at: float) -> None:
        """`ready_at`: when the first stage last was, monotonic."""
        stage = self.stage
        if stage is None:
            return
        for owner, until in list(self._owners.items()):
            if now > until and not stage.has(owner):
                del self._owners[owner]
        if self._owners or stage.size:
            self._needed_at = now
        elif now > self._needed_at + LINGERS_S:
            self.close()
            return
        stage.turn(now)
        if now - min(ready_at, stage.ready_at) > SPARE_S:
            self._without_until = now + PROBATION_S
            self._chunks.take_over(stage.chunks)
            self.close()

    def close(self) -> None:
        stage, self.stage = self.stage, None
        self._owners.clear()
        if stage is not None:
            stage.close()

    def _hung(self, owner: object) -> None:
        if owner in self._owners:
            self._owners[owner] = time.monotonic() + PROBATION_S
