"""Processes of this machine: whether a process still lives, even if its number was reused. Also
makes garbage collections of this process shorter."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

_FULL_S = 3600.0  # between two collections of all objects


def started_at(pid: int) -> str | None:
    """Returns when process `pid` started, as the kernel counts. None if it is gone or a zombie.

    '' if it lives, but the system has no such files, hides those of other users (`hidepid`), or has
    no file descriptor left. Then only the number identifies the process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass  # it lives, and belongs to another user
        return ""
    # The name, in brackets, may contain anything; the state is the first field after it.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


@lru_cache(1)
def here() -> str:
    """Identifies this boot and this set of process numbers: two containers of a machine differ."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def fingerprint() -> str:
    """Returns an id of this process among those of all machines; '' if that is not possible."""
    start = started_at(os.getpid())
    return f"{here()}/{os.getpid()}/{start}" if here() and start else ""


def has_ended(other: str) -> bool:
    """True only if `other` is a fingerprint of this machine and its process is gone. "#" and more
    text may follow the fingerprint."""
    return _is_gone_here(other) is True


def may_live_here(other: str) -> bool:
    """Returns whether the process of `other`, as in `has_ended`, is of this machine and may still
    run."""
    return _is_gone_here(other) is False


def _is_gone_here(other: str) -> bool | None:
    """Returns None if the text is not a fingerprint of this machine."""
    place, _, start = other.partition("#")[0].rpartition("/")
    place, _, pid = place.rpartition("/")
    if not here() or place != here() or not pid.isdecimal():
        return None
    return is_gone(int(pid), start)


def is_gone(pid: int, start: str) -> bool:
    """Returns whether the process `pid` that started at `start` is gone, even if another process
    has its number now. False if that is unknown."""
    return started_at(pid) not in (start, "")


def kill(pid: int, start: str) -> None:
    """Ends process `pid` if it is still the one that started at `start`."""
    if started_at(pid) == start:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


@contextmanager
def short_collections(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Keeps full garbage collections short while the block lasts.

    A full collection visits all live objects: for 50,000 partitions it stops all threads for half
    a second, every few seconds. So after each full collection the surviving objects are frozen, and
    later collections skip them. Once an hour all objects are visited again, to free old cycles.
    Objects outside of cycles are freed at once, as usual.
    """
    full_at = clock()

    def on_collection(phase: str, info: dict[str, int]) -> None:
        nonlocal full_at
        if info["generation"] < 2:
            return
        if phase == "stop":
            gc.freeze()
        elif clock() - full_at >= _FULL_S:
            full_at = clock()
            gc.unfreeze()

    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(on_collection)
        gc.unfreeze()
