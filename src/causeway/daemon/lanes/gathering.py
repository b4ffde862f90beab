"""Partitions wait a moment for lanes that are about to come, or to come back."""

from __future__ import annotations

import time

GATHER_S = 1.0


class Gathering:
    """`expected`: how many lanes were launched. Not thread-safe."""

    def __init__(self) -> None:
        self.expected = 0
        self._until = 0.0

    def begin(self) -> None:
        """A lane is gone."""
        self._until = time.monotonic() + GATHER_S

    def waits_for_more(self, lanes: int) -> bool:
        """Whether nothing is given out yet, with so many lanes there."""
        if not lanes or lanes >= self.expected:
            self._until = 0.0
            return not lanes
        now = time.monotonic()
        if not self._until:
            self._until = now + GATHER_S
        return now < self._until
