"""Finds the position of a flow in the target's log: never guesses, never resends blindly.

    source  ──S────────────────────●──────────►      S, T, q: the pair (progress, or newer)
              │ walk `count` records on     ▲        count: from q to the last sequence found
    target  ──T────────[ours]──[ours]───●──end►      ●: must be the same record

The last batch in the target's log from T on that bears our producer id says, by its last sequence,
how many records since S are there. The source is walked that many relayed records on; the last
one must equal the last one found in the target. A mismatch stops the partition.

If the source was compacted meanwhile, the count goes too far; then the position is after the last
source record that the target holds too. If the source has deleted copied records, the last record
found is searched for in the rest of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from causeway.cluster import LATEST, Cluster, offsets_at, value_of
from causeway.errors import CausewayError, DivergedError
from causeway.link_topics import Outlet
from causeway.model import Loss, Pair, TopicPartition
from causeway.records import advance
from causeway.relay.messages import Assignment
from causeway.relay.recovery import ours, retrace
from causeway.relay.recovery.damage import loss_by
from causeway.relay.recovery.retrace import ResumePoint, SourceLog
from causeway.relay.recovery.survey import (
    KEEPS_MOVING,
    PartitionLeader,
    RecoveryRequest,
    Survey,
    not_settled,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedOutlet:
    """`pair` starts right after the last record found; `node` leads the target partition;
    `append_times`: the target gives our records times of its own (LogAppendTime)."""

    pair: Pair
    end: int
    exclusive: bool
    append_times: bool
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    outlets: tuple[ResumedOutlet, ...]
    leader_epoch: int
    source_leader: PartitionLeader
    source_end: int


_REPAIR = (
    "if another replica of the source partition is sound, have it lead, then `causeway restart`; "
)


class LossError(DivergedError):
    """The source has lost the next records. `outlets`: the flow's positions."""

    def __init__(
        self,
        assignment: Assignment,
        loss: Loss,
        outlets: tuple[ResumedOutlet, ...],
        damage: str | None = None,
    ) -> None:
        """`damage`: the error at the damaged batch."""
        self.loss = loss
        self.outlets = outlets
        super().__init__(
            "resume",
            f"{assignment.link} {assignment.source_partition}",
            f"the source deleted offsets {loss.start} to {loss.to - 1} before they were mirrored"
            if damage is None
            else f"offsets {loss.start} to {loss.to - 1} cannot be mirrored: {damage}",
            remedy=("" if damage is None else _REPAIR)
            + "`causeway restart --adopt` goes on without them",
        )


def recover(
    requests: Sequence[RecoveryRequest], source: Cluster, target: Cluster
) -> dict[TopicPartition, Resumption | CausewayError]:
    """Recovers the flow of each request (all of one link). Blocks; keyed by source partition.

    A DivergedError needs a person; a LossError does unless the loss may be passed over; any other
    error can be tried again.
    """
    answers: dict[TopicPartition, Resumption | CausewayError] = {}
    try:
        survey = Survey.take(requests, source, target)
    except CausewayError as error:
        return {request.assignment.source_partition: error for request in requests}
    for request in requests:
        try:
            answer: Resumption | CausewayError = _recover_one(request, survey, source, target)
        except CausewayError as error:
            answer = error
        except Exception as error:  # a fault of ours in one flow holds up no other
            answer = CausewayError(
                "resume", str(request.assignment.source_partition), f"internal error: {error!r}"
            )
        answers[request.assignment.source_partition] = answer
    return answers


def _recover_one(
    request: RecoveryRequest, survey: Survey, source: Cluster, target: Cluster
) -> Resumption:
    assignment = request.assignment
    place = assignment.source_partition
    source_leader = value_of(survey.source_leaders[place])
    log = SourceLog(
        source,
        value_of(survey.source_starts[place]),
        value_of(survey.source_ends[place]),
        request.series,
    )
    resumed, epochs, starts = [], [], []
    for outlet in assignment.outlets:
        node = value_of(survey.target_leaders[outlet.at]).node
        end = value_of(survey.target_ends[outlet.at])
        remembered = None
        if outlet.at in survey.remembered:
            remembered = value_of(survey.remembered[outlet.at]).get(outlet.producer_id)
        found = _find_place(request, outlet, log, end, target, remembered)
        epochs.append(found.epoch)
        starts.append(found.pair.source if found.lost_from is None else found.lost_from)
        resumed.append(
            ResumedOutlet(
                pair=found.pair,
                end=end,
                exclusive=found.exclusive,
                append_times=found.append_times,
                node=node,
            )
        )
    position = min(outlet.pair.source for outlet in resumed)
    if min(starts) < log.start:
        raise LossError(assignment, Loss(min(starts), log.start, "deleted"), tuple(resumed))
    source_end = log.end
    if source_end < position:  # or another lane has mirrored what came since it was asked for
        source_end = _source_end(source, assignment)
    if source_end < position and position > _high_watermark(source, assignment):
        raise DivergedError(
            "resume",
            f"{assignment.link} {place}",
            f"the source ends at offset {source_end}, below {position}, which was mirrored: "
            "it was truncated",
            remedy="decide what the target should keep, then start with --adopt or --from",
        )
    damage = request.damage
    if damage is not None and (loss := loss_by(damage, source, place, position)) is not None:
        raise LossError(assignment, loss, tuple(resumed), damage.why)
    if request.diverging:
        retrace.check_epoch(assignment, log)
    first = min(range(len(resumed)), key=lambda i: resumed[i].pair.source)
    return Resumption(
        outlets=tuple(resumed),
        leader_epoch=epochs[first],
        source_leader=source_leader,
        source_end=source_end,
    )


def _find_place(
    request: RecoveryRequest,
    outlet: Outlet,
    source: SourceLog,
    end: int,
    target: Cluster,
    remembered: int | None,
) -> ResumePoint:
    """`remembered`: our last sequence by the broker's memory; None if the broker was not asked."""
    try:
        return _count_on(request, outlet, source, end, target, remembered)
    except ours.PairTooHighError as error:
        lower = ours.lowered(outlet, end, target)
        if lower is None:
            raise error.otherwise from None
    assignment = request.assignment
    outlets = tuple(lower if one is outlet else one for one in assignment.outlets)
    request = replace(request, assignment=assignment.replace(outlets=outlets))
    return _find_place(request, lower, source, end, target, remembered)


def _count_on(
    request: RecoveryRequest,
    outlet: Outlet,
    source: SourceLog,
    end: int,
    target: Cluster,
    remembered: int | None,
) -> ResumePoint:
    assignment = request.assignment
    pair, epoch = outlet.pair, assignment.leader_epoch
    exclusive = assignment.is_ours_alone(outlet)
    if outlet.producer_id < 0:
        return ResumePoint(pair, epoch, exclusive)
    at_pair = exclusive and end == pair.target
    if at_pair and (not request.unsettled or ours.is_at_pair(outlet, remembered, target)):
        return ResumePoint(pair, epoch, exclusive)
    if end < pair.target or at_pair:
        return retrace.count_back(assignment, outlet, source, end, target, remembered)
    last = ours.last_of_ours(assignment, outlet, end, target)
    exclusive = exclusive and not last.foreign
    if last.count == 0 and not exclusive:
        if remembered is None and last.following is not None:
            remembered = advance(last.following, -1)
        moved = ours.moved_since(outlet, remembered, target)
        if moved is None and source.end <= pair.source:
            moved = 0  # the source has nothing that could have come
        if moved is not None and moved < 0:
            return retrace.count_back(assignment, outlet, source, end, target, remembered)
        if moved != 0 and ours.log_start(target, outlet) > pair.target:
            last = replace(last, count=_deleted_since(outlet, moved))
        elif moved:
            raise ours.PairTooHighError(not_settled(outlet.at, KEEPS_MOVING))
    if last.count == 0:
        moved_on = Pair(source=pair.source, target=end, sequence=pair.sequence)
        return ResumePoint(moved_on, epoch, exclusive)
    if source.start > pair.source:
        remains = retrace.walk_remains(assignment, last, outlet, end, source, target)
        following, epoch, lost_from = remains
    else:
        following, epoch = retrace.walk(assignment, last, outlet, end, source, target)
        lost_from = None
    sequence = advance(pair.sequence, last.count)
    moved_on = Pair(source=following, target=end, sequence=sequence)
    return ResumePoint(moved_on, epoch, exclusive, last.append_times, lost_from)


def _deleted_since(outlet: Outlet, moved: int | None) -> int:
    """How many records of ours came after the pair, where the target has deleted them all, and its
    offsets do not tell."""
    if moved is None:
        raise DivergedError(
            "resume",
            str(outlet.at),
            f"the target has deleted what came after offset {outlet.pair.target}, and nothing "
            "tells how much of that was ours",
            remedy="start with --adopt or --from",
        )
    return moved


def _source_end(source: Cluster, assignment: Assignment) -> int:
    place, committed = assignment.source_partition, assignment.read_committed
    return value_of(offsets_at(source, [place], LATEST, read_committed=committed)[place])


def _high_watermark(source: Cluster, assignment: Assignment) -> int:
    """A claim may lie past the last stable offset: who mirrored before us read what is open."""
    place = assignment.source_partition
    return value_of(offsets_at(source, [place], LATEST)[place])
