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

MARGIN_S = 0.05  # a lease is taken to end so much sooner, for what setting the timer may take


class LeaseGuard:
    """For the one thread that sends."""

    def __init__(self) -> None:
        self._until = 0.0

    def renew(self, until: float) -> None:
        """It lasts until then, in monotonic time (s)."""
        self._until = until - MARGIN_S

    def lasts(self, now: float) -> bool:
        return now < self._until

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
        while self.lasts(now := time.monotonic()):
            signal.setitimer(signal.ITIMER_REAL, self._until - now)
            # The timer counts from when it was set: stopped before that, it would go off late.
            if time.monotonic() - now < MARGIN_S:
                return True
        signal.setitimer(signal.ITIMER_REAL, 0)
        return False
