"""Simulated brokers behind real sockets, in real time: one thread carries their bytes and keeps
their time."""

from __future__ import annotations

import heapq
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Final, TypeVar

from causeway.dev import LOOPBACK
from causeway.model import TopicPartition
from tests.contract.grouped import Group
from tests.harness.waiting import await_until
from tests.simulation.cluster import BrokerNode, BrokerSession, BrokerSettings, KafkaCluster

T = TypeVar("T")
_READ_BYTES: Final = 1 << 20
_START_S: Final = 30.0
# As HASTE, and nothing takes longer than it has to.
SETTINGS: Final = BrokerSettings(
    broker_session_timeout_ms=400,
    transaction_abort_timed_out_transaction_cleanup_interval_ms=50,
    log_retention_check_interval_ms=50,
    request_s=(0.0, 0.000_2),
    replication_s=(0.0, 0.001),
    metadata_s=(0.0, 0.002),
    slow_metadata_share=0.0,
    marker_s=(0.0, 0.001),
    coordinator_load_s=(0.0, 0.01),
    start_s=(0.0, 0.05),
)


class Loop(threading.Thread):
    """The World of the brokers. All that touches them runs in this thread."""

    def __init__(self) -> None:
        super().__init__(name="simulated brokers", daemon=True)
        self.random = random.Random(1)
        self.selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._ends = False
        self._errors: list[Exception] = []
        self._asked, self._asks = socket.socketpair()
        self._asked.setblocking(False)
        self._calls: list[Callable[[], object]] = []
        self.selector.register(self._asked, selectors.EVENT_READ, self._take_calls)
        self.start()

    def now(self) -> float:
        return time.time()

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (self.now() + delay_s, next(self._numbers), act))

    def trace(self, text: str) -> None:
        """No test reads it."""

    def call(self, act: Callable[[], T]) -> T:
        """From another thread: its result in this one."""
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(act())
            except BaseException as error:
                result.set_exception(error)

        self._calls.append(run)
        self._asks.send(b"\0")
        return result.result(60)

    def end(self) -> None:
        """Raises the first error of any act."""

        def stop() -> None:
            self._ends = True

        self.call(stop)
        self.join()
        for key in list(self.selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._asks.close()
        self.selector.close()
        if self._errors:
            raise self._errors[0]

    def run(self) -> None:
        while not self._ends:
            while self._due and self._due[0][0] <= self.now():
                self._do(heapq.heappop(self._due)[2])
            wait_s = max(0.0, self._due[0][0] - self.now()) if self._due else None
            for key, events in self.selector.select(wait_s):
                self._do(partial(key.data, events))

    def _do(self, act: Callable[[], object]) -> None:
        """An error of one act leaves the others alone, until `end`."""
        try:
            act()
        except Exception as error:
            self._errors.append(error)

    def _take_calls(self, _: int) -> None:
        self._asked.recv(_READ_BYTES)
        calls, self._calls = self._calls, []
        for act in calls:
            act()


class _Peer:
    """A client's connection to a broker."""

    def __init__(self, loop: Loop, node: BrokerNode, sock: socket.socket, name: str) -> None:
        self._loop, self._socket = loop, sock
        self._unsent = bytearray()
        sock.setblocking(False)
        session = node.connect(self._send, self._close, name)
        if session is None:
            sock.close()
            return
        self._session: BrokerSession = session
        loop.selector.register(sock, selectors.EVENT_READ, self._ready)

    def _ready(self, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush()
            if events & selectors.EVENT_READ:
                data = self._socket.recv(_READ_BYTES)
                if data:
                    self._session.receive(data)
                else:
                    self._lose()
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def _send(self, data: bytes) -> None:
        self._unsent += data
        try:
            self._flush()
        except OSError:
            self._lose()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        writes = selectors.EVENT_WRITE if self._unsent else 0
        self._loop.selector.modify(self._socket, selectors.EVENT_READ | writes, self._ready)

    def _lose(self) -> None:
        self._close()
        self._session.closed()

    def _close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.selector.unregister(self._socket)
            self._socket.close()


class SimulatedBrokers:
    """Brokers that a test may break. `name`: of the cluster."""

    def __init__(self, name: str, count: int) -> None:
        self._loop = Loop()
        self.cluster = self._loop.call(
            lambda: KafkaCluster(
                self._loop, name, nodes=count, cluster_id=f"cluster-{name}", settings=SETTINGS
            )
        )
        for node in self.cluster.nodes:
            self._listen(node)

    def _listen(self, node: BrokerNode) -> None:
        listener = socket.create_server((LOOPBACK, 0))
        listener.setblocking(False)
        node.host, node.port = listener.getsockname()

        def accept(_: int) -> None:
            sock, address = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Peer(self._loop, node, sock, f"{address[0]}:{address[1]}")

        self._loop.call(lambda: self._loop.selector.register(listener, 1, accept))

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.cluster.nodes)

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(node.node_id for node in self.cluster.nodes)

    def stop(self, node: int, *, clean: bool) -> None:
        self._loop.call(lambda: self.cluster.nodes[node].stop(clean=clean))

    def start(self, node: int) -> None:
        self._loop.call(self.cluster.nodes[node].start)
        controller = self.cluster.controller
        await_until(lambda: node in controller.alive, _START_S, f"broker {node} serves", 0.01)

    def freeze(self, node: int) -> None:
        self._loop.call(self.cluster.nodes[node].freeze)

    def thaw(self, node: int) -> None:
        self._loop.call(self.cluster.nodes[node].thaw)

    def clean(self, at: TopicPartition) -> None:
        self._loop.call(lambda: self.cluster.compact(at.topic, at.partition))

    def elect_unclean(self, at: TopicPartition, node: int) -> None:
        self._loop.call(lambda: self.cluster.elect(at.topic, at.partition, node, unclean=True))

    def join(self, group: Group) -> SimulatedMember:
        return SimulatedMember(self, group)

    def destroy(self) -> None:
        self._loop.end()


class SimulatedMember:
    """It joined without a request: simulated brokers know members only from tests."""

    def __init__(self, brokers: SimulatedBrokers, group: Group) -> None:
        self.id = "member"
        self._groups, self._name, self._loop = brokers.cluster.groups, group.name, brokers._loop
        self._loop.call(lambda: self._groups.join(self._name, self.id))

    def leave(self) -> None:
        self._loop.call(lambda: self._groups.leave(self._name))
