"""Threads for blocking work, so that a lane's loop never blocks.

Look-ups of offsets are such work. The driver cannot do some of them, because a transform has to
make the records of the partition again. See relay.offset_lookup.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from causeway.cluster import Cluster
from causeway.errors import CausewayError, ProtocolError
from causeway.link_topics import Span
from causeway.records import Batch
from causeway.relay import offset_lookup as lookup
from causeway.relay.messages import Assignment, LookedUp, Lookup, sayable
from causeway.relay.offset_lookup import Sought
from causeway.relay.treatment import Series

T = TypeVar("T")
# Threads start when they are needed: two for each stage that recoveries wait for.
_STAGE_THREADS = 256


class Helpers:
    """Runs work in threads. The results come back to the loop that calls `finish`.

    Work that waits for a stage of a transform has its own threads, so a stuck stage delays no other
    work.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lane-helper")
        self._stage_threads = ThreadPoolExecutor(_STAGE_THREADS, thread_name_prefix="lane-stage")
        self._finished: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)

    def fileno(self) -> int:
        """Readable when there is something to `finish`."""
        return self._woken.fileno()

    def submit(
        self,
        work: Callable[[], T],
        then: Callable[[T | CausewayError], None],
        *,
        staged: bool = False,
    ) -> None:
        """Runs `work` in a thread, then `then` in the loop, with the result or the error. `staged`:
        `work` may wait for a stage."""

        def run() -> None:
            answer: T | CausewayError
            try:
                answer = work()
            except CausewayError as error:
                answer = error
            except Exception as error:
                # An error of our own must be seen in the partition's state, not lost in a thread.
                answer = ProtocolError("work", "", f"{type(error).__name__}: {error}")
            self.post(lambda: then(answer))

        (self._stage_threads if staged else self._threads).submit(run)

    def post(self, act: Callable[[], None]) -> None:
        """Calls `act` in the loop. Any thread may call this."""
        self._finished.put(act)
        try:
            self._wake.send(b"\0")
        except OSError:
            pass  # the socket is full, so the loop is awake; or it is closed, so the loop has ended

    def finish(self) -> None:
        """Calls `then` for all finished work."""
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                then = self._finished.get_nowait()
            except Empty:
                return
            then()

    def close(self) -> None:
        for threads in (self._threads, self._stage_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        self._wake.close()
        self._woken.close()


AT_ONCE = 2  # look-ups at once: stages have records to relay as well

Look = Callable[[], dict[int, int]]


class LookupQueue:
    """Not thread-safe; belongs to one lane's loop. `send` takes answers to the driver."""

    def __init__(self, helpers: Helpers, send: Callable[[LookedUp], None]) -> None:
        self._helpers = helpers
        self._send = send
        self._waiting: deque[tuple[int, Look]] = deque()
        self._under_way = 0

    def add(self, number: int, look: Look) -> None:
        """Runs `look` in its turn, and sends the result as the answer to look-up `number`."""
        self._waiting.append((number, look))
        self._go_on()

    def refuse(self, number: int) -> None:
        self._send(LookedUp(id=number, reason="its lane does not have the partition"))

    def _go_on(self) -> None:
        while self._waiting and self._under_way < AT_ONCE:
            number, look = self._waiting.popleft()
            self._under_way += 1
            self._helpers.submit(look, partial(self._done, number), staged=True)

    def _done(self, number: int, answer: dict[int, int] | CausewayError) -> None:
        self._under_way -= 1
        if isinstance(answer, CausewayError):
            self._send(LookedUp(id=number, reason=sayable(str(answer))))
        else:
            self._send(LookedUp(id=number, places=tuple(answer.items())))
        self._go_on()


def look_for(
    message: Lookup, assignment: Assignment, series: Series, source: Cluster, target: Cluster
) -> Look | None:
    """The look-up that `message` asks for; None if `assignment` has no such outlet. It gives up
    when the driver no longer waits for it."""
    ids = [outlet.producer_id for outlet in assignment.outlets]
    if message.producer_id not in ids:
        return None
    which = ids.index(message.producer_id)
    sought = Sought(
        source=assignment.source_partition,
        target=assignment.outlets[which].at,
        producer_id=message.producer_id,
        read_committed=assignment.read_committed,
        span=Span(message.start, message.end),
        offsets=message.offsets,
        floor=message.floor,
    )
    until = time.monotonic() + message.patience_s

    def becomes(batches: Iterator[Batch]) -> Iterator[Batch]:
        for parts in series(assignment, batches):
            if (part := parts[which]) is not None:
                yield part

    return lambda: lookup.find(sought, source, target, lambda: time.monotonic() < until, becomes)
