"""The time and the chance of a simulation, as its simulated clusters see them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol


class World(Protocol):
    """All of a simulation that is not chosen by its seed follows from it."""

    @property
    def random(self) -> random.Random:
        """All that happens by chance is drawn here, so that a seed gives the same run again."""
        ...

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        """Calls `act` once `delay_s` seconds have passed, 0 or more."""
        ...

    def trace(self, text: str) -> None:
        """Writes one line of what happens, for the person who reads the trace."""
        ...
