"""Each link's figures of the last hours, kept in the driver's memory: they begin with its start."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, NamedTuple

from causeway.http.coalesced_cache import Paced
from causeway.http.shapes import History, Series
from causeway.http.totals import totals
from causeway.http.view import View

_log = logging.getLogger("causeway.http")
INTERVAL_S: Final = 5.0
_POINTS: Final = 4320  # six hours of them
_REST = 100.0  # times what a look costs: with 100,000 partitions, points come less often


class Point(NamedTuple):
    at_ms: int
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_ms: int | None


class Memory:
    """Used by one event loop."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    async def keep(self, views: Paced[View]) -> None:
        """Takes points until it is cancelled."""
        while True:
            try:
                self.note(await views.newest())
            except Exception as error:  # as everybody who asks is told, too
                _log.debug("no point", exc_info=error)
            await asyncio.sleep(max(INTERVAL_S, _REST * views.cost_s))

    def note(self, view: View) -> None:
        for name, link in view.links.items():
            points = self._points.setdefault(name, deque(maxlen=_POINTS))
            if points and points[-1].at_ms >= view.now_ms:
                continue
            sums = totals(link)
            points.append(
                Point(
                    view.now_ms,
                    round(sums.records_per_s, 1),
                    round(sums.bytes_per_s, 1),
                    sums.lag_records,
                    sums.lag_ms,
                )
            )

    def since(self, at_ms: int, link: str | None, most: int) -> History:
        """Points later than `at_ms`; of more than `most`, as many that lie evenly apart."""
        series = []
        for name, points in self._points.items():
            if link is not None and name != link:
                continue
            chosen = [point for point in points if point.at_ms > at_ms]
            step = -(-len(chosen) // most) if most else 1
            # The newest one is always among them.
            chosen = chosen[::-1][:: max(1, step)][::-1]
            series.append(
                Series(
                    link=name,
                    at_ms=[point.at_ms for point in chosen],
                    records_per_s=[point.records_per_s for point in chosen],
                    bytes_per_s=[point.bytes_per_s for point in chosen],
                    lag_records=[point.lag_records for point in chosen],
                    lag_ms=[point.lag_ms for point in chosen],
                )
            )
        return History(interval_ms=int(INTERVAL_S * 1000), series=series)
