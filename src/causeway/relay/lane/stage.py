"""The lane's side of a stage: a listener to which the stage's workers connect.

    the driver sees the stage wanted ─► launches it ─► both its workers greet ─► chunks, outcomes

A stage that dies is launched again by the driver; until its workers greet, chunks wait.

Where a transform has a shortcut its chunks go to the lane's direct worker at first (direct.py), and
to the stage from when that works. A stage that is to begin `late` is wanted only once a chunk
needed Spark, and until none has for a while:

    direct ── the stage works, or a chunk needs Spark ──► by Spark
       ▲                                                     │
       └────────── late, and not needed for long ◄───────────┘

An attempt that gives no answer in time is given up. Second stages: see stages.py.
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
STALLED_S = 2.0  # between two turns, which are a quarter of a second apart
CALL_S = 120.0  # without any answer, be it to others who were first
# After so long without a stage that works its partitions are shown as failed, and hold up no
# bounded run: where stages start and end again, and where none starts.
ENDING_S, STARTING_S = 60.0, 240.0
UNSENT_BYTES = 4 * 1024 * 1024
# A stage that is not late begins behind the first records, or so long after its lane: its start
# takes the CPU that they need.
SOON_S = 10.0
# Until a stage that is not needed ends; twice as long each time that it had to begin again.
LINGERS_S = (600.0, 6 * 3600.0)
_PROBE = 0  # no chunk of ours has that number


class Stage:
    """One transform's stage, as this lane sees it. Not thread-safe but for `call`."""

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
        """`on_hung` gets the owner of a work that the stage gave no answer to."""
        self.spec = spec
        self.address = address
        self.hung: str | None = None  # the attempt that was given up, until there is another one
        self._on_hung = on_hung
        self.waiting: str | None = None  # what its registry lacks, while a worker waits for it
        self._listener = listener
        self._secret = secret
        self._helpers = helpers
        self._selector = selector
        self.chunks = ChunkQueue()
        self._strangers: dict[SealedConnection, float] = {}
        self._ends: dict[str, SealedConnection] = {}  # by what they are: "source", "sink"
        self._attempt = self._lost = ""  # the one that is there, and the last one that was
        self._connections: set[SealedConnection] = set()
        self._made_at = self.ready_at = time.monotonic()
        self._direct = direct
        self._by_spark = spec.shortcut is None or not direct.works  # chunks go there now
        self._needed_at = self._made_at  # Spark, by some record
        self._lingers_s = LINGERS_S[0]
        self._turned_at = self._made_at
        self._why = ""  # the last one ended, while none works
        self.answered_at = 0.0  # monotonic
        self._calls: set[Future[list[WorkResult]]] = set()
        self._closed = False
        selector.register(listener, selectors.EVENT_READ, self._accept)
        if not self._by_spark:
            direct.join(self)

    @property
    def ready(self) -> bool:
        """Whether chunks go through now, as far as we have seen."""
        if not self._by_spark:
            return self._direct.ready
        return self._complete and self.chunks.works and self.waiting is None

    @property
    def wanted(self) -> bool:
        """Whether its job is to run."""
        if self._by_spark:
            return True
        begun = self.answered_at > 0.0 or time.monotonic() > self._made_at + SOON_S
        return begun and not self.spec.late

    @property
    def _complete(self) -> bool:
        return len(self._ends) == 2

    def trouble(self, now: float) -> str | None:
        """Why nothing has gone through it for long; None where it works, or may soon."""
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
        """This stage, and the second one of its transform if there is one."""
        return (self,)

    def submit(self, work: Work) -> None:
        self.chunks.submit(work)
        self._pump()

    def suspect(self, works: Sequence[Work]) -> None:
        """Takes these works; another stage hung on the first of them."""
        self.chunks.suspect(works)
        self._pump()

    def has(self, owner: object) -> bool:
        """Whether a work of `owner` has not been answered."""
        return self.chunks.has(owner)

    def cancel(self, owner: object) -> None:
        """Forget what `owner` has submitted."""
        self.chunks.cancel(owner)

    def call(
        self, topic: str, partition: int, next: int, batches: Sequence[Batch]
    ) -> Sequence[WorkResult]:
        """What becomes of `batches`, for a helper's thread: blocks. Raises CausewayError."""
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
        """What is due: chunks to send, workers that have not greeted, answers that don't come."""
        for stranger, since in list(self._strangers.items()):
            if now - since > GREETING_S:
                self._drop(stranger)
        if self.ready:
            self.ready_at, self._why = now, ""
        missed, self._turned_at = now - self._turned_at, now
        if missed > STALLED_S:  # the machine did nothing: no record is to blame
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
        """The same for the second stage of the transform."""

    def ended(self, attempt: str, reason: str, *, threw: bool) -> None:
        """The driver's word on an attempt: its job is over, and why; whether it threw, or died of
        something else."""
        if attempt == self._attempt:
            self._lose()  # its machine may be gone, and its sockets say nothing
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
        self.chunks.works = True  # the direct worker does
        return next(self.chunks.to_send(), None)

    def answered(self, outcome: ChunkOutcome) -> None:
        self.answered_at = time.monotonic()
        self.chunks.answered(outcome)

    def unanswered(self) -> None:
        self.chunks.elsewhere(works=False)

    def to_spark(self, *, works: bool = False) -> None:
        """`works`: the stage has shown that it does."""
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
            return  # dropped in this very turn
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
            raise ValueError("a worker said what it is not to say")

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
        for end in ends.values():  # what it still said
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
