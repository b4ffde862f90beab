"""A TCP proxy whose connections can be stalled, released and cut.

    proxies = Proxies()
    cluster = LocalCluster("B", advertised=proxies)   # clients now come through proxies[node]
    proxies[1].stall("up")        # what is there now stalls; new connections pass
    await_until(lambda: proxies[1].held > 0)
    proxies[1].release()          # what was held arrives, even if its sender is long gone

It changes no byte, but for one that `flip` asks for, and for what `Limits` (limited.py) hide. While
a connection is stalled the proxy goes on taking what the sender sends and keeps it, as a network
with deep buffers does: a sender that has since died leaves its bytes to arrive later. That is how a
zombie's batch reaches a broker after its successor began.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Literal

from tests.harness.limited import Limits, Screen

Direction = Literal["up", "down", "both"]
_CHUNK = 256 * 1024


class _Pipe:
    """One direction of one connection. A thread takes bytes in, another gives them out."""

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        *,
        stalled: bool,
        damaged: Callable[[bytes], bytes] = lambda chunk: chunk,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """`damaged` may raise ConnectionRefusedError: then nothing more is taken, and `refused` is
        called."""
        self._source = source
        self._damaged = damaged
        self._refused = refused
        self._sink = sink
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._open = threading.Event()
        self._lock = threading.Lock()
        self._held = 0
        if not stalled:
            self._open.set()
        self.threads = [
            threading.Thread(target=work, daemon=True) for work in (self._take, self._give)
        ]
        for thread in self.threads:
            thread.start()

    @property
    def held(self) -> int:
        """Bytes taken and not yet given."""
        with self._lock:
            return self._held

    def stall(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def _take(self) -> None:
        while True:
            try:
                chunk = self._source.recv(_CHUNK)
            except OSError:
                chunk = b""  # a reset ends the stream; what came before it is still to be given
            try:
                passed = self._damaged(chunk) if chunk else chunk
            except ConnectionRefusedError:
                self._refused()
                return
            if chunk and not passed:
                continue
            with self._lock:
                self._held += len(passed)
            self._queue.put(passed)
            if not chunk:
                return

    def _give(self) -> None:
        while True:
            chunk = self._queue.get()
            self._open.wait()
            try:
                if not chunk:
                    self._sink.shutdown(socket.SHUT_WR)
                    return
                self._sink.sendall(chunk)
            except OSError:
                return
            with self._lock:
                self._held -= len(chunk)


class _Connection:
    """A client's socket and the broker's, with a pipe each way."""

    def __init__(
        self,
        client: socket.socket,
        broker: socket.socket,
        stalled: Direction | None,
        damaged: Callable[[Direction, bytes], bytes],
        screen: Screen | None = None,
    ) -> None:
        self.client_port: int = client.getpeername()[1]
        self._sockets = (client, broker)
        self._damaged, self._screen = damaged, screen
        # A screen looks at what comes down from the first byte on, so "up" begins last.
        self.down = _Pipe(
            broker,
            client,
            stalled=stalled in ("down", "both"),
            damaged=partial(self._changed, "down"),
        )
        self.up = _Pipe(
            client,
            broker,
            stalled=stalled in ("up", "both"),
            damaged=partial(self._changed, "up"),
            refused=self.cut,
        )

    def _changed(self, direction: Direction, chunk: bytes) -> bytes:
        chunk = self._damaged(direction, chunk)
        if self._screen is None:
            return chunk
        return self._screen.up(chunk) if direction == "up" else self._screen.down(chunk)

    @property
    def alive(self) -> bool:
        return any(thread.is_alive() for pipe in (self.up, self.down) for thread in pipe.threads)

    def stall(self, direction: Direction) -> None:
        if direction != "down":
            self.up.stall()
        if direction != "up":
            self.down.stall()

    def release(self) -> None:
        self.up.release()
        self.down.release()

    def cut(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                # A linger of 0 s makes close() send a reset, and shutdown() wakes the threads.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RD)
            one.close()
        self.release()


class Proxy:
    """Listens on a loopback port of its own (`address`) and connects to loopback `port`.

    "up" is from clients to the broker, "down" the other way. `client_ports` limits a call to the
    connections whose client end has one of these ports (a process' sockets tell them)."""

    def __init__(self, port: int, host: str = "127.0.0.1", *, limits: Limits | None = None) -> None:
        self._limits = limits
        self._target = ("127.0.0.1", port)
        self._connections: list[_Connection] = []
        self._lock = threading.Lock()
        self._refusing = False
        self._stalled_from_birth: Direction | None = None
        self._flipped: bytes | None = None
        self._flips: tuple[Direction, float] = "up", 0
        self._server = socket.create_server((host, 0), backlog=256)
        self.address: tuple[str, int] = (host, self._server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def held(self) -> int:
        """Bytes from clients that have not been passed on to the broker yet."""
        return sum(connection.up.held for connection in self._live())

    @property
    def connections(self) -> int:
        return len(self._live())

    def stall(
        self,
        direction: Direction = "both",
        *,
        client_ports: set[int] | None = None,
        new_ones: bool = False,
    ) -> None:
        """Hold what flows on the connections that are there now, and with `new_ones` on those to
        come as well."""
        if new_ones:
            with self._lock:
                self._stalled_from_birth = direction
        self._each(client_ports, lambda c: c.stall(direction))

    def release(self, client_ports: set[int] | None = None) -> None:
        """Pass on what was held, in order, and all that follows."""
        with self._lock:
            self._stalled_from_birth = None
        self._each(client_ports, lambda c: c.release())

    def cut(self, client_ports: set[int] | None = None) -> None:
        """Reset connections at both ends; what was held is lost."""
        self._each(client_ports, lambda c: c.cut())

    def refuse(self, refusing: bool = True) -> None:
        """Close new connections at once, until called with False."""
        self._refusing = refusing

    def flip(
        self, marker: bytes | None, direction: Direction = "up", times: float = float("inf")
    ) -> None:
        """From now on a bit flips wherever what flows that way holds `marker` (once in what arrives
        together), so many `times`; None: nowhere any more."""
        self._flips = direction, times
        self._flipped = marker

    def _damaged(self, direction: Direction, chunk: bytes) -> bytes:
        marker, (flips, times) = self._flipped, self._flips
        if marker is None or flips != direction or not times or (at := chunk.find(marker)) < 0:
            return chunk
        self._flips = flips, times - 1
        return chunk[:at] + bytes([chunk[at] ^ 1]) + chunk[at + 1 :]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RD)  # wakes accept(), which close() alone does not
        self._server.close()
        self.cut()

    def _live(self) -> list[_Connection]:
        with self._lock:
            self._connections = [c for c in self._connections if c.alive]
            return list(self._connections)

    def _each(self, client_ports: set[int] | None, act: Callable[[_Connection], object]) -> None:
        for connection in self._live():
            if client_ports is None or connection.client_port in client_ports:
                act(connection)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # closed
                return
            try:
                if self._refusing:
                    raise ConnectionRefusedError
                broker = socket.create_connection(self._target, timeout=10)
                broker.settimeout(None)
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                client.close()
                continue
            try:
                with self._lock:  # in the list before its first byte flows
                    connection = _Connection(
                        client,
                        broker,
                        self._stalled_from_birth,
                        self._damaged,
                        Screen(self._limits) if self._limits is not None else None,
                    )
                    self._connections.append(connection)
            except OSError:  # the client was killed meanwhile
                client.close()
                broker.close()


class Proxies:
    """A proxy before each broker, as `LocalCluster`'s `advertised`. `limits`: see limited.py."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits
        self._by_node: dict[int, Proxy] = {}

    def __call__(self, node: int, port: int) -> tuple[str, int]:
        self._by_node[node] = Proxy(port, limits=self._limits)
        return self._by_node[node].address

    def __getitem__(self, node: int) -> Proxy:
        return self._by_node[node]

    def close(self) -> None:
        for proxy in self._by_node.values():
            proxy.close()
