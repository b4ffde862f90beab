"""uvicorn's protocol with bounds on what a connection may hold of the driver: memory and time. None
needs a token for that, so nothing may grow with what callers send. And its server, at rest."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE_S: Final = 120.0  # for a request and its answer
_MOST_BYTES: Final = 64 * 1024  # of a request's head
_DATE_S: Final = 1.0  # so often the answers' date is set


class BoundedProtocol(HttpToolsProtocol):
    """Ends a connection whose request has too long a head, or is not asked and answered in
    `PATIENCE_S`. Between requests uvicorn's own limit counts, of 5 seconds."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._unparsed = 0  # bytes that have come since a head was whole
        self._parsed = False
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_anew()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._parsed = False
        super().data_received(data)
        self._unparsed = 0 if self._parsed else self._unparsed + len(data)
        if self._unparsed > _MOST_BYTES:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self._parsed = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._parsed = True
        super().on_body(body)

    def on_response_complete(self) -> None:
        self._wait_anew()
        super().on_response_complete()

    def _wait_anew(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = self.loop.call_later(PATIENCE_S, self.transport.abort)


class PatientServer(Server):
    """Waits to be told of its end, where uvicorn looks for it ten times a second."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._ended = asyncio.Event()

    def end(self) -> None:
        """From the loop's thread."""
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _DATE_S)
