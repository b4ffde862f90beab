"""Watches the source over several looks: who writes, for how long it is still, and the lag."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from causeway.cluster import (
    Cluster,
    active_producers,
    open_transactions,
    raw_batches,
    transactional_ids,
)
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.operate.cutover.values import OffsetRange, Producer
from causeway.records import CONTROL, HEADER, MAGIC, MAGIC_AT, NO_PRODUCER

AGO_S: Final = 2.0  # the age of the ends that the lag is measured by
_RATE_S = 20.0  # the time over which the change of the lag is measured
_NAMED_S = 10.0  # a producer is shown for this time after its last write
Ends = Mapping[TopicPartition, int]


class SourceWatch:
    """Watches the chosen partitions. Not thread-safe."""

    def __init__(self, source: Cluster) -> None:
        self._source = source
        self._ends: dict[TopicPartition, int] = {}
        self._changed_at = time.monotonic()
        self._readable: deque[tuple[float, dict[TopicPartition, int]]] = deque()
        self._lags: deque[tuple[float, int]] = deque()
        self._sequences: dict[TopicPartition, dict[int, int]] = {}
        self._open: dict[TopicPartition, int] = {}  # transactions
        self._movers: dict[tuple[TopicPartition, int | None], tuple[float, int]] = {}
        self._names: dict[int, str | None] = {}
        self._fenced: dict[TopicPartition, int] | None = None
        self._through: dict[TopicPartition, OffsetRange] = {}

    def see(self, ends: Ends, readable: Ends, tails: Ends, *, fenced: bool) -> None:
        """Notes the high watermarks `ends`, the `readable` ends, and `tails`, the ends of leaders'
        logs a moment before. `fenced`: the fence holds everywhere. While followers have yet to copy
        records, the source is not still: readers have yet to see these records."""
        now = time.monotonic()
        grown = [at for at, end in ends.items() if self._ends.get(at, end) != end]
        first = [at for at in ends if at not in self._ends]
        hidden = any(tails.get(at, end) > end for at, end in ends.items())
        if grown or first or hidden:
            self._changed_at = now
        self._name(grown, first, now)
        self._ends.update(ends)
        self._readable.append((now, dict(readable)))
        while len(self._readable) > 1 and self._readable[1][0] <= now - AGO_S:
            self._readable.popleft()
        if not fenced:
            self._fenced = None
        elif self._fenced is None:
            self._fenced = dict(ends)
        for at, start in (self._fenced or {}).items():
            if self._ends[at] > start:
                self._through[at] = OffsetRange(start, self._ends[at])

    def had(self, at: TopicPartition) -> int | None:
        """Returns the offset up to which the partition could be read a moment ago."""
        return self._readable[0][1].get(at) if self._readable else None

    @property
    def still_s(self) -> float:
        """Seconds since the last append that was seen."""
        return time.monotonic() - self._changed_at

    @property
    def appended(self) -> int:
        """Offsets since the fence was first seen to hold everywhere."""
        before = self._fenced or {}
        return sum(self._ends[at] - end for at, end in before.items())

    @property
    def through(self) -> Mapping[TopicPartition, OffsetRange]:
        """The offsets that were written while the fence held everywhere, even if the fence has been
        lifted since."""
        return self._through

    def per_s(self, lag: int) -> float | None:
        """Returns how many records the lag shrinks by in a second. `lag`: the present lag."""
        now = time.monotonic()
        self._lags.append((now, lag))
        while self._lags[0][0] < now - _RATE_S:
            self._lags.popleft()
        begun, before = self._lags[0]
        return (before - lag) / (now - begun) if now - begun >= 1 else None

    def producers(self) -> tuple[Producer, ...]:
        """Returns the producers that have written lately."""
        now = time.monotonic()
        by_id: dict[int | None, list[tuple[TopicPartition, int]]] = defaultdict(list)
        for (at, producer), (seen, stamp) in self._movers.items():
            if now - seen <= _NAMED_S:
                by_id[producer].append((at, stamp))
        if new := [each for each in by_id if each is not None and each not in self._names]:
            found = transactional_names(self._source, new)
            self._names |= {each: found.get(each) for each in new}
        return tuple(
            Producer(
                topics=tuple(sorted({at.topic for at, _ in places})),
                producer_id=producer,
                transactional_id=None if producer is None else self._names.get(producer),
                last_ms=max(stamp for _, stamp in places),
            )
            for producer, places in sorted(by_id.items(), key=lambda item: item[0] or -1)
        )

    def _name(
        self, grown: Collection[TopicPartition], first: Collection[TopicPartition], now: float
    ) -> None:
        """Notes which producers have appended to the partitions that have grown."""
        places = [*grown, *first]
        if not places:
            return
        known = active_producers(self._source, places)
        opened = open_transactions(self._source, places)
        for at in places:
            there = known.get(at)
            if not isinstance(there, tuple):
                continue
            before = self._sequences.get(at)
            self._sequences[at] = {each.producer_id: each.last_sequence for each in there}
            still, ended = opened.get(at), self._open.get(at, 0)
            self._open[at] = len(still) if isinstance(still, tuple) else 0
            if before is None:
                continue  # earlier records do not show who goes on
            moved = [each for each in there if before.get(each.producer_id) != each.last_sequence]
            for each in moved:
                self._movers[at, each.producer_id] = now, each.last_timestamp
            # The broker itself writes the end of a transaction as a record.
            if not moved and not ended:
                self._movers[at, None] = now, int(time.time() * 1000)


_MOST_BYTES: Final = 32 * 1024 * 1024  # of a partition: enough to find the producers


def writers(
    source: Cluster, stretches: Mapping[TopicPartition, OffsetRange]
) -> tuple[Producer, ...]:
    """Returns one value for each producer id, and one for all producers without an id. A partition
    that cannot be read adds none."""
    found: dict[int | None, Producer] = {}
    for at, stretch in stretches.items():
        with suppress(CausewayError):
            _read(source, at, stretch, found)
    names = transactional_names(source, [each for each in found if each is not None])
    return tuple(
        replace(each, transactional_id=None if producer is None else names.get(producer))
        for producer, each in sorted(found.items(), key=lambda item: item[0] or -1)
    )


def _read(
    source: Cluster, at: TopicPartition, stretch: OffsetRange, found: dict[int | None, Producer]
) -> None:
    read = 0
    for batch in raw_batches(source, at, stretch.start, stretch.end, every_format=True):
        producer, records, last_ms = _header(batch)
        if records:
            nothing = Producer(topics=(), producer_id=producer, transactional_id=None, last_ms=-1)
            before = found.get(producer, nothing)
            found[producer] = replace(
                before,
                topics=tuple(sorted({*before.topics, at.topic})),
                last_ms=max(before.last_ms, last_ms),
                records=before.records + records,
            )
        read += len(batch)
        if read > _MOST_BYTES:
            return


def _header(batch: memoryview) -> tuple[int | None, int, int]:
    """Returns a batch's producer id, its number of records, and the time of the newest record. The
    markers that a broker writes at the end of a transaction do not count as records."""
    if batch[MAGIC_AT] < MAGIC:
        return None, 1, -1
    fields = HEADER.unpack_from(batch)
    attributes, last_ms, producer, records = fields[5], fields[8], fields[9], fields[12]
    if attributes & CONTROL:
        return None, 0, -1
    return None if producer == NO_PRODUCER else producer, records, last_ms


def transactional_names(source: Cluster, producers: Collection[int]) -> Mapping[int, str]:
    """Returns the names by id. Empty before Kafka 3.0, and without permission: then the ids must
    suffice."""
    try:
        return transactional_ids(source, list(producers)) if producers else {}
    except CausewayError:
        return {}
