"""uvicorn's protocol with bounds on what a connection may hold of the driver: memory and time. None
needs a token for that, so nothing may grow with what callers send."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE_S: Final = 120.0  # for a request and its answer
_MOST_BYTES: Final = 64 * 1024  # of a request's head


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
