"""A simulated clock, and the logs of simulated brokers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from google_crc32c import value

from causeway.records import CODEC_MASK, CRC_START, HEADER, TRANSACTIONAL, as_is, records_of
from tests.harness.raw_batches import Rec, marker, raw_batch

Place = tuple[str, int]  # topic and partition

CORRUPT, MESSAGE_TOO_LARGE, OUT_OF_ORDER, INVALID_PRODUCER_EPOCH = 2, 10, 45, 47
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
    their epoch and where their log ends. `start`: where it begins. `markers`: the offsets of
    control batches, which hold no record."""

    node: int
    batches: list[tuple[range, bytes]] = field(default_factory=list)
    epoch: int = 0
    stale: dict[int, tuple[int, int]] = field(default_factory=dict)
    start: int = 0
    markers: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.batches[-1][0].stop if self.batches else self.start

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
            if offsets.start not in self.markers:
                yield from offsets

    def add(
        self, first: int, timestamps: Sequence[int], *, size: int, compressed: bool = False
    ) -> None:
        """A batch of records with these times, whose key and value tell their offset."""
        offsets = range(first, first + len(timestamps))
        records = [
            Rec(offset=at, timestamp=timestamp, key=b"%d" % at, value=b"%d " % at + bytes(size))
            for at, timestamp in zip(offsets, timestamps, strict=True)
        ]
        self.batches.append((offsets, raw_batch(records, compressed=compressed)))

    def add_marker(self) -> None:
        """At its end."""
        self.markers.add(self.end)
        self.batches.append((range(self.end, self.end + 1), marker(self.end, 1, 0)))


@dataclass(slots=True)
class Appended:
    """A batch in a target's log, at `base`; `newest`: its latest time, ms; `offsets`: those of its
    records at the source, none of a marker and of filler; `late`: its connection was dead already;
    `count`: how many offsets it takes."""

    producer_id: int
    sequence: int
    base: int
    newest: int
    offsets: list[int]
    late: bool
    count: int


@dataclass(slots=True)
class _Producer:
    """As a broker remembers it. `batches`: the last few of its epoch."""

    epoch: int
    newest: int = 0
    batches: deque[Appended] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    @property
    def following(self) -> int:
        """The sequence that its next batch must have."""
        return self.batches[-1].sequence + self.batches[-1].count if self.batches else 0


class TargetLog:
    """One that knows the last few batches of each producer: those it answers as before, others must
    follow on the last one. Of a producer that it does not know it takes any first sequence. It
    takes over a higher epoch, which begins with sequence 0, and refuses lower ones.

    `series`: by producer, all the records that shall come to lie here, as offsets at the source.
    `takes`: how many bytes a batch may have, unless one source record became all of it. `keeps`:
    the source's log, if each record shall have the same offset here; then `series` is not used.
    """

    def __init__(
        self, node: int, takes: int | None = None, *, keeps: SourceLog | None = None
    ) -> None:
        self.node = node
        self.takes = takes
        self.keeps = keeps
        self.gets_damage = False  # some batches are damaged when they are to be appended
        self.start = 0
        self.batches: list[Appended] = []
        self.codecs: set[int] = set()  # of batches that were to be appended
        self.series: dict[int, Callable[[], Sequence[int]]] = {}
        self._known: dict[int, _Producer] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].base + self.batches[-1].count if self.batches else 0

    def of(self, producer_id: int) -> list[Appended]:
        """What a producer has written."""
        return [batch for batch in self.batches if batch.producer_id == producer_id]

    def held(self, producer_id: int | None = None) -> list[int]:
        """The records of one producer, or of all, as offsets at the source."""
        written = self.batches if producer_id is None else self.of(producer_id)
        return [offset for batch in written for offset in batch.offsets]

    def append(self, raw: bytes, *, late: bool) -> tuple[int, int, int]:
        """Error, base offset and append time. AssertionError where a record is doubled, left out or
        in the wrong place."""
        fields = HEADER.unpack_from(raw)
        producer_id, epoch, sequence, count = fields[9:13]
        if fields[4] != value(raw[CRC_START:]):
            assert self.gets_damage, "a batch has a wrong CRC"
            return CORRUPT, -1, -1
        self.codecs.add(fields[5] & CODEC_MASK)
        offsets: list[int] = []
        if not fields[5] & TRANSACTIONAL:  # else it is filler
            records = records_of(as_is(raw))
            offsets = [int((record.key or b"").decode()) for record in records]
            assert len(offsets) == count
            if self.gets_damage:
                found = [(record.value or b"").rstrip(b"\0") for record in records]
                assert found == [b"%d " % each for each in offsets], "a record is damaged"
            if self.takes is not None and len(raw) > self.takes and len(set(offsets)) > 1:
                return MESSAGE_TOO_LARGE, -1, -1
        elif self.takes is not None and len(raw) > self.takes and count > 1:
            return MESSAGE_TOO_LARGE, -1, -1
        known = self._known.get(producer_id)
        if known is not None and epoch != known.epoch:
            if epoch < known.epoch:
                return INVALID_PRODUCER_EPOCH, -1, -1
            if sequence:
                return OUT_OF_ORDER, -1, -1
            known = None
        for batch in known.batches if known is not None else ():
            if (batch.sequence, batch.count) == (sequence, count):
                return 0, batch.base, ALREADY_THERE_MS
        if known is not None and sequence != known.following:
            return OUT_OF_ORDER, -1, -1
        if not offsets:
            self._check_gap(count, f"filler of {producer_id}")
        elif self.keeps is None:
            before = len(self.held(producer_id))
            due = list(self.series[producer_id]()[before : before + len(offsets)])
            assert offsets == due, f"producer {producer_id} appends {offsets} where {due} are due"
        else:
            due = list(range(self.end, self.end + count))
            assert offsets == due, f"producer {producer_id} appends {offsets} at {due}"
        new = Appended(producer_id, sequence, self.end, fields[8], offsets, late, count)
        self.batches.append(new)
        if known is None:
            known = self._known[producer_id] = _Producer(epoch)
        known.newest = new.newest
        known.batches.append(new)
        return 0, new.base, -1

    def mark(self, producer_id: int, epoch: int, *, late: bool) -> int:
        """Appends a marker; the error. AssertionError if a record belongs there."""
        known = self._known.get(producer_id)
        if known is not None and epoch < known.epoch:
            return INVALID_PRODUCER_EPOCH
        self._check_gap(1, f"a marker of producer {producer_id}, epoch {epoch}")
        if known is None or epoch > known.epoch:
            known = self._known[producer_id] = _Producer(epoch)
        known.newest = int(time.time() * 1000)
        self.batches.append(Appended(producer_id, -1, self.end, known.newest, [], late, 1))
        return 0

    def _check_gap(self, count: int, what: str) -> None:
        if self.keeps is None:
            return
        taken = range(self.end, self.end + count)
        assert taken.stop <= self.keeps.end, f"{what} takes {taken}, beyond the source"
        hit = [offset for offset in self.keeps.offsets() if offset in taken]
        assert not hit, f"{what} takes {taken} with the places of {hit}"

    def producer(self, producer_id: int) -> tuple[int, int] | None:
        """Its epoch and next sequence, as far as the broker remembers them."""
        known = self._known.get(producer_id)
        return None if known is None else (known.epoch, known.following)

    def forget(self) -> None:
        """As a broker does: each producer whose last appended batch is older than a day."""
        for producer_id, known in list(self._known.items()):
            if known.newest / 1000 < time.time() - EXPIRATION_S:
                del self._known[producer_id]
