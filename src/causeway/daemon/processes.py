"""Whether a process of this machine still lives, without being fooled by a reused number."""

from __future__ import annotations

import os
import signal
from functools import lru_cache
from pathlib import Path


def started_at(pid: int) -> str | None:
    """When process `pid` started, as the kernel counts; None where it is gone or a zombie.

    '' where it lives, but the system has no such files, does not show another user's (`hidepid`),
    or lets us open no more: then only the number tells processes apart.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "" if _answers(pid) else None
    # The name, in brackets, may hold anything; the state is the first field after it.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@lru_cache(1)
def here() -> str:
    """This boot and this set of process numbers; two containers of one machine differ."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def fingerprint() -> str:
    """Names this process among all of all machines, '' where that can't be told."""
    start = started_at(os.getpid())
    return f"{here()}/{os.getpid()}/{start}" if here() and start else ""


def has_ended(other: str) -> bool:
    """True only where `other`, a fingerprint (and perhaps "#" and more), is of this machine and
    its process is gone."""
    found = _of_here(other)
    return found is not None and is_gone(*found)


def may_live_here(other: str) -> bool:
    """Whether the process of `other`, as in `has_ended`, is of this machine and may still run."""
    found = _of_here(other)
    return found is not None and not is_gone(*found)


def _of_here(other: str) -> tuple[int, str] | None:
    """Process number and start of a fingerprint of this machine; None for any other text."""
    place, _, start = other.partition("#")[0].rpartition("/")
    place, _, pid = place.rpartition("/")
    if not here() or place != here() or not pid.isdecimal():
        return None
    return int(pid), start


def is_gone(pid: int, start: str) -> bool:
    """Whether the process `pid` that started at `start` is gone, be its number another's by now.
    False also where that cannot be told."""
    return started_at(pid) not in (start, "")


def kill(pid: int, start: str) -> None:
    """Ends process `pid` if it is still the one that started at `start`."""
    if started_at(pid) == start:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
