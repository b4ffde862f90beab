"""A lane's stages: for each transform of its flows a listener, to which a stage's workers connect.

    the driver sees the stage wanted ─► launches it ─► both its workers greet ─► chunks, outcomes

A stage that dies is launched again by the driver; until its workers greet, chunks wait.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial

from causeway.errors import CausewayError
from causeway.relay import messages
from causeway.relay.lane.chunks import Chunks, Loss, Piece, Work
from causeway.relay.lane.helpers import Helpers
from causeway.transform.channel import Frame, Greeting, Outcome, Setup, Waiting
from causeway.transform.sealed import Connection, path_of
from causeway.wire.batches import Batch

GREETING_S = 10.0
ANSWER_S = 300.0  # a chunk that takes longer is taken for one that hangs
CALL_S = 120.0  # without any answer, be it to others who were first
# After so long without a stage that works its partitions are shown as failed, and hold up no
# bounded run: where stages start and end again, and where none starts.
ENDING_S, STARTING_S = 60.0, 240.0
UNSENT_BYTES = 4 * 1024 * 1024


class Stage:
    """One transform's stage, as this lane sees it. Not thread-safe but for `call`."""

    def __init__(
        self,
        spec: messages.Stage,
        listener: socket.socket,
        address: str,
        secret: str,
        helpers: Helpers,
        selector: selectors.BaseSelector,
    ) -> None:
        self.spec = spec
        self.address = address
        self.waiting: str | None = None  # what its registry lacks, while a worker waits for it
        self._listener = listener
        self._secret = secret
        self._helpers = helpers
        self._selector = selector
        self._chunks = Chunks()
        self._strangers: dict[Connection, float] = {}
        self._ends: dict[str, Connection] = {}  # by what they are: "source", "sink"
        self._attempt = self._lost = ""  # the one that is there, and the last one that was
        self._masks: dict[Connection, int] = {}
        self._ready_at = time.monotonic()
        self._why = ""  # the last one ended, while none works
        self._answer_due = 0.0
        self._answered_at = 0.0
        self._calls: set[Future[list[Piece]]] = set()
        self._closed = False
        selector.register(listener, selectors.EVENT_READ, self._accept)

    @property
    def ready(self) -> bool:
        """Whether chunks go through now, as far as we have seen."""
        return self._complete and self._chunks.works and self.waiting is None

    @property
    def _complete(self) -> bool:
        return len(self._ends) == 2

    def trouble(self, now: float) -> str | None:
        """Why nothing has gone through it for long; None where it works, or may soon."""
        waited = now - self._ready_at
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
        return self._chunks.size

    def submit(self, work: Work) -> None:
        self._chunks.submit(work)
        self._pump()

    def cancel(self, owner: object) -> None:
        """Forget what `owner` has submitted."""
        self._chunks.cancel(owner)

    def call(
        self, topic: str, partition: int, next: int, batches: Sequence[Batch]
    ) -> Sequence[Piece]:
        """What becomes of `batches`, for a helper's thread: blocks. Raises CausewayError."""
        future: Future[list[Piece]] = Future()
        pieces: list[Piece] = []

        def take(piece: Piece) -> None:
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
                if time.monotonic() - self._answered_at < CALL_S:
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
            self._ready_at, self._why = now, ""
        if not self._chunks.busy:
            self._answer_due = now + ANSWER_S
        elif now > self._answer_due:
            self._lose("hung")
        self._pump()
        for connection, mask in self._masks.items():
            wanted = selectors.EVENT_READ
            if connection.wants_write:
                wanted |= selectors.EVENT_WRITE
            if wanted != mask:
                handler = self._selector.get_key(connection).data
                self._selector.modify(connection, wanted, handler)
                self._masks[connection] = wanted

    def ended(self, attempt: str, reason: str, *, threw: bool) -> None:
        """The driver's word on an attempt: its job is over, and why; whether it threw, or died of
        something else."""
        if attempt == self._attempt:
            self._lose()  # its machine may be gone, and its sockets say nothing
        if attempt == self._lost:
            self._chunks.judged(threw=threw)
        self._why = reason or self._why

    def close(self) -> None:
        self._closed = True
        self._selector.unregister(self._listener)
        self._listener.close()
        for connection in list(self._masks):
            self._drop(connection)
        for call in self._calls:
            call.set_exception(self._error("it is no longer wanted"))
        self._calls.clear()

    # -- its workers ------------------------------------------------------------------------------

    def _accept(self, _: int) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError:
            return
        connection = Connection(sock, self._secret, lane=True)
        self._strangers[connection] = time.monotonic()
        self._selector.register(
            connection, selectors.EVENT_READ, partial(self._on_connection, connection)
        )
        self._masks[connection] = selectors.EVENT_READ

    def _on_connection(self, connection: Connection, mask: int) -> None:
        if connection not in self._masks:
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

    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        if connection in self._strangers:
            self._greet(connection, frame)
        elif isinstance(frame, Outcome) and connection in self._ends.values():
            self._answered_at = time.monotonic()
            self._answer_due = self._answered_at + ANSWER_S
            self.waiting = None
            self._chunks.answered(frame)
            self._pump()
        elif isinstance(frame, Waiting):
            self._answer_due = time.monotonic() + ANSWER_S
            self.waiting = frame.reason
        else:
            raise ValueError("a worker said what it is not to say")

    def _greet(self, connection: Connection, frame: Frame) -> None:
        if not isinstance(frame, Greeting) or frame.stage != self.spec.key:
            raise ValueError("a stranger")
        del self._strangers[connection]
        if frame.attempt != self._attempt or frame.end in self._ends:
            self._lose("gone")
            self._chunks.judged(threw=False)  # nobody has told
            self._attempt = frame.attempt
        self._ends[frame.end] = connection
        connection.send(Setup(dict(self.spec.secrets), self.spec.registry))
        self._pump()

    def _pump(self) -> None:
        source = self._ends.get("source")
        if source is None or not self._complete:
            return
        try:
            for chunk in self._chunks.to_send():
                source.send(chunk)
                if source.unsent > UNSENT_BYTES:
                    break
        except ConnectionError:
            self._drop(source)

    def _drop(self, connection: Connection) -> None:
        if self._masks.pop(connection, None) is None:
            return
        self._selector.unregister(connection)
        connection.close()
        self._strangers.pop(connection, None)
        if connection in self._ends.values():
            self._lose()

    def _lose(self, how: Loss = "died") -> None:
        ends, self._ends = self._ends, {}
        if "source" in ends and ends["source"].unsent:
            how = "gone"
        self._lost, self._attempt, self.waiting = self._attempt, "", None
        for end in ends.values():  # what it still said
            with contextlib.suppress(ConnectionError, ValueError):
                for frame in end.receive():
                    if isinstance(frame, Outcome):
                        self._chunks.answered(frame)
        for connection in ends.values():
            self._drop(connection)
        self._chunks.lost(how)


class Stages:
    """All of a lane's, made as flows need them. `here`: its machine's address, as the driver's
    machine knows it. Where they are one machine the listeners are Unix sockets, on Linux ones that
    leave no file."""

    def __init__(
        self, here: str, secret: str, helpers: Helpers, selector: selectors.BaseSelector
    ) -> None:
        self._here = here
        self._secret = secret
        self._helpers = helpers
        self._selector = selector
        self._specs: dict[str, messages.Stage] = {}
        self._stages: dict[str, Stage] = {}

    def define(self, specs: Iterable[messages.Stage]) -> None:
        self._specs.update((spec.key, spec) for spec in specs)

    def get(self, key: str) -> Stage:
        """Raises CausewayError where nobody has told of such a stage."""
        if key not in self._stages:
            if key not in self._specs:
                raise CausewayError("transform", key, "the driver has not told what it is")
            listener, address = self._listen()
            self._stages[key] = Stage(
                self._specs[key], listener, address, self._secret, self._helpers, self._selector
            )
        return self._stages[key]

    def ended(self, message: messages.StageEnded) -> None:
        if (stage := self._stages.get(message.key)) is not None:
            stage.ended(message.attempt, message.reason, threw=message.threw)

    def keep(self, keys: Iterable[str]) -> None:
        """Close those that no flow needs any more."""
        for key in self._stages.keys() - set(keys):
            self._stages.pop(key).close()

    @property
    def wanted(self) -> tuple[messages.StageWanted, ...]:
        return tuple(
            messages.StageWanted(key=key, address=stage.address, waiting=stage.waiting)
            for key, stage in self._stages.items()
        )

    @property
    def size(self) -> int:
        """Bytes of records that wait for a stage or are in one."""
        return sum(stage.size for stage in self._stages.values())

    def turn(self, now: float) -> None:
        for stage in self._stages.values():
            stage.turn(now)

    def close(self) -> None:
        self.keep(())

    def _listen(self) -> tuple[socket.socket, str]:
        if self._here.startswith("127.") and sys.platform == "linux":
            address = f"@causeway-stage-{os.urandom(12).hex()}"
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path_of(address))
        else:
            family = socket.AF_INET6 if ":" in self._here else socket.AF_INET
            listener = socket.create_server((self._here, 0), family=family)
            address = f"{self._here}:{listener.getsockname()[1]}"
        listener.listen()
        listener.setblocking(False)
        return listener, address
