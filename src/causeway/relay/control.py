"""Both ends of the control socket between the driver and its lanes.

    connection  = 16 random bytes each way, then frames
    frame       = 4-byte big-endian length, Fernet token of (session, number, more, piece)

`session` is the two ends' random bytes and the direction, `number` counts the frames of one
direction, `more` says that the message continues in the next frame. So a frame can be neither read
nor made without the key, nor replayed, in this connection or in another; and frames are small, so
that nobody without it makes an end hold much. The key is made for each driver process and reaches
lanes through the environment variable `CAUSEWAY_CONTROL_SECRET`, never through a closure, an
argument or a file.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from cryptography.fernet import Fernet, InvalidToken

from causeway.relay.messages import Hello, ToDriver, ToLane, decode, encode

SECRET_VARIABLE = "CAUSEWAY_CONTROL_SECRET"  # noqa: S105  the variable's name
_log = logging.getLogger("causeway.control")
_NONCE = 16
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_PIECE_BYTES = 32 * 1024  # of a message in a frame
_FRAME_LIMIT = 64 * 1024
_LAST, _MORE = b".", b"+"
_HELLO_TIMEOUT_S = 10.0
_STRANGERS = 64  # connections that have not proved yet that they have the key
_ACCEPT_PAUSE_S = 1.0  # after the system had no room for another connection
_LOG_S = 60.0  # how often to log that strangers were shut out
_TO_LANE, _TO_DRIVER = b"l", b"d"


def new_secret() -> str:
    """A fresh key, as text for the environment."""
    return Fernet.generate_key().decode()


class Channel:
    """One end of a control connection, non-blocking.

    Sending is safe from any thread; receiving belongs to one. Both raise ConnectionError once the
    peer is gone, or has sent a frame that the key does not vouch for.
    """

    def __init__(self, sock: socket.socket, key: str, *, outgoing: bytes, incoming: bytes) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = sock
        self._fernet = Fernet(key)
        self._outgoing, self._incoming = outgoing, incoming
        self._nonce = os.urandom(_NONCE)
        self._session = b""  # both ends' random bytes, once the peer's are here
        self._sent = self._received = 0
        self._out = bytearray(self._nonce)
        self._in = bytearray()
        self._begun = bytearray()  # a message whose last piece is not here yet
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def ready(self) -> bool:
        """Whether the peer's random bytes are here, so that `send` may be called."""
        return bool(self._session)

    @property
    def authenticated(self) -> bool:
        """Whether a frame has arrived, and with it the proof that the peer has the key."""
        return self._received > 0

    @property
    def wants_write(self) -> bool:
        return bool(self._out)

    def send(self, message: ToLane | ToDriver) -> None:
        """Queues `message` and sends what the socket takes now; `flush` sends the rest."""
        body = encode(message)
        with self._lock:
            for at in range(0, len(body), _PIECE_BYTES):
                more = _MORE if at + _PIECE_BYTES < len(body) else _LAST
                head = self._session + self._outgoing + _NUMBER.pack(self._sent) + more
                token = self._fernet.encrypt(head + body[at : at + _PIECE_BYTES])
                self._sent += 1
                self._out += _LENGTH.pack(len(token))
                self._out += token
        self.flush()

    def flush(self) -> bool:
        """Sends what the socket takes now; True when nothing is left."""
        with self._lock:
            while self._out:
                try:
                    count = self._socket.send(self._out)
                except (BlockingIOError, InterruptedError):
                    return False
                except OSError as error:
                    raise ConnectionResetError(f"control socket: {error}") from error
                del self._out[:count]
        return True

    def receive(self) -> list[ToLane | ToDriver]:
        """All messages that are complete by now, in order; never blocks.

        At the peer's end of stream: the messages before it first, ConnectionError on the next call.
        """
        closed = self._read()
        messages = []
        while (frame := self._next_frame()) is not None:
            more, piece = self._open(frame)
            self._begun += piece
            if more == _LAST:
                messages.append(decode(bytes(self._begun)))
                self._begun.clear()
        if closed and not messages:
            raise ConnectionResetError("control socket: closed by the other end")
        return messages

    @property
    def address(self) -> str:
        """Of this end: by it the peer's machine reaches this one."""
        return str(self._socket.getsockname()[0])

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> bool:
        while True:
            try:
                data = self._socket.recv(1 << 18)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise ConnectionResetError(f"control socket: {error}") from error
            if not data:
                return True
            self._in += data
            if len(self._in) > _FRAME_LIMIT:
                return False  # what is here is judged first, the rest stays in the socket

    def _take_greeting(self) -> bool:
        if self._session:
            return True
        if len(self._in) < _NONCE:
            return False
        theirs = bytes(self._in[:_NONCE])
        del self._in[:_NONCE]
        # The driver's bytes first, so that both ends put the same session together.
        ours_first = self._outgoing == _TO_LANE
        self._session = self._nonce + theirs if ours_first else theirs + self._nonce
        return True

    def _next_frame(self) -> bytes | None:
        if not self._take_greeting():
            return None
        if len(self._in) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._in)
        if length > _FRAME_LIMIT:
            raise ConnectionAbortedError(f"control socket: a frame of {length} bytes")
        end = _LENGTH.size + length
        if len(self._in) < end:
            return None
        frame = bytes(self._in[_LENGTH.size : end])
        del self._in[:end]
        return frame

    def _open(self, frame: bytes) -> tuple[bytes, bytes]:
        """Whether the message goes on (`_MORE` or `_LAST`), and its piece."""
        try:
            text = self._fernet.decrypt(frame)
        except InvalidToken:
            raise ConnectionAbortedError("control socket: a frame with another key") from None
        head = self._session + self._incoming + _NUMBER.pack(self._received)
        if not text.startswith(head):
            raise ConnectionAbortedError("control socket: a frame of another session")
        self._received += 1
        return text[len(head) : len(head) + 1], text[len(head) + 1 :]


class ControlClient(Channel):
    """A lane's end. The constructor blocks, at most `timeout_s`; nothing else does.

    Raises ConnectionError or TimeoutError where no driver answers.
    """

    def __init__(self, host: str, port: int, key: str, *, timeout_s: float = 10.0) -> None:
        deadline = time.monotonic() + timeout_s
        sock = socket.create_connection((host, port), timeout_s)
        super().__init__(sock, key, outgoing=_TO_DRIVER, incoming=_TO_LANE)
        try:
            self.flush()
            while not self.ready:
                self._await_greeting(deadline)
        except BaseException:
            sock.close()
            raise

    def _await_greeting(self, deadline: float) -> None:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._socket], [], [], left)[0]:
            raise TimeoutError("control socket: no answer from the driver")
        if self._read():
            raise ConnectionResetError("control socket: closed by the other end")
        self._take_greeting()


class LaneConnection:
    """The driver's end of one lane's connection. `send` may be called from any thread; where the
    lane is gone it does nothing: `on_closed` is called."""

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
        """Closes the connection; `on_closed` follows from the server's thread."""
        self._dead = True
        self._wake()


class ControlServer:
    """The driver's end: one thread that serves all lanes and calls back.

    `on_hello(connection)` when a lane has introduced itself, `on_message(connection, message)` for
    each later message, `on_closed(connection)` once for each that said hello. The callbacks run in
    the server's thread, one at a time, and must not block. If one raises, the server closes and
    `failure` holds the exception. Of connections that have not proved to have the key, it keeps at
    most `_STRANGERS`, each for a few seconds; it closes the oldest first, and logs that."""

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
        with suppress(OSError):  # it has not seen the last one yet, or is closed
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
                self._drain_wakes()
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
            return  # it gave up between the two calls
        except OSError as error:  # out of descriptors or memory: trying at once again would spin
            _log.warning("no room for a lane's connection", extra={"reason": error.strerror})
            self._selector.unregister(self._listener)
            self._accept_at = time.monotonic() + _ACCEPT_PAUSE_S
            return
        channel = Channel(sock, self._key, outgoing=_TO_LANE, incoming=_TO_DRIVER)
        connection = LaneConnection(channel, self._wake, str(address[0]))
        self._connections.add(connection)
        self._selector.register(channel, selectors.EVENT_READ, connection)
        strangers = [other for other in self._connections if not other._channel.authenticated]
        if len(strangers) > _STRANGERS:
            self._close(min(strangers, key=lambda other: other._opened))

    def _drain_wakes(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

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
                wants = not channel.flush()
            except ConnectionError:
                connection._dead = True
            else:
                mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants else 0)
                if self._selector.get_key(channel).events != mask:
                    self._selector.modify(channel, mask, connection)
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
