"""The log of one replica: batches as they lie on its disk, and what a broker derives from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from causeway.records import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    checksum,
    decode,
)
from tests.simulation.cluster.epochs import EpochCache
from tests.simulation.cluster.producers import EndedTransaction, ProducerStates
from tests.simulation.cluster.settings import LONG_MAX

_last, _base = attrgetter("last"), attrgetter("base")


@lru_cache(maxsize=1 << 16)
def records_in(raw: bytes) -> tuple[Record, ...]:
    """The records of a whole batch. Checkers read the same logs again and again."""
    return tuple(decode(raw))


class LogBatch(NamedTuple):
    """`raw`: the whole batch, with its offset and leader epoch."""

    base: int
    last: int
    raw: bytes
    header: BatchHeader

    @classmethod
    def of(cls, raw: bytes) -> LogBatch:
        header = BatchHeader.of(raw)
        return cls(header.base, header.base + header.last_delta, raw, header)

    @property
    def is_control(self) -> bool:
        return bool(self.header.attributes & CONTROL)

    @property
    def commits(self) -> bool:
        """Of a marker."""
        return self.raw[HEADER_SIZE + 8] == 1

    @property
    def coordinator_epoch(self) -> int:
        return int.from_bytes(self.raw[HEADER_SIZE + 12 : HEADER_SIZE + 16], signed=True)


def placed(raw: bytes | memoryview, base: int, leader_epoch: int) -> bytes:
    """The batch with that offset and epoch. Both are outside of its CRC."""
    return b"".join((base.to_bytes(8), raw[8:LENGTH_OVERHEAD], leader_epoch.to_bytes(4), raw[16:]))


def marker(
    producer_id: int, epoch: int, coordinator_epoch: int, now_ms: int, *, commits: bool
) -> bytes:
    """A control batch as a broker writes it (EndTransactionMarker)."""
    # Length 16; no attributes, deltas of 0; a key of 4 bytes: version, type; a value of 6 bytes:
    # version, coordinator epoch; no headers. Lengths are zigzag numbers.
    record = bytes((32, 0, 0, 0, 8)) + b"\0\0" + int(commits).to_bytes(2) + bytes((12,))
    record += b"\0\0" + coordinator_epoch.to_bytes(4, signed=True) + b"\0"
    attributes = CONTROL | TRANSACTIONAL
    fields = 0, 0, -1, MAGIC, 0, attributes, 0, now_ms, now_ms, producer_id, epoch, -1, 1
    return with_checksum(fields, record)


def with_checksum(fields: Sequence[int], payload: bytes) -> bytes:
    """A batch of these header fields, whose CRC and length are computed."""
    fields = list(fields)
    fields[1] = HEADER_SIZE - LENGTH_OVERHEAD + len(payload)
    fields[4] = checksum(HEADER.pack(*fields)[CRC_START:], payload)
    return HEADER.pack(*fields) + payload


@dataclass(slots=True)
class Segment:
    """A file of the log: from offset `base` to the next segment."""

    base: int
    size: int = 0
    first_timestamp: int = LONG_MAX
    newest_timestamp: int = -1


class ReplicaLog:
    """`start` and `end`: the first offset that can be read, and the one after the last."""

    def __init__(self, producers: ProducerStates) -> None:
        self.batches: list[LogBatch] = []
        self.start = self.end = 0
        self.size = 0
        self.epochs = EpochCache()
        self.producers = producers
        self.aborted: list[EndedTransaction] = []
        self.segments: list[Segment] = [Segment(0)]

    # -- reading ----------------------------------------------------------------------------------

    def index_of(self, offset: int) -> int:
        """The place of the batch that holds `offset`, or of the next one."""
        return bisect_left(self.batches, offset, key=_last)

    def from_offset(self, offset: int, below: int | None = None) -> Iterator[LogBatch]:
        """From the batch that holds `offset`, batches that begin below `below`."""
        for index in range(self.index_of(offset), len(self.batches)):
            batch = self.batches[index]
            if below is not None and batch.base >= below:
                return
            yield batch

    def aborted_between(self, offset: int, below: int) -> list[EndedTransaction]:
        """The aborted transactions that a reader of this range has to leave out."""
        first = bisect_left(self.aborted, offset, key=_last)
        return [each for each in self.aborted[first:] if each.first < below]

    # -- writing ----------------------------------------------------------------------------------

    def append(self, batch: LogBatch, segment_bytes: int = LONG_MAX) -> None:
        """On the leader and on followers alike: no check is left to do."""
        header = batch.header
        self.batches.append(batch)
        self.end = batch.last + 1
        self.size += len(batch.raw)
        self.epochs.assign(header.leader_epoch, batch.base)
        if header.producer_id >= 0:
            self._note_producer(batch)
        segment = self.segments[-1]
        if segment.size and segment.size + len(batch.raw) > segment_bytes:
            segment = Segment(batch.base)
            self.segments.append(segment)
        segment.size += len(batch.raw)
        segment.first_timestamp = min(segment.first_timestamp, header.max_timestamp)
        segment.newest_timestamp = max(segment.newest_timestamp, header.max_timestamp)

    def _note_producer(self, batch: LogBatch) -> None:
        before = len(self.producers.ended)
        if batch.is_control:
            self.producers.note(batch.header, batch.coordinator_epoch, batch.commits)
        else:
            self.producers.note(batch.header, -1, False)
        self.aborted += [each for each in self.producers.ended[before:] if each.aborted]

    def roll(self) -> None:
        """Begins a new segment, so that retention and compaction take what is there."""
        if self.segments[-1].size:
            self.segments.append(Segment(self.end))

    # -- losing -----------------------------------------------------------------------------------

    def truncate(self, end: int, producers: ProducerStates) -> None:
        """Cuts off what is at `end` or beyond. `producers`: empty, filled from the log."""
        index = self.index_of(end)
        if index < len(self.batches):
            del self.batches[index:]
        self.end = max(min(self.end, end), self.start)
        self.epochs.truncate_end(end)
        self._rebuild(producers)

    def reset(self, start: int, producers: ProducerStates) -> None:
        """Empty, from `start` on (a follower whose log ends below its leader's beginning)."""
        self.batches.clear()
        self.epochs.clear()
        self.start = self.end = start
        self._rebuild(producers)
        self.segments = [Segment(start)]

    def reload(self, producers: ProducerStates) -> None:
        """As a broker that was killed: all that it knows of producers comes from the log again."""
        self._rebuild(producers)

    def _rebuild(self, producers: ProducerStates) -> None:
        batches, segments, end = self.batches, self.segments, self.end
        self.producers = producers
        self.batches, self.aborted, self.size = [], [], 0
        bases = [each.base for each in segments if each.base < end] or [self.start]
        self.segments = []
        for batch in batches:
            while bases and batch.base >= bases[0]:
                self.segments.append(Segment(bases.pop(0)))
            if not self.segments:
                self.segments.append(Segment(batch.base))
            self.append(batch)
        self.segments += [Segment(base) for base in bases]
        self.end = max(end, self.end)

    def advance_start(self, offset: int) -> None:
        """Nothing below `offset` is read any more; whole batches below it are gone."""
        if offset <= self.start:
            return
        self.start = offset
        self.end = max(self.end, offset)
        gone = self.index_of(offset)
        self.size -= sum(len(each.raw) for each in self.batches[:gone])
        del self.batches[:gone]
        self.aborted = self.aborted[bisect_left(self.aborted, offset, key=_last) :]
        self.epochs.truncate_start(offset)
        while len(self.segments) > 1 and self.segments[1].base <= offset:
            del self.segments[0]
        if not self.batches:
            self.segments = [Segment(self.end)]

    def replace(self, first: int, stop: int, batches: list[LogBatch]) -> None:
        """Compaction: these batches in the place of those at the indexes `first` to `stop` - 1."""
        self.size += sum(len(each.raw) for each in batches)
        self.size -= sum(len(each.raw) for each in self.batches[first:stop])
        self.batches[first:stop] = batches

    def expired(self, now_ms: int, retention_ms: int, retention_bytes: int) -> int:
        """Where the log starts once retention has deleted the old segments."""
        start, size = self.start, sum(each.size for each in self.segments)
        ends = [each.base for each in self.segments[1:]] + [self.end]
        for segment, end in zip(self.segments, ends, strict=True):
            if not segment.size:
                break
            too_old = 0 <= retention_ms < now_ms - segment.newest_timestamp
            # The active segment goes by time, not by size.
            too_large = 0 <= retention_bytes <= size - segment.size and end < self.end
            if not too_old and not too_large:
                break
            start, size = end, size - segment.size
        return max(start, self.start)
