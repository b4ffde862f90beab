"""Lanes in processes of their own, forked from one that has loaded all that a lane needs.

So do Spark's workers; and one that loads it for itself takes most of a second of CPU time.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path

from causeway.relay import SECRET_VARIABLE
from tests.harness.command import command_environment

_START_TIMEOUT_S = 120.0


class LaneProcess:
    """Lane `number` of the driver that listens at `host`:`port`. As subprocess.Popen has them."""

    pid: int

    def __init__(self, number: int, host: str, port: int, secret: str) -> None:
        self._begun, self._ended = threading.Event(), threading.Event()
        self._code: int | None = None
        environment = {**command_environment(), SECRET_VARIABLE: secret}
        _forks().start(self, [number, host, port, environment])
        assert self._begun.wait(_START_TIMEOUT_S), f"lane {number} was not forked"

    def begun(self, pid: int) -> None:
        self.pid = pid
        self._begun.set()

    def ended(self, code: int) -> None:
        self._code = code
        self._ended.set()

    def poll(self) -> int | None:
        return self._code

    def wait(self) -> int:
        self._ended.wait()
        assert self._code is not None
        return self._code

    def send_signal(self, number: signal.Signals) -> None:
        """Without effect on one that has ended."""
        if self._code is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Forks:
    """The process that forks lanes, and a thread that hears of them."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            program = Path(__file__).with_name("lane_forks.py")
            self._process = subprocess.Popen(
                [sys.executable, "-P", program, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=command_environment(),
            )
        self._socket = ours
        self._lock = threading.Lock()
        self._numbers = count()
        self._starting: dict[int, LaneProcess] = {}
        self._running: dict[int, LaneProcess] = {}
        threading.Thread(target=self._hear, name="lane-forks", daemon=True).start()

    def start(self, lane: LaneProcess, words: list[object]) -> None:
        number = next(self._numbers)
        self._starting[number] = lane
        with self._lock:
            self._socket.sendall(json.dumps([number, *words]).encode())

    def _hear(self) -> None:
        while heard := self._socket.recv(1 << 16):
            what, one, other = json.loads(heard)
            if what == "begun":
                lane = self._starting.pop(one)
                self._running[other] = lane
                lane.begun(other)
            else:
                self._running.pop(one).ended(other)


_made: _Forks | None = None
_making = threading.Lock()


def _forks() -> _Forks:
    global _made
    with _making:
        if _made is None:
            _made = _Forks()
        return _made
