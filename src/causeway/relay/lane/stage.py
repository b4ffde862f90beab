"""The lane's side of a stage: a listener to which the stage's workers connect.

    the lane reports the stage ─► the driver launches it ─► both workers greet ─► chunks, outcomes

If a stage dies, the driver launches it again. Chunks wait until the new workers have greeted.

If a transform has a shortcut, its chunks first go to the lane's direct worker (direct.py), and to
the stage when the stage works. A stage that begins `late` runs only after a chunk needed Spark, and
ends when no chunk has needed Spark for a while:

    direct ── the stage works, or a chunk needs Spark ──► by Spark
       ▲                                                     │
       └────────── late, and not needed for long ◄───────────┘

An attempt that gives no answer in time is given up. stages.py describes second stages.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial

from causeway.errors import CausewayError
from causeway.records import Batch
from causeway.relay.lane.chunks import ChunkQueue, Loss, Work, WorkResult
from causeway.relay.lane.direct import DirectWorker
from causeway.relay.lane.helpers import Helpers
from causeway.relay.messages import StageSpec
from causeway.transform import (
    Chunk,
    ChunkOutcome,
    Frame,
    Greeting,
    SealedConnection,
    Setup,
    WaitingForRegistry,
)

GREETING_S = 10.0
STALLED_S = 2.0  # so much time between two turns means that the machine stood still
CALL_S = 120.0  # a call gives up after this time without any answer of the stage
# If no stage has worked for this time, its partitions are shown as failed, and hold up no bounded
# run: ENDING_S if stages start and end again, STARTING_S if no stage starts.
ENDING_S, STARTING_S = 60.0, 240.0
UNSENT_BYTES = 4 * 1024 * 1024
# A stage that is not late begins after the first records, or this long after its lane: its start
# takes CPU that the first records need.
SOON_S = 10.0
# The least and the most time before a stage that is not needed ends. It doubles with each start.
LINGERS_S = (600.0, 6 * 3600.0)
_PROBE = 0  # real chunks have other numbers


class Stage:
    """One transform's stage, as this lane sees it. Only `call` is thread-safe."""

    def __init__(
        self,
        spec: StageSpec,
        listener: socket.socket,
        address: str,
        secret: str,
        helpers: Helpers,
        selector: selectors.BaseSelector,
        direct: DirectWorker,
        *,
        on_hung: Callable[[object], None] | None = None,
    ) -> None:
        """`on_hung` gets the owner of a work for which the stage gave no answer."""
        self.spec = spec
        self.address = address
        self.hung: str | None = None  # the attempt that was given up, until the next attempt begins
        self._on_hung = on_hung
        self.waiting: str | None = None  # why a worker waits for the schema registry
        self._listener = listener
        self._secret = secret
        self._helpers = helpers
        self._selector = selector
        self.chunks = ChunkQueue()
        self._strangers: dict[SealedConnection, float] = {}
        self._ends: dict[str, SealedConnection] = {}  # the workers: "source", "sink"
        self._attempt = self._lost = ""  # the current attempt, and the last attempt that was lost
        self._connections: set[SealedConnection] = set()
        self._made_at = self.ready_at = time.monotonic()
        self._direct = direct
        self._by_spark = spec.shortcut is None or not direct.works  # chunks go to Spark now
        self._needed_at = self._made_at  # when a record last needed Spark
        self._lingers_s = LINGERS_S[0]
        self._turned_at = self._made_at
        self._why = ""  # why the last attempt ended, while none works
        self.answered_at = 0.0  # monotonic
        self._calls: set[Future[list[WorkResult]]] = set()
        self._closed = False
        selector.register(listener, selectors.EVENT_READ, self._accept)
        if not self._by_spark:
            direct.join(self)

    @property
    def ready(self) -> bool:
        """Whether the stage, or the direct worker, has shown that it treats chunks now."""
        if not self._by_spark:
            return self._direct.ready
        return self._complete and self.chunks.works and self.waiting is None

    @property
    def wanted(self) -> bool:
        """Whether the stage's job should run."""
        if self._by_spark:
            return True
        begun = self.answered_at > 0.0 or time.monotonic() > self._made_at + SOON_S
        return begun and not self.spec.late

    @property
    def _complete(self) -> bool:
        return len(self._ends) == 2

    def trouble(self, now: float) -> str | None:
        """Why the stage has answered nothing for a long time; None if it works, or may work
        soon."""
        waited = now - self.ready_at
        if self._why and waited > ENDING_S:
            return f"its stage ends again and again: {self._why}"
        if waited > STARTING_S and self.waiting is not None:
            return f"its stage waits for the schema registry: {self.waiting}"
        if waited > STARTING_S:
            return (
                f"the stage of transform {self.spec.name} has not started in {STARTING_S:.0f} s: "
                f"Spark has no free core for it, or its executor does not reach {self.address}"
            )
        return None

    @property
    def size(self) -> int:
        """Bytes that wait or are under way."""
        return self.chunks.size

    @property
    def stages(self) -> tuple[Stage, ...]:
        """This stage, and the second stage of its transform if there is one."""
        return (self,)

    def submit(self, work: Work) -> None:
        self.chunks.submit(work)
        self._pump()

    def suspect(self, works: Sequence[Work]) -> None:
        """Takes these works. Another stage hung on the first work."""
        self.chunks.suspect(works)
        self._pump()

    def has(self, owner: object) -> bool:
        """Whether a work of `owner` has not been answered."""
        return self.chunks.has(owner)

    def cancel(self, owner: object) -> None:
        """Forgets the works of `owner`."""
        self.chunks.cancel(owner)

    def call(
        self, topic: str, partition: int, next: int, batches: Sequence[Batch]
    ) -> Sequence[WorkResult]:
        """Runs `batches` through the stage. It blocks, so a helper's thread calls it. Raises
        CausewayError."""
        future: Future[list[WorkResult]] = Future()
        pieces: list[WorkResult] = []

        def take(piece: WorkResult) -> None:
            pieces.append(piece)
            if piece.last:
                self._calls.discard(future)
                if not future.done():
                    future.set_result(pieces)

        def start() -> None:
            if self._closed:
                future.set_exception(self._error("it is no longer wanted"))
                return
            self._calls.add(future)
            self.submit(Work(future, topic, partition, next, tuple(batches), take))

        self._helpers.post(start)
        while True:
            try:
                return future.result(CALL_S)
            except FutureTimeoutError:
                if time.monotonic() - self.answered_at < CALL_S:
                    continue
                self._helpers.post(partial(self.cancel, future))
                raise self._error(f"no answer in {CALL_S:.0f} s") from None

    def _error(self, cause: str) -> CausewayError:
        return CausewayError("transform", self.spec.name, cause, retriable=True)

    def turn(self, now: float) -> None:
        """Sends chunks, drops connections that have not greeted, gives up a stage that hangs."""
        for stranger, since in list(self._strangers.items()):
            if now - since > GREETING_S:
                self._drop(stranger)
        if self.ready:
            self.ready_at, self._why = now, ""
        missed, self._turned_at = now - self._turned_at, now
        if missed > STALLED_S:  # the machine stood still: no record caused that
            self.chunks.excuse(missed)
        if self._by_spark and self.chunks.overdue(now):
            self.hung = self._attempt
            self._lose("hung")
        self.turn_second(now)
        if self._by_spark and now - self._needed_at > self._lingers_s and self._may_end:
            self._to_direct()
        self._pump()
        for connection in self._connections:
            connection.poll(self._selector)

    def turn_second(self, now: float) -> None:
        """Does the same for the second stage of the transform."""

    def ended(self, attempt: str, reason: str, *, threw: bool) -> None:
        """The driver says that the job of `attempt` has ended, and why. `threw`: its query raised
        an error; otherwise there was another cause."""
        if attempt == self._attempt:
            self._lose()  # if its machine is gone, its sockets do not show it
        if attempt == self._lost:
            self.chunks.judged(threw=threw)
        self._why = reason or self._why

    def close(self) -> None:
        self._closed = True
        self._direct.leave(self)
        self._selector.unregister(self._listener)
        self._listener.close()
        for connection in list(self._connections):
            self._drop(connection)
        for call in self._calls:
            call.set_exception(self._error("it is no longer wanted"))
        self._calls.clear()

    # -- the direct worker ------------------------------------------------------------------------

    def next_chunk(self) -> Chunk | None:
        self.chunks.works = True  # the direct worker works
        return next(self.chunks.to_send(), None)

    def answered(self, outcome: ChunkOutcome) -> None:
        self.answered_at = time.monotonic()
        self.chunks.answered(outcome)

    def unanswered(self) -> None:
        self.chunks.elsewhere(works=False)

    def to_spark(self, *, works: bool = False) -> None:
        """Sends the chunks to Spark from now on. `works`: the stage has shown that it works."""
        self._direct.leave(self)
        self._by_spark = True
        self._needed_at = self.ready_at = time.monotonic()
        self.chunks.elsewhere(works=works)
        self._pump()

    @property
    def _may_end(self) -> bool:
        late = self.spec.late and self.spec.shortcut is not None
        return late and self.ready and not self.chunks.suspicious and self._direct.works

    def _to_direct(self) -> None:
        ends, self._ends = self._ends, {}
        self._attempt = ""
        for end in ends.values():
            self._drop(end)
        self._by_spark = False
        self._lingers_s = min(2 * self._lingers_s, LINGERS_S[1])
        self.chunks.elsewhere(works=False)
        self._direct.join(self)

    # -- its workers ------------------------------------------------------------------------------

    def _accept(self, _: int) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError:
            return
        connection = SealedConnection(sock, self._secret, lane=True)
        self._strangers[connection] = time.monotonic()
        self._selector.register(
            connection, selectors.EVENT_READ, partial(self._on_connection, connection)
        )
        self._connections.add(connection)

    def _on_connection(self, connection: SealedConnection, mask: int) -> None:
        if connection not in self._connections:
            return  # dropped in this turn
        try:
            if mask & selectors.EVENT_WRITE:
                connection.flush()
            if mask & selectors.EVENT_READ:
                for frame in connection.receive():
                    self._on_frame(connection, frame)
            else:
                self._pump()
        except (ConnectionError, ValueError):
            self._drop(connection)

    def _on_frame(self, connection: SealedConnection, frame: Frame) -> None:
        if connection in self._strangers:
            self._greet(connection, frame)
        elif isinstance(frame, ChunkOutcome) and connection in self._ends.values():
            if frame.number == _PROBE:
                if not self._by_spark:
                    self.to_spark(works=True)
                return
            self.answered_at = time.monotonic()
            self.waiting = None
            if frame.records_in and connection is self._ends.get("sink"):
                self._needed_at = self.answered_at
            self.chunks.answered(frame)
            self._pump()
        elif isinstance(frame, WaitingForRegistry):
            self.chunks.lives()
            self.waiting = frame.reason
        else:
            raise ValueError("a worker sent a message that it must not send")

    def _greet(self, connection: SealedConnection, frame: Frame) -> None:
        if not isinstance(frame, Greeting) or frame.stage != self.spec.key:
            raise ValueError("a stranger")
        if not self.wanted:
            raise ValueError("it is no longer wanted")
        del self._strangers[connection]
        if frame.attempt != self._attempt or frame.end in self._ends:
            self._lose("gone")
            self.chunks.judged(threw=False)  # the reason is unknown
            self._attempt = frame.attempt
            self.hung = None
        self._ends[frame.end] = connection
        connection.send(Setup(dict(self.spec.secrets), self.spec.registry, self.spec.routes))
        if self._complete and not self._by_spark:
            self._ends["source"].send(Chunk(_PROBE, "", 0, 0, ()))
        self._pump()

    def _pump(self) -> None:
        if not self._by_spark:
            self._direct.ask(self)
            return
        source = self._ends.get("source")
        if source is None or not self._complete:
            return
        try:
            for chunk in self.chunks.to_send():
                source.send(chunk)
                if source.unsent > UNSENT_BYTES:
                    break
        except ConnectionError:
            self._drop(source)

    def _drop(self, connection: SealedConnection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._selector.unregister(connection)
        connection.close()
        self._strangers.pop(connection, None)
        if connection in self._ends.values():
            self._lose()

    def _lose(self, how: Loss = "died") -> None:
        ends, self._ends = self._ends, {}
        if "source" in ends and ends["source"].unsent and (how != "hung" or self.chunks.alone):
            how = "gone"
        self._lost, self._attempt, self.waiting = self._attempt, "", None
        for end in ends.values():  # the last outcomes may have arrived
            with contextlib.suppress(ConnectionError, ValueError):
                for frame in end.receive():
                    if isinstance(frame, ChunkOutcome) and frame.number != _PROBE:
                        self.chunks.answered(frame)
        for connection in ends.values():
            self._drop(connection)
        if not self._by_spark:
            return
        if how != "hung":
            self.chunks.lost(how)
            return
        if self._on_hung is not None and self.chunks.owner is not None:
            self._on_hung(self.chunks.owner)
        self.lost_by_hang()

    def lost_by_hang(self) -> None:
        """The stage gave no answer in time, and is given up."""
        self.chunks.lost("hung")
