"""Which leader epoch began at which offset of a log (Kafka's LeaderEpochFileCache)."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = -1


class EpochStart(NamedTuple):
    epoch: int
    start: int


class EpochCache:
    """Entries in rising order of epochs and offsets."""

    def __init__(self) -> None:
        self.entries: list[EpochStart] = []

    @property
    def latest(self) -> int:
        return self.entries[-1].epoch if self.entries else UNKNOWN

    def assign(self, epoch: int, start: int) -> None:
        """An epoch that is not newer than the latest one changes nothing."""
        if epoch > self.latest:
            while self.entries and self.entries[-1].start >= start:
                self.entries.pop()
            self.entries.append(EpochStart(epoch, start))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The newest known epoch that is not above `epoch`, and where it ends; (-1, -1) if the
        cache does not say."""
        if epoch == UNKNOWN:
            return UNKNOWN, UNKNOWN
        if epoch == self.latest:
            return epoch, log_end
        higher = next((each for each in self.entries if each.epoch > epoch), None)
        if higher is None:
            return UNKNOWN, UNKNOWN
        floor = [each.epoch for each in self.entries if each.epoch <= epoch]
        return (floor[-1] if floor else epoch), higher.start

    def at(self, offset: int) -> int:
        """The epoch of a record."""
        found = UNKNOWN
        for each in self.entries:
            if each.start > offset:
                break
            found = each.epoch
        return found

    def truncate_end(self, end: int) -> None:
        while self.entries and self.entries[-1].start >= end:
            self.entries.pop()

    def truncate_start(self, start: int) -> None:
        """The epoch at `start` stays, and begins there."""
        below = [each for each in self.entries if each.start <= start]
        if below:
            above = self.entries[len(below) :]
            self.entries = [EpochStart(below[-1].epoch, start), *above]

    def clear(self) -> None:
        self.entries.clear()
