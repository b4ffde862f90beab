"""Retries: until when, and how long to wait between them."""

from __future__ import annotations

import random
import time

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class Deadline:
    """A moment on the monotonic clock. `moved_s`: by how much it was moved."""

    __slots__ = ("_at", "moved_s", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.moved_s = 0.0
        self._at = time.monotonic() + seconds

    def move(self, seconds: float) -> None:
        """Move the deadline by a wait that does not count."""
        self.moved_s += seconds
        self._at += seconds

    def left(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def passed(self) -> bool:
        return time.monotonic() >= self._at


def pause_s(attempt: int) -> float:
    """Seconds to wait after the `attempt`-th failure (from 0): doubling, jittered by a fifth."""
    longest: float = min(FIRST_PAUSE_S * 2 ** min(attempt, 16), LONGEST_PAUSE_S)
    return longest * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries, guards nothing
