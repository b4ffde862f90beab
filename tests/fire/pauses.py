"""The mirror's pauses: for how long a partition brought no record although its source had more.

Both clusters are seen by the independent reader, so a pause has the time that the reader needs to
find a new leader, too."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from tests.fire.tape import Place, Witness

_LOOK_S = 0.25
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class MirrorPause:
    place: Place
    begun: float
    seconds: float


class Pauses(threading.Thread):
    """`excused`: topics whose partitions are not watched."""

    def __init__(self, a: Witness, b: Witness, excused: set[str]) -> None:
        super().__init__(daemon=True)
        self._a, self._b, self._excused = a, b, excused
        self._over = threading.Event()
        self._since: dict[Place, tuple[float, int]] = {}
        self.found: list[MirrorPause] = []

    def run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._look()

    def end(self) -> None:
        self._over.set()
        self.join()
        for place in list(self._since):
            self._close(place)

    def _look(self) -> None:
        now = time.monotonic()
        for place, tape in list(self._a.tapes.items()):
            if place[0] in self._excused:
                continue
            there = self._b.tape(place)
            behind, count = len(there) < len(tape), len(there)
            known = self._since.get(place)
            if known is not None and (not behind or known[1] != count):
                self._close(place)
                known = None
            if behind and known is None:
                self._since[place] = now, count

    def _close(self, place: Place) -> None:
        begun, _ = self._since.pop(place)
        if (seconds := time.monotonic() - begun) > _LEAST_S:
            self.found.append(MirrorPause(place, begun, seconds))

    def behind(self) -> list[tuple[Place, float]]:
        """Partitions that are behind now, and since when they have brought nothing."""
        now = time.monotonic()
        found = [(place, now - begun) for place, (begun, _) in list(self._since.items())]
        return sorted(found, key=lambda each: -each[1])
