"""uvicorn's protocol and server, with bounds on the memory and the time of the driver that a
connection may use. A connection needs no token, so nothing may grow with the bytes that a caller
sends or does not read. The server uses no CPU while no client calls.

    read      1 KB at a time, and nothing while a request that came too early waits
    head      64 KB and 100 headers
    answer    written in pieces of 64 KB, the next one once its client took most of the last
    time      2 minutes for a request and its answer, 10 seconds without taking any of the answer
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from uvicorn import Config, Server
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from causeway.http.listener import OpenConnection, OpenConnections

PATIENCE_S: Final = 120.0  # the longest time for a request and its answer
UNREAD_S: Final = 10.0  # in this time a client takes at least a piece of its answer
_MOST_BYTES: Final = 64 * 1024  # of a request's head
_MOST_HEADERS: Final = 100
_READ_BYTES: Final = 1024  # at a time: all requests in these bytes are parsed at once
_PIECE_BYTES: Final = 64 * 1024  # of an answer
_DATE_S: Final = 1.0  # between two settings of the answers' date


class _Flow(FlowControl):
    """Reads nothing while requests wait, even if the application asks for more. So the requests of
    a client that does not wait for answers are read one after the other."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """Ends a connection if the head of a request is too long, if it has too many headers, if the
    request and its answer take longer than `PATIENCE_S`, or if the client does not read the answer.
    Between requests uvicorn's own limit of 5 seconds counts. As a BufferedProtocol it decides how
    many bytes asyncio reads at a time."""

    def __init__(
        self, *given: Any, connections: OpenConnections | None = None, **more: Any
    ) -> None:
        super().__init__(*given, **more)
        self._connections = connections
        self._open: OpenConnection | None = None
        # asyncio's TLS fills a slice of the buffer, which must not be a copy.
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._unparsed = 0  # bytes received since the last complete head
        self._parsed = False
        self._overdue: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        if self._connections is not None:
            self._open = self._connections.of(transport.get_extra_info("socket"))
        if self._open is not None:
            self._open.close = transport.abort
        self._restart_patience()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._overdue, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        self._parsed = False
        super().data_received(data)
        self._unparsed = 0 if self._parsed else self._unparsed + len(data)
        if self._unparsed > _MOST_BYTES:
            self.transport.abort()
        self._note_busy()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > _MOST_HEADERS:
            self.transport.abort()
            raise ValueError("too many headers")  # so that the rest is not parsed

    def on_headers_complete(self) -> None:
        self._parsed = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._parsed = True
        super().on_body(body)

    def on_response_complete(self) -> None:
        self._restart_patience()
        super().on_response_complete()
        self.flow.resume_reading()  # if no other request waits
        self._note_busy()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)
        self._note_busy()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
        self._note_busy()

    def _note_busy(self) -> None:
        if self._open is not None and self.flow is not None:
            cycle = self.cycle
            asked = cycle is not None and not (cycle.more_body or cycle.response_complete)
            self._open.busy = (asked or bool(self.pipeline)) and not self.flow.write_paused

    def _restart_patience(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = self.loop.call_later(PATIENCE_S, self.transport.abort)


def in_pieces(app: ASGIApp) -> ASGIApp:
    """Returns `app` with answers that are written piece by piece. So the driver holds no second
    copy of a large answer if the client reads slowly."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        async def piecewise(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= _PIECE_BYTES:
                await send(message)
                return
            rest = memoryview(body)
            while len(rest) > _PIECE_BYTES:
                await send({**message, "body": bytes(rest[:_PIECE_BYTES]), "more_body": True})
                rest = rest[_PIECE_BYTES:]
            await send({**message, "body": bytes(rest)})

        await app(scope, receive, piecewise)

    return answered


class PatientServer(Server):
    """Waits for an event to end. uvicorn's server checks ten times a second."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Call it in the loop's thread."""
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _DATE_S)
