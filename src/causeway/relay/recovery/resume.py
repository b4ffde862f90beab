"""Finds the position of a flow in the target's log: never guesses, never sends blindly again.

    source  ──S────────────────────●──────────►      S, T, q: the pair (progress, or newer)
              │ walk `count` records on     ▲        count: from q to the last sequence found
    target  ──T────────[ours]──[ours]───●──end►      ●: must be the same record

The target's log is read from T on. The last sequence of its last batch with our producer id gives
the number of records since S. The source is read from S on, up to that number of relayed records.
The last of them must equal the last record found in the target; otherwise the partition stops.

If the source was compacted meanwhile, the count goes too far. Then the position is after the last
source record that the target has too. If the source has deleted copied records, the last record
found in the target is searched for in the rest of the source's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from causeway.cluster import LATEST, Cluster, offsets_at, value_of
from causeway.errors import BrokerError, CausewayError, DivergedError, TooLargeError
from causeway.link_topics import Outlet
from causeway.model import Loss, Pair, TopicPartition
from causeway.records import HEADER_SIZE, LENGTH_OVERHEAD, advance, keep, records_of
from causeway.relay.messages import Assignment
from causeway.relay.recovery.ours import PairTooHighError, TargetLog
from causeway.relay.recovery.preserved import end_of_copy
from causeway.relay.recovery.retrace import (
    SourceLog,
    check_epoch,
    count_back,
    walk,
    walk_remains,
)
from causeway.relay.recovery.survey import (
    KEEPS_MOVING,
    Damage,
    PartitionLeader,
    RecoveryRequest,
    ResumedOutlet,
    Survey,
    not_settled,
)
from causeway.wire import codes

# The number of offsets that are tried one by one if the broker itself cannot read a batch.
MOST_SINGLE_STEPS = 4096


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
    """Recovers the flow of each request (all of one link). Blocks. Returns a result or an error for
    each source partition.

    A DivergedError needs a person. So does a LossError, unless the loss may be passed over. After
    any other error, recovery can be tried again.
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
        except Exception as error:  # an error of our own in one flow must not hold up others
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
        assignment,
        value_of(survey.source_starts[place]),
        value_of(survey.source_ends[place]),
        request.series,
    )
    resumed = []
    for outlet in assignment.outlets:
        remembered = None
        if outlet.at in survey.remembered:
            remembered = value_of(survey.remembered[outlet.at]).get(outlet.producer_id)
        found = TargetLog(
            target,
            outlet,
            value_of(survey.target_leaders[outlet.at]).node,
            value_of(survey.target_ends[outlet.at]),
            assignment.is_ours_alone(outlet),
            remembered,
        )
        if assignment.preserve is None:
            resumed.append(_find_place(request, log, found))
        else:
            producers = value_of(survey.producers.get(outlet.at, ()))
            resumed.append(end_of_copy(request, log, found, producers))
    first = min(resumed, key=lambda each: each.pair.source)
    position = first.pair.source
    starts = [each.pair.source if each.lost_from is None else each.lost_from for each in resumed]
    begins = assignment.preserve.begin if assignment.preserve else 0
    start = max(min(starts), begins)
    if start < log.start:
        raise LossError(assignment, Loss(start, log.start, "deleted"), tuple(resumed))
    source_end = log.end
    if source_end < position:  # another lane may have mirrored records that came after the question
        source_end = _end_of(source, assignment, committed=assignment.read_committed)
    # A claim may lie past the last stable offset, if an earlier mirror read open transactions.
    if source_end < position and position > _end_of(source, assignment, committed=False):
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
        check_epoch(log)
    return Resumption(
        outlets=tuple(resumed),
        leader_epoch=first.epoch,
        source_leader=source_leader,
        source_end=source_end,
    )


def _find_place(request: RecoveryRequest, source: SourceLog, target: TargetLog) -> ResumedOutlet:
    try:
        return _count_on(request, source, target)
    except PairTooHighError as error:
        lower = target.lowered()
        if lower is None:
            raise error.otherwise from None
    outlets = tuple(lower if one is target.outlet else one for one in source.assignment.outlets)
    source = replace(source, assignment=source.assignment.replace(outlets=outlets))
    return _find_place(request, source, replace(target, outlet=lower))


def _count_on(request: RecoveryRequest, source: SourceLog, target: TargetLog) -> ResumedOutlet:
    outlet, end = target.outlet, target.end
    pair, epoch = outlet.pair, source.assignment.leader_epoch
    if outlet.producer_id < 0:
        return target.resumed(pair, epoch)
    at_pair = target.alone and end == pair.target
    if at_pair and (not request.unsettled or target.is_at_pair()):
        return target.resumed(pair, epoch)
    if end < pair.target or at_pair:
        return count_back(source, target)
    last = target.last_of_ours()
    exclusive = target.alone and not last.foreign
    if last.count == 0 and not exclusive:
        if target.remembered is None and last.following is not None:
            target = replace(target, remembered=advance(last.following, -1))
        moved = target.moved_since()
        if moved is None and source.end <= pair.source:
            moved = 0  # the source has no record that could have followed
        if moved is not None and moved < 0:
            return count_back(source, target)
        if moved != 0 and target.start > pair.target:
            last = replace(last, count=_deleted_since(outlet, moved))
        elif moved:
            raise PairTooHighError(not_settled(outlet.at, KEEPS_MOVING))
    found = replace(target.resumed(pair._replace(target=end), epoch), exclusive=exclusive)
    if last.count == 0:
        return found
    lost_from: int | None = None
    if source.start > pair.source:
        following, epoch, lost_from = walk_remains(last, source, target)
    else:
        following, epoch = walk(last, source, target)
    sequence = advance(pair.sequence, last.count)
    moved_on = Pair(source=following, target=end, sequence=sequence)
    return replace(
        found, pair=moved_on, epoch=epoch, append_times=last.append_times, lost_from=lost_from
    )


def _deleted_since(outlet: Outlet, moved: int | None) -> int:
    """Returns how many records of ours came after the pair, if the target has deleted them all, and
    its offsets do not show it."""
    if moved is None:
        raise DivergedError(
            "resume",
            str(outlet.at),
            f"the target has deleted all records after offset {outlet.pair.target}, and the logs "
            "do not show how many of them were ours",
            remedy="start with --adopt or --from",
        )
    return moved


def _end_of(source: Cluster, assignment: Assignment, *, committed: bool) -> int:
    place = assignment.source_partition
    return value_of(offsets_at(source, [place], LATEST, read_committed=committed)[place])


def loss_by(damage: Damage, cluster: Cluster, at: TopicPartition, position: int) -> Loss | None:
    """The loss if a flow at `position` passes over `damage`. None if the damage is repaired, or if
    records before it are still to be mirrored. Raises CausewayError.

        ──[good]──[damaged]──[good]──►     start: the first offset that cannot be mirrored
                  start      to            to: the first offset behind it that can
    """
    if position != damage.start:
        return None
    to = damage.to if damage.to >= 0 else readable_from(cluster, at, damage.start)
    return Loss(damage.start, to, "damaged") if to > position else None


def readable_from(cluster: Cluster, at: TopicPartition, start: int) -> int:
    """Returns the first offset from `start` on at which the log can be read; the log's end if there
    is none.

    It trusts no field of a damaged batch: the broker itself says for which offsets it finds that
    batch. Raises CausewayError.
    """
    end = value_of(offsets_at(cluster, [at], LATEST)[at])
    position = start
    while position < end:
        head, readable = _look(cluster, at, position)
        if readable:
            break
        position = _end_of_batch(cluster, at, position, end, head)
    return min(position, end)


def _end_of_batch(
    cluster: Cluster, at: TopicPartition, position: int, end: int, head: bytes
) -> int:
    """Returns the first offset for which the broker finds another batch than the batch with
    `head`."""
    same, other, step = position, end, 1
    if not head:  # batches that the broker does not find cannot be told apart
        for offset in range(position + 1, min(position + MOST_SINGLE_STEPS, end)):
            if _look(cluster, at, offset)[0]:
                return offset
            same = offset
    while same + step < end:
        if _look(cluster, at, same + step)[0] != head:
            other = same + step
            break
        same += step
        step *= 2
    while other - same > 1:
        middle = (same + other) // 2
        if _look(cluster, at, middle)[0] == head:
            same = middle
        else:
            other = middle
    return other


def _look(cluster: Cluster, at: TopicPartition, offset: int) -> tuple[bytes, bool]:
    """Returns the header of the batch that the broker finds for `offset`, and whether the batch can
    be mirrored. The header is empty if the broker finds none, or cannot read its log there."""
    try:
        records = cluster.fetch(at, offset, 1, max_wait_ms=0).records
    except BrokerError as error:
        if error.code != codes.CORRUPT_MESSAGE:
            raise
        return b"", False
    return records[:HEADER_SIZE], _is_readable(records, offset)


def _is_readable(records: bytes, offset: int) -> bool:
    stop = LENGTH_OVERHEAD + int.from_bytes(records[8:LENGTH_OVERHEAD], signed=True)
    try:
        kept = keep(memoryview(records)[:stop], offset, ())
        for batch in kept.batches:
            records_of(batch)
    except TooLargeError:
        return True  # it is relayed without being unpacked, or its size stops the partition
    except Exception:  # codecs raise various errors for damaged data
        return False
    return kept.position > offset
