"""Prepares partitions that keep their offsets, before their mirrors begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from causeway.cluster import Cluster
from causeway.control import topic_changes, topic_configs
from causeway.daemon.clients import Sides
from causeway.daemon.partitions.decisions import Begin, Candidate
from causeway.daemon.partitions.discovery import Found
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.records import keep

_READ_BYTES = 64 * 1024
_READS = 100  # fetches that find no record, after which the start of the log is taken


class Beginning(NamedTuple):
    """`never_fed`: no record of the partition was mirrored before; `taken_over`: another tool has
    copied the records that the target has."""

    one: Candidate
    begin: Begin
    never_fed: bool
    taken_over: bool


def prepared(begins: Sequence[Beginning], sides: Sides, found: Found) -> list[Beginning]:
    """Returns those of `begins` that can begin now, with their first records as the beginning.
    `found` gets an error for each of the others. Raises CausewayError."""
    raised = [each._replace(begin=_at_first_record(each, sides.source)) for each in begins]
    return _with_room(raised, sides.target_admin, found)


def _at_first_record(beginning: Beginning, source: Cluster) -> Begin:
    """A compacted log may begin with a large gap. The filler of this gap would be deleted together
    with the beginning, so no consumer would see it later."""
    one, begin = beginning.one, beginning.begin
    offsets = one.offsets
    is_first = begin.start <= begin.offsets_from == offsets.log_start
    if not (is_first and one.topic.compacted and not offsets.target_ends[one.partition]):
        return begin
    try:
        first = first_record(
            source, one.at, offsets.log_start, offsets.end, committed=one.link.fetch.read_committed
        )
    except CausewayError:
        return begin  # for example, the log now begins later: its lane meets the error as well
    is_large = first - begin.start >= one.link.offset_filler_from
    return replace(begin, offsets_from=first) if is_large else begin


def first_record(
    source: Cluster, at: TopicPartition, start: int, end: int, *, committed: bool
) -> int:
    """Returns the offset of the first record from `start` on. Returns `start` if there is none
    below `end`, or if it is not found within _READS fetches. Raises CausewayError."""
    position = start
    for _ in range(_READS):
        if position >= end:
            break
        fetched = source.fetch(at, position, _READ_BYTES, read_committed=committed, max_wait_ms=0)
        aborted = fetched.aborted if committed else ()
        kept = keep(memoryview(fetched.records), position, aborted, str(at))
        for batch in kept.batches:
            return batch.source_offset(0)
        if kept.position == position:
            break
        position = kept.position
    return start


def _with_room(begins: Sequence[Beginning], target: Cluster, found: Found) -> list[Beginning]:
    """A broker refuses to delete records of a topic that is only compacted. So the topic's configs
    are changed for this time; control/configs.py restores them afterwards."""
    wanted = {
        one.topic.target
        for one, begin, *_ in begins
        if begin.start < begin.offsets_from and not one.topic.deletes
    }
    if not wanted:
        return list(begins)
    changes = dict.fromkeys(wanted, topic_configs.WITH_DELETION)
    errors = topic_changes.alter_configs(changes, target)
    failed = {topic: next(iter(each.values())) for topic, each in errors.items() if each}
    for each in begins:
        if (error := failed.get(each.one.topic.target)) is not None:
            found.trouble(str(each.one.at), error)
    return [each for each in begins if each.one.topic.target not in failed]
