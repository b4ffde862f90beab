"""Which answer makes a record delivered, and which side is the primary one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from causeway.producer.hub import State
from causeway.producer.lanes import BOTH, Lane
from causeway.producer.options import Options
from causeway.producer.side import Side


class Roles:
    """With the lock held. A failover moves no record: both sides get all of them, in one order;
    it only says whose answer counts from then on. `upto`: the position in a lane up to which
    records are delivered."""

    upto: Callable[[Lane], int]

    def __init__(
        self,
        sides: tuple[Side, Side],
        options: Options,
        deliver: Callable[[Lane], None],
        on_failover: Callable[..., Any] | None,
        queue: Callable[..., None],
    ) -> None:
        self.primary = sides[0]
        self.failovers = 0
        self.watches = options.failover_after_s is not None
        self._sides = sides
        self._options = options
        self._deliver = deliver
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

    def judge(self, lane: Lane) -> int:
        """Reports those of the refused ones that are decided; how many they were."""
        count = 0
        for position, kept in list(lane.refused.items()):
            has = sum(on.side.bit for on in lane.on if on.heard >= position) & ~kept.by
            if self._wanted & has == self._wanted or (self._any and has):
                error, message = None, lane.said.pop(position, None)
            elif self._wanted & kept.by and (not self._any or kept.by == BOTH):
                error, message = kept.error, kept.message
                lane.said.pop(position, None)
            else:
                continue
            count += 1
            del lane.refused[position]
            if kept.callback is not None:
                self._queue(kept.callback, error, message)
        return count

    def _swap(self, to: Side) -> None:
        before, self.primary = self.primary, to
        self.failovers += 1
        self._decide()
        for lane in list(to.hub.lanes.values()):
            self._deliver(lane)
        if self._on_failover is not None:
            self._queue(self._on_failover, before.name, to.name)

    def _decide(self) -> None:
        policy = self._options.policy
        self._any = policy == "any"
        self._wanted = self.primary.bit if policy == "primary" else BOTH
        at = self.primary.bit >> 1
        self.upto = {"both": _least, "any": _most, "primary": lambda lane: lane.on[at].heard}[
            policy
        ]
        for side in self._sides:
            side.speaks = self._any or side is self.primary or self.watches


def _least(lane: Lane) -> int:
    one, other = lane.on
    return one.heard if one.heard < other.heard else other.heard


def _most(lane: Lane) -> int:
    one, other = lane.on
    return one.heard if one.heard > other.heard else other.heard
