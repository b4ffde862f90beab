"""Counts records in the logs of one course, if the offset map does not show an offset.

Inside a span of the map, source offsets are looked up by relay/offset_lookup.py. For target
offsets, and behind the map's end, records are counted in both logs here. The record found must be
the same on both sides; otherwise the offset is not known.

The sequences of the mirror's batches on the target identify the records. The source is read from a
known offset on, as lanes read it, and its records go through the treatment of the link (`becomes`).
If no mirrored record is between a known offset and the wanted offset, only the target is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

from causeway.cluster import Cluster, Content, content_of, log_reader
from causeway.errors import BrokerError
from causeway.model import Pair, TopicPartition
from causeway.records import (
    HEADER,
    Batch,
    BatchHeader,
    Record,
    advance,
    decode,
    distance,
    records_of,
)
from causeway.relay import Becomes, Sought, offset_lookup, unchanged
from causeway.wire import codes

# Called before each fetch. Raises CausewayError if the read has to end.
Check = Callable[[], None]
# Reads a span through the transform of a lane.
Lane = Callable[[Sought], dict[int, int]]


def read_span(
    sought: Sought,
    source: Cluster | None,
    target: Cluster,
    go_on: Callable[[], bool],
    *,
    transformed: bool,
    lane: Lane | None = None,
    becomes: Becomes = unchanged,
) -> dict[int, int]:
    """Returns the exact target offsets of `sought`, by reading the logs. Offsets that the logs, or
    the lane, cannot determine are missing.

    `source`: None if the source cannot be read. A transformed course needs a `lane` for offsets
    behind the span's start. Raises CausewayError.
    """
    if source is not None and not transformed:
        return offset_lookup.find(sought, source, target, go_on, becomes)
    # The sequence at the span's start identifies the record: the source need not be read.
    at_start = [offset for offset in sought.offsets if offset <= sought.span.start.source]
    if lane is not None and len(at_start) < len(sought.offsets):
        return lane(sought)
    if not at_start:
        return {}
    return offset_lookup.find_start(sought.of(at_start), target, go_on)


class Mirrored(NamedTuple):
    """A mirrored record on the target. `before`: the number of mirrored records from the span's
    start to this record. `content`: None if compaction has removed the record."""

    before: int
    content: Content | None


def following(sought: Sought, target: Cluster, check: Check) -> dict[int, Mirrored | None]:
    """Returns the first mirrored record from each target offset on, None if none follows before the
    span's end. Here `sought.offsets` are target offsets in the span. Raises CausewayError."""
    span = sought.span
    waiting = deque(sought.offsets)
    found: dict[int, Mirrored | None] = {}
    batches = log_reader.raw_batches(target, sought.target, waiting[0], span.end.target, check)
    for raw in batches:
        fields = HEADER.unpack_from(raw)
        if fields[9] != sought.producer_id:
            continue
        base, last, sequence = int(fields[0]), int(fields[0]) + fields[6], fields[11]
        contents: dict[int, Content] = {}
        while waiting and waiting[0] <= last:
            contents = contents or {each.offset: content_of(each) for each in decode(raw)}
            offset = waiting.popleft()
            at = max(offset, base)
            index = distance(span.start.sequence, advance(sequence, at - base))
            inside = index < span.records
            found[offset] = Mirrored(index, contents.get(at)) if inside else None
        if not waiting:
            break
    return found | dict.fromkeys(waiting)


def source_offsets(
    sought: Sought,
    source: Cluster,
    records: Mapping[int, Mirrored | None],
    check: Check,
    becomes: Becomes = unchanged,
) -> dict[int, int]:
    """Returns the source offset of each record, by target offset; the span's end for None. Records
    that the logs do not determine are missing. Raises CausewayError."""
    end = sought.span.end.source
    found = {offset: end for offset, one in records.items() if one is None}
    left = {offset: one for offset, one in records.items() if one is not None}
    found |= _equal(sought, source, left, 0, check, becomes)
    if found.keys() >= records.keys():
        return found
    # Compaction has mostly removed records that come before: so count from the span's end.
    gone = sought.span.records - _count(sought, source, check, becomes)
    left = {offset: one for offset, one in left.items() if offset not in found}
    return found | (_equal(sought, source, left, gone, check, becomes) if gone > 0 else {})


def _equal(
    sought: Sought,
    source: Cluster,
    records: Mapping[int, Mirrored],
    gone: int,
    check: Check,
    becomes: Becomes,
) -> dict[int, int]:
    """Returns the records that the source has too, if `gone` records before them were removed."""
    known = {offset: one for offset, one in records.items() if one.content is not None}
    wanted = {one.before - gone for one in known.values()}
    there = _records(source, sought, wanted, check, becomes)
    return {
        offset: there[one.before - gone][0]
        for offset, one in known.items()
        if one.before - gone in there and there[one.before - gone][1] == one.content
    }


def reached(
    sought: Sought,
    source: Cluster,
    target: Cluster,
    target_end: int,
    check: Check,
    becomes: Becomes = unchanged,
) -> Pair | None:
    """Returns the pair that the mirror has reached, from the pair `sought.span.start` on, by the
    target's log up to `target_end`: that pair, or a later one. None if the logs do not show it.
    Raises CausewayError."""
    pair = sought.span.start
    newest = deque(_mirrored(sought, target, target_end, check), maxlen=1)
    if not newest:
        return pair
    last = newest.pop()
    fields = HEADER.unpack_from(last)
    sequence = advance(fields[11], fields[6] + 1)
    after = int(fields[0]) + fields[6] + 1
    records = distance(pair.sequence, sequence)
    content = next((content_of(r) for r in decode(last) if r.offset == after - 1), None)
    found = _records(source, sought, {records - 1}, check, becomes)
    place, there = found.get(records - 1, (-1, None))
    if there is None or there != content:
        return None
    return Pair(source=place + 1, target=after, sequence=sequence)


def behind_last(sought: Sought, target: Cluster, target_end: int, check: Check) -> int:
    """Returns the target offset behind the last mirrored record, from the pair `sought.span.start`
    on, up to `target_end`. Raises CausewayError."""
    newest = deque(_mirrored(sought, target, target_end, check), maxlen=1)
    if not newest:
        return sought.span.start.target
    return BatchHeader.of(newest.pop()).last + 1


def first_mirrored(sought: Sought, target: Cluster, target_end: int, check: Check) -> int | None:
    """Returns the target offset of the first mirrored record from the pair `sought.span.start` on,
    up to `target_end`."""
    first = next(_mirrored(sought, target, target_end, check), None)
    start = sought.span.start.target
    return None if first is None else max(int.from_bytes(first[:8]), start)


def _mirrored(
    sought: Sought, target: Cluster, target_end: int, check: Check
) -> Iterator[memoryview]:
    """Yields the mirror's batches on the target from the span's start on, up to `target_end`."""
    start = sought.span.start.target
    for raw in log_reader.raw_batches(target, sought.target, start, target_end, check):
        if HEADER.unpack_from(raw)[9] == sought.producer_id:
            yield raw


def first_relayed(
    source: Cluster,
    at: TopicPartition,
    start: int,
    end: int,
    check: Check,
    *,
    read_committed: bool,
    becomes: Becomes = unchanged,
) -> int | None:
    """Returns the source offset of the first record in `start` to `end` - 1 that lanes relay, or
    None. Raises CausewayError, also if the log cannot be read up to `end`."""
    if start >= end:
        return None
    relayed = log_reader.relayed(
        source, at, start, read_committed=read_committed, end=end, check=check
    )
    for batch in becomes(takewhile(lambda batch: batch.first < end, relayed)):
        if (index := batch.below(start)) < batch.records:
            first = batch.source_offset(index)
            return first if first < end else None
    return None


def _records(
    source: Cluster, sought: Sought, wanted: Collection[int], check: Check, becomes: Becomes
) -> dict[int, tuple[int, Content]]:
    """Returns the source offset and content of the `wanted` relayed records, by number from the
    span's start on."""
    waiting = deque(sorted(index for index in wanted if index >= 0))
    found: dict[int, tuple[int, Content]] = {}
    count = 0
    for batch in _relayed(source, sought, check, becomes) if waiting else ():
        records: list[Record] = []
        while waiting and waiting[0] < count + batch.records:
            records = records or records_of(batch)
            index = waiting.popleft()
            place = batch.source_offset(index - count)
            found[index] = place, content_of(records[index - count])
        count += batch.records
        if not waiting:
            break
    return found


def _count(sought: Sought, source: Cluster, check: Check, becomes: Becomes) -> int:
    """Returns the number of relayed records that the source still has in the span."""
    end, count = sought.span.end.source, 0
    for batch in _relayed(source, sought, check, becomes):
        count += batch.below(end)
    return count


def _relayed(source: Cluster, sought: Sought, check: Check, becomes: Becomes) -> Iterator[Batch]:
    """Returns the relayed batches from the span's start to its end, or to the log's end if the span
    is empty. Returns none if the log has lost them."""
    start, end = sought.span.start.source, sought.span.end.source
    relayed = log_reader.relayed(
        source,
        sought.source,
        start,
        read_committed=sought.read_committed,
        end=end,
        check=check,
    )
    try:
        yield from becomes(takewhile(lambda batch: batch.first < end or end == start, relayed))
    except BrokerError as error:
        if error.code != codes.OFFSET_OUT_OF_RANGE:
            raise
