"""What has happened, as the log has it: its newest events, kept in memory for who asks."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from causeway.http.shapes import Event

_MOST: Final = 2000
_LONGEST: Final = 500  # characters of one value
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class Events(logging.Handler):
    """Any thread may log; an event loop reads. `_MOST` events are kept."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._kept: deque[Event] = deque(maxlen=_MOST)

    def emit(self, record: logging.LogRecord) -> None:
        said = {
            _plain(name): _plain(value)
            for name, value in record.__dict__.items()
            if name not in _STANDARD
        }
        if record.exc_info and record.exc_info[1] is not None:
            said["error"] = type(record.exc_info[1]).__name__
        self._kept.append(
            Event(
                at_ms=int(record.created * 1000),
                level=record.levelname.lower(),
                event=_plain(record.getMessage()),
                link=said.pop("link", None),
                about=said,
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


def _plain(value: object) -> str:
    """As JSON takes it: names of files need not be UTF-8."""
    return str(value)[:_LONGEST].encode(errors="replace").decode()


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
