"""Child processes. They end with this Python process, or keep running and are found again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from causeway.errors import CausewayError

_POLL_S = 0.02


class Process:
    """A process by id and start time, so that a later process with the same id is not taken for it.
    `spawn` starts a process; `Process(pid, started)` finds one again."""

    def __init__(
        self, pid: int, started: str, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.pid = pid
        self.started = started
        self._child = child
        self._guard: subprocess.Popen[bytes] | None = None

    @classmethod
    def read(cls, file: Path) -> Process | None:
        """Returns the process that `write` put in `file`, dead or alive; None without a file."""
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
        """None while it runs, and for a process that this Python process did not start."""
        return self._child.poll() if self._child is not None else None

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; does nothing if the process has ended."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Returns True once it has ended, False if `timeout_s` passes before."""
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        if self._guard is not None:
            self._guard.communicate(b"\n")  # it has nothing left to kill
            self._guard = None
        return True

    def end_with_us(self) -> None:
        """Lets a shell kill the process when this Python process ends, however it ends: the kernel
        then closes the pipe that the shell reads. PR_SET_PDEATHSIG fires when the *thread* that
        started the child ends, and only Linux has it."""
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _ || kill -9 "$0"', str(self.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self, timeout_s: float = 30.0) -> None:
        """Sends SIGTERM, and SIGKILL after `timeout_s`. Also ends a process that is stopped."""
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
    """Starts `command` in a new session, so that Ctrl-C at the terminal does not reach it. Appends
    its output and errors to the file `output`. Unless `detached`, it is killed when this Python
    process ends, even by SIGKILL."""
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
        process.end_with_us()
    return process


def started_at(pid: int) -> str | None:
    """Returns when process `pid` began, in the system's form; None if it does not exist."""
    stat = Path("/proc") / str(pid) / "stat"
    try:
        # The second field is the command in brackets and may hold spaces; state is the third and
        # the start time, in clock ticks since the machine booted, the 22nd.
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if stat.parent.parent.joinpath("self").exists() else _started_by_ps(pid)
    return None if fields[0] in ("Z", "X") else fields[19]


def _started_by_ps(pid: int) -> str | None:
    """Does the same on systems without /proc."""
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    state, _, started = answer.partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
