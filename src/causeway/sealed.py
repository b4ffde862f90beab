"""A sealed connection between two processes of Causeway.

    message     = 4-byte big-endian length, body
    connection  = 16 random bytes each way, then pieces
    piece       = 4-byte big-endian length, AES-256-GCM of a piece of the stream of messages

Each connection and direction has its own key, from HKDF of a shared secret and the random bytes of
both ends, and counts its pieces. So a piece cannot be read, made or replayed without the secret.
The first piece is small, so that a peer without the secret cannot fill an end's memory.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

LENGTH = struct.Struct(">I")
_MESSAGE_LIMIT = 1 << 30  # bytes
_RANDOM = 16
_PIECE = 1 << 20
_TAG = 16
_FIRST_PIECE = 64 * 1024  # the limit until the peer has proved that it has the secret

M = TypeVar("M")


class SealedProtocol(NamedTuple, Generic[M]):
    """`first`, `second`: the names of the ends. `encode`: its result includes the length. `decode`:
    its argument does not; it raises ValueError for bytes that are not a message."""

    first: str
    second: str
    encode: Callable[[M], bytes | bytearray]
    decode: Callable[[memoryview], M]


class MessageStream(Generic[M]):
    """Decodes messages from a stream of bytes that arrives in pieces of any size."""

    def __init__(self, decode: Callable[[memoryview], M]) -> None:
        self._decode = decode
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> None:
        self._data += data

    def messages(self) -> Iterator[M]:
        """Yields the complete messages. Raises ValueError for bytes that are not a message."""
        while len(self._data) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._data)
            if size > _MESSAGE_LIMIT:
                raise ValueError("a message is too long")
            end = LENGTH.size + size
            if len(self._data) < end:
                return
            with memoryview(self._data) as view, view[LENGTH.size : end] as body:
                message = self._decode(body)
            del self._data[:end]
            yield message


class SealedStream(Generic[M]):
    """One end of a sealed connection, non-blocking. Any thread may send; only one may receive. Both
    raise ConnectionError once the peer has closed, or has sent a piece that was not sealed with the
    secret."""

    def __init__(
        self, sock: socket.socket, secret: str, protocol: SealedProtocol[M], *, is_first: bool
    ) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = sock
        self._secret = secret.encode()
        self._protocol = protocol
        self._is_first = is_first
        self._random = os.urandom(_RANDOM)
        self._out = bytearray(self._random)
        self._queued: list[M] = []  # until the peer's random bytes arrive
        self._in = bytearray()
        self._stream = MessageStream(protocol.decode)
        self._seal: AESGCM | None = None
        self._unseal: AESGCM | None = None
        self._sent = self._received = 0
        self._lock = threading.RLock()  # for sending

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def address(self) -> str:
        """The address of this end, by which the peer's machine reaches this machine."""
        return str(self._socket.getsockname()[0])

    @property
    def ready(self) -> bool:
        """Whether the peer's random bytes have arrived."""
        return self._seal is not None

    @property
    def authenticated(self) -> bool:
        """Whether the peer has proved with a piece that it has the secret."""
        return self._received > 0

    @property
    def wants_write(self) -> bool:
        return bool(self._out)

    def poll(self, selector: selectors.BaseSelector) -> None:
        """Makes `selector` report room for writing only while it is needed."""
        known = selector.get_key(self)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        if wanted != known.events:
            selector.modify(self, wanted, known.data)

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken yet."""
        return len(self._out)

    def send(self, message: M) -> None:
        """Queues `message` and sends as much as the socket takes now; `flush` sends the rest."""
        with self._lock:
            if self._seal is None:
                self._queued.append(message)
            else:
                self._put(self._seal, message)
            self.flush()

    def flush(self) -> bool:
        """Sends as much as the socket takes now; True if nothing is left."""
        with self._lock:
            while self._out:
                try:
                    with memoryview(self._out) as view:
                        count = self._socket.send(view[:_PIECE])
                except (BlockingIOError, InterruptedError):
                    return False
                except OSError as error:
                    raise self._lost(str(error)) from error
                del self._out[:count]
        return True

    def receive(self) -> list[M]:
        """Returns all complete messages, in order. Never blocks. Once the peer has closed, returns
        the remaining messages, and raises ConnectionError on the next call."""
        closed = self._read()
        messages: list[M] = []
        if self._begin():
            self._open_pieces()
            messages = list(self._stream.messages())
        if closed and not messages:
            raise self._lost("closed by the other end")
        return messages

    def wait(self, timeout_s: float | None) -> list[M]:
        """Like `receive`, but waits up to `timeout_s` for data. Sends queued bytes meanwhile."""
        writing = [self._socket] if self._out else []
        readable, writable, _ = select.select([self._socket], writing, [], timeout_s)
        if writable:
            self.flush()
        return self.receive() if readable else []

    def wait_until_ready(self, timeout_s: float | None) -> bool:
        """Waits for the peer's random bytes, up to `timeout_s` for each part."""
        while not self._begin():
            if not select.select([self._socket], [], [], timeout_s)[0]:
                return False
            if self._read() and not self._begin():
                raise self._lost("closed by the other end")
        return True

    def send_all(self, message: M) -> None:
        """Blocks until all of `message`, and all messages queued before it, are sent."""
        self.send(message)
        self.wait_until_ready(None)
        while not self.flush():
            select.select([], [self._socket], [])

    def close(self) -> None:
        self._socket.close()

    def _lost(self, cause: str) -> ConnectionError:
        return ConnectionResetError(f"{self._protocol.second} socket: {cause}")

    def _read(self) -> bool:
        """Reads the received bytes. Returns whether the peer has closed."""
        while True:
            try:
                data = self._socket.recv(_PIECE)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise self._lost(str(error)) from error
            if not data:
                return True
            self._in += data
            if not self._received and len(self._in) > _RANDOM + LENGTH.size + _FIRST_PIECE:
                return False  # these bytes are checked first; the rest stays in the socket

    def _begin(self) -> bool:
        """Makes the keys once the peer's random bytes are here. Returns whether there are keys."""
        if self._seal is not None:
            return True
        if len(self._in) < _RANDOM:
            return False
        peer = bytes(self._in[:_RANDOM])
        del self._in[:_RANDOM]
        salt = self._random + peer if self._is_first else peer + self._random
        to_first, to_second = (
            AESGCM(HKDF(SHA256(), 32, salt, info.encode()).derive(self._secret))
            for info in (
                f"causeway {self._protocol.second} to {self._protocol.first}",
                f"causeway {self._protocol.first} to {self._protocol.second}",
            )
        )
        with self._lock:
            seals = (to_second, to_first) if self._is_first else (to_first, to_second)
            self._seal, self._unseal = seals
            for message in self._queued:
                self._put(seals[0], message)
            self._queued.clear()
            self.flush()
        return True

    def _put(self, seal: AESGCM, message: M) -> None:
        data = self._protocol.encode(message)
        at = 0
        while at < len(data):
            size = _PIECE if self._sent else _FIRST_PIECE - _TAG
            sealed = seal.encrypt(self._sent.to_bytes(12, "big"), data[at : at + size], None)
            at += size
            self._sent += 1
            self._out += LENGTH.pack(len(sealed))
            self._out += sealed

    def _open_pieces(self) -> None:
        assert self._unseal is not None
        while len(self._in) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._in)
            most = _PIECE + _TAG if self._received else _FIRST_PIECE
            if size > most:
                raise ConnectionAbortedError(f"a piece of {size} bytes is too long")
            if len(self._in) < LENGTH.size + size:
                return
            sealed = bytes(self._in[LENGTH.size : LENGTH.size + size])
            del self._in[: LENGTH.size + size]
            try:
                data = self._unseal.decrypt(self._received.to_bytes(12, "big"), sealed, None)
            except InvalidTag:
                raise ConnectionAbortedError("a piece without the secret") from None
            self._received += 1
            self._stream.feed(data)
