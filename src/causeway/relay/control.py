"""Both ends of the control socket between the driver and its lanes, a sealed connection
(causeway/sealed.py).

Each driver process makes a key. Lanes get it through the environment variable
`CAUSEWAY_CONTROL_SECRET`, never through a closure, an argument or a file.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from cryptography.fernet import Fernet

from causeway.relay.messages import Hello, ToDriver, ToLane, decode, encode
from causeway.sealed import LENGTH, SealedProtocol, SealedStream

SECRET_VARIABLE = "CAUSEWAY_CONTROL_SECRET"  # noqa: S105  the variable's name
_log = logging.getLogger("causeway.control")
_HELLO_TIMEOUT_S = 10.0
_STRANGERS = 64  # the most connections that have not yet proved that they have the key
_ACCEPT_PAUSE_S = 1.0  # after the system had no descriptor or memory for another connection
_LOG_S = 60.0  # how often to log that strangers were shut out


def new_secret() -> str:
    """Returns a fresh key, as text for the environment."""
    return Fernet.generate_key().decode()


def _framed(message: ToLane | ToDriver) -> bytes:
    body = encode(message)
    return LENGTH.pack(len(body)) + body


_PROTOCOL: Final = SealedProtocol("driver", "control", _framed, decode)
Channel = SealedStream[ToLane | ToDriver]


class ControlClient(Channel):
    """The lane's end. Only the constructor blocks, at most `timeout_s` for each step.

    It raises ConnectionError or TimeoutError if no driver answers.
    """

    def __init__(self, host: str, port: int, key: str, *, timeout_s: float = 10.0) -> None:
        sock = socket.create_connection((host, port), timeout_s)
        super().__init__(sock, key, _PROTOCOL, is_first=False)
        try:
            self.flush()
            ready = self.wait_until_ready(timeout_s)
        except BaseException:
            sock.close()
            raise
        if not ready:
            sock.close()
            raise TimeoutError("control socket: no answer from the driver")


class LaneConnection:
    """The driver's end of one lane's connection. Any thread may call `send`. It does nothing if the
    lane is gone: the server calls `on_closed`."""

    def __init__(self, channel: Channel, wake: Callable[[], None], peer: str) -> None:
        self._channel = channel
        self._wake = wake
        self._peer = peer
        self._opened = time.monotonic()
        self._dead = False
        self.hello: Hello | None = None

    def send(self, message: ToLane) -> None:
        if self._dead:
            return
        try:
            self._channel.send(message)
        except ConnectionError:
            self._dead = True
        if self._dead or self._channel.wants_write:
            self._wake()

    def drop(self) -> None:
        """Closes the connection. The server's thread then calls `on_closed`."""
        self._dead = True
        self._wake()


class ControlServer:
    """The driver's end: one thread that serves all lanes and calls back.

    It calls `on_hello(connection)` after a lane's Hello, `on_message(connection, message)` for each
    later message, and `on_closed(connection)` once for each connection that sent Hello. The
    callbacks run in the server's thread, one at a time, and must not block. If a callback raises,
    the server closes, and `failure` has the exception. The server keeps at most `_STRANGERS`
    connections that have not proved to have the key, each for a few seconds. It closes the oldest
    connection first, and logs that."""

    def __init__(
        self,
        host: str,
        key: str,
        *,
        on_hello: Callable[[LaneConnection], None],
        on_message: Callable[[LaneConnection, ToDriver], None],
        on_closed: Callable[[LaneConnection], None],
    ) -> None:
        self._key = key
        self._on_hello, self._on_message, self._on_closed = on_hello, on_message, on_closed
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=128)
        self._listener.setblocking(False)
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._connections: set[LaneConnection] = set()
        self._closing = False
        self._accept_at: float | None = None  # while the listener rests
        self._shut_out, self._logged_at = 0, -_LOG_S
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Closes all connections, which ends the lanes, and waits for the thread."""
        self._closing = True
        self._wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _wake(self) -> None:
        with suppress(OSError):  # the thread has not read the last byte yet, or has ended
            self._waker.send(b"w")

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._round()
            for connection in list(self._connections):
                self._close(connection)
        except Exception as error:  # the process's supervisor reads it
            self.failure = error
        finally:
            for item in (self._selector, self._listener, self._waker, self._woken):
                item.close()
            for connection in self._connections:
                connection._channel.close()

    def _round(self) -> None:
        for key, mask in self._selector.select(1.0):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                with suppress(BlockingIOError):
                    while self._woken.recv(4096):
                        pass
            elif mask & selectors.EVENT_READ:
                self._receive(key.data)
        for connection in list(self._connections):
            self._tend(connection)
        if self._accept_at is not None and time.monotonic() >= self._accept_at:
            self._accept_at = None
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _accept(self) -> None:
        try:
            sock, address = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # the client gave up between the two calls
        except OSError as error:  # no descriptors or memory: without a pause the loop would spin
            _log.warning("no room for a lane's connection", extra={"reason": error.strerror})
            self._selector.unregister(self._listener)
            self._accept_at = time.monotonic() + _ACCEPT_PAUSE_S
            return
        channel = Channel(sock, self._key, _PROTOCOL, is_first=True)
        connection = LaneConnection(channel, self._wake, str(address[0]))
        self._connections.add(connection)
        self._selector.register(channel, selectors.EVENT_READ, connection)
        strangers = [other for other in self._connections if not other._channel.authenticated]
        if len(strangers) > _STRANGERS:
            self._close(min(strangers, key=lambda other: other._opened))

    def _receive(self, connection: LaneConnection) -> None:
        try:
            messages = connection._channel.receive()
        except (ConnectionError, ValueError):  # ValueError: not one of our messages
            connection._dead = True
            return
        for message in messages:
            if isinstance(message, Hello):
                connection.hello = message
                self._on_hello(connection)
            elif connection.hello is not None:
                self._on_message(connection, message)  # type: ignore[arg-type]

    def _tend(self, connection: LaneConnection) -> None:
        channel = connection._channel
        silent = time.monotonic() - connection._opened > _HELLO_TIMEOUT_S
        if not connection._dead and not (connection.hello is None and silent):
            try:
                channel.flush()
            except ConnectionError:
                connection._dead = True
            else:
                channel.poll(self._selector)
                return
        self._close(connection)

    def _close(self, connection: LaneConnection) -> None:
        connection._dead = True
        self._connections.discard(connection)
        self._selector.unregister(connection._channel)
        connection._channel.close()
        if not connection._channel.authenticated and not self._closing:
            self._tell(connection)
        if connection.hello is not None:
            self._on_closed(connection)

    def _tell(self, connection: LaneConnection) -> None:
        self._shut_out += 1
        now = time.monotonic()
        if now - self._logged_at >= _LOG_S:
            _log.warning(
                "connections without the control key were closed",
                extra={"number": self._shut_out, "last": connection._peer, "port": self.port},
            )
            self._shut_out, self._logged_at = 0, now
