"""A lane's side of a transform's stage, for tests of stages without Kafka."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from causeway.records import Batch, PlainRecord, Record, build, records_of
from causeway.transform import (
    Chunk,
    ChunkOutcome,
    Greeting,
    SealedConnection,
    Setup,
    WaitingForRegistry,
    path_of,
)

PATIENCE_S = 180.0


class FakeLane:
    """A listener for one stage's workers: hands out chunks, collects outcomes."""

    def __init__(
        self,
        secret: str,
        secrets: Mapping[str, str] | None = None,
        registry: dict[str, Any] | None = None,
    ) -> None:
        self.address = f"@causeway-test-{uuid.uuid4().hex}"
        self._secret = secret
        self._secrets = dict(secrets or {})
        self._registry = registry
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path_of(self.address))
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._ends: dict[str, SealedConnection] = {}
        self._processes: dict[SealedConnection, int] = {}
        self.deaths = 0  # how often a worker went away; the lane then lets go of the other one
        self.greetings: list[Greeting] = []
        self.waiting: list[str] = []  # what a worker said of its registry
        self.outcomes: list[ChunkOutcome] = []
        self.arrived: list[float] = []  # when each outcome did

    def turn(self, timeout_s: float = 0.05) -> None:
        """Sends and receives what can be."""
        for end in self._ends.values():
            with contextlib.suppress(ConnectionError):
                end.flush()
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                sock, _ = self._listener.accept()
                connection = SealedConnection(sock, self._secret, lane=True)
                peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                self._processes[connection] = struct.unpack("3i", peer)[0]
                connection.send(Setup(self._secrets, self._registry))
                self._selector.register(connection, selectors.EVENT_READ)
                continue
            assert isinstance(key.fileobj, SealedConnection)
            try:
                frames = key.fileobj.receive()
            except ConnectionError:
                self.deaths += 1
                self.hang_up()
                return
            for frame in frames:
                if isinstance(frame, Greeting):
                    self.greetings.append(frame)
                    self._ends[frame.end] = key.fileobj
                elif isinstance(frame, WaitingForRegistry):
                    self.waiting.append(frame.reason)
                elif isinstance(frame, ChunkOutcome):
                    self.outcomes.append(frame)
                    self.arrived.append(time.monotonic())

    def meet(self) -> None:
        """Waits for both workers."""
        self.until(lambda: len(self._ends) == 2)

    def process(self, end: str) -> int:
        """The id of a worker's process."""
        return self._processes[self._ends[end]]

    def send(self, *chunks: Chunk) -> None:
        for chunk in chunks:
            self._ends["source"].send(chunk)

    def until(self, condition: Any, patience_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < end, "it never came"
            self.turn()

    def take(self, count: int) -> list[ChunkOutcome]:
        """The next `count` outcomes."""
        self.until(lambda: len(self.outcomes) >= count)
        taken, self.outcomes = self.outcomes[:count], self.outcomes[count:]
        return taken

    def hang_up(self) -> None:
        """Closes the workers' connections; others may come."""
        for end in self._ends.values():
            self._selector.unregister(end)
            end.close()
        self._ends.clear()

    def close(self) -> None:
        self.hang_up()
        self._selector.close()
        self._listener.close()


class Running(threading.Thread):
    """`work` in a thread; `error` is what it raised."""

    def __init__(self, work: Any, *args: Any) -> None:
        super().__init__(daemon=True)
        self._work, self._args = work, args
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._work(*self._args)
        except Exception as error:
            self.error = error

    def ended(self) -> Exception | None:
        self.join(PATIENCE_S)
        assert not self.is_alive()
        return self.error


def batch_of(values: Sequence[bytes | PlainRecord | None], first: int = 0, codec: int = 0) -> Batch:
    """A dense batch; a value alone becomes a record with neither key nor header."""
    records: list[Record] = [
        value
        if isinstance(value, PlainRecord)
        else PlainRecord(first + i, 1_000_000, None, value, [])
        for i, value in enumerate(values)
    ]
    return build(
        records, codec=codec, first=first, next=first + len(records), leader_epoch=3, offsets=None
    )


def chunk_of(number: int, *batches: Batch, topic: str = "t", partition: int = 0) -> Chunk:
    return Chunk(number, topic, partition, batches[-1].next, batches)


def read(outcome: ChunkOutcome) -> Iterator[PlainRecord]:
    """The outcome's records, with their source offsets."""
    for output in outcome.outputs:
        for i, record in enumerate(records_of(output.batch)):
            yield PlainRecord(
                output.batch.source_offset(i),
                -1 if record.timestamp is None else record.timestamp,
                record.key,
                record.value,
                list(record.headers),
            )
