"""Posts events to the webhook of the file, for alerts.

Log events that name a link, and all warnings, go into a bounded queue. A thread posts them in
batches, and retries with backoff while the receiver is away. If the queue is full, the number of
dropped events is posted. An event may arrive twice, if the receiver's answer was lost.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import logging
import os
import socket
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final
from urllib.parse import urlsplit

from causeway.config import WebhookSettings
from causeway.daemon.event_log import plain, said

_log = logging.getLogger("causeway.webhook")
_MOST: Final = 1000  # events that wait
_AT_ONCE: Final = 100  # events of a post
_TOGETHER_S: Final = 0.5  # events within this time are posted together
_BACKOFF_S: Final = (1.0, 60.0)
_TIMEOUT_S: Final = 10.0
_END_S: Final = 5.0  # for the last ones, at the end of a run
_AGAIN: Final = frozenset({408, 425, 429})  # and all 5xx: retried
# Calls to the HTTP server, and problems of the webhook itself.
_NOT_POSTED: Final = ("causeway.http", "causeway.webhook")


@contextmanager
def posting(settings: WebhookSettings | None) -> Iterator[None]:
    """Posts events while the block lasts; does nothing without a webhook."""
    if settings is None:
        yield
        return
    webhook, logger = Webhook(settings), logging.getLogger("causeway")
    logger.addHandler(webhook)
    try:
        yield
    finally:
        logger.removeHandler(webhook)
        webhook.stop()


class Webhook(logging.Handler):
    """Any thread may log."""

    def __init__(self, settings: WebhookSettings) -> None:
        super().__init__(logging.INFO)
        self._settings = settings
        self._driver = f"{socket.gethostname()}/{os.getpid()}"
        self._guard = threading.Lock()
        self._waiting: deque[dict[str, Any]] = deque()
        self._left_out = 0
        self._come, self._stopping = threading.Event(), threading.Event()
        self._trouble = False  # the last post was not taken
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_NOT_POSTED):
            return
        about = said(record)
        link = about.pop("link", None)
        if link is None and record.levelno < logging.WARNING:
            return
        event = {
            "at_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "event": plain(record.getMessage()),
            "link": link,
            "about": about,
        }
        with self._guard:
            if len(self._waiting) < _MOST:
                self._waiting.append(event)
            else:
                self._left_out += 1
        self._come.set()

    def stop(self) -> None:
        """Tries for some seconds to post the remaining events."""
        self._stopping.set()
        self._come.set()
        self._thread.join(_END_S)

    # -- the thread -------------------------------------------------------------------------------

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
                self._give_back(*batch)
                if last:
                    break
                self._stopping.wait(pause)
                pause = min(2 * pause, _BACKOFF_S[1])
            if self._stopping.is_set():
                return

    def _take(self) -> tuple[Sequence[dict[str, Any]], int] | None:
        with self._guard:
            if not self._waiting:
                return None
            some = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            left_out, self._left_out = self._left_out, 0
            return some, left_out

    def _give_back(self, some: Sequence[dict[str, Any]], left_out: int) -> None:
        with self._guard:
            self._waiting.extendleft(reversed(some))
            self._left_out += left_out

    def _post(self, some: Sequence[dict[str, Any]], left_out: int) -> bool:
        """Whether the batch is done: it was accepted, or never will be. Raises OSError,
        HTTPException, ValueError."""
        value = {"v": 1, "driver": self._driver, "left_out": left_out, "events": some}
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
        """Warns once, until a post succeeds again. The address may be secret: logs only the
        host."""
        if not self._trouble:
            host = urlsplit(self._settings.url.reveal()).hostname
            _log.warning(what, extra={"host": host, "reason": reason})
        self._trouble = True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a redirected POST would become a GET, and carry the token with it."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None
