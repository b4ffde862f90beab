"""The coordinator of all transactions of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from tests.harness.simulated_logs import Clock, Place, TargetLog

INVALID_TXN_STATE, CONCURRENT, PRODUCER_FENCED = 48, 51, 90
FIRST_PRODUCER_ID = 1_000_000


@dataclass(slots=True)
class _Id:
    """A transactional id. `open`: the partitions of its transaction; `ending`: where its markers
    have to be written yet; `until`: when the coordinator rolls back by itself."""

    producer_id: int
    epoch: int = -1
    open: set[Place] = field(default_factory=set)
    ending: list[Place] = field(default_factory=list)
    has_ended: bool = False
    timeout_s: float = 60.0
    until: float = 0.0


class Coordinator:
    """Of all transactional ids. Writes markers some time after it has answered."""

    def __init__(
        self, targets: Mapping[Place, TargetLog], clock: Clock, happens: Callable[[float], bool]
    ) -> None:
        """`happens`: whether something with that chance does."""
        self._targets = targets
        self._clock = clock
        self._happens = happens
        self._ids: dict[str, _Id] = {}

    def step(self) -> None:
        """Rolls back what is open for too long, and writes some of the markers."""
        for one in self._ids.values():
            if one.open and self._clock.now > one.until:
                self._fence(one)
            self._write(one)

    def begin(self, key: str, timeout_s: float) -> tuple[int, int, int]:
        """Error, producer id and epoch."""
        one = self._ids.setdefault(key, _Id(FIRST_PRODUCER_ID + len(self._ids)))
        if one.open:
            self._fence(one)
        if self._is_busy(one):
            return CONCURRENT, -1, -1
        one.epoch += 1
        one.has_ended = False
        one.timeout_s = timeout_s
        return 0, one.producer_id, one.epoch

    def add(self, key: str, producer: tuple[int, int], places: Collection[Place]) -> int:
        one = self._ids[key]
        if error := self._error(one, producer):
            return error
        one.open |= set(places)
        one.has_ended = False
        one.until = self._clock.now + one.timeout_s
        return 0

    def end(self, key: str, producer: tuple[int, int]) -> int:
        one = self._ids[key]
        if error := self._error(one, producer):
            return error
        if not one.open:
            return 0 if one.has_ended else INVALID_TXN_STATE
        self._end(one)
        return 0

    def _error(self, one: _Id, producer: tuple[int, int]) -> int:
        if producer != (one.producer_id, one.epoch):
            return PRODUCER_FENCED
        return CONCURRENT if self._is_busy(one) else 0

    def _is_busy(self, one: _Id) -> bool:
        self._write(one)
        return bool(one.ending)

    def _fence(self, one: _Id) -> None:
        one.epoch += 1
        self._end(one)

    def _end(self, one: _Id) -> None:
        one.ending = sorted(one.open)
        one.open = set()
        one.has_ended = True

    def _write(self, one: _Id) -> None:
        while one.ending and not self._happens(0.5):
            place = one.ending.pop()
            error = self._targets[place].mark(one.producer_id, one.epoch, late=False)
            assert not error, f"a marker of the coordinator is refused with {error}"
