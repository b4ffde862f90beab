"""What others have written to the old source while the way back writes to it: only that has it.

    old source  … E ──[ours]──[theirs]──[ours]──[ours]── T …     E: so far it was looked through
                  n offsets, of which the way back has written so many as its sequences say

From T on, where the way back has ended, the link itself mirrors again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from causeway.cluster import LATEST, Cluster, offsets_at, raw_batches, relayed, value_of
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import TopicPartition
from causeway.operate.failover.reverse_start import Looked
from causeway.operate.failover.unmirrored import Unmirrored, refuse_open
from causeway.records import CONTROL, HEADER, SEQUENCE_SPACE

_NO_PRODUCER: Final = -1


def look(
    source: Cluster,
    looked: Mapping[TopicPartition, Looked],
    back: Iterable[PartitionProgress],
    *,
    until: Mapping[TopicPartition, int],
    read_committed: bool,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Unmirrored, ...]:
    """Of the old source, from where each partition was `looked` through until its end by now, or
    `until`. `back`: the progress of the way back. Where nothing foreign lies between, hardly
    anything is read. With causeway.delivery = at-least-once nothing tells who wrote what, and
    nothing is found. Raises CausewayError; PartitionsFailedError where others have a transaction
    open."""
    ends = {at: value_of(end) for at, end in offsets_at(source, looked, LATEST).items()}
    writers: dict[TopicPartition, list[Outlet]] = {}
    for each in back:
        for outlet in each.outlets:
            writers.setdefault(outlet.at, []).append(outlet)
    found = []
    for at, first in sorted(looked.items()):
        ours = writers.get(at, [])
        end = min(ends[at], until.get(at, ends[at]))
        if any(outlet.producer_id == _NO_PRODUCER for outlet in ours):
            continue
        start = first.kept if first.kept >= 0 else _known_until(first.first, ours)
        if start >= end:
            continue
        if ours and start < max(outlet.pair.target for outlet in ours):
            say(f"looking through what others wrote to {at}")
        theirs = _theirs(source, at, start, end, {outlet.producer_id for outlet in ours})
        if theirs is not None and (records := _count(source, theirs, read_committed)):
            found.append(
                Unmirrored(
                    at=at,
                    first=theirs.first,
                    end=theirs.end,
                    records=records,
                    surely=True,
                    ours=theirs.ours,
                )
            )
    return tuple(found)


def _known_until(first: int, ours: list[Outlet]) -> int:
    """Up to where there is nothing but ours: each offset is a record of ours, and the sequences
    begin at 0."""
    end = max((outlet.pair.target for outlet in ours), default=first)
    written = sum(outlet.pair.sequence for outlet in ours)
    return end if end >= first and (end - first - written) % SEQUENCE_SPACE == 0 else first


def _theirs(
    source: Cluster, at: TopicPartition, start: int, end: int, ours: set[int]
) -> Unmirrored | None:
    """The batches of others between, not counted yet."""
    first, stop = -1, -1
    stretches: list[tuple[int, int]] = []
    for raw in raw_batches(source, at, start, end):
        fields = HEADER.unpack_from(raw)
        base, following = fields[0], fields[0] + fields[6] + 1
        if fields[9] in ours:
            if stretches and stretches[-1][1] == base:
                stretches[-1] = stretches[-1][0], following
            else:
                stretches.append((base, following))
        elif not fields[5] & CONTROL:
            first = base if first < 0 else first
            stop = following
    if first < 0:
        return None
    inside = tuple(each for each in stretches if first < each[1] and each[0] < stop)
    return Unmirrored(at=at, first=first, end=stop, records=0, surely=True, ours=inside)


def _count(source: Cluster, theirs: Unmirrored, read_committed: bool) -> int:
    """Those of them that a mirror would take: not what was rolled back."""
    places = [theirs.at]
    stable = offsets_at(source, places, LATEST, read_committed=read_committed)
    refuse_open(theirs.at, value_of(stable[theirs.at]), theirs.end)
    count = 0
    for batch in relayed(source, theirs.at, theirs.first, read_committed=read_committed):
        count += sum(theirs.has(batch.source_offset(index)) for index in range(batch.records))
        if batch.next >= theirs.end:
            break
    return count
