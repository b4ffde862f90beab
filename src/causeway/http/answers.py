"""Answers of all routes: JSON, and errors in Connect's form."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response

from causeway.http.shapes import Page

T = TypeVar("T")


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as JSON: builtins, or structs and what they hold."""
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a text that is no UTF-8, such as the name of a file in a reason
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        body = text.encode(errors="replace")
    return Response(body, status, headers, media_type="application/json")


def paged(items: Sequence[Any], total: int, offset: int, limit: int, taken_at_ms: int) -> Response:
    """A page of `items`, which are cut already."""
    return answer(
        Page(items=items, total=total, offset=offset, limit=limit, taken_at_ms=taken_at_ms)
    )


def refused(status: int, message: str) -> Response:
    """`{"error_code": 404, "message": "..."}`."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return answer({"error_code": status, "message": message}, status, headers)


async def in_thread(call: Callable[[], T], name: str) -> T:
    """The result or error of `call`, which asks clusters, from a thread of its own. The end of the
    run does not wait for the thread, even if a cluster does not answer."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(found: list[T], error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(found[0])

    def run() -> None:
        found: list[T] = []
        failure: Exception | None = None
        try:
            found.append(call())
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, found, failure)

    threading.Thread(target=run, name=f"http {name}", daemon=True).start()
    return await done
