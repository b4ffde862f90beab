"""The socket between a lane and a stage's workers: frames of `channel`, sealed.

    connection  = 16 random bytes each way, then pieces
    piece       = 4-byte big-endian length, AES-256-GCM of a piece of the stream of frames

Each connection and direction has a key of its own (HKDF of the control secret and both ends' random
bytes) and counts its pieces, so a piece can be neither read nor made without the secret, nor
replayed. An address is `@` and the name of an abstract Unix socket, or host:port.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from causeway.transform.channel import Frame, Reader, encode

_RANDOM = 16
_LENGTH = struct.Struct(">I")
_PIECE = 1 << 20
_TAG = 16
_FIRST_PIECE = 64 * 1024  # of somebody who has not proved yet to have the secret
_TO_LANE, _TO_WORKER = b"causeway stage to lane", b"causeway lane to stage"
_CONNECT_S = 10.0


def path_of(address: str) -> str:
    """What the system calls the abstract Unix socket `address`."""
    return "\0" + address[1:]


class Connection:
    """One end, non-blocking; belongs to one thread. Sending and receiving raise ConnectionError
    once the peer is gone, or has sent what the secret does not vouch for."""

    def __init__(self, sock: socket.socket, secret: str, *, lane: bool) -> None:
        """`lane`: whether this is the lane's end."""
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._secret = secret.encode()
        self._lane = lane
        self._random = os.urandom(_RANDOM)
        self._out = bytearray(self._random)
        self._queued: list[Frame] = []  # until the peer's random bytes are here
        self._in = bytearray()
        self._reader = Reader()
        self._seal: AESGCM | None = None
        self._unseal: AESGCM | None = None
        self._sent = self._received = 0

    @classmethod
    def open(cls, address: str, secret: str) -> Self:
        """A worker's end. Raises OSError."""
        if address.startswith("@"):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(_CONNECT_S)
            sock.connect(path_of(address))
        else:
            host, _, port = address.rpartition(":")
            sock = socket.create_connection((host, int(port)), _CONNECT_S)
        return cls(sock, secret, lane=False)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def authenticated(self) -> bool:
        """Whether a piece has arrived, and with it the proof that the peer has the secret."""
        return self._received > 0

    @property
    def wants_write(self) -> bool:
        return bool(self._out)

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken yet."""
        return len(self._out)

    def send(self, frame: Frame) -> None:
        """Queues `frame` and sends what the socket takes now; `flush` sends the rest."""
        if self._seal is None:
            self._queued.append(frame)
        else:
            self._put(self._seal, frame)
        self.flush()

    def flush(self) -> bool:
        """Sends what the socket takes now; True when nothing is left."""
        while self._out:
            try:
                with memoryview(self._out) as view:
                    count = self._socket.send(view[:_PIECE])
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise ConnectionResetError(f"stage socket: {error}") from error
            del self._out[:count]
        return True

    def receive(self) -> list[Frame]:
        """All frames that are complete by now, in order; never blocks. At the peer's end of stream:
        the frames before it first, ConnectionError on the next call."""
        closed = self._read()
        frames: list[Frame] = []
        if self._begin():
            self._open_pieces()
            frames = list(self._reader.frames())
        if closed and not frames:
            raise ConnectionResetError("stage socket: closed by the other end")
        return frames

    def wait(self, timeout_s: float | None) -> list[Frame]:
        """As `receive`, but blocks for up to `timeout_s` until there is something to read, and
        sends meanwhile what waits to be sent."""
        writing = [self._socket] if self._out else []
        readable, writable, _ = select.select([self._socket], writing, [], timeout_s)
        if writable:
            self.flush()
        return self.receive() if readable else []

    def send_all(self, frame: Frame) -> None:
        """Blocks until all of `frame`, and what was queued before, is sent."""
        self.send(frame)
        while self._queued or not self.flush():
            if self._queued:
                select.select([self._socket], [], [])
                if self._read() and not self._begin():
                    raise ConnectionResetError("stage socket: closed by the other end")
                self._begin()
            else:
                select.select([], [self._socket], [])

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> bool:
        while True:
            try:
                data = self._socket.recv(_PIECE)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise ConnectionResetError(f"stage socket: {error}") from error
            if not data:
                return True
            self._in += data
            if not self._received and len(self._in) > _RANDOM + _LENGTH.size + _FIRST_PIECE:
                return False

    def _begin(self) -> bool:
        """Whether both ends' random bytes are known, and with them the keys."""
        if self._seal is not None:
            return True
        if len(self._in) < _RANDOM:
            return False
        peer = bytes(self._in[:_RANDOM])
        del self._in[:_RANDOM]
        salt = self._random + peer if self._lane else peer + self._random
        to_lane, to_worker = (
            AESGCM(HKDF(SHA256(), 32, salt, info).derive(self._secret))
            for info in (_TO_LANE, _TO_WORKER)
        )
        self._seal, self._unseal = (to_worker, to_lane) if self._lane else (to_lane, to_worker)
        queued, self._queued = self._queued, []
        for frame in queued:
            self._put(self._seal, frame)
        self.flush()
        return True

    def _put(self, seal: AESGCM, frame: Frame) -> None:
        data = b"".join(encode(frame))
        for at in range(0, len(data), _PIECE):
            sealed = seal.encrypt(self._sent.to_bytes(12, "big"), data[at : at + _PIECE], None)
            self._sent += 1
            self._out += _LENGTH.pack(len(sealed))
            self._out += sealed

    def _open_pieces(self) -> None:
        assert self._unseal is not None
        while len(self._in) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._in)
            most = _PIECE + _TAG if self._received else _FIRST_PIECE
            if size > most:
                raise ConnectionAbortedError("stage socket: a piece is too long")
            if len(self._in) < _LENGTH.size + size:
                return
            sealed = bytes(self._in[_LENGTH.size : _LENGTH.size + size])
            del self._in[: _LENGTH.size + size]
            try:
                data = self._unseal.decrypt(self._received.to_bytes(12, "big"), sealed, None)
            except InvalidTag:
                raise ConnectionAbortedError("stage socket: a piece without the secret") from None
            self._received += 1
            self._reader.feed(data)
