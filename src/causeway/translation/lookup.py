"""Exact places inside a span of an offset map: the logs tell what the map has left out.

The relayed records from a source offset to the span's end are counted in the source's log, as
lanes count them. Where nobody else writes to the target, so many before the span's end there is
the place; where others do, it is where the record with that sequence lies. Either way the record
found must be the same as the source's, else nothing is said: compaction may have taken records
away since they were relayed, and then counts mislead.

Where a transform lies between the two, the records that the source's become are counted, so it
takes a lane to look (relay/lane/lookups.py). All that one record became is compared.

Each log is read once, for all offsets of the span.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from causeway.cluster import Cluster
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics.offset_map import Span
from causeway.model import TopicPartition
from causeway.records import HEADER, SEQUENCE_SPACE, Batch, Record, decode, distance, records_of
from causeway.relay import log_reader
from causeway.relay.log_reader import content_of
from causeway.wire import codes

# What the relayed batches of a source partition become for one outlet.
Becomes = Callable[[Iterator[Batch]], Iterator[Batch]]
# Offsets of the target: to pass over so many costs less than to ask once more.
_NEAR = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """One partition's source offsets to look up, ascending. All lie before the end of `span`, and
    no relayed record lies between the first of them and its start. `floor`: a target offset that is
    known to lie at or before all of their places."""

    source: TopicPartition
    target: TopicPartition
    producer_id: int
    read_committed: bool
    span: Span
    offsets: Sequence[int]
    floor: int = 0


class _Counted(NamedTuple):
    """The first relayed record from a source offset on: how many are `left` from it to the span's
    end, and what is in all that the same record of the source has become; empty where it need not
    be compared."""

    left: int
    digests: Sequence[bytes]


class _Written(NamedTuple):
    """A batch of ours in the target."""

    base: int
    last_delta: int
    sequence: int
    raw: memoryview

    def position(self, sequence: int) -> int:
        return distance(self.sequence, sequence)


def find(
    sought: Sought,
    source: Cluster,
    target: Cluster,
    go_on: Callable[[], bool] = lambda: True,
    becomes: Becomes = lambda batches: batches,
) -> dict[int, int]:
    """The target offset of the first relayed record from each source offset on; those that the
    logs do not tell for certain are missing. Reads the source from the first offset to the end of
    the span; asks `go_on` before each fetch whether anybody still wants to know. Raises
    CausewayError."""
    try:
        counted = _count(sought, source, lambda: _check(go_on, sought.source), becomes)
        return _places(sought, counted, target, lambda: _check(go_on, sought.target))
    except BrokerError as error:
        if error.code == codes.OFFSET_OUT_OF_RANGE:
            return {}  # a log no longer holds what would have to be seen
        raise


def find_start(
    sought: Sought, target: Cluster, go_on: Callable[[], bool] = lambda: True
) -> dict[int, int]:
    """As `find`, where no offset lies behind the span's start: its own sequence tells which record
    it is, so the source is not read."""
    counted = {offset: _Counted(sought.span.records, ()) for offset in sought.offsets}
    return _places(sought, counted, target, lambda: _check(go_on, sought.target))


def first_of(
    target: Cluster,
    at: TopicPartition,
    sequences: Mapping[int, int],
    start: int,
    end: int,
) -> dict[int, int]:
    """Of each producer id, the target offset of its first record in `start` to `end` - 1 that has
    the sequence in `sequences` or a later one; those that have none are missing. Raises
    CausewayError."""
    found: dict[int, int] = {}
    for raw in log_reader.raw_batches(target, at, start, end):
        fields = HEADER.unpack_from(raw)
        wanted = sequences.get(fields[9])
        if wanted is None or fields[9] in found:
            continue
        batch = _Written(int(fields[0]), fields[6], fields[11], raw)
        if batch.position(wanted) <= batch.last_delta:
            found[fields[9]] = batch.base + batch.position(wanted)
        elif batch.position(wanted) >= SEQUENCE_SPACE // 2:  # it comes after
            found[fields[9]] = batch.base
    return found


def _count(
    sought: Sought, source: Cluster, check: Callable[[], None], becomes: Becomes
) -> dict[int, _Counted | None]:
    """For each offset; None where no relayed record comes before the span's end."""
    end = sought.span.end.source
    waiting = deque(sought.offsets)
    begun: dict[int, tuple[int, Sequence[bytes]]] = {}  # how many records come before it
    count = 0
    relayed = log_reader.relayed(
        source,
        sought.source,
        waiting[0],
        read_committed=sought.read_committed,
        end=end,
        check=check,
    )
    for batch in becomes(takewhile(lambda batch: batch.first < end, relayed)):
        records: Sequence[Record] = ()
        while waiting and (index := _index(batch, waiting[0])) < batch.records:
            records = records or records_of(batch)
            following = _index(batch, batch.source_offset(index) + 1)
            became = [_digest(record) for record in records[index:following]]
            begun[waiting.popleft()] = count + index, became
        count += _index(batch, end)
    found: dict[int, _Counted | None] = dict.fromkeys(waiting)
    for offset, (before, digests) in begun.items():
        found[offset] = _Counted(count - before, digests) if count > before else None
    return found


def _index(batch: Batch, offset: int) -> int:
    """How many of its records lie below source offset `offset`."""
    if batch.offsets is not None:
        return bisect_left(batch.offsets, offset)
    return max(0, min(offset - batch.first, batch.records))


def _places(
    sought: Sought,
    counted: Mapping[int, _Counted | None],
    target: Cluster,
    check: Callable[[], None],
) -> dict[int, int]:
    """Where each lies on the target. Offsets ascend, and so do their places."""
    span = sought.span
    found: dict[int, int] = {}
    batches: Iterator[_Written] | None = None
    batch: _Written | None = None
    decoded: tuple[_Written | None, dict[int, Record]] = (None, {})
    for offset, record in sorted(counted.items()):
        if record is None:
            found[offset] = span.end.target
            continue
        sequence = (span.end.sequence - record.left) % SEQUENCE_SPACE
        start = (
            max(span.start.target, sought.floor) if span.foreign else span.end.target - record.left
        )
        far = batch is None or start > batch.base + batch.last_delta + _NEAR
        if batches is None or (far and not span.foreign):
            batches = _written(sought, target, start, check)
            batch = next(batches, None)
        while (
            batch is not None and batch.last_delta < batch.position(sequence) < SEQUENCE_SPACE // 2
        ):
            batch = next(batches, None)  # it comes before
        if batch is None or batch.position(sequence) > batch.last_delta:
            continue
        if decoded[0] is not batch:
            decoded = batch, {each.offset: each for each in decode(batch.raw)}
        place = batch.base + batch.position(sequence)
        there = [decoded[1].get(place + index) for index in range(len(record.digests))]
        if [each and _digest(each) for each in there] == list(record.digests):
            found[offset] = place
    return found


def _written(
    sought: Sought, target: Cluster, start: int, check: Callable[[], None]
) -> Iterator[_Written]:
    end = sought.span.end.target
    for raw in log_reader.raw_batches(target, sought.target, start, end, check):
        fields = HEADER.unpack_from(raw)
        if fields[9] == sought.producer_id:
            yield _Written(int(fields[0]), fields[6], fields[11], raw)


def _digest(record: Record) -> bytes:
    """Of what makes two records the same: many are kept at once, and they may be large."""
    return hashlib.blake2b(repr(content_of(record)).encode(), digest_size=16).digest()


def _check(go_on: Callable[[], bool], at: TopicPartition) -> None:
    if not go_on():
        raise CausewayError("look up offsets in", str(at), "nobody asks any more", retriable=True)
