"""Keeps the newest log events and the figures of each link for the last hours, since the start."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from causeway.daemon import plain, said
from causeway.http import shapes
from causeway.http.views import SharedValue, View

_log = logging.getLogger("causeway.http")
INTERVAL_S: Final = 5.0
_POINTS: Final = 4320  # six hours
_EVENTS: Final = 2000
_REST = 100.0  # pause after a snapshot, as a multiple of its cost: many partitions get fewer points


class Point(NamedTuple):
    at_ms: int
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_ms: int | None


class History:
    """The figures of each link. Used by one event loop."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    async def keep(self, views: SharedValue[View]) -> None:
        """Records points until it is cancelled."""
        while True:
            try:
                self.note(await views.newest())
            except Exception as error:  # every caller gets this error too
                _log.debug("no point", exc_info=error)
            await asyncio.sleep(max(INTERVAL_S, _REST * views.cost_s))

    def note(self, view: View) -> None:
        """Records a point of each link, unless the link has one with that time."""
        for name, link in view.links.items():
            points = self._points.setdefault(name, deque(maxlen=_POINTS))
            if points and points[-1].at_ms >= view.now_ms:
                continue
            sums = link.totals
            points.append(
                Point(
                    view.now_ms,
                    round(sums.records_per_s, 1),
                    round(sums.bytes_per_s, 1),
                    sums.lag_records,
                    sums.lag_ms,
                )
            )

    def since(self, at_ms: int, link: str | None, most: int) -> shapes.History:
        """Returns the points after `at_ms`: at most `most`, at even distances."""
        series = []
        for name, points in self._points.items():
            if link is not None and name != link:
                continue
            chosen = [point for point in points if point.at_ms > at_ms]
            step = -(-len(chosen) // most) if most else 1
            # The newest point is always chosen.
            chosen = chosen[::-1][:: max(1, step)][::-1]
            columns = {name: [getattr(point, name) for point in chosen] for name in Point._fields}
            series.append(shapes.Series(link=name, **columns))
        return shapes.History(interval_ms=int(INTERVAL_S * 1000), series=series)


class Events(logging.Handler):
    """The newest events of the log. Any thread may log; an event loop reads."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._kept: deque[shapes.Event] = deque(maxlen=_EVENTS)

    def emit(self, record: logging.LogRecord) -> None:
        about = said(record)
        self._kept.append(
            shapes.Event(
                at_ms=int(record.created * 1000),
                level=record.levelname.lower(),
                event=plain(record.getMessage()),
                link=about.pop("link", None),
                about=about,
            )
        )

    def newest(
        self, *, link: str | None, search: str, levels: tuple[str, ...], offset: int, limit: int
    ) -> tuple[list[shapes.Event], int]:
        """Returns one page, the newest events first, and the number of matching events."""
        wanted = search.casefold()
        found = [
            each
            for each in reversed(tuple(self._kept))
            if link in (None, each.link)
            and (not levels or each.level in levels)
            and (not wanted or any(wanted in text.casefold() for text in _texts(each)))
        ]
        return list(islice(found, offset, offset + limit)), len(found)


def _texts(event: shapes.Event) -> Iterator[str]:
    yield event.event
    yield from event.about.values()


@contextmanager
def heard() -> Iterator[Events]:
    """Keeps Causeway's own events while the block lasts."""
    events, logger = Events(), logging.getLogger("causeway")
    logger.addHandler(events)
    try:
        yield events
    finally:
        logger.removeHandler(events)
