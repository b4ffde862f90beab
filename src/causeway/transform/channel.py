"""Frames between a lane and a stage: source records in chunks, and their outcomes.

    lane ──Setup, Chunk, …──► source worker ─► Spark SQL ─► sink worker ──ChunkOutcome, …──► lane
                                   └──ChunkOutcome, …──► lane
    lane ──Open, …, Chunk, …──► direct worker ──ChunkOutcome or NeedsSpark, …──► lane

A stage is one Spark task with a Python worker at each end. Both workers connect to the lane's
listener, a Unix socket in local mode, and send a Greeting first. The source worker answers the
chunks that it can treat without Spark (direct.py). The direct worker is a process of the lane and
does this for all transforms of the lane. Each worker answers chunks in their order.

A frame is MessagePack of (kind, field, …), over a sealed connection (causeway/sealed.py).
An address is `@` and the name of an abstract Unix socket, or host:port.
"""

from __future__ import annotations

import socket
from array import array
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final, Literal, NamedTuple, Self

import msgspec

from causeway.records import Batch, read
from causeway.sealed import LENGTH, SealedProtocol, SealedStream

_CONNECT_S = 10.0


class Greeting(NamedTuple):
    """The first frame of a worker. `stage`: the key of its stage, empty for a direct worker;
    `attempt` distinguishes the workers of a relaunched stage from the workers before."""

    stage: str
    attempt: str
    end: Literal["source", "sink", "direct"]


@dataclass(frozen=True, slots=True)
class Setup:
    """The lane's first frame to a worker of a stage: data that a closure or a plan must not have.

    `secrets` become the fields of the hidden column `secrets`. `registry`: a RegistrySettings in
    JSON's types. `routes`: a pickled Routes in base 64; by it the sink worker refuses records
    without a valid destination. None: the driver checks destinations.
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
    on the source, to which the replication policy applies; None for the mirror's own topic.
    `partition`: None for that of the source. `batch.offsets` has the source offset of each record.
    If one record became several, its offset is repeated, and all of them are in one batch."""

    topic: str | None
    partition: int | None
    batch: Batch


class Refusal(NamedTuple):
    """A record that the transform cannot treat. `reason` never quotes the record."""

    offset: int
    reason: str


class ChunkOutcome(NamedTuple):
    """The outcome of a chunk. No batch of `outputs` has offsets on both sides of a refused one.

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
    """From a worker that waits for the schema registry. It is sent before each attempt, and shows
    that the worker lives."""

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
    data = bytearray(LENGTH.size)
    _ENCODER.encode_into((_KINDS.index(type(frame)), *fields), data, LENGTH.size)
    LENGTH.pack_into(data, 0, len(data) - LENGTH.size)
    return data


def _readable(batch: Batch) -> Batch:
    """Raises ProtocolError for a damaged payload. Offsets become an array, which is sent as
    bytes."""
    offsets = None if batch.offsets is None else array("q", batch.offsets)
    return batch._replace(payload=read(batch), offsets=offsets, unread=None)


def decode(body: memoryview) -> Frame:
    """Raises ValueError for bytes that are not a frame."""
    number, *fields = msgspec.msgpack.decode(body)
    kind = _KINDS[number]
    if kind is Chunk:
        fields[4] = tuple(map(_batch, fields[4]))
    elif kind is ChunkOutcome:
        fields[1] = tuple(OutletBatch(topic, at, _batch(batch)) for topic, at, batch in fields[1])
        fields[2] = tuple(Refusal(*refusal) for refusal in fields[2])
        fields[-2:] = map(tuple, fields[-2:])
    frame: Frame = kind(*fields)
    return frame


def _batch(fields: list[Any]) -> Batch:
    offsets: array[int] | None = None
    if fields[8] is not None:
        offsets = array("q")
        offsets.frombytes(fields[8])
    return Batch._make((*fields[:8], offsets, None))


def path_of(address: str) -> str:
    """Returns the system's name of the abstract Unix socket `address`."""
    return "\0" + address[1:]


_PROTOCOL: Final = SealedProtocol("lane", "stage", encode, decode)


class SealedConnection(SealedStream[Frame]):
    """One end of the connection between a lane and a worker."""

    def __init__(self, sock: socket.socket, secret: str, *, lane: bool) -> None:
        """`lane`: this is the lane's end."""
        super().__init__(sock, secret, _PROTOCOL, is_first=lane)

    @classmethod
    def open(cls, address: str, secret: str) -> Self:
        """Opens a worker's end. Raises OSError."""
        if address.startswith("@"):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(_CONNECT_S)
            sock.connect(path_of(address))
        else:
            host, _, port = address.rpartition(":")
            sock = socket.create_connection((host, int(port)), _CONNECT_S)
        return cls(sock, secret, lane=False)
