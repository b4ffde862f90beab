"""A simulated clock, and the logs of simulated brokers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from causeway.records import HEADER, as_is, records_of
from tests.harness.raw_batches import Rec, raw_batch

Place = tuple[str, int]  # topic and partition

MESSAGE_TOO_LARGE, OUT_OF_ORDER = 10, 45
REMEMBERED_BATCHES = 5  # of each producer
EXPIRATION_S = 24 * 60 * 60  # producer.id.expiration.ms
ALREADY_THERE_MS = 1_700_000_000_000  # the time that a batch bears which is there already


class Clock:
    """Simulated seconds, in place of time.monotonic."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@dataclass(slots=True)
class SourceLog:
    """`batches`: raw, each with the offsets from its first up to the next batch's. `node` leads it,
    with the leader epoch `epoch`. `stale`: nodes that have not heard that they lead no more, with
    their epoch and where their log ends."""

    node: int
    batches: list[tuple[range, bytes]] = field(default_factory=list)
    epoch: int = 0
    stale: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.batches[-1][0].stop if self.batches else 0

    def lead(self, node: int, *, told: bool) -> None:
        """`node` is elected. `told`: the leader until now hears of it."""
        if not told:
            self.stale[self.node] = self.epoch, self.end
        self.epoch += 1
        self.node = node
        self.stale.pop(node, None)

    def known_by(self, node: int) -> tuple[int, int] | None:
        """The epoch with which it thinks that it leads, and where its log ends."""
        return (self.epoch, self.end) if node == self.node else self.stale.get(node)

    def offsets(self) -> Iterator[int]:
        for offsets, _ in self.batches:
            yield from offsets

    def add(self, first: int, timestamps: Sequence[int], *, size: int) -> None:
        """A batch of records with these times, whose key and value tell their offset."""
        offsets = range(first, first + len(timestamps))
        records = [
            Rec(offset=at, timestamp=timestamp, key=b"%d" % at, value=b"%d " % at + bytes(size))
            for at, timestamp in zip(offsets, timestamps, strict=True)
        ]
        self.batches.append((offsets, raw_batch(records)))


@dataclass(slots=True)
class Appended:
    """A batch in a target's log, at `base`; `newest`: its latest time, ms; `offsets`: those of its
    records at the source; `late`: its connection was dead already."""

    producer_id: int
    sequence: int
    base: int
    newest: int
    offsets: list[int]
    late: bool


class TargetLog:
    """One that knows the last few batches of each producer: those it answers as before, others must
    follow on the last one. Of a producer that it does not know it takes any first sequence.

    `series`: by producer, all the records that shall come to lie here, as offsets at the source.
    `takes`: how many bytes a batch may have, unless one source record became all of it.
    """

    def __init__(self, node: int, takes: int | None = None) -> None:
        self.node = node
        self.takes = takes
        self.batches: list[Appended] = []
        self.series: dict[int, Callable[[], Sequence[int]]] = {}
        self._known: dict[int, deque[Appended]] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].base + len(self.batches[-1].offsets) if self.batches else 0

    def of(self, producer_id: int) -> list[Appended]:
        """What a producer has written."""
        return [batch for batch in self.batches if batch.producer_id == producer_id]

    def held(self, producer_id: int) -> list[int]:
        """The same as offsets at the source."""
        return [offset for batch in self.of(producer_id) for offset in batch.offsets]

    def append(self, raw: bytes, *, late: bool) -> tuple[int, int, int]:
        """Error, base offset and append time. AssertionError where a record is doubled, left out or
        in the wrong place."""
        fields = HEADER.unpack_from(raw)
        producer_id, sequence = fields[9], fields[11]
        offsets = [int((record.key or b"").decode()) for record in records_of(as_is(raw))]
        assert len(offsets) == fields[12]
        if self.takes is not None and len(raw) > self.takes and len(set(offsets)) > 1:
            return MESSAGE_TOO_LARGE, -1, -1
        known = self._known.setdefault(producer_id, deque(maxlen=REMEMBERED_BATCHES))
        for batch in known:
            if (batch.sequence, len(batch.offsets)) == (sequence, len(offsets)):
                return 0, batch.base, ALREADY_THERE_MS
        if known and sequence != known[-1].sequence + len(known[-1].offsets):
            return OUT_OF_ORDER, -1, -1
        count = len(self.held(producer_id))
        due = list(self.series[producer_id]()[count : count + len(offsets)])
        assert offsets == due, f"producer {producer_id} appends {offsets} where {due} are due"
        self.batches.append(Appended(producer_id, sequence, self.end, fields[8], offsets, late))
        known.append(self.batches[-1])
        return 0, self.batches[-1].base, -1

    def forget(self) -> None:
        """As a broker does: with each producer whose last appended batch is older than a day."""
        for producer_id, known in list(self._known.items()):
            if known and known[-1].newest / 1000 < time.time() - EXPIRATION_S:
                del self._known[producer_id]
