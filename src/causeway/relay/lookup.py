"""Exact places inside a span of an offset map: the logs tell what the map has left out.

The relayed records from a source offset to the span's end are counted in the source's log, as
lanes count them. Where nobody else writes to the target, so many before the span's end there is
the place; where others do, it is where the record with that sequence lies. Either way the record
found must be the same as the source's, else nothing is said: compaction may have taken records
away since they were relayed, and then counts mislead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from causeway.errors import BrokerError
from causeway.model import TopicPartition
from causeway.relay import walk
from causeway.relay.offset_map import Span
from causeway.relay.walk import content_of
from causeway.wire.batches import HEADER, SEQUENCE_SPACE, Batch, distance
from causeway.wire.cluster import Cluster
from causeway.wire.codes import OFFSET_OUT_OF_RANGE
from causeway.wire.records import Record, decode, records_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """One partition's source offsets to look up, ascending. All lie before the end of `span`, and
    no relayed record lies between the first of them and its start."""

    source: TopicPartition
    target: TopicPartition
    producer_id: int
    read_committed: bool
    span: Span
    offsets: Sequence[int]


def find(sought: Sought, source: Cluster, target: Cluster) -> dict[int, int]:
    """The target offset of the first relayed record from each source offset on; those that the
    logs do not tell for certain are missing. Reads the source from the first offset to the end of
    the span. Raises CausewayError."""
    try:
        counted = _count(sought, source)
        return {
            offset: place
            for offset, (left, first) in counted.items()
            if (place := _place(sought, target, left, first)) is not None
        }
    except BrokerError as error:
        if error.code == OFFSET_OUT_OF_RANGE:
            return {}  # a log no longer holds what would have to be seen
        raise


def _count(sought: Sought, source: Cluster) -> dict[int, tuple[int, Record | None]]:
    """For each offset: the relayed records from there to the span's end, and the first of them."""
    end = sought.span.end.source
    waiting = list(sought.offsets)
    begun: dict[int, tuple[int, Record]] = {}  # how many records come before, and the record
    count = 0
    for batch in walk.relayed(
        source, sought.source, waiting[0], read_committed=sought.read_committed, end=end
    ):
        if batch.first >= end:
            break
        while waiting and (index := _index(batch, waiting[0])) < batch.records:
            begun[waiting.pop(0)] = count + index, records_of(batch)[index]
        count += _index(batch, end)
    found: dict[int, tuple[int, Record | None]] = {
        offset: (count - before, record) for offset, (before, record) in begun.items()
    }
    return found | dict.fromkeys(waiting, (0, None))


def _index(batch: Batch, offset: int) -> int:
    """How many of its records lie below source offset `offset`."""
    if batch.offsets is not None:
        return bisect_left(batch.offsets, offset)
    return max(0, min(offset - batch.first, batch.records))


def _place(sought: Sought, target: Cluster, left: int, first: Record | None) -> int | None:
    """Where `first` lies on the target, with `left` records from it to the span's end."""
    span = sought.span
    if first is None or left <= 0:
        return span.end.target
    sequence = (span.end.sequence - left) % SEQUENCE_SPACE
    start = span.start.target if span.foreign else span.end.target - left
    for raw in walk.raw_batches(target, sought.target, start, span.end.target):
        fields = HEADER.unpack_from(raw)
        base, last_delta, producer_id = int(fields[0]), fields[6], fields[9]
        index = distance(fields[11], sequence)
        if producer_id == sought.producer_id and index <= last_delta:
            found = [record for record in decode(raw) if record.offset == base + index]
            if found and content_of(found[0]) == content_of(first):
                return base + index
            return None
    return None
