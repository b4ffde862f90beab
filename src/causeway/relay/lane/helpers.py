"""Threads for blocking work, so that a lane's loop never blocks."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeVar

from causeway.errors import CausewayError, ProtocolError

T = TypeVar("T")
# Threads are made as they are needed: two for each stage that recoveries wait for.
_STAGE_THREADS = 256


class Helpers:
    """Work goes to a thread; its result comes back to the loop that calls `finish`.

    Work that waits for a stage of a transform has threads of its own: a stuck stage delays no other
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
        """Run `work` in a thread, then `then` with its result, or its error, in the loop. `staged`:
        it may wait for a stage."""

        def run() -> None:
            answer: T | CausewayError
            try:
                answer = work()
            except CausewayError as error:
                answer = error
            except Exception as error:
                # A fault of ours must show in the partition's state, not vanish in a thread.
                answer = ProtocolError("work", "", f"{type(error).__name__}: {error}")
            self.post(lambda: then(answer))

        (self._stage_threads if staged else self._threads).submit(run)

    def post(self, act: Callable[[], None]) -> None:
        """Call `act` in the loop. From any thread."""
        self._finished.put(act)
        try:
            self._wake.send(b"\0")
        except OSError:
            pass  # full: the loop is awake anyway; closed: the loop has ended

    def finish(self) -> None:
        """Call what waits for finished work."""
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
