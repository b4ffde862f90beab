"""What of a throttle each lane gets. Splitting is pure; the lanes hold to their shares.

A lane that lags takes part in full, and those that lag share alike; one that keeps up keeps what it
uses and a little more. All shares together are the limit, at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from causeway.daemon.lanes.tracked import Key, Lane, Tracked
from causeway.model import State
from causeway.relay import Rate, Throttle

RESPLIT_S: Final = 1.0
_IDLE: Final = 0.02  # of the limit, for all lanes together that have nothing to read
_MORE: Final = 1.25  # than it uses, for a lane that keeps up
_SAME: Final = 0.05  # a share that grows by less is not told

_Scope = tuple[str, str | None]  # link, and topic of its source


@dataclass(frozen=True, slots=True)
class Use:
    """Of a lane: bytes/s that it reads of what is throttled; whether it lags there."""

    bytes_per_s: float = 0.0
    lags: bool = False


def split(limit: float, uses: Mapping[int, Use]) -> dict[int, float]:
    """Bytes/s for each lane, `limit` in all."""
    even = limit / len(uses)
    lagging = [lane for lane, use in uses.items() if use.lags]
    if not lagging:
        return dict.fromkeys(uses, even)
    least = _IDLE * even
    shares = {
        lane: min(even, max(least, _MORE * use.bytes_per_s))
        for lane, use in uses.items()
        if not use.lags
    }
    rest = (limit - sum(shares.values())) / len(lagging)
    return shares | dict.fromkeys(lagging, rest)


class Throttling:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._limits: dict[_Scope, int] = {}
        self._told: dict[Lane, dict[_Scope, float]] = {}

    def limit(self, link: str, limits: Mapping[str | None, int]) -> None:
        """By topic, and of the whole link by None."""
        kept = {scope: rate for scope, rate in self._limits.items() if scope[0] != link}
        self._limits = kept | {(link, topic): rate for topic, rate in limits.items()}

    def tell(self, lanes: Mapping[int, Lane], tracked: Mapping[Key, Tracked]) -> None:
        """Each lane of its shares, where they are others than it was told."""
        if not lanes or not (self._limits or self._told):
            return
        uses = self._uses(lanes, tracked)
        shares: dict[int, dict[_Scope, float]] = {number: {} for number in lanes}
        for scope, limit in self._limits.items():
            for number, share in split(limit, uses[scope]).items():
                shares[number][scope] = share
        told = self._told
        self._told = {lane: told.get(lane, {}) for lane in lanes.values() if told.get(lane)}
        for number, lane in lanes.items():
            before, now = told.get(lane, {}), shares[number]
            if _differ(before, now):
                rates = (
                    Rate(link=link, topic=topic, bytes_per_s=rate)
                    for (link, topic), rate in now.items()
                )
                lane.connection.send(Throttle(rates=tuple(rates)))
                self._told[lane] = now
        self._told = {lane: rates for lane, rates in self._told.items() if rates}

    def _uses(
        self, lanes: Mapping[int, Lane], tracked: Mapping[Key, Tracked]
    ) -> dict[_Scope, dict[int, Use]]:
        uses = {scope: dict.fromkeys(lanes, Use()) for scope in self._limits}
        for number, lane in lanes.items():
            for key in lane.partitions:
                one = tracked[key]
                for scope in ((key[0], None), (key[0], key[1])):
                    if (found := uses.get(scope)) is not None:
                        use = found[number]
                        found[number] = Use(
                            use.bytes_per_s + one.bytes_per_s, use.lags or _lags(one)
                        )
        return uses


def _lags(one: Tracked) -> bool:
    """As far as is known; what has just come to its lane may."""
    if one.report is None:
        return True
    return one.report.state is State.RUNNING and one.report.position < one.report.source_end


def _differ(before: Mapping[_Scope, float], now: Mapping[_Scope, float]) -> bool:
    if before.keys() != now.keys():
        return True
    return any(not 0 <= now[scope] - rate <= _SAME * rate for scope, rate in before.items())
