"""Splits the limits of throttles over the lanes, which keep to their shares.

Lanes that lag get equal shares. A lane that keeps up gets what it uses and a little more. The sum
of the shares is the limit, at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from causeway.daemon.lanes.tracked import ConnectedLane, Key, Tracked
from causeway.model import State
from causeway.relay import Rate, Throttle

RESPLIT_S: Final = 1.0
_IDLE: Final = 0.02  # of the limit, for all lanes together that have no records to read
_MORE: Final = 1.25  # times its use, for a lane that keeps up
_SAME: Final = 0.05  # a share that grows by less is not sent

_Scope = tuple[str, str | None]  # link, and topic of its source


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a throttle by a lane: bytes/s that it reads, and whether it lags."""

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
        self._sent: dict[ConnectedLane, dict[_Scope, float]] = {}

    def limit(self, link: str, limits: Mapping[str | None, int]) -> None:
        """Sets the limits of `link` by topic, and in total by None."""
        kept = {scope: rate for scope, rate in self._limits.items() if scope[0] != link}
        self._limits = kept | {(link, topic): rate for topic, rate in limits.items()}

    def send_shares(
        self, lanes: Mapping[int, ConnectedLane], tracked: Mapping[Key, Tracked]
    ) -> None:
        """Sends each lane its shares, if they differ from those that it has."""
        if not lanes or not (self._limits or self._sent):
            return
        uses = self._uses(lanes, tracked)
        shares: dict[int, dict[_Scope, float]] = {number: {} for number in lanes}
        for scope, limit in self._limits.items():
            for number, share in split(limit, uses[scope]).items():
                shares[number][scope] = share
        sent = self._sent
        self._sent = {lane: sent.get(lane, {}) for lane in lanes.values() if sent.get(lane)}
        for number, lane in lanes.items():
            before, now = sent.get(lane, {}), shares[number]
            if _differ(before, now):
                rates = (
                    Rate(link=link, topic=topic, bytes_per_s=rate)
                    for (link, topic), rate in now.items()
                )
                lane.connection.send(Throttle(rates=tuple(rates)))
                self._sent[lane] = now
        self._sent = {lane: rates for lane, rates in self._sent.items() if rates}

    def _uses(
        self, lanes: Mapping[int, ConnectedLane], tracked: Mapping[Key, Tracked]
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
    """Whether it lags. A partition without a report counts as lagging."""
    if one.report is None:
        return True
    return one.report.state is State.RUNNING and one.report.position < one.report.source_end


def _differ(before: Mapping[_Scope, float], now: Mapping[_Scope, float]) -> bool:
    if before.keys() != now.keys():
        return True
    return any(not 0 <= now[scope] - rate <= _SAME * rate for scope, rate in before.items())
