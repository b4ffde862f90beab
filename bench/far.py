"""A cluster far away: a TCP relay that holds every byte for a while, each way, on its way to it.

    client ─► take (as fast as it comes) ─► held for HOLD_S ─► give ─► broker       and back

It is a process of its own. What a connection may have under way is bounded only so that memory is:
at 50 ms that allows more than a gigabyte a second. So one plain TCP copy is as fast through it as
the machine can relay bytes; `plain_copy` measures that.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType

HOLD_S = 0.05  # each way
_UNDER_WAY_BYTES = 128 * 1024 * 1024  # of one connection, one way
_CHUNK = 256 * 1024
_LOOPBACK = "127.0.0.1"
_COPIED_BYTES = 1 << 30


class _Way:
    """One direction of one connection. A thread takes bytes in, another gives them out."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source, self._sink = source, sink
        self._chunks: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        self._under_way = 0
        self._changed = threading.Condition()
        for work in (self._take, self._give):
            threading.Thread(target=work, daemon=True).start()

    def _take(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._under_way < _UNDER_WAY_BYTES)
            try:
                chunk = self._source.recv(_CHUNK)
            except OSError:
                chunk = b""
            self._add(len(chunk))
            self._chunks.put((time.monotonic() + HOLD_S, chunk))
            if not chunk:
                return

    def _give(self) -> None:
        while True:
            due, chunk = self._chunks.get()
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            try:
                if not chunk:
                    self._sink.shutdown(socket.SHUT_WR)
                    return
                self._sink.sendall(chunk)
            except OSError:
                with contextlib.suppress(OSError):
                    self._source.shutdown(socket.SHUT_RD)
                return
            self._add(-len(chunk))

    def _add(self, size: int) -> None:
        with self._changed:
            self._under_way += size
            self._changed.notify()


def _relay(port: int) -> None:
    """Serve until the parent is gone; says on which port."""
    with socket.create_server((_LOOPBACK, 0), backlog=256) as server:
        print(server.getsockname()[1], flush=True)
        threading.Thread(target=_serve, args=(server, port), daemon=True).start()
        sys.stdin.read()


def _serve(server: socket.socket, port: int) -> None:
    while True:
        client, _ = server.accept()
        try:
            broker = socket.create_connection((_LOOPBACK, port))
        except OSError:
            client.close()
            continue
        for one in (client, broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Way(client, broker)
        _Way(broker, client)


class Relays:
    """One before each broker, as `LocalCluster`'s `advertised`."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def __call__(self, _: int, port: int) -> tuple[str, int]:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.far", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        return _LOOPBACK, int(process.stdout.readline())

    def __enter__(self) -> Relays:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def plain_copy(size: int = _COPIED_BYTES) -> float:
    """Bytes a second that one TCP connection carries through a relay, from the first byte that
    arrives to the last."""
    with socket.create_server((_LOOPBACK, 0)) as server, Relays() as relays:

        def send() -> None:
            sock, _ = server.accept()
            block = bytes(1 << 20)
            with sock:
                for _ in range(size // len(block)):
                    sock.sendall(block)

        threading.Thread(target=send, daemon=True).start()
        with socket.create_connection(relays(0, server.getsockname()[1])) as sock:
            into = bytearray(1 << 20)
            got = sock.recv_into(into)
            begun, first = time.monotonic(), got
            while (some := sock.recv_into(into)) > 0:
                got += some
            return (got - first) / (time.monotonic() - begun)


if __name__ == "__main__":
    _relay(int(sys.argv[1]))
