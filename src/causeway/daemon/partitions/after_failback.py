"""Where a partition begins whose mirror was turned round. Pure.

a directive to begin somewhere, not done yet      begin there, once; but not in a topic that was
                                                  made anew since
no progress, no such directive, and the mirror    stop: what the source has came, at least in
the other way has ended                           part, from the target
"""

from __future__ import annotations

from dataclasses import replace

from causeway.control import MirroredTopic, claim_checks
from causeway.daemon.partitions import routing
from causeway.daemon.partitions.decisions import Begin, Offsets, Stop, Wish
from causeway.link_topics import ClaimStart, PartitionProgress
from causeway.model import same_topic


def decide(
    topic: MirroredTopic,
    partition: int,
    progress: PartitionProgress | None,
    offsets: Offsets,
    wish: Wish,
    start: ClaimStart | None,
    *,
    ended: bool,
    progress_lost: bool,
) -> Begin | Stop | None:
    """`start`: where a person wanted the topic that was there then to begin; `ended`: the mirror
    the other way. None where neither matters. Where `progress_lost`, it may have begun there
    already."""
    if progress is None and progress_lost:
        return None
    if start is not None and not same_topic(start.of, topic.source_id):
        start = None  # another has the name by now
    if start is not None and (progress is None or progress.begun != start.by):
        targets = routing.targets_of(topic, partition)
        return Begin(start=max(start.offset, offsets.log_start), targets=targets, by=start.by)
    if ended and not wish.acts and (progress is None or not progress.outlets):
        return Stop(
            reason=f"a mirror the other way, of {topic.target} to {topic.source}, has ended: what "
            "that brought would come back; `causeway failback` begins behind it "
            f"({claim_checks.ACT})"
        )
    return None


def settled(begin: Begin, start: ClaimStart | None) -> Begin:
    """`begin`, wherever that is, with the directive that stands by now done: by that it would begin
    once more after the next restart, from where the mirror was turned round."""
    return begin if start is None else replace(begin, by=start.by)
