"""Finds where a copy with the source's own offsets ends: at the end of the target's log.

    source   … 97 98 99 ·  101 102          ·: a gap, such as a commit marker
    target   … 97 98 99 ─ end at 100        goes on with offset 100, for any pair in the progress

The log must prove that it is a copy. Its last record must be the source's at the same offset. The
source must have no record at the offsets of markers and filler that the log has behind the pair, or
behind its last record. Otherwise the partition stops before anything is written behind a record
with another offset.

Below the pair, applications may have written records and transactions: the target is the old source
after a failback. Below `differs_to`, the log proves nothing: another transform made its records, or
the source's records were passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from causeway.cluster import ActiveProducer, Content, content_of
from causeway.errors import DivergedError
from causeway.model import Pair
from causeway.records import (
    CONTROL,
    FILLER_KEY,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    BatchHeader,
    advance,
    frames,
    records_of,
)
from causeway.relay.recovery.ours import (
    LOOKED_BACK_BYTES,
    TargetLog,
    backwards,
    comparable,
    decoded,
)
from causeway.relay.recovery.retrace import SourceLog
from causeway.relay.recovery.survey import RecoveryRequest, ResumedOutlet

REFILL = (
    "`causeway restart --refill TOPIC` copies the topic again with the same offsets, `causeway "
    "restart --translate TOPIC` goes on with translated offsets"
)
# The number of the newest ranges without a record of ours that are compared with the source.
COMPARED_STRETCHES = 64
# The number of the newest batches with records of which one must prove that the log is a copy.
COMPARED_BATCHES = 64
# The number of offsets below the pair in which markers are compared. A lane that writes several
# markers then asks for the log's end, so it writes fewer in the place of records.
COMPARED_BELOW = 10_000


class _Producer(NamedTuple):
    """The epoch and the next sequence of our producer."""

    epoch: int
    sequence: int


def end_of_copy(
    request: RecoveryRequest,
    source: SourceLog,
    target: TargetLog,
    producers: Collection[ActiveProducer],
) -> ResumedOutlet:
    """`producers`: the producers that the target's leader remembers. Raises CausewayError;
    DivergedError if the target's log is not a copy with the same offsets."""
    outlet, end = target.outlet, target.end
    pair, epoch = outlet.pair, source.assignment.leader_epoch
    known = next((each for each in producers if each.producer_id == outlet.producer_id), None)
    found = _Producer(outlet.producer_epoch, pair.sequence)
    if known is not None:
        found = _Producer(known.producer_epoch, advance(known.last_sequence, 1))
    # If the pair is further on the source, the offsets between were passed over. If the target's
    # log ends before the pair, it has lost records, and these are written again.
    passed = pair.source if pair.source > pair.target <= end else 0
    position = max(end, passed)
    is_at_pair = end == pair.target and found == (outlet.producer_epoch, pair.sequence)
    # Sequence 0 does not show whether the log has the records before.
    is_proved = known is not None and pair.sequence > 0
    append_times = False
    if not is_at_pair or (request.unsettled and not is_proved):
        if known is None:
            found = _last_of_ours(target)
        differs_to = max(passed, outlet.differs_to)
        append_times = _check(source, target, differs_to)
        epoch = _epoch_before(source, end) if end > differs_to else -1
    if found.epoch < outlet.producer_epoch:
        # A lane has used that epoch, and its requests may still arrive. An older epoch would not
        # refuse them.
        found = _Producer(outlet.producer_epoch, 0)
    resumed = target.resumed(Pair(position, end, found.sequence), epoch)
    return replace(resumed, producer_epoch=found.epoch, append_times=append_times)


def _last_of_ours(target: TargetLog) -> _Producer:
    """Returns the state of our producer by its batches from the pair on, if the leader has
    forgotten it. After a marker of a higher epoch, sequences begin with 0 again."""
    outlet = target.outlet
    found = _Producer(outlet.producer_epoch, outlet.pair.sequence)
    for batch, _ in target.batches(outlet.pair.target, target.end):
        if batch.producer_id != outlet.producer_id or batch.producer_epoch < found.epoch:
            continue
        if not batch.attributes & CONTROL:
            found = _Producer(batch.producer_epoch, batch.following)
        elif batch.producer_epoch > found.epoch:
            found = _Producer(batch.producer_epoch, 0)
    return found


def _epoch_before(source: SourceLog, position: int) -> int:
    """Returns the leader epoch of the source's batch or marker before `position`; -1 if it is
    unknown. With a lower epoch, the source would look truncated."""
    at = source.assignment.source_partition
    if not source.start < position <= source.end:
        return -1
    fetched = source.cluster.fetch(at, position - 1, 1, max_wait_ms=0)
    for raw in frames(memoryview(fetched.records), str(at)):
        if raw[MAGIC_AT] >= MAGIC and int.from_bytes(raw[:8]) < position:
            return BatchHeader.of(raw).leader_epoch
        break
    return -1


def _check(source: SourceLog, target: TargetLog, differs_to: int) -> bool:
    """Compares the end of the target's log with the source. Below offset `differs_to`, the source
    may have other records, or cannot be read. Returns whether the target sets the timestamps of
    records. Raises DivergedError."""
    outlet, assignment = target.outlet, source.assignment
    assert assignment.preserve is not None
    begin = assignment.preserve.begin
    if target.end <= begin:
        return False
    since = max(min(outlet.pair.target, target.end), begin)  # from here on, only we may write
    floor = max(begin, differs_to, outlet.claimed_at if assignment.treated else 0)
    is_compared = assignment.transform is None  # to make the records again would take a stage
    newest = islice(_newest_first(target, floor) if is_compared else (), COMPARED_BATCHES)
    found, first = next(newest, None), since
    if is_compared:
        # If the target lost records, then markers may lie in their place, also below the pair.
        behind = floor if found is None else BatchHeader.of(found).last + 1
        first = min(since, max(behind, since - COMPARED_BELOW))
    empty: list[tuple[int, int]] = []
    for batch, raw in target.batches(first, target.end):
        if batch.attributes & CONTROL or _is_filler(batch, raw):
            if empty and empty[-1][1] == batch.base:
                empty[-1] = empty[-1][0], batch.last + 1
            else:
                empty.append((batch.base, batch.last + 1))
        elif batch.last >= since and not _is_ours(batch, outlet.producer_id):
            raise diverged(target, f"another client wrote to it at offset {batch.base}")
    if is_compared:
        for start, stop in empty[-COMPARED_STRETCHES:]:
            _check_empty(source, target, max(start, floor), stop)
    append_times = found is not None and bool(BatchHeader.of(found).attributes & LOG_APPEND_TIME)
    while found is not None and not _compare(source, target, found):
        found = next(newest, None)
    return append_times


def _is_ours(batch: BatchHeader, producer_id: int) -> bool:
    """Returns whether the batch is ours, or may be filler that the log cleaner has left without
    records."""
    emptied = batch.attributes & TRANSACTIONAL and not batch.records
    return batch.producer_id == producer_id or bool(emptied)


def _is_filler(batch: BatchHeader, raw: memoryview) -> bool:
    if not batch.attributes & TRANSACTIONAL or not batch.records:
        return False
    return any(record.key == FILLER_KEY for record in decoded(raw)[:1])


def _check_empty(source: SourceLog, target: TargetLog, start: int, stop: int) -> None:
    """Checks that the source has no record from `start` to `stop` - 1: the target has none of
    ours."""
    start, stop = max(start, source.start), min(stop, source.end)
    if start >= stop:
        return
    first = next(source.between(start, stop, target), None)
    if first is not None:
        raise diverged(target, f"it has no record at offset {first.first}, and the source has one")


def _newest_first(target: TargetLog, begin: int) -> Iterator[memoryview]:
    """Yields the newest batches with records from `begin` on, by any producer, the newest batch
    first. Markers and filler do not count. Reads at most LOOKED_BACK_BYTES, because a log may have
    only markers."""
    read = 0
    for start, stop in backwards(target.end):
        if stop <= begin:
            return
        found: deque[memoryview] = deque(maxlen=COMPARED_BATCHES)
        for batch, raw in target.batches(max(start, begin), stop):
            read += len(raw)
            if read > LOOKED_BACK_BYTES:
                return
            has_records = batch.records and not batch.attributes & CONTROL
            if has_records and batch.last < stop and not _is_filler(batch, raw):
                found.append(raw)
        yield from reversed(found)


def _compare(source: SourceLog, target: TargetLog, raw: memoryview) -> bool:
    """Compares the last record of the batch that the source has not compacted away with the source.
    Returns whether the batch proves something. A transaction proves nothing if the source has none
    of its records: the target's own producer has rolled it back."""
    batch, records = BatchHeader.of(raw), decoded(raw)
    if not records or records[-1].offset < source.start or records[0].offset >= source.end:
        return True
    last, in_transaction = records[-1].offset, bool(batch.attributes & TRANSACTIONAL)
    append_times = bool(batch.attributes & LOG_APPEND_TIME)
    there: dict[int, Content] = {}
    for found in source.between(max(records[0].offset, source.start), last + 1, target):
        for index, record in enumerate(records_of(found)):
            there[found.source_offset(index)] = comparable(content_of(record), append_times)
    if last not in there and not in_transaction and not source.is_compacted:
        raise diverged(target, f"it has a record at offset {last}, and the source has none")
    for record in reversed(records):
        content = there.get(record.offset)
        if content is None:
            continue
        if content != comparable(content_of(record), append_times):
            raise diverged(target, f"its record at offset {record.offset} is not the source's")
        return True
    return not in_transaction


def diverged(target: TargetLog, cause: str) -> DivergedError:
    return DivergedError("resume", str(target.outlet.at), cause, remedy=REFILL)
