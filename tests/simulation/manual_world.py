"""A World that a test moves by hand."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Final

START_S: Final = 1_700_000_000.0


class ManualWorld:
    """`lines`: the trace."""

    def __init__(self, seed: int = 0, start_s: float = START_S) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self._now = start_s
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def now(self) -> float:
        return self._now

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (self._now + max(0.0, delay_s), next(self._numbers), act))

    def trace(self, text: str) -> None:
        self.lines.append(f"{self._now:.6f} {text}")

    @property
    def waiting(self) -> int:
        """How many acts are due some time."""
        return len(self._due)

    def step(self) -> bool:
        """The next act. False if there is none."""
        if not self._due:
            return False
        at, _, act = heapq.heappop(self._due)
        self._now = max(self._now, at)
        act()
        return True

    def run(self, seconds: float) -> None:
        """All that is due within this time, which then has passed."""
        end = self._now + seconds
        while self._due and self._due[0][0] <= end:
            self.step()
        self._now = end

    def run_until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        """Raises TimeoutError if it does not hold within this time of the simulation."""
        end = self._now + within_s
        while not holds():
            if not self._due or self._due[0][0] > end:
                raise TimeoutError(f"it does not hold within {within_s} simulated seconds")
            self.step()
