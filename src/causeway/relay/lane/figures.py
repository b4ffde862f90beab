"""Figures that a lane notes for each batch, and tells in short with its next report."""

from __future__ import annotations

from causeway.model import Spread


class Figures:
    """Not thread-safe."""

    __slots__ = ("_least", "_most", "_seen", "_total")

    def __init__(self) -> None:
        self._seen = self._total = self._least = self._most = 0

    def note(self, figure: int) -> None:
        if not self._seen:
            self._least = self._most = figure
        elif figure < self._least:
            self._least = figure
        elif figure > self._most:
            self._most = figure
        self._seen += 1
        self._total += figure

    def take(self) -> Spread | None:
        """What was noted since the last call; None if nothing was."""
        if not self._seen:
            return None
        spread = Spread(self._seen, self._total, self._least, self._most)
        self._seen = self._total = 0
        return spread
