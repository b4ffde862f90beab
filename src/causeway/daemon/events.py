"""Log events that name a link: they are kept in the link's progress topic, and posted to a webhook.

The leader writes the newest events with its progress. So `causeway events` can read them from the
clusters alone, even if that driver is dead. Each event has one of EVENTS keys (a ring), so it
replaces the event that was written EVENTS events earlier, and the compacted topic does not grow.

The webhook of the file gets these events and all warnings, for alerts. A thread posts them in
batches, and retries with backoff while the receiver does not answer. An event may arrive twice if
the receiver's answer was lost.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import socket
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from causeway.config import WebhookSettings
from causeway.link_topics import EVENTS, EventRecord
from causeway.logins import NoRedirect

_log = logging.getLogger("causeway.webhook")
_AT_ONCE: Final = 100  # events that may wait to be written, and events in one post
_LONGEST: Final = 500  # characters of one value
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_MORE: Final = "more events than are kept"
_MOST: Final = 1000  # events that may wait for the webhook
_TOGETHER_S: Final = 0.5  # events within this time are posted together
_BACKOFF_S: Final = (1.0, 60.0)
_TIMEOUT_S: Final = 10.0
_END_S: Final = 5.0  # for the last events, at the end of a run
_AGAIN: Final = frozenset({408, 425, 429})  # retried, like all 5xx
# Calls to the HTTP server, and problems of the webhook itself.
_NOT_POSTED: Final = ("causeway.http", "causeway.webhook")


def said(record: logging.LogRecord) -> dict[str, str]:
    """Returns the fields of `record` besides its event, with its link."""
    about = {
        plain(name): plain(value)
        for name, value in record.__dict__.items()
        if name not in _STANDARD
    }
    if record.exc_info and record.exc_info[1] is not None:
        about["error"] = type(record.exc_info[1]).__name__
    return about


def plain(value: object) -> str:
    """Returns `value` as valid JSON text of limited length: file names need not be UTF-8."""
    return str(value)[:_LONGEST].encode(errors="replace").decode()


class _Waiting(logging.Handler):
    """Events that wait, each with its link. If more than `most` events wait, only the number of the
    others is kept. Any thread may log."""

    def __init__(self, most: int) -> None:
        super().__init__(logging.INFO)
        self._most = most
        self._guard = threading.Lock()
        self._waiting: deque[tuple[str | None, EventRecord]] = deque()
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        about = said(record)
        link = about.pop("link", None)
        event = EventRecord(
            number=-1,
            at=int(record.created * 1000),
            level=record.levelname.lower(),
            event=plain(record.getMessage()),
            about=about,
        )
        with self._guard:
            if len(self._waiting) < self._most:
                self._waiting.append((link, event))
            else:
                self._left_out += 1


class EventLog(_Waiting):
    """The events of one link, from `listen` to `end`. All methods but `emit` belong to the leading
    thread."""

    def __init__(self, link: str) -> None:
        super().__init__(_AT_ONCE)
        self._link = link
        # Events that have their numbers; a write of them may have failed.
        self._unwritten: deque[EventRecord] = deque(maxlen=EVENTS)
        self._kept: deque[EventRecord] = deque(maxlen=EVENTS)
        self._next = 0

    def listen(self) -> None:
        logging.getLogger("causeway").addHandler(self)

    def end(self) -> None:
        logging.getLogger("causeway").removeHandler(self)

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "link", None) == self._link

    def begin(self, events: Mapping[int, EventRecord]) -> None:
        """`events`: the events of earlier leaders, by number."""
        with self._guard:
            known = [events[number] for number in sorted(events)]
            self._kept = deque(known, maxlen=EVENTS)
            self._next = max(events, default=-1) + 1
            # Events of an earlier term whose last write failed, or seemed to fail.
            lost = [each for each in self._unwritten if each not in known]
            self._waiting.extendleft((self._link, each) for each in reversed(lost))
            self._unwritten.clear()

    def unwritten(self) -> list[EventRecord]:
        """Returns the events that have to be written; call `written` after they are."""
        with self._guard:
            if self._left_out and self._waiting:
                many = {"count": str(self._left_out)}
                _, last = self._waiting[-1]
                more = last.replace(level="warning", event=_MORE, about=many)
                self._waiting.append((self._link, more))
                self._left_out = 0
            while self._waiting:
                _, event = self._waiting.popleft()
                self._unwritten.append(event.replace(number=self._next))
                self._next += 1
            return list(self._unwritten)

    def written(self, *, again: bool) -> None:
        """`again`: the topic has lost earlier events, so they have to be written again."""
        with self._guard:
            self._kept.extend(self._unwritten)
            self._unwritten.clear()
            if again:
                self._unwritten.extend(self._kept)


class Poster:
    """Posts events to the webhook of the settings in force."""

    def __init__(self) -> None:
        self._settings: WebhookSettings | None = None
        self._webhook: Webhook | None = None

    def change(self, settings: WebhookSettings | None) -> None:
        """Posts by `settings` from now on. The earlier webhook has some seconds to post the events
        that still wait for it."""
        if settings == self._settings:
            return
        logger = logging.getLogger("causeway")
        before = self._webhook
        self._settings, self._webhook = settings, None if settings is None else Webhook(settings)
        if self._webhook is not None:
            logger.addHandler(self._webhook)
        if before is not None:
            logger.removeHandler(before)
            threading.Thread(target=before.stop, name="webhook's end", daemon=True).start()

    def stop(self) -> None:
        if self._webhook is not None:
            logging.getLogger("causeway").removeHandler(self._webhook)
            self._webhook.stop()


@contextmanager
def posting(settings: WebhookSettings | None) -> Iterator[Poster]:
    """Posts events while the block lasts. Does nothing if there is no webhook."""
    poster = Poster()
    poster.change(settings)
    try:
        yield poster
    finally:
        poster.stop()


class Webhook(_Waiting):
    def __init__(self, settings: WebhookSettings) -> None:
        super().__init__(_MOST)
        self._settings = settings
        self._driver = f"{socket.gethostname()}/{os.getpid()}"
        self._come, self._stopping = threading.Event(), threading.Event()
        self._trouble = False  # the last post was not accepted
        self._opener = urllib.request.build_opener(NoRedirect)
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith(_NOT_POSTED):
            return False
        return getattr(record, "link", None) is not None or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self._come.set()

    def stop(self) -> None:
        """Tries for some seconds to post the remaining events."""
        self._stopping.set()
        self._come.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        pause = _BACKOFF_S[0]
        while True:
            self._come.wait()
            self._stopping.wait(_TOGETHER_S)
            self._come.clear()
            while batch := self._take():
                last = self._stopping.is_set()
                try:
                    done = self._post(*batch)
                except Exception as error:
                    self._warn("webhook not reached", type(error).__name__)
                    done = False
                if done:
                    pause = _BACKOFF_S[0]
                    continue
                with self._guard:
                    self._waiting.extendleft(reversed(batch[0]))
                    self._left_out += batch[1]
                if last:
                    break
                self._stopping.wait(pause)
                pause = min(2 * pause, _BACKOFF_S[1])
            if self._stopping.is_set():
                return

    def _take(self) -> tuple[Sequence[tuple[str | None, EventRecord]], int] | None:
        with self._guard:
            if not self._waiting:
                return None
            some = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            left_out, self._left_out = self._left_out, 0
            return some, left_out

    def _post(self, some: Sequence[tuple[str | None, EventRecord]], left_out: int) -> bool:
        """Returns whether the batch is done: the receiver accepted it, or will never accept it.
        Raises OSError, HTTPException, ValueError."""
        events = [
            {
                "at_ms": each.at,
                "level": each.level,
                "event": each.event,
                "link": link,
                "about": each.about,
            }
            for link, each in some
        ]
        value = {"v": 1, "driver": self._driver, "left_out": left_out, "events": events}
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        request = urllib.request.Request(  # noqa: S310 - http or https, see config/values.py
            self._settings.url.reveal(), body, self._headers(body), method="POST"
        )
        timeout_s = _END_S / 2 if self._stopping.is_set() else _TIMEOUT_S
        try:
            with self._opener.open(request, timeout=timeout_s):
                self._trouble = False
                return True
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _AGAIN or error.code >= 500:
                self._warn("webhook not reached", f"HTTP {error.code}")
                return False
            self._warn("webhook refuses events", f"HTTP {error.code}")
            return True
        except urllib.error.URLError as error:
            self._warn("webhook not reached", str(error.reason))
            return False

    def _headers(self, body: bytes) -> dict[str, str]:
        found = {"Content-Type": "application/json", "User-Agent": "causeway"}
        if self._settings.token is not None:
            found["Authorization"] = f"Bearer {self._settings.token.reveal()}"
        if self._settings.secret is not None:
            key = self._settings.secret.reveal().encode()
            found["X-Causeway-Signature"] = (
                f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"
            )
        return found

    def _warn(self, what: str, reason: str) -> None:
        """Warns once, and then again only after a post has succeeded. Logs only the host, because
        the address may be secret."""
        if not self._trouble:
            host = urlsplit(self._settings.url.reveal()).hostname
            _log.warning(what, extra={"host": host, "reason": reason})
        self._trouble = True
