"""Exact places on the way back, from target offsets to the source's, inside a span of an offset map
or behind its end. As lookup.py does for the other direction: records are counted in the logs,
and the record that is found must be the same on both sides, else the answer is not exact.

The sequences of our batches on the target tell which records of the series lie where. The source is
walked from a place that is known on, as lanes walk it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from causeway.cluster import Cluster
from causeway.errors import BrokerError
from causeway.model import Pair, TopicPartition
from causeway.records import HEADER, Batch, Record, advance, decode, distance, records_of
from causeway.relay import log_reader
from causeway.relay.log_reader import Content, content_of
from causeway.translation.lookup import Sought
from causeway.wire import codes

# Called before each fetch, for what it may raise.
Check = Callable[[], None]


class Ours(NamedTuple):
    """The first record of ours from a target offset on: how many come before it since the span's
    start, and what is in it; None where compaction has taken it away."""

    before: int
    content: Content | None


def ours_from(sought: Sought, target: Cluster, check: Check) -> dict[int, Ours | None]:
    """Of each of `sought.offsets`, which are the target's here and lie in the span; None where
    nothing of ours follows before the span's end. Reads the target. Raises CausewayError."""
    span = sought.span
    waiting = deque(sought.offsets)
    found: dict[int, Ours | None] = {}
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
            found[offset] = Ours(index, contents.get(at)) if index < span.records else None
        if not waiting:
            break
    return found | dict.fromkeys(waiting)


def find(
    sought: Sought, source: Cluster, ours: Mapping[int, Ours | None], check: Check
) -> dict[int, int]:
    """The source offset of each record in `ours`, by target offset, the span's end where nothing
    follows; those that the logs do not tell for certain are missing. Raises CausewayError."""
    end = sought.span.end.source
    found = {offset: end for offset, one in ours.items() if one is None}
    left = {offset: one for offset, one in ours.items() if one is not None}
    found |= _alike(sought, source, left, 0, check)
    if found.keys() >= ours.keys():
        return found
    # What compaction has taken away since mostly lies before: count from the span's end.
    gone = sought.span.records - _count(sought, source, check)
    left = {offset: one for offset, one in left.items() if offset not in found}
    return found | (_alike(sought, source, left, gone, check) if gone > 0 else {})


def _alike(
    sought: Sought, source: Cluster, ours: Mapping[int, Ours], gone: int, check: Check
) -> dict[int, int]:
    """Those whose record is the same in the source, of which `gone` before it are there no more."""
    known = {offset: one for offset, one in ours.items() if one.content is not None}
    there = _records(source, sought, {one.before - gone for one in known.values()}, check)
    return {
        offset: there[one.before - gone][0]
        for offset, one in known.items()
        if one.before - gone in there and there[one.before - gone][1] == one.content
    }


def reached(
    sought: Sought, source: Cluster | None, target: Cluster, target_end: int, check: Check
) -> Pair | None:
    """How far the mirror has come behind `sought.span.start`, a pair, by the target's log up to
    `target_end`: the pair itself, or a later one. None where the logs do not tell. Raises
    CausewayError."""
    pair = sought.span.start
    last: memoryview | None = None
    for raw in log_reader.raw_batches(target, sought.target, pair.target, target_end, check):
        if HEADER.unpack_from(raw)[9] == sought.producer_id:
            last = raw
    if last is None:
        return pair
    if source is None:
        return None
    fields = HEADER.unpack_from(last)
    sequence = advance(fields[11], fields[6] + 1)
    after = int(fields[0]) + fields[6] + 1
    records = distance(pair.sequence, sequence)
    content = next((content_of(r) for r in decode(last) if r.offset == after - 1), None)
    found = _records(source, sought, {records - 1}, check)
    place, there = found.get(records - 1, (-1, None))
    if there is None or there != content:
        return None
    return Pair(source=place + 1, target=after, sequence=sequence)


def first_ours(sought: Sought, target: Cluster, target_end: int, check: Check) -> int | None:
    """The target offset of the first record of ours behind `sought.span.start`, a pair; None where
    there is none up to `target_end`. Raises CausewayError."""
    start = sought.span.start.target
    for raw in log_reader.raw_batches(target, sought.target, start, target_end, check):
        fields = HEADER.unpack_from(raw)
        if fields[9] == sought.producer_id:
            return max(int(fields[0]), start)
    return None


def first_relayed(
    source: Cluster,
    at: TopicPartition,
    start: int,
    end: int,
    check: Check,
    *,
    read_committed: bool,
) -> int | None:
    """The first source offset in `start` to `end` - 1 of a record that is relayed; None where there
    is none. Raises CausewayError, also where the log is not shown up to `end`."""
    if start >= end:
        return None
    for batch in log_reader.relayed(
        source, at, start, read_committed=read_committed, end=end, check=check
    ):
        if batch.next <= start:
            continue
        offsets = batch.offsets
        first = max(batch.first, start)
        if offsets is not None:
            index = bisect_left(offsets, start)
            if index == len(offsets):
                continue
            first = offsets[index]
        return first if first < end else None
    return None


def _records(
    source: Cluster, sought: Sought, wanted: Collection[int], check: Check
) -> dict[int, tuple[int, Content]]:
    """Of the relayed records from the span's start on, by index: source offset and content."""
    waiting = deque(sorted(index for index in wanted if index >= 0))
    found: dict[int, tuple[int, Content]] = {}
    count = 0
    for batch in _relayed(source, sought, check) if waiting else ():
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


def _count(sought: Sought, source: Cluster, check: Check) -> int:
    """The relayed records that the source still has in the span."""
    end, count = sought.span.end.source, 0
    for batch in _relayed(source, sought, check):
        if batch.next > end:
            inside = (batch.source_offset(index) < end for index in range(batch.records))
            return count + sum(inside)
        count += batch.records
    return count


def _relayed(source: Cluster, sought: Sought, check: Check) -> Iterator[Batch]:
    """From the span's start on; nothing where the log no longer holds what would be seen."""
    try:
        yield from log_reader.relayed(
            source,
            sought.source,
            sought.span.start.source,
            read_committed=sought.read_committed,
            end=sought.span.end.source,
            check=check,
        )
    except BrokerError as error:
        if error.code != codes.OFFSET_OUT_OF_RANGE:
            raise
