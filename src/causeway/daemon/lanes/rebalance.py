"""Moves partitions between lanes, one step at a time: their lanes let go of them first."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from causeway.daemon.lanes import placing
from causeway.daemon.lanes.tracked import Key, Lane, Tracked
from causeway.relay.messages import Revoke

_log = logging.getLogger("causeway.fleet")


def rebalance(tracked: Mapping[Key, Tracked], lanes: Mapping[int, Lane]) -> None:
    if any(each.leaving for each in tracked.values()):
        return
    revoked: dict[Lane, list[Key]] = {}
    for key, number in placing.moves(tracked, lanes).items():
        one = tracked[key]
        if one.lane is not None:
            one.leaving, one.going_to = True, number
            revoked.setdefault(one.lane, []).append(key)
    for lane, keys in revoked.items():
        _log.info("move partitions", extra={"from_lane": lane.number, "count": len(keys)})
        lane.connection.send(Revoke(keys=tuple(keys)))
