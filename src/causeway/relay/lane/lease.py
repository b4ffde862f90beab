"""A lane's lease, and the kernel that ends a lane which would send without it.

    look at the lease ── stopped here, for longer than the lease ── send: too late

A process can be stopped between the look and the system call (SIGSTOP, a frozen container, a
machine that has no time for it), and would send when it goes on. So a timer that ends with the
lease runs while it sends. Its signal, SIGALRM, is delivered before the process runs one more
instruction, and ends it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

# Not the monotonic one: that stands still while the machine sleeps, and other machines' do not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

MARGIN_S = 0.05  # a lease is taken to end so much sooner, for what setting the timer may take


def clock() -> float:
    """Seconds since some moment, on the clock by which leases are measured."""
    return time.clock_gettime(_CLOCK)


class LeaseGuard:
    """For the one thread that sends."""

    def __init__(self) -> None:
        self._until = 0.0  # by `clock`

    def renew(self, until: float) -> None:
        """It lasts until then, by `clock`."""
        self._until = until - MARGIN_S

    def lasts(self) -> bool:
        return clock() < self._until

    def send(self, act: Callable[[], object]) -> None:
        """Does `act`, where the lease lasts; the process ends (SIGALRM, whose action must be the
        default) if the lease ends before `act` has."""
        if not self._armed():
            return
        try:
            act()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _armed(self) -> bool:
        while (now := clock()) < self._until:
            signal.setitimer(signal.ITIMER_REAL, self._until - now)
            # The timer counts from when it was set: stopped before that, it would go off late.
            if clock() - now < MARGIN_S:
                return True
        signal.setitimer(signal.ITIMER_REAL, 0)
        return False
