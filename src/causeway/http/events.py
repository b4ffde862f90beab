"""What has happened, as the log has it: its newest events, kept in memory for who asks."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from causeway.daemon.event_log import plain, said
from causeway.http.shapes import Event

_MOST: Final = 2000


class Events(logging.Handler):
    """Any thread may log; an event loop reads. `_MOST` events are kept."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._kept: deque[Event] = deque(maxlen=_MOST)

    def emit(self, record: logging.LogRecord) -> None:
        about = said(record)
        self._kept.append(
            Event(
                at_ms=int(record.created * 1000),
                level=record.levelname.lower(),
                event=plain(record.getMessage()),
                link=about.pop("link", None),
                about=about,
            )
        )

    def newest(
        self, *, link: str | None, search: str, levels: tuple[str, ...], offset: int, limit: int
    ) -> tuple[list[Event], int]:
        """One page, the newest first, and how many fit in all."""
        wanted = search.casefold()
        found = [
            each
            for each in reversed(tuple(self._kept))
            if link in (None, each.link)
            and (not levels or each.level in levels)
            and (not wanted or any(wanted in text.casefold() for text in _texts(each)))
        ]
        return list(islice(found, offset, offset + limit)), len(found)


def _texts(event: Event) -> Iterator[str]:
    yield event.event
    yield from event.about.values()


@contextmanager
def heard() -> Iterator[Events]:
    """Causeway's own events while the block lasts."""
    events, logger = Events(), logging.getLogger("causeway")
    logger.addHandler(events)
    try:
        yield events
    finally:
        logger.removeHandler(events)
