"""Child processes: they end with this Python process, or go on and are found again."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from causeway.errors import CausewayError

_POLL_S = 0.02


class Process:
    """A process by id and start time, so that a later process with the same id is not mistaken
    for it. Start one with `spawn`, find one again with `Process(pid, started)`."""

    def __init__(
        self, pid: int, started: str, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.pid = pid
        self.started = started
        self._child = child

    @classmethod
    def read(cls, file: Path) -> Process | None:
        """The process that `write` put in `file`, dead or alive; None if there is no such file."""
        try:
            pid, _, started = file.read_text().strip().partition(" ")
            return cls(int(pid), started)
        except (FileNotFoundError, ValueError):
            return None

    def write(self, file: Path) -> None:
        file.write_text(f"{self.pid} {self.started}\n")

    def alive(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return started_at(self.pid) == self.started

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and for a process that we did not start."""
        return self._child.poll() if self._child is not None else None

    def send(self, number: signal.Signals) -> None:
        """Signal it; nothing happens if it has ended."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """True once it has ended, False when `timeout_s` seconds have passed before."""
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        _watchdog.forget(self.pid)
        return True

    def stop(self, timeout_s: float = 30.0) -> None:
        """SIGTERM, and SIGKILL after `timeout_s`. Also ends a process that SIGSTOP holds."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        if not self.wait(timeout_s):
            self.kill()

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if not self.wait(10.0):
            raise CausewayError("kill process", str(self.pid), "it is still there after SIGKILL")


def spawn(
    command: Sequence[str | Path],
    *,
    output: Path,
    environment: Mapping[str, str] | None = None,
    detached: bool = False,
) -> Process:
    """Start `command` in a session of its own (Ctrl-C at the terminal does not reach it), its
    output and errors appended to the file `output`. Unless `detached`, it is killed when this
    Python process ends, even by SIGKILL."""
    with output.open("ab") as sink:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,
        )
    process = Process(child.pid, started_at(child.pid) or "", child)
    if not detached:
        _watchdog.look_after(child.pid)
    return process


def started_at(pid: int) -> str | None:
    """When process `pid` began, in the system's own words, or None if there is none (any more)."""
    stat = Path("/proc") / str(pid) / "stat"
    try:
        # The second field is the command in brackets and may hold spaces; state is the third and
        # the start time, in clock ticks since the machine booted, the 22nd.
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if stat.parent.parent.joinpath("self").exists() else _started_by_ps(pid)
    return None if fields[0] in ("Z", "X") else fields[19]


def _started_by_ps(pid: int) -> str | None:
    """For systems without /proc."""
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    state, _, started = answer.partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


class _Watchdog:
    """Our end of `watchdog.py`; it is started with the first process to look after."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pids: set[int] = set()

    def look_after(self, pid: int) -> None:
        with self._lock:
            self._pids.add(pid)
            self._tell(f"+{pid}")

    def forget(self, pid: int) -> None:
        with self._lock:
            if pid in self._pids:
                self._pids.discard(pid)
                self._tell(f"-{pid}")

    def kill_all(self) -> None:
        """At interpreter exit. A forked child inherits our memory, yet not our processes."""
        if self._owner == os.getpid():
            for pid in self._pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _tell(self, command: str) -> None:
        if self._process is None or self._process.poll() is not None:
            self._owner = os.getpid()
            atexit.register(self.kill_all)
            script = Path(__file__).with_name("watchdog.py")
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(script)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()


_watchdog = _Watchdog()
