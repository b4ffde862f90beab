"""Answers of all routes: JSON, and errors in Connect's form."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from fastapi import HTTPException
from starlette.responses import Response

from causeway.errors import (
    AuthorizationError,
    CausewayError,
    ConflictError,
    NobodyLeadsError,
    RefusedError,
    UnreachableError,
)
from causeway.http.shapes import Page

T = TypeVar("T")
_MOST_WAITING: Final = 1000
_STATUS: Final[Mapping[type[CausewayError], int]] = {
    RefusedError: 409,
    ConflictError: 409,
    NobodyLeadsError: 409,
    AuthorizationError: 403,
    UnreachableError: 503,
}


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns `value` as JSON. `value`: builtins, or structs with their values."""
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a text that is no UTF-8, such as the name of a file in a reason
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        body = text.encode(errors="replace")
    return Response(body, status, headers, media_type="application/json")


def paged(items: Sequence[Any], total: int, offset: int, limit: int, taken_at_ms: int) -> Response:
    """Returns a page. `items`: only the items of this page."""
    return answer(
        Page(items=items, total=total, offset=offset, limit=limit, taken_at_ms=taken_at_ms)
    )


def refused(status: int, message: str) -> Response:
    """`{"error_code": 404, "message": "..."}`."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return answer({"error_code": status, "message": message}, status, headers)


class Asking:
    """Calls functions that ask clusters, at most `at_once` at the same time. The number of waiting
    requests is bounded, because a request waits on after its client has closed the connection."""

    def __init__(self, name: str, at_once: int) -> None:
        self._name = f"http {name}"
        self._turn = asyncio.Semaphore(at_once)
        self._waiting = 0

    async def ask(self, call: Callable[[], T], status: Mapping[type[CausewayError], int]) -> T:
        """Returns the result of `call`, for one request. Raises HTTPException. `status`: its HTTP
        status for more kinds of errors."""
        with self.waiting():
            return await self.ask_for_many(call, status)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts a request. Raises HTTPException if too many requests wait."""
        if self._waiting >= _MOST_WAITING:
            raise HTTPException(
                503, f"{self._waiting} requests wait for an answer: try again later"
            )
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def ask_for_many(
        self, call: Callable[[], T], status: Mapping[type[CausewayError], int]
    ) -> T:
        """Like `ask`, for requests that `waiting` counts."""
        try:
            async with self._turn:
                return await _in_thread(call, self._name)
        except CausewayError as error:
            known = (*_STATUS.items(), *status.items())
            code = next(code for kind, code in known if isinstance(error, kind))
            raise HTTPException(code, str(error)) from error


async def _in_thread(call: Callable[[], T], name: str) -> T:
    """Returns the result of `call`, which asks clusters, in a new thread. Raises its error. The end
    of the run does not wait for the thread, even if a cluster does not answer."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        if not done.cancelled():
            set_outcome()

    def run() -> None:
        try:
            outcome = partial(done.set_result, call())
        except Exception as error:
            outcome = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
