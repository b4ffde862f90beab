"""A lane's lease, and a timer that kills a lane which would send after its lease.

    check the lease ── stopped here, for longer than the lease ── send: too late

A process can be stopped between the check and the system call (SIGSTOP, a frozen container, an
overloaded machine), and would send when it continues. So while the lane sends, a timer runs until
the end of the lease, on the same clock. Its signal, SIGALRM, is delivered before the process runs
another instruction, and kills it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
import weakref
from collections.abc import Callable

# The monotonic clock stops while the machine sleeps, but the clocks of other machines go on.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

MARGIN_S = 0.05  # a lease counts as ended this much earlier: setting the timer takes time


def clock() -> float:
    """Seconds since a fixed moment, on the clock that measures leases."""
    return time.clock_gettime(_CLOCK)


class LeaseGuard:
    """Sends only while the lease lasts. Only one thread may use it. Create it in the process that
    uses it: a forked child does not inherit its timer."""

    def __init__(self) -> None:
        self._until = 0.0  # by `clock`
        self._timer: _AbsoluteTimer | _IntervalTimer
        try:
            self._timer = _AbsoluteTimer()
        except OSError:  # the kernel or the C library has no such timer
            self._timer = _IntervalTimer()

    def renew(self, until: float) -> None:
        """Sets the end of the lease, by `clock`."""
        self._until = until - MARGIN_S

    def lasts(self) -> bool:
        return clock() < self._until

    def send(self, act: Callable[[], object]) -> None:
        """Does `act` if the lease lasts. If the lease ends before `act` does, SIGALRM kills the
        process. The action of that signal must be the default."""
        if not self._timer.arm(self._until):
            return
        try:
            act()
        finally:
            self._timer.disarm()


class _Spec(ctypes.Structure):
    """struct itimerspec of timer_settime(2)."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("s", ctypes.c_long),
        ("ns", ctypes.c_long),
    )


_ABSTIME = 1


class _AbsoluteTimer:
    """A POSIX timer. It ends at a moment of `clock`, and also counts while the machine sleeps."""

    def __init__(self) -> None:
        """Raises OSError."""
        library = _with_timers()
        made = ctypes.c_void_p()
        # Without a sigevent the signal is SIGALRM.
        _check(library.timer_create(_CLOCK, None, ctypes.byref(made)))
        weakref.finalize(self, library.timer_delete, made)
        self._set = library.timer_settime
        self._made = made
        self._at = 0.0
        self._spec = _Spec()
        self._never = _Spec()

    def arm(self, until: float) -> bool:
        """Starts the timer. Returns False if `until` is over."""
        if clock() >= until:
            return False
        if until != self._at:
            self._at = until
            self._spec.s, self._spec.ns = divmod(int(until * 1e9), 1_000_000_000)
        _check(self._set(self._made, _ABSTIME, ctypes.byref(self._spec), None))
        return True

    def disarm(self) -> None:
        _check(self._set(self._made, 0, ctypes.byref(self._never), None))


class _IntervalTimer:
    """setitimer(2), which every system has. It stops while the machine sleeps."""

    def arm(self, until: float) -> bool:
        """Starts the timer. Returns False if `until` is over."""
        while (now := clock()) < until:
            signal.setitimer(signal.ITIMER_REAL, until - now)
            # If the process was stopped before the timer was set, the timer would end too late.
            if clock() - now < MARGIN_S:
                return True
        self.disarm()
        return False

    def disarm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _with_timers() -> ctypes.PyDLL:
    """The C library. A call keeps the GIL, so no other thread runs meanwhile. Raises OSError."""
    library = ctypes.PyDLL(None, use_errno=True)
    if not hasattr(library, "timer_create"):
        library = ctypes.PyDLL("librt.so.1", use_errno=True)  # glibc before 2.34
    return library


def _check(result: int) -> None:
    if result:
        raise OSError(error := ctypes.get_errno(), os.strerror(error))
