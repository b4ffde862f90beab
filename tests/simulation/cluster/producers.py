"""The producers that one log remembers (Kafka's ProducerStateManager and ProducerAppendInfo)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from causeway.records import CONTROL, TRANSACTIONAL, BatchHeader
from tests.simulation.cluster.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_COORDINATOR_FENCED,
    Refused,
)

REMEMBERED_BATCHES: Final = 5
NO_SEQUENCE: Final = -1
_LAST_SEQUENCE: Final = (1 << 31) - 1


class KnownBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """`last`: the offset of its marker. `last_stable`: of the log without this transaction."""

    producer_id: int
    first: int
    last: int
    aborted: bool


@dataclass(slots=True)
class ProducerEntry:
    """`last_timestamp`: the newest time in the last batch that was appended, or of the marker.
    `transaction_start`: the first offset of its open transaction, -1 without one."""

    producer_id: int
    epoch: int
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_start: int = -1
    batches: deque[KnownBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """Expires producers as Kafka does: at checks in an interval, by `last_timestamp`. The checks
    need no timer, since nothing between two appends depends on them: see `expire`."""

    def __init__(self, expiration_ms: int, interval_ms: int, phase_ms: int) -> None:
        """`phase_ms`: when within each interval the check takes place."""
        self.entries: dict[int, ProducerEntry] = {}
        self.ended: list[EndedTransaction] = []  # with a marker that may not be replicated yet
        self._expiration_ms = expiration_ms
        self._interval_ms, self._phase_ms = interval_ms, phase_ms
        self._checked_ms = 0

    # -- time -------------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """Does what the last check before `now_ms` did."""
        check_ms = now_ms - (now_ms - self._phase_ms) % self._interval_ms
        if check_ms > self._checked_ms:
            if self._checked_ms:
                self.expire_at(check_ms)
            self._checked_ms = check_ms

    def expire_at(self, check_ms: int) -> None:
        oldest = check_ms - self._expiration_ms
        for producer_id in [
            entry.producer_id
            for entry in self.entries.values()
            if entry.last_timestamp < oldest and entry.transaction_start < 0
        ]:
            del self.entries[producer_id]

    def restart(self, now_ms: int) -> None:
        """A snapshot has the last batch of each producer, and is read without expired ones."""
        self.expire_at(now_ms)
        for entry in self.entries.values():
            while len(entry.batches) > 1:
                entry.batches.popleft()

    # -- what a leader checks ---------------------------------------------------------------------

    def duplicate_of(self, header: BatchHeader) -> KnownBatch | None:
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        last = _last_sequence(header)
        for batch in entry.batches:
            if (batch.first_sequence, batch.last_sequence) == (header.sequence, last):
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """A batch of a client. Raises Refused."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        self._check_epoch(entry, header.producer_epoch)
        if entry.transaction_start >= 0 and not header.attributes & TRANSACTIONAL:
            raise Refused(
                INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id}",
            )
        if header.producer_epoch > entry.epoch:
            follows = header.sequence == 0
        else:
            last = entry.last_sequence
            follows = header.sequence == last + 1 or (
                last == _LAST_SEQUENCE and not header.sequence
            )
        if not follows:
            raise Refused(
                OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: "
                f"{header.sequence} (incoming seq. number), {entry.last_sequence} "
                "(current end sequence number)",
            )

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raises Refused."""
        entry = self.entries.get(producer_id)
        if entry is not None:
            self._check_epoch(entry, epoch)
            if coordinator_epoch < entry.coordinator_epoch:
                raise Refused(TRANSACTION_COORDINATOR_FENCED)

    def _check_epoch(self, entry: ProducerEntry, epoch: int) -> None:
        if epoch < entry.epoch:
            raise Refused(
                INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {entry.producer_id} is {epoch}, which is smaller than the last "
                f"seen epoch {entry.epoch}",
            )

    # -- what every replica takes in --------------------------------------------------------------

    def note(self, header: BatchHeader, coordinator_epoch: int, commits: bool) -> None:
        """A batch of the log, a marker too (`coordinator_epoch`, `commits`)."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id, header.producer_epoch)
            self.entries[header.producer_id] = entry
        if header.producer_epoch != entry.epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        entry.last_timestamp = header.max_timestamp
        if header.attributes & CONTROL:
            entry.coordinator_epoch = coordinator_epoch
            if entry.transaction_start >= 0:
                self.ended.append(
                    EndedTransaction(
                        entry.producer_id, entry.transaction_start, header.base, not commits
                    )
                )
                entry.transaction_start = -1
            return
        entry.batches.append(
            KnownBatch(header.sequence, _last_sequence(header), header.base, header.max_timestamp)
        )
        if header.attributes & TRANSACTIONAL and entry.transaction_start < 0:
            entry.transaction_start = header.base

    def replicated(self, high_watermark: int) -> None:
        """Markers below `high_watermark` hold nothing back any more."""
        if self.ended:
            self.ended = [each for each in self.ended if each.last >= high_watermark]

    def first_unstable(self, high_watermark: int) -> int | None:
        """The first offset of a transaction that is open, or whose marker is not replicated."""
        starts = [each.first for each in self.ended if each.last >= high_watermark]
        starts += [
            entry.transaction_start
            for entry in self.entries.values()
            if entry.transaction_start >= 0
        ]
        return min(starts, default=None)


def _last_sequence(header: BatchHeader) -> int:
    """Of a batch, also of one that compaction has thinned out."""
    return (header.sequence + header.last_delta) % (1 << 31)
