"""Frames between a lane and a stage: source records in chunks, and what they became.

    lane ──Setup, Chunk, …──► source worker ─► Spark SQL ─► sink worker ──ChunkOutcome, …──► lane
                                   └──ChunkOutcome, …──► lane
    lane ──Open, …, Chunk, …──► direct worker ──ChunkOutcome or NeedsSpark, …──► lane

A stage is one Spark task with a Python worker at each end. Both workers connect to the lane's
listener, a Unix socket in local mode, and send a Greeting first. The source worker answers the
chunks that it can treat without Spark (direct.py). The direct worker is a process of the lane and
does this for all transforms of the lane. Each worker answers chunks in their order.

    frame       = 4-byte big-endian length, MessagePack of (kind, field, …)
    connection  = 16 random bytes each way, then pieces
    piece       = 4-byte big-endian length, AES-256-GCM of a piece of the stream of frames

Each connection and direction has its own key, from HKDF of the control secret and the random bytes
of both ends, and counts its pieces. So a piece cannot be read, made or replayed without the secret.
An address is `@` and the name of an abstract Unix socket, or host:port.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Literal, NamedTuple, Self

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from causeway.records import Batch, read

FRAME_LIMIT = 1 << 30  # bytes
_LENGTH = struct.Struct(">I")
_RANDOM = 16
_PIECE = 1 << 20
_TAG = 16
_FIRST_PIECE = 64 * 1024  # the limit until the peer has proved that it has the secret
_TO_LANE, _TO_WORKER = b"causeway stage to lane", b"causeway lane to stage"
_CONNECT_S = 10.0


class Greeting(NamedTuple):
    """The first frame of a worker. `stage`: the key of its stage, empty for a direct worker;
    `attempt` distinguishes the workers of a relaunched stage from the workers before."""

    stage: str
    attempt: str
    end: Literal["source", "sink", "direct"]


@dataclass(frozen=True, slots=True)
class Setup:
    """The lane's first frame to a worker of a stage: what a closure or a plan must not contain.

    `secrets` become the fields of the hidden column `secrets`. `registry`: a RegistrySettings in
    JSON's types. `routes`: a pickled Routes in base 64, by which the sink worker refuses records
    without a valid destination; None: the driver checks destinations.
    """

    secrets: dict[str, str] = field(repr=False)
    registry: dict[str, Any] | None = field(default=None, repr=False)
    routes: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Open:
    """To a direct worker: chunks of `stage` may follow. `shortcut`: a pickled Shortcut."""

    stage: str
    shortcut: bytes = field(repr=False)
    secrets: dict[str, str] = field(repr=False)


class Chunk(NamedTuple):
    """Source records of one partition, in order. `topic`: its name on the source. `next`: the
    source offset after the chunk. `number` counts a lane's chunks of one stage, or all chunks that
    the lane sends to its direct worker. `stage`: for a direct worker only."""

    number: int
    topic: str
    partition: int
    next: int
    batches: tuple[Batch, ...]
    stage: str = ""


class OutletBatch(NamedTuple):
    """Transformed records for one target partition, in the order of the source. `topic`: a name as
    on the source, to which the replication policy applies; None: the mirror's own topic.
    `partition` None: the source's. `batch.offsets` has the source offset of each record; an offset
    is repeated if one record became several, and these are all in one batch."""

    topic: str | None
    partition: int | None
    batch: Batch


class Refusal(NamedTuple):
    """A record that the transform cannot treat. `reason` never quotes the record."""

    offset: int
    reason: str


class ChunkOutcome(NamedTuple):
    """What a chunk became. No batch of `outputs` contains offsets on both sides of a refused one.

    `without_spark`: how many of the incoming records a worker treated itself. `found`, `missing`:
    for each rule, how many records had its path, and how many lacked it (see rows.py)."""

    number: int
    outputs: tuple[OutletBatch, ...]
    refused: tuple[Refusal, ...] = ()
    records_in: int = 0
    records_out: int = 0
    dropped: int = 0
    without_spark: int = 0
    found: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


class NeedsSpark(NamedTuple):
    """From a direct worker: the chunk has records that only Spark can treat."""

    number: int


class WaitingForRegistry(NamedTuple):
    """From a worker that waits for the schema registry, sent before each try: the worker lives."""

    reason: str


Frame = Greeting | Setup | Open | Chunk | ChunkOutcome | NeedsSpark | WaitingForRegistry
_KINDS: tuple[type[Frame], ...] = (
    *(Greeting, Setup, Open, Chunk),
    *(ChunkOutcome, NeedsSpark, WaitingForRegistry),
)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=array.tobytes)


def encode(frame: Frame) -> bytearray:
    fields: Sequence[Any]
    match frame:
        case Setup() | Open():
            fields = astuple(frame)
        case Chunk():
            fields = frame._replace(batches=tuple(map(_readable, frame.batches)))
        case ChunkOutcome():
            outputs = (one._replace(batch=_readable(one.batch)) for one in frame.outputs)
            fields = frame._replace(outputs=tuple(outputs))
        case _:
            fields = frame
    data = bytearray(_LENGTH.size)
    _ENCODER.encode_into((_KINDS.index(type(frame)), *fields), data, _LENGTH.size)
    _LENGTH.pack_into(data, 0, len(data) - _LENGTH.size)
    return data


def _readable(batch: Batch) -> Batch:
    """Raises ProtocolError for a damaged payload. Offsets become an array, sent as bytes."""
    offsets = None if batch.offsets is None else array("q", batch.offsets)
    return batch._replace(payload=read(batch), offsets=offsets, unread=None)


class FrameStream:
    """Decodes frames from a stream of bytes that arrives in pieces of any size."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> None:
        self._data += data

    def frames(self) -> Iterator[Frame]:
        """The frames that are complete. Raises ValueError for bytes that are not a frame."""
        while len(self._data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data)
            if size > FRAME_LIMIT:
                raise ValueError("a frame is too long")
            end = _LENGTH.size + size
            if len(self._data) < end:
                return
            with memoryview(self._data) as view:
                kind, *fields = msgspec.msgpack.decode(view[_LENGTH.size : end])
            del self._data[:end]
            yield _frame(_KINDS[kind], fields)


def _frame(kind: type[Frame], fields: list[Any]) -> Frame:
    if kind is Chunk:
        fields[4] = tuple(map(_batch, fields[4]))
    elif kind is ChunkOutcome:
        fields[1] = tuple(OutletBatch(topic, at, _batch(batch)) for topic, at, batch in fields[1])
        fields[2] = tuple(Refusal(*refusal) for refusal in fields[2])
        fields[-2:] = map(tuple, fields[-2:])
    return kind(*fields)


def _batch(fields: list[Any]) -> Batch:
    offsets: array[int] | None = None
    if fields[8] is not None:
        offsets = array("q")
        offsets.frombytes(fields[8])
    return Batch._make((*fields[:8], offsets, None))


def path_of(address: str) -> str:
    """The system's name of the abstract Unix socket `address`."""
    return "\0" + address[1:]


class SealedConnection:
    """One end of a sealed connection, non-blocking; for one thread. Sending and receiving raise
    ConnectionError once the peer has closed, or has sent a piece that was not sealed by the
    secret."""

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
        self._queued: list[Frame] = []  # until the peer's random bytes arrive
        self._in = bytearray()
        self._reader = FrameStream()
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
        """Whether the peer has proved, by a piece, that it has the secret."""
        return self._received > 0

    @property
    def wants_write(self) -> bool:
        return bool(self._out)

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken yet."""
        return len(self._out)

    def send(self, frame: Frame) -> None:
        """Queues `frame` and sends as much as the socket takes now; `flush` sends the rest."""
        if self._seal is None:
            self._queued.append(frame)
        else:
            self._put(self._seal, frame)
        self.flush()

    def flush(self) -> bool:
        """Sends as much as the socket takes now; True if nothing is left."""
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
        """All complete frames, in order; never blocks. Once the peer has closed: the frames before
        that first, ConnectionError on the next call."""
        closed = self._read()
        frames: list[Frame] = []
        if self._begin():
            self._open_pieces()
            frames = list(self._reader.frames())
        if closed and not frames:
            raise ConnectionResetError("stage socket: closed by the other end")
        return frames

    def wait(self, timeout_s: float | None) -> list[Frame]:
        """As `receive`, but waits up to `timeout_s` for data, and sends queued bytes meanwhile."""
        writing = [self._socket] if self._out else []
        readable, writable, _ = select.select([self._socket], writing, [], timeout_s)
        if writable:
            self.flush()
        return self.receive() if readable else []

    def send_all(self, frame: Frame) -> None:
        """Blocks until all of `frame`, and all frames queued before it, are sent."""
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
        """Whether the random bytes of both ends, and so the keys, are known."""
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
        data = encode(frame)
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
