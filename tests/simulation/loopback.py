"""Simulated brokers in real time, behind real sockets of this machine: for tests that hold the
simulation against real brokers with one client."""

from __future__ import annotations

import heapq
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Final, Self, TypeVar

from tests.simulation.cluster import BrokerNode, BrokerSession, BrokerSettings, KafkaCluster

T = TypeVar("T")
_READ_BYTES: Final = 1 << 20
_LONGEST_WAIT_S: Final = 1.0


class LoopbackWorld:
    """The time of this machine. Acts run in the thread that calls `run_due`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: deque[str] = deque(maxlen=1_000)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def now(self) -> float:
        return time.time()

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._numbers), act))

    def trace(self, text: str) -> None:
        self.lines.append(text)

    def run_due(self) -> float:
        """How long until the next act."""
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()
        if not self._due:
            return _LONGEST_WAIT_S
        return min(_LONGEST_WAIT_S, max(0.0, self._due[0][0] - time.monotonic()))


class _Socket:
    """The broker's end of one connection."""

    def __init__(self, owner: LoopbackBrokers, node: BrokerNode, sock: socket.socket) -> None:
        self._owner, self._socket = owner, sock
        self._out = bytearray()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session = node.connect(self._send, self._close, "a client")
        self._session: BrokerSession | None = session
        if session is None:
            sock.close()
        else:
            owner.selector.register(sock, selectors.EVENT_READ, self.ready)

    def ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ and self._session is not None:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if data:
                self._session.receive(data)
            else:
                self._session.closed()
                self._close()

    def _send(self, data: bytes) -> None:
        self._out += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._out.clear()
        if self._session is not None:
            wanted = selectors.EVENT_WRITE if self._out else 0
            self._owner.selector.modify(self._socket, selectors.EVENT_READ | wanted, self.ready)

    def _close(self) -> None:
        if self._session is not None:
            self._session = None
            self._owner.selector.unregister(self._socket)
            self._socket.close()


class LoopbackBrokers:
    """A cluster at addresses of this machine, for the length of a `with` block. Its state belongs
    to a thread: reach it by `call` alone."""

    def __init__(
        self, name: str, *, nodes: int, seed: int = 0, settings: BrokerSettings | None = None
    ) -> None:
        self.selector = selectors.DefaultSelector()
        self.world = LoopbackWorld(seed)
        self.cluster = KafkaCluster(
            self.world, name, nodes=nodes, cluster_id=f"id-of-{name}", settings=settings
        )
        self._calls: deque[Callable[[], object]] = deque()
        self._ends = False
        self._waker, self._wakes = socket.socketpair()
        self.selector.register(self._wakes, selectors.EVENT_READ, self._woken)
        self._listeners = [self._listen(node) for node in self.cluster.nodes]
        self._thread = threading.Thread(target=self._run, name=f"brokers of {name}", daemon=True)

    def _listen(self, node: BrokerNode) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        node.host, node.port = listener.getsockname()

        def accept(_: int) -> None:
            _Socket(self, node, listener.accept()[0])

        self.selector.register(listener, selectors.EVENT_READ, accept)
        return listener

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.cluster.nodes)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.call(self._stop)
        self._thread.join()
        for sock in (*self._listeners, self._waker, self._wakes):
            sock.close()
        self.selector.close()

    def _stop(self) -> None:
        self._ends = True
        for node in self.cluster.nodes:
            node.close_connections()

    def call(self, act: Callable[[], T]) -> T:
        """In the thread of the brokers; its result or error."""
        done = threading.Event()
        found: list[T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                found.append(act())
            except BaseException as error:
                errors.append(error)
            done.set()

        self._calls.append(run)
        self._waker.send(b"!")
        done.wait()
        if errors:
            raise errors[0]
        return found[0]

    def _woken(self, _: int) -> None:
        self._wakes.recv(_READ_BYTES)

    def _run(self) -> None:
        while not self._ends:
            wait_s = self.world.run_due()
            for key, events in self.selector.select(wait_s):
                key.data(events)
            while self._calls:
                self._calls.popleft()()
