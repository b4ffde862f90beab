"""Which answer makes a record delivered, and which side is the primary one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from causeway.producer.hub import State
from causeway.producer.lanes import BOTH, Entry
from causeway.producer.options import Options
from causeway.producer.side import Side


class Roles:
    """With the lock held. A failover moves no record: both sides get all of them, in one order;
    it only says whose answer counts from then on."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        options: Options,
        report: Callable[[Entry, Any, Any], None],
        on_failover: Callable[..., Any] | None,
        queue: Callable[..., None],
    ) -> None:
        self.primary = sides[0]
        self.failovers = 0
        self._sides = sides
        self._options = options
        self._report = report
        self._on_failover = on_failover
        self._queue = queue
        self._decide()

    def watch(self, now: float) -> None:
        """Fail over where it is due, and back."""
        after_s = self._options.failover_after_s
        if after_s is None:
            return
        first = self._sides[0]
        (other,) = (side for side in self._sides if side is not self.primary)
        silent = {side: side.silent_s(now) for side in self._sides}
        if silent[self.primary] > after_s and silent[other] < after_s / 2:
            self._swap(other)
        elif (
            self._options.failback
            and self.primary is not first
            and first.state is State.DIRECT
            and silent[first] < after_s / 2
        ):
            self._swap(first)

    def _swap(self, to: Side) -> None:
        before, self.primary = self.primary, to
        self.failovers += 1
        self._decide()
        for entry in list(to.hub.unreported.values()):
            if (entry.acks | entry.refused) & to.bit:
                self._report(entry, entry.error, entry.message)
        if self._on_failover is not None:
            self._queue(self._on_failover, before.name, to.name)

    def _decide(self) -> None:
        follows = self._options.failover_after_s is not None
        for side in self._sides:
            if self._options.policy == "both":
                side.decides = frozenset({BOTH})
                side.speaks = side.keeps = side is self.primary
            elif self._options.policy == "any":
                side.decides = frozenset({side.bit})
            elif side is self.primary:
                side.decides, side.keeps = frozenset({side.bit, BOTH}), False
            else:
                side.decides = frozenset()
                side.keeps = side.speaks = follows
