"""A cluster far away: a TCP relay that holds every byte for a while, each way, on its way to it.

    client ─► take (as fast as it comes) ─► held for HOLD_S ─► give ─► broker       and back

It is a process of its own, and takes little of the machine that it shares with what is measured:
bytes are moved (`splice`, Linux's) from socket to pipe to socket, never copied. What a connection
may have under way is bounded only so that memory is: at 50 ms that allows more than a gigabyte a
second. So one plain TCP copy is as fast through it as the machine can relay bytes, or as the line
carries; `plain_copy` measures that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from bench import throughput
from bench.source import Shape
from bench.stage import Stage, started
from bench.systems import CAUSEWAY, MM2, PLAIN_COPY
from bench.throughput import Throughput
from bench.usage import Meter
from tests.harness.kafka.cluster import LocalCluster

SYSTEMS = (MM2, CAUSEWAY, PLAIN_COPY)
HOLD_S = 0.05  # each way
_UNDER_WAY_BYTES = 128 * 1024 * 1024  # of one connection, one way
_CHUNK = 1024 * 1024  # what a pipe holds at the most: it has a place for each page
_GATHER_S = 0.001  # after a few bytes: what comes meanwhile is taken together
_LOOPBACK = "127.0.0.1"
_COPIED_BYTES = 1 << 29
# Both at their defaults; elsewhere MirrorMaker 2 gets a task for each of four partitions.
_DEFAULT_TASKS = {"tasks.max": "1"}
# At its defaults MirrorMaker 2 sends to a far target some hundreds of records a second: half a
# minute of that tells as much as half an hour.
_SLOW_FACTOR = 50
_RECORD_BYTES = 1000

Say = Callable[[str], None]


class _Pace:
    """What the connections of a line share, one way."""

    def __init__(self, bytes_per_s: int) -> None:
        self._rate = bytes_per_s
        self._free_at = 0.0
        self._lock = threading.Lock()

    def through_at(self, size: int) -> float:
        """When as many bytes that come now are on the line."""
        if not self._rate:
            return time.monotonic()
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
            return self._free_at


class _Pipe:
    """Where the kernel holds bytes that nobody looks at."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe()
        fcntl.fcntl(self.into, fcntl.F_SETPIPE_SZ, _CHUNK)

    def __del__(self) -> None:
        os.close(self.out)
        os.close(self.into)


class _Way:
    """One direction of one connection. A thread takes bytes in, another gives them out."""

    def __init__(self, source: socket.socket, sink: socket.socket, pace: _Pace) -> None:
        self._source, self._sink, self._pace = source, sink, pace
        self._held: queue.SimpleQueue[tuple[float, int, _Pipe]] = queue.SimpleQueue()
        self._free: deque[_Pipe] = deque()
        self._under_way = 0
        self._changed = threading.Condition()
        for work in (self._take, self._give):
            threading.Thread(target=work, daemon=True).start()

    def _take(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._under_way < _UNDER_WAY_BYTES)
            pipe = self._free.pop() if self._free else _Pipe()
            try:
                size = os.splice(self._source.fileno(), pipe.into, _CHUNK)
            except OSError:
                size = 0
            self._add(size)
            self._held.put((self._pace.through_at(size) + HOLD_S, size, pipe))
            if not size:
                return
            if size < _CHUNK:
                time.sleep(_GATHER_S)

    def _give(self) -> None:
        while True:
            due, size, pipe = self._held.get()
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            try:
                if not size:
                    self._sink.shutdown(socket.SHUT_WR)
                    return
                left = size
                while left:
                    left -= os.splice(pipe.out, self._sink.fileno(), left)
            except OSError:
                with contextlib.suppress(OSError):
                    self._source.shutdown(socket.SHUT_RD)
                return
            self._free.append(pipe)
            self._add(-size)

    def _add(self, size: int) -> None:
        with self._changed:
            self._under_way += size
            self._changed.notify()


def _relay(port: int, bytes_per_s: int) -> None:
    """Serve until the parent is gone; says on which port. `bytes_per_s`: 0 for no limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # of pipes there are many
    with socket.create_server((_LOOPBACK, 0), backlog=256) as server:
        print(server.getsockname()[1], flush=True)
        threading.Thread(target=_serve, args=(server, port, bytes_per_s), daemon=True).start()
        sys.stdin.read()


def _serve(server: socket.socket, port: int, bytes_per_s: int) -> None:
    up, down = _Pace(bytes_per_s), _Pace(bytes_per_s)
    while True:
        client, _ = server.accept()
        try:
            broker = socket.create_connection((_LOOPBACK, port))
        except OSError:
            client.close()
            continue
        for one in (client, broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Way(client, broker, up)
        _Way(broker, client, down)


class Relays:
    """One before each broker, as `LocalCluster`'s `advertised`."""

    def __init__(self, bytes_per_s: int | None = None) -> None:
        """`bytes_per_s`: what each carries, each way, for all connections together."""
        self._rate = bytes_per_s or 0
        self._processes: list[subprocess.Popen[str]] = []

    def __call__(self, _: int, port: int) -> tuple[str, int]:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.far", str(port), str(self._rate)],
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where a cluster lies far away, over a line that carries so much each way; None: as much as
    the machine can relay."""

    name: str
    title: str
    side: str
    bytes_per_s: int | None = None


LINES = (
    Line(name="far-source", title=f"a source {HOLD_S * 1000:g} ms away", side="source"),
    Line(name="far-target", title=f"a target {HOLD_S * 1000:g} ms away", side="target"),
    Line(
        name="far-line",
        title=f"a source {HOLD_S * 1000:g} ms away over 1 Gbit/s",
        side="source",
        bytes_per_s=125_000_000,
    ),
)


@contextmanager
def staged(line: Line) -> Iterator[Stage]:
    with (
        tempfile.TemporaryDirectory(prefix="causeway-bench-") as folder,
        Relays(line.bytes_per_s) as relays,
    ):
        source, target = (
            LocalCluster(side, advertised=relays if side == line.side else None)
            for side in ("source", "target")
        )
        with started(source, target):
            yield Stage(source, target, Path(folder))


def measure(
    line: Line, shape: Shape, settle_s: float, stage: Stage, name: str, say: Say
) -> Throughput:
    if name != PLAIN_COPY:
        if name == MM2 and line.side == "target":
            shape = shape.shortened(_SLOW_FACTOR)
        return throughput.measure(
            stage, name, shape, say, settle_s=settle_s, keys=lambda _: _DEFAULT_TASKS
        )
    with Meter(lambda: [os.getpid()], stage.broker_pids) as meter:
        meter.start()
        seconds = plain_copy(line.bytes_per_s)
        usage = meter.stop(seconds=seconds)
    say(f"{_COPIED_BYTES / seconds / 1e6:,.0f} MB/s")
    return Throughput(records=_COPIED_BYTES // _RECORD_BYTES, size=_COPIED_BYTES, usage=usage)


def plain_copy(bytes_per_s: int | None = None) -> float:
    """Seconds in which one TCP connection carries _COPIED_BYTES through a relay, from when the
    first of them arrive to the last."""
    with socket.create_server((_LOOPBACK, 0)) as server, Relays(bytes_per_s) as relays:

        def send() -> None:
            sock, _ = server.accept()
            block = bytes(1 << 20)
            with sock:
                for _ in range(_COPIED_BYTES // len(block)):
                    sock.sendall(block)

        threading.Thread(target=send, daemon=True).start()
        with socket.create_connection(relays(0, server.getsockname()[1])) as sock:
            into = bytearray(1 << 20)
            got = sock.recv_into(into)
            begun = time.monotonic()
            while some := sock.recv_into(into):
                got += some
            assert got == _COPIED_BYTES
            return time.monotonic() - begun


if __name__ == "__main__":
    _relay(int(sys.argv[1]), int(sys.argv[2]))
