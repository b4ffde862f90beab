"""What a lane and a stage say to each other: chunks of source records, and what became of them.

    lane ──Setup, Chunk, …──► source worker ─► Spark SQL ─► sink worker ──ChunkOutcome, …──► lane
                                          └──ChunkOutcome, …──► lane
    lane ──Open, …, Chunk, Chunk, …──► direct worker ──ChunkOutcome or NeedsSpark, …──► lane

A stage is one Spark task with a Python worker at each end. Both connect to the lane's listener, a
Unix socket in local mode, and say who they are (Greeting). The source worker answers what it can
treat itself (direct.py). The direct worker is the lane's own process, and does so for all of its
transforms. What each worker says comes in the order of chunks.
All frames: 4-byte big-endian length of a JSON head, 4-byte length of the body, head, body.

The socket between a lane and a stage's workers: frames of `channel`, sealed.

    connection  = 16 random bytes each way, then pieces
    piece       = 4-byte big-endian length, AES-256-GCM of a piece of the stream of frames

Each connection and direction has a key of its own (HKDF of the control secret and both ends' random
bytes) and counts its pieces, so a piece can be neither read nor made without the secret, nor
replayed. An address is `@` and the name of an abstract Unix socket, or host:port.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Literal, NamedTuple, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from causeway.records import Batch, read

_LENGTHS = Struct(">II")
FRAME_LIMIT = 1 << 30


class Greeting(NamedTuple):
    """A worker's first word. `stage`: the key of the stage that it is an end of; `attempt` tells a
    relaunched stage's workers from those of the one before. A direct worker is of no stage."""

    stage: str
    attempt: str
    end: Literal["source", "sink", "direct"]


@dataclass(frozen=True, slots=True)
class Setup:
    """The lane's first word to a source worker: what must not stand in a closure or a plan.

    `secrets` become the fields of the hidden column `secrets`; `registry` is a RegistrySettings in
    JSON's types, or None. To a sink worker it says the same. `routes`: a pickled Routes in base 64,
    by which the sink worker refuses records without a valid destination; None: the driver checks.
    """

    secrets: dict[str, str] = field(repr=False)
    registry: dict[str, Any] | None = field(default=None, repr=False)
    routes: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Open:
    """To a direct worker: chunks of `stage` may come. `shortcut`: a pickled Shortcut."""

    stage: str
    shortcut: bytes = field(repr=False)
    secrets: dict[str, str] = field(repr=False)


class Chunk(NamedTuple):
    """Source records of one partition, in order. `topic` is the source's name. `next`: the source
    offset after all that the chunk stands for. `number` counts a lane's chunks of one stage, or all
    that it sends to its direct worker, which is told the `stage`."""

    number: int
    topic: str
    partition: int
    next: int
    batches: tuple[Batch, ...]
    stage: str = ""


class OutletBatch(NamedTuple):
    """Transformed records for one target partition, in the order of the source. `topic` None: the
    mirror's own; else a name as on the source, to which the replication policy applies. `partition`
    None: the source's. `batch.offsets` has the source offset of each record, several times the same
    where one record became several; all that one record became lies in one batch."""

    topic: str | None
    partition: int | None
    batch: Batch


class Refusal(NamedTuple):
    """A record that the transform cannot treat. `reason` never quotes what is in the record."""

    offset: int
    reason: str


class ChunkOutcome(NamedTuple):
    """What became of a chunk. No batch of `outputs` reaches over a refused offset.

    `without_spark`: how many of the incoming records a worker treated itself; Spark treated the
    others. `found`, `missing`: in how many records each rule found its path, and how many lacked it
    (see rule_counts)."""

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
    """From a direct worker: only Spark can treat all of that chunk."""

    number: int


class WaitingForRegistry(NamedTuple):
    """From a worker that waits for the schema registry, again and again: it is not dead. `reason`
    says why."""

    reason: str


Frame = Greeting | Setup | Open | Chunk | ChunkOutcome | NeedsSpark | WaitingForRegistry


def encode(frame: Frame) -> list[bytes]:
    """The frame as buffers to be written one after the other."""
    body: list[bytes] = []
    head: dict[str, Any]
    match frame:
        case Greeting():
            head = {"t": "greeting", "stage": frame.stage, "attempt": frame.attempt}
            head["end"] = frame.end
        case Setup():
            head = {"t": "setup", "secrets": frame.secrets, "registry": frame.registry}
            head["routes"] = frame.routes
        case Open():
            head = {"t": "open", "stage": frame.stage, "secrets": frame.secrets}
            body.append(frame.shortcut)
        case Chunk():
            head = {
                "t": "chunk",
                "n": frame.number,
                "topic": frame.topic,
                "partition": frame.partition,
                "next": frame.next,
                "batches": [_batch_head(batch, body) for batch in frame.batches],
                "stage": frame.stage,
            }
        case NeedsSpark():
            head = {"t": "odd", "n": frame.number}
        case WaitingForRegistry():
            head = {"t": "waiting", "reason": frame.reason}
        case ChunkOutcome():
            head = {
                "t": "outcome",
                "n": frame.number,
                "outputs": [
                    [out.topic, out.partition, _batch_head(out.batch, body)]
                    for out in frame.outputs
                ],
                "refused": [list(refusal) for refusal in frame.refused],
                "counts": list(frame[3:]),
            }
    text = json.dumps(head, separators=(",", ":")).encode()
    return [_LENGTHS.pack(len(text), sum(map(len, body))), text, *body]


class FrameReader:
    """Frames out of a stream of bytes, however it is cut."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> None:
        self._data += data

    def frames(self) -> Iterator[Frame]:
        """Those that are complete. Raises ValueError for what is none."""
        while len(self._data) >= _LENGTHS.size:
            head_size, body_size = _LENGTHS.unpack_from(self._data)
            if head_size + body_size > FRAME_LIMIT:
                raise ValueError("a frame is too long")
            start = _LENGTHS.size + head_size
            if len(self._data) < start + body_size:
                return
            head = bytes(self._data[_LENGTHS.size : start])
            body = bytes(self._data[start : start + body_size])
            del self._data[: start + body_size]
            yield _decode(json.loads(head), memoryview(body))


def _decode(head: dict[str, Any], body: memoryview) -> Frame:
    match head["t"]:
        case "greeting":
            return Greeting(head["stage"], head["attempt"], head["end"])
        case "setup":
            return Setup(head["secrets"], head["registry"], head["routes"])
        case "chunk":
            batches = _batches(head["batches"], body)
            place = head["topic"], head["partition"], head["next"]
            return Chunk(head["n"], *place, batches, head["stage"])
        case "open":
            return Open(head["stage"], bytes(body), head["secrets"])
        case "odd":
            return NeedsSpark(head["n"])
        case "waiting":
            return WaitingForRegistry(head["reason"])
        case "outcome":
            batches = _batches([output[2] for output in head["outputs"]], body)
            outputs = tuple(
                OutletBatch(output[0], output[1], batch)
                for output, batch in zip(head["outputs"], batches, strict=True)
            )
            refused = tuple(Refusal(offset, reason) for offset, reason in head["refused"])
            *counts, found, missing = head["counts"]
            rules = tuple(found), tuple(missing)
            return ChunkOutcome._make((head["n"], outputs, refused, *counts, *rules))
        case other:
            raise ValueError(f"a frame of an unknown kind: {other}")


def _batch_head(batch: Batch, body: list[bytes]) -> list[int]:
    """The batch's fields; its payload and offsets go to `body`."""
    offsets = b"" if batch.offsets is None else array("q", batch.offsets).tobytes()
    payload = read(batch)
    body += (payload, offsets)
    return [len(payload), len(offsets), *batch[1:8]]


def _batches(heads: Sequence[list[int]], body: memoryview) -> tuple[Batch, ...]:
    found, at = [], 0
    for payload_size, offsets_size, *fields in heads:
        middle = at + payload_size
        end = middle + offsets_size
        offsets: array[int] | None = None
        if offsets_size:
            offsets = array("q")
            offsets.frombytes(body[middle:end])
        found.append(Batch._make((bytes(body[at:middle]), *fields, offsets, None)))
        at = end
    return tuple(found)


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


class SealedConnection:
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
        self._reader = FrameReader()
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
