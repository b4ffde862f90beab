"""Finds where a copy with the source's own offsets ends: at the end of the target's log.

    source   … 97 98 99 ·  101 102          ·: a gap, such as a commit marker
    target   … 97 98 99 ─ end at 100        goes on with offset 100, whatever was reported before

The log itself proves it: its last record must be the source's record at the same offset, and if it
has grown since the pair, each offset without a record of ours must be one without a record on the
source. Everything else stops the partition, before anything is written behind a record that has
another offset than on the source.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from causeway.cluster import ActiveProducer, content_of
from causeway.errors import DivergedError
from causeway.model import Pair
from causeway.records import CONTROL, TRANSACTIONAL, BatchHeader, advance, clip, records_of
from causeway.relay.recovery.ours import TargetLog, backwards, comparable, decoded
from causeway.relay.recovery.retrace import SourceLog
from causeway.relay.recovery.survey import RecoveryRequest, ResumedOutlet
from causeway.relay.treatment import as_relayed

REFILL = (
    "`causeway restart --refill` copies the topic again with the same offsets, `causeway restart "
    "--translate` goes on with translated offsets"
)
# So many of the newest stretches without a record of ours are compared with the source.
COMPARED_STRETCHES = 64


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
    """`producers`: those that the target's leader remembers. Raises CausewayError; DivergedError
    if the target's log is not a copy with the same offsets."""
    outlet, end = target.outlet, target.end
    pair, epoch = outlet.pair, source.assignment.leader_epoch
    known = next((each for each in producers if each.producer_id == outlet.producer_id), None)
    found = _Producer(outlet.producer_epoch, pair.sequence)
    if known is not None:
        found = _Producer(known.producer_epoch, advance(known.last_sequence, 1))
    is_at_pair = end == pair.target and found == (outlet.producer_epoch, pair.sequence)
    if not is_at_pair or (request.unsettled and known is None):
        newest = _last_of_ours(target)
        if known is None and newest is not None:
            found = newest
        epoch = max(epoch, _check(source, target))
    # A pair may lie further on the source: what is between was passed over.
    position = max(end, pair.source) if pair.source > pair.target else end
    resumed = target.resumed(Pair(position, end, found.sequence), epoch)
    return replace(resumed, producer_epoch=found.epoch)


def _last_of_ours(target: TargetLog) -> _Producer | None:
    """Our producer by its last batch in the log; None if the log has none. A marker of a higher
    epoch behind that batch begins with sequence 0 again."""
    marked = -1
    for start, stop in backwards(target.end):
        found: _Producer | None = None
        for batch, _ in target.batches(start, stop):
            if batch.producer_id != target.outlet.producer_id:
                continue
            if batch.attributes & CONTROL:
                marked = max(marked, batch.producer_epoch)
            else:
                found = _Producer(batch.producer_epoch, batch.following)
        if found is not None:
            return found if found.epoch >= marked else _Producer(marked, 0)
    return _Producer(marked, 0) if marked >= 0 else None


def _check(source: SourceLog, target: TargetLog) -> int:
    """Compares the end of the target's log with the source; the leader epoch of the source's last
    record there, -1 if that is unknown. Raises DivergedError."""
    preserve = source.assignment.preserve
    assert preserve is not None
    pair, begin = target.outlet.pair, preserve.begin
    if target.end <= begin:
        return -1
    empty: list[tuple[int, int]] = []
    for batch, _ in target.batches(max(min(pair.target, target.end), begin), target.end):
        if batch.producer_id == target.outlet.producer_id and not batch.attributes & CONTROL:
            continue
        if not batch.attributes & (CONTROL | TRANSACTIONAL):
            raise diverged(target, f"another client wrote to it at offset {batch.base}")
        if empty and empty[-1][1] == batch.base:
            empty[-1] = empty[-1][0], batch.last + 1
        else:
            empty.append((batch.base, batch.last + 1))
    if source.series is as_relayed:  # else records may be dropped
        for start, stop in empty[-COMPARED_STRETCHES:]:
            _check_empty(source, target, max(start, source.start), stop)
    return _check_last(source, target, begin)


def _check_empty(source: SourceLog, target: TargetLog, start: int, stop: int) -> None:
    """The target has no record of ours from `start` to `stop` - 1."""
    if start >= stop:
        return
    first = next(source.between(start, stop, target), None)
    if first is not None:
        raise diverged(target, f"it has no record at offset {first.first}, the source has one")


def _check_last(source: SourceLog, target: TargetLog, begin: int) -> int:
    """Compares the last record of ours."""
    for start, stop in backwards(target.end):
        if stop <= begin:
            break
        newest = None
        for batch, raw in target.batches(max(start, begin), stop):
            if not batch.attributes & (CONTROL | TRANSACTIONAL) and batch.records:
                newest = batch, raw
        if newest is not None:
            return _compare(source, target, *newest)
    return -1


def _compare(source: SourceLog, target: TargetLog, batch: BatchHeader, raw: memoryview) -> int:
    records = decoded(raw)
    last = records[-1].offset if records else batch.last
    if last < source.start:
        return -1
    for found in source.between(last, last + 1, target):
        one = clip(found, last, last + 1)
        if one is None:
            break
        if source.series is as_relayed and records:
            (there,) = records_of(one)
            if comparable(content_of(there), False) != comparable(content_of(records[-1]), False):
                raise diverged(target, f"its record at offset {last} is not the source's")
        return found.leader_epoch
    if source.series is as_relayed and not source.is_compacted:
        raise diverged(target, f"it has a record at offset {last}, the source has none")
    return -1


def diverged(target: TargetLog, cause: str) -> DivergedError:
    return DivergedError("resume", str(target.outlet.at), cause, remedy=REFILL)
