"""Finds exact target offsets inside a span of an offset map: counts records in the logs.

The relayed records from a source offset to the span's end are counted in the source's log, as
lanes count them. If only the mirror writes to the target, the target offset lies that many records
before the span's end. If others write there as well, it is the offset of the record with that
sequence. In both cases the record there must equal the source's record; otherwise the result has no
such offset: compaction may have removed records since they were relayed, and then counts are wrong.

If the partition has a transform, the transform's output is counted. Only a lane can run it
(relay/lane/helpers.py). All output records of one source record are compared.

Each log is read once, for all offsets of the span.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from causeway.cluster import Cluster, content_of, log_reader
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import Span
from causeway.model import TopicPartition
from causeway.records import (
    SEQUENCE_SPACE,
    Batch,
    BatchHeader,
    Record,
    decode,
    distance,
    records_of,
)
from causeway.wire import codes

# Makes the batches of one outlet from the relayed batches of a source partition.
Becomes = Callable[[Iterator[Batch]], Iterator[Batch]]


def unchanged(batches: Iterator[Batch]) -> Iterator[Batch]:
    return batches


# To read over this number of target offsets costs less than another request.
_NEAR = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Source offsets of one partition to look up, ascending. All lie before the end of `span`, and
    no relayed record lies between the first offset and the start of `span`. `floor`: a target
    offset that is known to lie at or before all results."""

    source: TopicPartition
    target: TopicPartition
    producer_id: int
    read_committed: bool
    span: Span
    offsets: Sequence[int]
    floor: int = 0

    def of(self, offsets: Sequence[int]) -> Sought:
        """Returns the same look-up for these offsets."""
        return replace(self, offsets=offsets)


class _Counted(NamedTuple):
    """The first relayed record from a source offset on. `left`: the number of records from there to
    the span's end. `digests`: the digests of all output records of the same source record; empty if
    they need not be compared."""

    left: int
    digests: Sequence[bytes]


def find(
    sought: Sought,
    source: Cluster,
    target: Cluster,
    go_on: Callable[[], bool] = lambda: True,
    becomes: Becomes = unchanged,
) -> dict[int, int]:
    """Returns the target offset of the first relayed record from each source offset on. Offsets
    that the logs do not prove are missing. Reads the source from the first offset to the end of the
    span. Raises CausewayError, also if `go_on` returns False before a fetch."""
    try:
        counted = _count(sought, source, lambda: _check(go_on, sought.source), becomes)
        return _places(sought, counted, target, lambda: _check(go_on, sought.target))
    except BrokerError as error:
        if error.code == codes.OFFSET_OUT_OF_RANGE:
            return {}  # a log no longer holds the records
        raise


def find_start(
    sought: Sought, target: Cluster, go_on: Callable[[], bool] = lambda: True
) -> dict[int, int]:
    """Does the same as `find` if no offset lies behind the span's start. The sequence at the start
    identifies the record, so the source is not read."""
    counted = {offset: _Counted(sought.span.records, ()) for offset in sought.offsets}
    return _places(sought, counted, target, lambda: _check(go_on, sought.target))


def first_of(
    target: Cluster,
    at: TopicPartition,
    sequences: Mapping[int, int],
    start: int,
    end: int,
) -> dict[int, int]:
    """Returns, by producer id, the target offset of the producer's first record from `start`
    to `end` - 1 with the sequence in `sequences` or a later sequence. Producers without such a
    record are missing. Raises CausewayError."""
    found: dict[int, int] = {}
    for raw in log_reader.raw_batches(target, at, start, end):
        batch = BatchHeader.of(raw)
        wanted = sequences.get(batch.producer_id)
        if wanted is None or batch.producer_id in found:
            continue
        ahead = distance(batch.sequence, wanted)
        if ahead <= batch.last_delta:
            found[batch.producer_id] = batch.base + ahead
        elif ahead >= SEQUENCE_SPACE // 2:  # the batch comes after that sequence
            found[batch.producer_id] = batch.base
    return found


def _count(
    sought: Sought, source: Cluster, check: Callable[[], None], becomes: Becomes
) -> dict[int, _Counted | None]:
    """Returns the record from each offset on; None if there is none before the span's end."""
    end = sought.span.end.source
    waiting = deque(sought.offsets)
    begun: dict[int, tuple[int, Sequence[bytes]]] = {}  # the number of records before, and digests
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
        while waiting and (index := batch.below(waiting[0])) < batch.records:
            records = records or records_of(batch)
            following = batch.below(batch.source_offset(index) + 1)
            became = [_digest(record) for record in records[index:following]]
            begun[waiting.popleft()] = count + index, became
        count += batch.below(end)
    found: dict[int, _Counted | None] = dict.fromkeys(waiting)
    for offset, (before, digests) in begun.items():
        found[offset] = _Counted(count - before, digests) if count > before else None
    return found


def _places(
    sought: Sought,
    counted: Mapping[int, _Counted | None],
    target: Cluster,
    check: Callable[[], None],
) -> dict[int, int]:
    """Returns the target offset of each record. Source offsets ascend, and so do target offsets."""
    span = sought.span
    found: dict[int, int] = {}
    batches: Iterator[tuple[BatchHeader, memoryview]] | None = None
    batch: BatchHeader | None = None
    raw = memoryview(b"")
    decoded: tuple[BatchHeader | None, dict[int, Record]] = (None, {})
    for offset, record in sorted(counted.items()):
        if record is None:
            found[offset] = span.end.target
            continue
        sequence = (span.end.sequence - record.left) % SEQUENCE_SPACE
        start = (
            max(span.start.target, sought.floor) if span.foreign else span.end.target - record.left
        )
        far = batch is None or start > batch.last + _NEAR
        if batches is None or (far and not span.foreign):
            batches = _written(sought, target, start, check)
            batch, raw = next(batches, (None, raw))
        while (
            batch is not None
            and batch.last_delta < distance(batch.sequence, sequence) < SEQUENCE_SPACE // 2
        ):
            batch, raw = next(batches, (None, raw))  # the batch comes before the record
        if batch is None or distance(batch.sequence, sequence) > batch.last_delta:
            continue
        if decoded[0] is not batch:
            decoded = batch, {each.offset: each for each in decode(raw)}
        place = batch.base + distance(batch.sequence, sequence)
        there = [decoded[1].get(place + index) for index in range(len(record.digests))]
        if [each and _digest(each) for each in there] == list(record.digests):
            found[offset] = place
    return found


def _written(
    sought: Sought, target: Cluster, start: int, check: Callable[[], None]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yields the batches in the target that the mirror wrote."""
    end = sought.span.end.target
    for raw in log_reader.raw_batches(target, sought.target, start, end, check):
        batch = BatchHeader.of(raw)
        if batch.producer_id == sought.producer_id:
            yield batch, raw


def _digest(record: Record) -> bytes:
    """Returns a digest of the content by which records are compared. Records may be large, and many
    digests are kept."""
    return hashlib.blake2b(repr(content_of(record)).encode(), digest_size=16).digest()


def _check(go_on: Callable[[], bool], at: TopicPartition) -> None:
    if not go_on():
        raise CausewayError(
            "look up offsets in", str(at), "the answer is no longer needed", retriable=True
        )
