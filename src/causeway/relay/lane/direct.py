"""A lane's direct worker: one process that treats chunks of all its transforms without Spark.

    chunks of each stage, by turns ──► direct worker ──ChunkOutcome──► flows of the stage
                                            └──NeedsSpark──► the stage's next chunks go to Spark

The worker starts when the first stage joins, and ends when the last stage leaves. If it dies, the
next worker gets the chunks without an answer. One of these chunks may have killed the worker, so
their stages are suspects. Then only one chunk of one suspect is under way at a time, until each
suspect has got an answer. If a chunk kills the worker alone, its stage goes to Spark, where single
records are blamed (chunks.py).
"""

from __future__ import annotations

import base64
import os
import selectors
import socket
import subprocess
import sys
import time
from typing import Protocol

from causeway.relay.control import SECRET_VARIABLE
from causeway.relay.messages import StageSpec
from causeway.transform import (
    Chunk,
    ChunkOutcome,
    Frame,
    Greeting,
    NeedsSpark,
    Open,
    SealedConnection,
)

MODULE = "causeway.transform.stage.direct_worker"
START_S = 60.0  # a worker that has not greeted by then has failed
ANSWER_S = 20.0  # a chunk takes only milliseconds: see queries and rules
STARTS = 3  # after this number of failed starts in a row, all stages go to Spark
LONGEST_PAUSE_S = 30.0
UNSENT_BYTES = 4 * 1024 * 1024


class DirectClient(Protocol):
    """A stage, while its chunks go to the direct worker."""

    @property
    def spec(self) -> StageSpec: ...

    def next_chunk(self) -> Chunk | None:
        """Returns the chunk to send next. It counts as sent."""

    def answered(self, outcome: ChunkOutcome) -> None: ...

    def unanswered(self) -> None:
        """The process has ended. The chunks without an answer must be sent again."""

    def to_spark(self) -> None:
        """A chunk needs Spark. The client must `leave`."""


class DirectWorker:
    """Not thread-safe; its clients belong to the same loop."""

    def __init__(self, secret: str, selector: selectors.BaseSelector) -> None:
        self._secret = secret
        self._selector = selector
        self._clients: dict[DirectClient, None] = {}
        self._asking: dict[DirectClient, None] = {}  # clients that may have a chunk, by turns
        self._suspects: dict[DirectClient, None] = {}
        # The worker's chunk number: the client and the client's number. None if the client has
        # left; the worker answers that chunk all the same.
        self._under_way: dict[int, tuple[DirectClient, int] | None] = {}
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: SealedConnection | None = None
        self._greeted = False
        self._due = 0.0  # the deadline of the greeting, or of the next answer
        self._start_at = 0.0
        self._deaths = 0  # since the last answer
        self._fruitless = 0  # starts since the last greeting

    @property
    def ready(self) -> bool:
        return self._greeted

    @property
    def works(self) -> bool:
        """Whether chunks may be sent to the worker: it can be started."""
        return self._fruitless < STARTS

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def join(self, client: DirectClient) -> None:
        """Takes chunks of `client` from now on."""
        self._clients[client] = None
        if self._greeted:
            self._send(_opening(client.spec))
            self.ask(client)
        else:
            self.turn(time.monotonic())

    def leave(self, client: DirectClient) -> None:
        """Takes no more chunks of `client`, and drops the answers to its chunks under way."""
        for known in (self._clients, self._asking, self._suspects):
            known.pop(client, None)
        for number, whose in self._under_way.items():
            if whose is not None and whose[0] is client:
                self._under_way[number] = None

    def ask(self, client: DirectClient) -> None:
        """`client` has something to send."""
        self._asking[client] = None
        self._pump()

    def turn(self, now: float) -> None:
        """Starts or ends the process if that is due, and sends waiting bytes."""
        if self._process is None:
            if self._clients and now >= self._start_at:
                self._start(now)
            return
        if not self._clients:
            self.close()
            return
        if self._greeted and not self._under_way:
            self._due = now + ANSWER_S
        if now > self._due:
            self._lose()
        if self._connection is not None:
            self._connection.poll(self._selector)

    def close(self) -> None:
        """Ends the process. The next turn starts another process if there are clients."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._selector.unregister(connection)
            connection.close()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        self._greeted = False
        self._asking.clear()
        self._under_way.clear()

    # -- its process ------------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        self._due = now + START_S
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            # In a Spark task, modules may be importable from paths that the environment does not
            # name.
            path = os.pathsep.join(filter(None, sys.path))
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", MODULE, str(descriptor), SECRET_VARIABLE],
                    pass_fds=[descriptor],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": path, SECRET_VARIABLE: self._secret},
                )
            except OSError:
                ours.close()
                self._lose()
                return
        self._connection = SealedConnection(ours, self._secret, lane=True)
        self._selector.register(self._connection, selectors.EVENT_READ, self._on_ready)

    def _on_ready(self, mask: int) -> None:
        connection = self._connection
        if connection is None:
            return  # lost in this turn
        try:
            if mask & selectors.EVENT_WRITE:
                connection.flush()
            if mask & selectors.EVENT_READ:
                for frame in connection.receive():
                    self._on_frame(frame)
        except (ConnectionError, ValueError):
            if connection is self._connection:
                self._lose()
        self._pump()

    def _on_frame(self, frame: Frame) -> None:
        if isinstance(frame, Greeting):
            self._greeted, self._fruitless = True, 0
            self._due = time.monotonic() + ANSWER_S
            for client in list(self._clients):
                self._send(_opening(client.spec))
                self._asking[client] = None
        elif isinstance(frame, ChunkOutcome | NeedsSpark):
            self._due, self._deaths = time.monotonic() + ANSWER_S, 0
            if (whose := self._under_way.pop(frame.number, None)) is None:
                return  # its client has left
            client, number = whose
            self._suspects.pop(client, None)
            self._asking[client] = None
            if isinstance(frame, NeedsSpark):
                client.to_spark()
            else:
                client.answered(frame._replace(number=number))
        else:
            raise ValueError("a worker sent a message that it must not send")  # noqa: TRY004

    def _pump(self) -> None:
        while self._greeted and self._connection is not None:
            if self._connection.unsent > UNSENT_BYTES:
                return
            if (client := self._next()) is None:
                return
            self._asking.pop(client, None)
            chunk = client.next_chunk()
            if chunk is None:
                self._suspects.pop(client, None)
                continue
            self._asking[client] = None  # behind the others
            self._number += 1
            self._under_way[self._number] = client, chunk.number
            self._send(chunk._replace(number=self._number, stage=client.spec.key))

    def _next(self) -> DirectClient | None:
        if not self._suspects:
            return next(iter(self._asking), None)
        if self._under_way:
            return None
        return next(iter(self._suspects))

    def _send(self, frame: Frame) -> None:
        if self._connection is not None:
            try:
                self._connection.send(frame)
            except ConnectionError:
                self._lose()

    def _lose(self) -> None:
        """Ends the process, which died or gave no answer in time."""
        greeted = self._greeted
        lost = dict.fromkeys(whose[0] for whose in self._under_way.values() if whose is not None)
        self.close()
        self._deaths += 1
        self._fruitless += not greeted
        pause = 2.0 ** min(self._deaths - 1, 10) if self._deaths > 1 else 0.0
        self._start_at = time.monotonic() + min(pause, LONGEST_PAUSE_S)
        for client in lost:
            client.unanswered()
        if not self.works:
            for client in list(self._clients):
                client.to_spark()
        elif len(lost) == 1 and next(iter(lost)) in self._suspects:
            next(iter(lost)).to_spark()
        else:
            self._suspects.update(lost)


def _opening(spec: StageSpec) -> Open:
    assert spec.shortcut is not None
    return Open(spec.key, base64.b64decode(spec.shortcut), dict(spec.secrets))
