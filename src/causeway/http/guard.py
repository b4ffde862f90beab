"""Decides who may call, before the route is known.

    Host     without TLS: only this machine's addresses and names. Otherwise another site could let
             its own name lead here, and its page could read (DNS rebinding). With TLS, the browser
             has compared the name with our certificate.
    token    if one is set: for all but probes and the page's own files
    changes  all methods but GET, HEAD and OPTIONS: never from another site's page, and only as
             JSON, which no form can send

Refused calls are logged.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from causeway.config import Secret, is_loopback
from causeway.http.answers import refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("causeway.http")
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_BYTES: Final = 64 * 1024  # of a body
_AGAIN_S: Final = 60.0  # between two log lines about equal calls
_MOST: Final = 1000  # remembered callers and reasons
_NOT_OURS: Final = "this server does not have that name: use the address that the run prints"
_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        b" connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none';"
        b" frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


_Refusal = tuple[int, str]  # status and reason


class Guard:
    """An ASGI application around another. `host`: the address of the listening socket. `names`:
    more names that callers may use. `open_paths`: paths that need no token; a path that ends in a
    slash means all paths below it. `not_ours`: the message for callers that use another name."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        tls: bool,
        token: Secret | None,
        names: tuple[str, ...] = (),
        open_paths: tuple[str, ...] = (),
        not_ours: str = _NOT_OURS,
    ) -> None:
        self._app = app
        self._here = is_loopback(host)
        self._names = {each.casefold().removesuffix(".") for each in (host, *names)}
        self._tls = tls
        self._token = None if token is None else _digest(token.reveal())
        self._open = open_paths
        self._not_ours = not_ours
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no other kinds of calls
        if (refusal := self._refusal(scope, Headers(scope=scope))) is None:
            try:
                await self._app(scope, _bounded(receive), _with_headers(send))
            except Exception as error:  # the caller has got its answer
                _log.error("internal error", exc_info=error, extra={"path": scope["path"][:200]})
            return
        client = scope.get("client")
        self._refusals.note(client[0] if client else "?", scope["method"], scope["path"], *refusal)
        await refused(*refusal)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> _Refusal | None:
        if not self._tls and not self._is_ours(headers.get("host", "")):
            return 403, self._not_ours
        if self._token is not None and not self._is_open(scope["path"]):
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(_digest(given), self._token):
                return 401, "send the token: Authorization: Bearer ..."
        return None if scope["method"] in _READING else self._change(scope, headers)

    def _change(self, scope: Scope, headers: Headers) -> _Refusal | None:
        own = f"{scope['scheme']}://{headers.get('host', '')}"
        of_another_site = headers.get("origin", own).casefold() != own.casefold()
        if of_another_site or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "a page of another site may not change anything here"
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > _MOST_BYTES:
            return 413, f"a body has at most {_MOST_BYTES} bytes"
        has_body = length not in ("", "0") or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # Connect's own clients send no body with a PUT or POST whose path says all.
        if (has_body or kind) and kind != "application/json":
            return 415, "a body must be application/json"
        return None

    def _is_ours(self, host: str) -> bool:
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        name = name.casefold().removesuffix(".")
        if name in self._names or is_loopback(name):
            return bool(name)
        # A site can point its own name to this address, but cannot use an address as its name.
        return not self._here and _is_address(name)

    def _is_open(self, path: str) -> bool:
        return any(
            path.startswith(each) if each.endswith("/") and each != "/" else path == each
            for each in self._open
        )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _digest(text: str) -> bytes:
    """Returns a hash of constant length, so that a comparison does not reveal the length of the
    token."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [(name, value) for name, value in _HEADERS if name not in given]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return with_headers


def _bounded(receive: Receive) -> Receive:
    """Ends a body of unknown length as soon as it is too long."""
    seen = 0

    async def heard() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > _MOST_BYTES:
            return {"type": "http.disconnect"}
        return message

    return heard


@dataclass(slots=True)
class _Logged:
    at: float  # monotonic
    unsaid: int = 0  # later calls that were not logged


class Refusals:
    """Logs refused calls. Of equal calls it logs one a minute. So a caller that is refused again
    and again fills neither the log nor the kept events. Used by one event loop."""

    def __init__(self) -> None:
        self._logged: dict[tuple[str, str], _Logged] = {}

    def __len__(self) -> int:
        return len(self._logged)

    def note(self, client: str, method: str, path: str, status: int, reason: str) -> None:
        """Logs the call, with the number of the client's equal calls since the last line, or counts
        it."""
        now = time.monotonic()
        key = client, reason
        logged = self._logged.get(key)
        if logged is not None and now < logged.at + _AGAIN_S:
            logged.unsaid += 1
            return
        if len(self._logged) >= _MOST:
            self._logged.clear()
        self._logged[key] = _Logged(now)
        extra = {
            "client": client,
            "method": method,
            "path": path[:200],
            "status": status,
            "reason": reason,
            "unsaid": 0 if logged is None else logged.unsaid,
        }
        _log.warning("call refused", extra=extra)
