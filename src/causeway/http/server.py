"""The HTTP server: a thread of the driver with its own event loop. It reads snapshots, and delays
no lane and no link. Its errors end only the server.

The web framework is imported in that thread, when the first call comes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from causeway.config import Settings
from causeway.http.history import Events, History, heard
from causeway.http.listener import BACKLOG, Certificate, Listener, TakenError, listen
from causeway.http.views import RunViews

if TYPE_CHECKING:
    from causeway.http.protocol import PatientServer
    from causeway.status import Look

_log = logging.getLogger("causeway.http")
_TICK_S: Final = 0.1
_AGAIN_S: Final = 5.0  # between two attempts, while another process has the address
_FRESH_S: Final = 60.0  # between two looks for changed certificates
_END_S: Final = 5.0
_GRACE_S: Final = 0.5  # for answers under way; uvicorn gives more, but logs an error then


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """`take`: call it with the function that looks at the run. `change`: call it with other
    settings of the same run; from then on requests may name their links. `address`: the server's
    URL, None if it is not served. `trouble`: why it is not served (yet)."""

    take: Callable[[Look], None]
    change: Callable[[Settings], None] = lambda _: None
    address: str | None = None
    trouble: str | None = None


@contextmanager
def served(settings: Settings) -> Iterator[Serving]:
    """Serves HTTP as [causeway.http.*] and [causeway.metrics.*] say, while the block lasts.

    If another process has the port of [causeway.http.*], the server tries again and again. Raises
    ConfigError for an address or certificate that cannot be used, or if metrics' port is taken.
    """
    run = settings.run
    if run.http.port is None and run.metrics_port is None:
        yield Serving(take=lambda _: None)
        return
    with heard() as events:
        thread = _ServerThread(settings, events)
        thread.start()
        try:
            yield Serving(
                take=thread.take,
                change=thread.change,
                address=thread.address,
                trouble=thread.trouble,
            )
        finally:
            thread.stop()


class _ServerThread:
    def __init__(self, settings: Settings, events: Events) -> None:
        self._events = events
        run = settings.run
        self._settings = settings
        self._app: Any = None  # for the settings; None before the first call
        self._http = run.http
        self._certificate = Certificate(run.http) if run.http.certificate else None
        self._metrics: Listener | None = None
        self._main: Listener | None = None
        self.trouble: str | None = None
        if run.metrics_port is not None:
            self._metrics = listen(run.metrics_host, run.metrics_port, "metrics")
        if run.http.port is not None:
            self._main = self._try_to_listen()
        self._views, self._history = RunViews(), History()
        self._servers: list[PatientServer] = []
        self._stopping = threading.Event()
        self._over: asyncio.Event | None = None  # the same for the loop, once the loop runs
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def address(self) -> str | None:
        """The URL of the server."""
        if self._main is None:
            return None
        host, port = self._main.getsockname()[:2]
        if ipaddress.ip_address(host).is_unspecified:
            host = socket.gethostname()
        scheme = "https" if self._certificate else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def take(self) -> Callable[[Look], None]:
        return self._views.take

    def change(self, settings: Settings) -> None:
        """Any thread may call it."""
        self._settings = settings
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._make_app)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._loop is not None and self._over is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_END_S)
        for each in (self._main, self._metrics):
            if each is not None:
                each.close()

    def _try_to_listen(self) -> Listener | None:
        """Returns None if another process has the address."""
        assert self._http.port is not None
        try:
            return listen(self._http.host, self._http.port, "http")
        except TakenError as taken:
            self.trouble = str(taken)
            return None

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            _log.error("the server of metrics and status has ended", exc_info=error)

    async def _serve(self) -> None:
        self._over = over = asyncio.Event()
        self._loop = asyncio.get_running_loop()  # from now on, `stop` sets `over`
        if self._stopping.is_set():
            return
        doors = [asyncio.create_task(self._guarded("metrics"))] if self._metrics else []
        helpers = []
        if self._http.port is not None:
            doors.append(asyncio.create_task(self._guarded("http")))
            helpers.append(asyncio.create_task(self._history.keep(self._views.views)))
            if self._certificate is not None:
                helpers.append(asyncio.create_task(self._renew(self._certificate)))
        await over.wait()
        for server in self._servers:
            server.end()
        for task in helpers:
            task.cancel()
        self._views.views.close()
        cutting = asyncio.create_task(self._cut_off())
        found = await asyncio.gather(*doors, *helpers, return_exceptions=True)
        cutting.cancel()
        for each in found:
            if isinstance(each, Exception):
                raise each

    async def _cut_off(self) -> None:
        """Ends open requests: the end of the run does not wait for them."""
        await asyncio.sleep(_GRACE_S)
        for server in self._servers:
            for connection in list(server.server_state.connections):
                connection.transport.abort()
        await asyncio.sleep(_TICK_S)  # until all tasks know that their connections have ended
        for server in self._servers:
            for task in list(server.server_state.tasks):
                task.cancel()

    async def _guarded(self, what: Literal["http", "metrics"]) -> None:
        """Closes the socket if the server cannot continue, so that clients do not wait."""
        try:
            await (self._serve_metrics() if what == "metrics" else self._serve_main())
        except Exception as error:
            _log.error("serves no more", exc_info=error, extra={"what": what})
            sock = self._metrics if what == "metrics" else self._main
            if sock is not None:
                sock.close()

    async def _serve_metrics(self) -> None:
        assert self._metrics is not None
        if await self._called(self._metrics):
            from causeway.http.app import metrics_app

            await self._serve_app(metrics_app(self._views, self._settings.run), self._metrics)

    async def _serve_main(self) -> None:
        await self._await_address()
        if self._main is None or not await self._called(self._main):
            return
        self._make_app(first=True)

        async def newest(scope: Any, receive: Any, send: Any) -> None:
            await self._app(scope, receive, send)

        await self._serve_app(newest, self._main, self._certificate)

    def _make_app(self, *, first: bool = False) -> None:
        """Makes the application with the present settings, if a call has come."""
        if self._app is None and not first:
            return
        from causeway.http.actions import Actions
        from causeway.http.app import main_app

        settings = self._settings
        worker = (self.address or "").partition("://")[2]
        self._app = main_app(
            self._views, self._history, self._events, settings, worker, Actions(settings)
        )

    async def _called(self, sock: socket.socket) -> bool:
        """Whether a call arrives before the end of the run. The framework is loaded for the first
        call, which waits for it. A run without calls saves its time and memory."""
        assert self._over is not None
        pending = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(sock, pending.set)
        waiting = [asyncio.create_task(each.wait()) for each in (pending, self._over)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(sock)
            for each in waiting:
                each.cancel()
        return not self._stopping.is_set()

    async def _serve_app(
        self, app: Any, door: Listener, certificate: Certificate | None = None
    ) -> None:
        server = _server(app, door, certificate)
        self._servers.append(server)
        await server.serve(sockets=[door])

    async def _await_address(self) -> None:
        """Returns when the address is ours, or the run ends."""
        assert self._over is not None
        while self._main is None and not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _AGAIN_S)
                return
            self._main = self._try_to_listen()
            if self._main is not None:
                _log.info("served", extra={"address": self.address})

    async def _renew(self, certificate: Certificate) -> None:
        while True:
            await asyncio.sleep(_FRESH_S)
            certificate.renew()


def _server(app: Any, door: Listener, certificate: Certificate | None = None) -> PatientServer:
    from uvicorn import Config

    from causeway.http.protocol import BoundedProtocol, PatientServer, in_pieces

    context: Callable[..., ssl.SSLContext] | None = None
    if certificate is not None:
        ready = certificate.context
        context = lambda *_: ready  # noqa: E731

    async def until_cut_off(scope: Any, receive: Any, send: Any) -> None:
        with suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    config = Config(
        in_pieces(until_cut_off),
        http=partial(BoundedProtocol, connections=door.connections),  # type: ignore[arg-type]
        backlog=BACKLOG,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # requests of port scanners are not worth a warning
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ssl_context_factory=context,
    )
    return PatientServer(config)
