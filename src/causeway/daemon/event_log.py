"""Keeps the newest log events of a link in the link's progress topic.

The leader writes them with its progress. So `causeway events` reads them from the clusters alone,
also if that driver is dead. An event replaces the one EVENTS before it (a ring of keys), so the
compacted topic does not grow.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Final

from causeway.link_topics import EVENTS, EventRecord

_AT_ONCE: Final = 100  # events that wait to be written; of more only the number is kept
_LONGEST: Final = 500  # characters of one value
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_MORE: Final = "more events than are kept"


def said(record: logging.LogRecord) -> dict[str, str]:
    """The fields of `record` besides its event, with its link."""
    about = {
        plain(name): plain(value)
        for name, value in record.__dict__.items()
        if name not in _STANDARD
    }
    if record.exc_info and record.exc_info[1] is not None:
        about["error"] = type(record.exc_info[1]).__name__
    return about


def plain(value: object) -> str:
    """`value` as valid JSON text of limited length: file names need not be UTF-8."""
    return str(value)[:_LONGEST].encode(errors="replace").decode()


class EventLog(logging.Handler):
    """The events of one link, from `listen` to `end`. Any thread may log; the other methods belong
    to the leading thread."""

    def __init__(self, link: str) -> None:
        super().__init__(logging.INFO)
        self._link = link
        self._guard = threading.Lock()
        self._waiting: deque[EventRecord] = deque()  # without a number yet
        self._left_out = 0
        # With numbers, from a write that may have failed.
        self._unwritten: deque[EventRecord] = deque(maxlen=EVENTS)
        self._kept: deque[EventRecord] = deque(maxlen=EVENTS)
        self._next = 0

    def listen(self) -> None:
        logging.getLogger("causeway").addHandler(self)

    def end(self) -> None:
        logging.getLogger("causeway").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "link", None) != self._link:
            return
        about = said(record)
        del about["link"]
        event = EventRecord(
            number=-1,
            at=int(record.created * 1000),
            level=record.levelname.lower(),
            event=plain(record.getMessage()),
            about=about,
        )
        with self._guard:
            if len(self._waiting) < _AT_ONCE:
                self._waiting.append(event)
            else:
                self._left_out += 1

    def begin(self, events: Mapping[int, EventRecord]) -> None:
        """`events`: of earlier leaders, by number."""
        with self._guard:
            known = [events[number] for number in sorted(events)]
            self._kept = deque(known, maxlen=EVENTS)
            self._next = max(events, default=-1) + 1
            # Events of an earlier term whose last write failed, or seemed to fail.
            lost = [each for each in self._unwritten if each not in known]
            self._waiting.extendleft(each.replace(number=-1) for each in reversed(lost))
            self._unwritten.clear()

    def unwritten(self) -> list[EventRecord]:
        """The events that have to be written (again); call `written` afterwards."""
        with self._guard:
            if self._left_out and self._waiting:
                many = {"count": str(self._left_out)}
                last = self._waiting[-1]
                self._waiting.append(last.replace(level="warning", event=_MORE, about=many))
                self._left_out = 0
            while self._waiting:
                self._unwritten.append(self._waiting.popleft().replace(number=self._next))
                self._next += 1
            return list(self._unwritten)

    def written(self, *, again: bool) -> None:
        """`again`: earlier events are lost and have to be written again."""
        with self._guard:
            self._kept.extend(self._unwritten)
            self._unwritten.clear()
            if again:
                self._unwritten.extend(self._kept)
