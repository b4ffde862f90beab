"""Finds the source offset right behind the records of an earlier transform, if it is only one.

    target of each outlet  ──T────[ours]──end►     no record of ours after its pair: the pair holds
                             all pairs at the same source offset: all before is there, nothing after

Only the earlier version could count its records after a pair, and it is gone. Records that were
relayed unchanged can be counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from causeway.config import LinkSettings
from causeway.control import MirroredTopic
from causeway.daemon.partitions.claims import assignment
from causeway.daemon.sides import Sides
from causeway.errors import CausewayError, DivergedError
from causeway.link_topics import PartitionProgress
from causeway.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The source offset to begin at, and the ends of the earlier outlets' target partitions."""

    start: int
    ends: Mapping[TopicPartition, int]


def places_behind(
    changed: Sequence[tuple[MirroredTopic, PartitionProgress]],
    sides: Sides,
    link: LinkSettings,
    *,
    late_by: float = 0.0,
) -> dict[TopicPartition, Behind | CausewayError | None]:
    """The result by source partition; None if there is not exactly one offset. No lane may still
    send for the earlier claims. `late_by` (monotonic): until then a broker may read their requests.
    After an error, call it again."""
    from causeway.relay import as_relayed, gone
    from causeway.relay.recovery import LossError, RecoveryRequest, recover

    requests = [
        RecoveryRequest(
            assignment=assignment(topic, progress, link, progress.transform),
            unsettled=True,
            series=as_relayed if progress.transform is None else gone,
            late_by=late_by,
        )
        for topic, progress in changed
    ]
    known = {progress.source: progress for _, progress in changed}
    places: dict[TopicPartition, Behind | CausewayError | None] = {}
    for at, answer in recover(requests, sides.source, sides.target).items():
        # The new claim passes over a loss behind it, or stops there.
        if isinstance(answer, DivergedError) and not isinstance(answer, LossError):
            places[at] = None
        elif isinstance(answer, CausewayError) and not isinstance(answer, LossError):
            places[at] = answer
        else:
            starts = {outlet.pair.source for outlet in answer.outlets}
            if isinstance(answer, LossError) and len(starts) == 1:
                starts = {answer.loss.start}  # a pair may begin behind what is lost
            ends = {
                TopicPartition(before.topic, before.partition): after.end
                for before, after in zip(known[at].outlets, answer.outlets, strict=True)
            }
            places[at] = Behind(start=starts.pop(), ends=ends) if len(starts) == 1 else None
    return places


def not_alone(at: TopicPartition, what: str, seconds: float) -> CausewayError:
    return CausewayError(
        what,
        str(at),
        f"a lane of an earlier start may still send as before, for {seconds:.0f} s at the most",
        retriable=True,
    )
