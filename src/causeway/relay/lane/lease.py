"""A lane's lease, and a timer that ends a lane which would send without it.

    look at the lease ── stopped here, for longer than the lease ── send: too late

A process can be stopped between the look and the system call (SIGSTOP, a frozen container, a
machine that has no time for it), and would send when it goes on. So a timer that ends with the
lease runs while it sends, by the same clock. Its signal, SIGALRM, is delivered before the process
runs one more instruction, and ends it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
import weakref
from collections.abc import Callable

# Not the monotonic clock: it stops while the machine sleeps, and clocks of other machines go on.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

MARGIN_S = 0.05  # a lease is taken to end so much sooner, for what setting the timer may take


def clock() -> float:
    """Seconds since some moment, on the clock by which leases are measured."""
    return time.clock_gettime(_CLOCK)


class LeaseGuard:
    """For the one thread that sends. Create it in the process that uses it: a forked child does not
    inherit its timer."""

    def __init__(self) -> None:
        self._until = 0.0  # by `clock`
        self._timer: _AbsoluteTimer | _IntervalTimer
        try:
            self._timer = _AbsoluteTimer()
        except OSError:  # the kernel, or the C library, has none
            self._timer = _IntervalTimer()

    def renew(self, until: float) -> None:
        """Sets the end of the lease, by `clock`."""
        self._until = until - MARGIN_S

    def lasts(self) -> bool:
        return clock() < self._until

    def send(self, act: Callable[[], object]) -> None:
        """Does `act` if the lease lasts; the process ends (SIGALRM, whose action must be the
        default) if the lease ends before `act` has."""
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
    """POSIX's: it is set to a moment of `clock`, and counts while the machine sleeps."""

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
        """False where that moment has come already."""
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
        """False where that moment has come already."""
        while (now := clock()) < until:
            signal.setitimer(signal.ITIMER_REAL, until - now)
            # The timer counts from when it was set: stopped before that, it would go off late.
            if clock() - now < MARGIN_S:
                return True
        self.disarm()
        return False

    def disarm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _with_timers() -> ctypes.PyDLL:
    """The C library, called without letting other threads run between. Raises OSError."""
    library = ctypes.PyDLL(None, use_errno=True)
    if not hasattr(library, "timer_create"):
        library = ctypes.PyDLL("librt.so.1", use_errno=True)  # glibc before 2.34
    return library


def _check(result: int) -> None:
    if result:
        raise OSError(error := ctypes.get_errno(), os.strerror(error))
