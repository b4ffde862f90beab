"""Moves partitions between lanes, one step at a time: their lanes let go of them first."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from causeway.daemon.lanes import placing
from causeway.daemon.lanes.tracked import Key, Lane, Tracked
from causeway.relay import Revoke

_log = logging.getLogger("causeway.fleet")
_EVERY_S = 10.0


class Rebalancing:
    """Every ten seconds, where something has changed since the last look that found no move: all
    partitions are looked at for that. Not thread-safe; times are monotonic."""

    def __init__(self) -> None:
        self._at = 0.0
        self._stirred = False

    def stir(self) -> None:
        """A lane, a partition or its rate is another than before."""
        self._stirred = True

    def soon(self, at: float) -> None:
        """At that time at the latest."""
        self._at = min(self._at, at)
        self._stirred = True

    def step(self, now: float, tracked: Mapping[Key, Tracked], lanes: Mapping[int, Lane]) -> None:
        if now < self._at or not self._stirred:
            return
        self._at = now + _EVERY_S
        if any(each.leaving for each in tracked.values()):
            return
        moves = placing.moves(tracked, lanes)
        self._stirred = bool(moves)
        revoked: dict[Lane, list[Key]] = {}
        for key, number in moves.items():
            one = tracked[key]
            if one.lane is not None:
                one.leaving, one.going_to = True, number
                revoked.setdefault(one.lane, []).append(key)
        for lane, keys in revoked.items():
            _log.info("move partitions", extra={"from_lane": lane.number, "count": len(keys)})
            lane.connection.send(Revoke(keys=tuple(keys)))
