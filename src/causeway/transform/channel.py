"""What a lane and a stage say to each other: chunks of source records, and what became of them.

    lane ──Setup, Chunk, Chunk, …──► source worker ─► Spark SQL ─► sink worker ──Outcome, …──► lane
                                          └──Outcome, …──► lane
    lane ──Open, …, Chunk, Chunk, …──► direct worker ──Outcome or Odd, …──► lane

A stage is one Spark task with a Python worker at each end. Both connect to the lane's listener, a
Unix socket in local mode, and say who they are (Greeting). The source worker answers what it can
treat itself (direct.py). The direct worker is the lane's own process, and does so for all of its
transforms. What each worker says comes in the order of chunks.
All frames: 4-byte big-endian length of a JSON head, 4-byte length of the body, head, body.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Literal, NamedTuple

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


class Output(NamedTuple):
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


class Outcome(NamedTuple):
    """What became of a chunk. No batch of `outputs` reaches over a refused offset.

    `without_spark`: how many of the incoming records a worker treated itself; Spark treated the
    others. `found`, `missing`: in how many records each rule found its path, and how many lacked it
    (see rule_counts)."""

    number: int
    outputs: tuple[Output, ...]
    refused: tuple[Refusal, ...] = ()
    records_in: int = 0
    records_out: int = 0
    dropped: int = 0
    without_spark: int = 0
    found: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


class Odd(NamedTuple):
    """From a direct worker: only Spark can treat all of that chunk."""

    number: int


class Waiting(NamedTuple):
    """From a worker that waits for the schema registry, again and again: it is not dead. `reason`
    says why."""

    reason: str


Frame = Greeting | Setup | Open | Chunk | Outcome | Odd | Waiting


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
        case Odd():
            head = {"t": "odd", "n": frame.number}
        case Waiting():
            head = {"t": "waiting", "reason": frame.reason}
        case Outcome():
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


class Reader:
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
            return Odd(head["n"])
        case "waiting":
            return Waiting(head["reason"])
        case "outcome":
            batches = _batches([output[2] for output in head["outputs"]], body)
            outputs = tuple(
                Output(output[0], output[1], batch)
                for output, batch in zip(head["outputs"], batches, strict=True)
            )
            refused = tuple(Refusal(offset, reason) for offset, reason in head["refused"])
            *counts, found, missing = head["counts"]
            rules = tuple(found), tuple(missing)
            return Outcome._make((head["n"], outputs, refused, *counts, *rules))
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
