"""Kills child processes when their owner, the process that named them, has ended.

Run as a script (`python watchdog.py`), one line a command on standard input: `+PID` to look after
a process, `-PID` to forget it. End of input means that the owner has died, however it died: the
kernel closes the pipe for it. That is why this is a pipe and not PR_SET_PDEATHSIG, which fires
when the *thread* that started the child ends, and which only Linux has.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable


def watch(commands: Iterable[str]) -> set[int]:
    """Follow `commands` to their end; returns the process ids that are left to kill."""
    watched: set[int] = set()
    for line in commands:
        sign, pid = line[:1], int(line[1:])
        if sign == "+":
            watched.add(pid)
        else:
            watched.discard(pid)
    return watched


def main() -> None:
    for pid in watch(sys.stdin):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    main()
