"""Answers are made once a view: whoever asks the same of it again gets the same bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from causeway.http.coalesced_cache import Paced
from causeway.http.view import View

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OF_VIEWS: Final = ("/api/v1/", "/connectors")
_NOT: Final = ("/api/v1/history", "/api/v1/events", "/translate")  # these ends
_MOST: Final = 64  # answers of a view: 16 MB, and a page open in a browser asks a dozen things
_MOST_BYTES: Final = 256 * 1024  # of one that is kept


class Remembered:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, views: Paced[View]) -> None:
        self._app = app
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["method"] != "GET" or not path.startswith(_OF_VIEWS) or path.endswith(_NOT):
            await self._app(scope, receive, send)
            return
        try:
            view = await self._views.newest()
        except Exception:  # the application comes upon it as well, and has an answer to it
            await self._app(scope, receive, send)
            return
        key = path.encode(), scope["query_string"]
        if (known := view.answers.get(key)) is not None:
            for message in known:
                await send(message)
            return
        told: list[Message] = []
        await self._app(scope, receive, _noting(told, send))
        size = sum(len(message.get("body", b"")) for message in told)
        if told and told[0].get("status") == 200 and size <= _MOST_BYTES:
            if len(view.answers) >= _MOST:
                view.answers.clear()
            view.answers[key] = tuple(told)


def _noting(told: list[Message], send: Send) -> Callable[[Message], Awaitable[None]]:
    async def note(message: Message) -> None:
        told.append(message)
        await send(message)

    return note
