"""Asks both clusters, in bulk, about the partitions to recover."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from causeway.cluster import (
    EARLIEST,
    LATEST,
    ActiveProducer,
    Cluster,
    offsets_at,
    raw_batches,
    value_of,
)
from causeway.errors import BrokerError, CausewayError, DivergedError
from causeway.model import Pair, TopicPartition, same_topic
from causeway.records import BatchHeader
from causeway.relay.messages import Assignment
from causeway.relay.treatment import Series, as_relayed
from causeway.wire import codes, is_unsupported, user_timeout_of

T = TypeVar("T")

SETTLE_S = 0.2  # the target's end must not move for this time before it is believed
SETTLE_TIMEOUT_S = 30.0
REPLICATED_S = 2.0  # the time in which followers must have copied the leader's log
KEEPS_MOVING = "its end keeps moving: another lane is at work"


class Damage(NamedTuple):
    """Damage that a lane found again and again at offset `start`. `to`: its end, if the target
    refused the batch; -1 if the source's log shows the end. `why`: the last error."""

    start: int
    why: str
    to: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRequest:
    """A flow to recover. `assignment` has the newest outlets. `unsettled`: batches may have reached
    the target without an answer. `diverging`: the source's log has no entry for the assignment's
    leader epoch. `damage`: damage that the lane found several times, so the partition stops.
    `series`: the records that its records become. `late_by` (monotonic): until then a broker may
    read requests of a sender that has ended; 0 if there are none."""

    assignment: Assignment
    unsettled: bool
    diverging: bool = False
    damage: Damage | None = None
    series: Series = as_relayed
    late_by: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedOutlet:
    """`pair` begins right after the last record found, which has leader epoch `epoch` on the
    source.
    `node` leads the target partition, whose log ends at `end`. `exclusive`: we are the only writer.
    `append_times`: the target sets the timestamps of our records (LogAppendTime). `lost_from`: the
    pair is at the source's log start, but the copy ended at this offset or later; None if the copy
    ended at the pair. `producer_epoch`: the epoch to use next, if the outlet keeps offsets."""

    pair: Pair
    end: int
    exclusive: bool
    append_times: bool = False
    node: int
    epoch: int = -1
    lost_from: int | None = None
    producer_epoch: int = -1


class TooEarlyError(CausewayError):
    """Until `not_before` (monotonic) the target may still append earlier requests."""

    def __init__(self, place: TopicPartition, not_before: float) -> None:
        super().__init__(
            "resume",
            str(place),
            f"waits {not_before - time.monotonic():.0f} s until no earlier request can arrive: the "
            "target's brokers do not have DescribeProducers, which would show it sooner",
            retriable=True,
        )
        self.not_before = not_before


class PartitionLeader(NamedTuple):
    """The broker that leads a partition, and its leader epoch (-1 if unknown)."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The answers of both clusters about the partitions of all requests."""

    source_leaders: Mapping[TopicPartition, PartitionLeader | CausewayError]
    target_leaders: Mapping[TopicPartition, PartitionLeader | CausewayError]
    source_starts: Mapping[TopicPartition, int | CausewayError]
    source_ends: Mapping[TopicPartition, int | CausewayError]
    target_ends: Mapping[TopicPartition, int | CausewayError]
    # The last sequence of each producer that the leader remembers. Only of partitions to which
    # others may write, or at which batches without an answer may have arrived.
    remembered: Mapping[TopicPartition, Mapping[int, int] | CausewayError]
    # The producers that the leader remembers. Only of partitions that keep offsets.
    producers: Mapping[TopicPartition, tuple[ActiveProducer, ...] | CausewayError]

    @classmethod
    def take(cls, requests: Sequence[RecoveryRequest], source: Cluster, target: Cluster) -> Survey:
        sources = {r.assignment.source_partition: r.assignment.topic_id for r in requests}
        feeds = [(r, o) for r in requests for o in r.assignment.outlets]
        targets = {o.at: o.topic_id for _, o in feeds}
        producers = {o.producer_id for _, o in feeds}
        # If records may be repeated (at-least-once), the target's log is not searched.
        sought = [(r, o) for r, o in feeds if o.producer_id >= 0]
        unsettled = {o.at for r, o in sought if r.unsettled}
        shared = {o.at for r, o in sought if not r.assignment.is_ours_alone(o)}
        keeping = {o.at for r, o in sought if r.assignment.preserve is not None}
        late_by: dict[TopicPartition, float] = {}
        for request in requests:
            one = request.assignment
            source.note_leader_epoch(one.topic_id, one.partition, one.leader_epoch)
            for place in (each.at for each in one.outlets):
                late_by[place] = max(request.late_by, late_by.get(place, 0.0))
        read_committed = all(r.assignment.read_committed for r in requests)
        source_leaders = _leaders(source, sources, "source")
        target_leaders = _leaders(target, targets, "target")

        def ask_for_producers() -> dict[TopicPartition, tuple[ActiveProducer, ...] | CausewayError]:
            return _with_errors(target_leaders, lambda led: _producers(target, keeping & led))

        # If offsets are kept, the log's end is the position, and the leader's memory has the
        # sequence. Both must be of the same moment.
        earlier = ask_for_producers()
        return cls(
            source_leaders=source_leaders,
            target_leaders=target_leaders,
            source_starts=_with_errors(
                source_leaders, lambda led: offsets_at(source, led, EARLIEST)
            ),
            source_ends=_with_errors(
                source_leaders,
                lambda led: offsets_at(source, led, LATEST, read_committed=read_committed),
            ),
            target_ends=_with_errors(
                target_leaders,
                lambda led: _settled_ends(target, led, unsettled & led, producers, late_by),
            ),
            remembered=_with_errors(
                target_leaders,
                lambda led: _remembered(target, ((shared | unsettled) - keeping) & led),
            ),
            producers=_unchanged(earlier, ask_for_producers(), producers),
        )


def _with_errors(
    leaders: Mapping[TopicPartition, PartitionLeader | CausewayError],
    ask: Callable[[set[TopicPartition]], Mapping[TopicPartition, T | CausewayError]],
) -> dict[TopicPartition, T | CausewayError]:
    """Calls `ask` for the partitions that have a leader: the others would hold up all of them."""
    errors = {place: led for place, led in leaders.items() if isinstance(led, CausewayError)}
    return {**errors, **ask(leaders.keys() - errors.keys())}


def _settled_ends(
    target: Cluster,
    places: Collection[TopicPartition],
    unsettled: Collection[TopicPartition],
    producers: Collection[int],
    late_by: Mapping[TopicPartition, float] = MappingProxyType({}),
) -> dict[TopicPartition, int | CausewayError]:
    """Returns the ends of the logs. For `unsettled`, it is the end of the leader's log. It is asked
    for until no batch of ours (`producers`) was appended for SETTLE_S, and readers see all batches:

        ours, acknowledged │ ours, on the leader alone: they may be kept or lost │
                       watermark                                             log's end

    A request of a dead connection may still be in the broker's queue. Readers do not see a batch
    before the followers have it. If we took it for lost and sent it again, the target would have it
    twice. If others write all the time, followers never reach the end. Then two things must be
    true: all batches of the previous look are readable, and no batch of ours came since the look
    before it.

    If the leader's disk hangs in an append, the end does not move either. But a leader names the
    producers of a log only between two appends, so it does not answer until then. If a leader does
    not have that API, recovery waits until it has read or lost all requests. The bound is in
    docs/decisions/0053-brokers.md.
    """
    hanging: dict[TopicPartition, CausewayError] = {}
    for place, named in target.last_sequences(unsettled).items():
        if not isinstance(named, CausewayError):
            continue
        if not is_unsupported(named):
            hanging[place] = named
        elif sent_by := late_by.get(place, 0.0):
            not_before = sent_by + user_timeout_of(target.timeout_s)
            if time.monotonic() < not_before:
                hanging[place] = TooEarlyError(place, not_before)
    places = set(places) - hanging.keys()
    ends = offsets_at(target, places, LATEST)
    moving = set(unsettled) - hanging.keys()
    if moving:
        ends.update(target.log_ends(moving))
    # The end of the log at the last look, and at the look before.
    looks: dict[TopicPartition, tuple[int, int | None]] = {
        place: (end, None)
        for place, end in ends.items()
        if place in moving and not isinstance(end, CausewayError)
    }
    moving = set(looks)
    begun = time.monotonic()
    while moving and time.monotonic() < begun + SETTLE_TIMEOUT_S:
        time.sleep(SETTLE_S)
        again = target.log_ends(moving)
        shown = offsets_at(target, moving, LATEST)
        patient = time.monotonic() < begun + REPLICATED_S
        for place in set(moving):
            answer = _judged(target, place, again[place], shown[place], looks, producers, patient)
            if answer is not None:
                ends[place] = answer
                moving.discard(place)
    for place in moving:
        ends[place] = not_settled(place, KEEPS_MOVING)
    return {**ends, **hanging}


def _remembered(
    target: Cluster, places: Collection[TopicPartition]
) -> dict[TopicPartition, Mapping[int, int] | CausewayError]:
    """Returns the last sequences in the leaders' memory. Empty for a leader that does not have the
    API: then the log shows them."""
    return {
        place: {} if is_unsupported(answer) else answer
        for place, answer in target.last_sequences(places).items()
    }


def _producers(
    target: Cluster, places: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | CausewayError]:
    """Returns the producers in the leaders' memory. Empty for a leader that does not have the API:
    then the log shows them."""
    answers = target.active_producers(places) if places else {}
    return {place: () if is_unsupported(each) else each for place, each in answers.items()}


def _unchanged(
    earlier: Mapping[TopicPartition, tuple[ActiveProducer, ...] | CausewayError],
    later: Mapping[TopicPartition, tuple[ActiveProducer, ...] | CausewayError],
    ours: Collection[int],
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | CausewayError]:
    """`later`, with an error for each partition to which a producer of `ours` wrote since
    `earlier`."""
    found = dict(later)
    for place, each in later.items():
        before = earlier[place]
        if isinstance(before, CausewayError) or isinstance(each, CausewayError):
            continue
        if {p for p in before if p.producer_id in ours} != {
            p for p in each if p.producer_id in ours
        }:
            found[place] = not_settled(place, KEEPS_MOVING)
    return found


def _judged(
    target: Cluster,
    place: TopicPartition,
    end: int | CausewayError,
    seen: int | CausewayError,
    looks: dict[TopicPartition, tuple[int, int | None]],
    producers: Collection[int],
    patient: bool,
) -> int | CausewayError | None:
    """Returns the settled end of a log that ends at `end` and is readable up to `seen`, or an
    error. None if another look is needed. Adds this look to `looks`."""
    if isinstance(end, CausewayError):
        return end
    if isinstance(seen, CausewayError):
        return seen
    before, earlier = looks[place]
    looks[place] = end, before
    if seen >= end:
        start, stop = before, end
    elif earlier is not None and seen >= before:
        start, stop = min(earlier, before), seen
    elif patient:
        return None
    else:
        return not_settled(
            place,
            f"its leader holds offsets {seen} to {end - 1}, and too few followers have copied "
            "them: these records may be kept or lost",
            "look for a follower that is down or behind",
        )
    if stop < start:
        return None
    try:
        grown = raw_batches(target, place, start, stop)
        by_ours = any(BatchHeader.of(raw).producer_id in producers for raw in grown)
    except CausewayError as error:  # it must not hold up other partitions
        return error
    return None if by_ours else stop


def not_settled(place: TopicPartition, cause: str, remedy: str = "", code: int = -1) -> BrokerError:
    name = "UNSETTLED" if code < 0 else codes.name(code)
    return BrokerError(
        "resume", str(place), cause, code=code, name=name, remedy=remedy, retriable=True
    )


def _leaders(
    cluster: Cluster, expected: Mapping[TopicPartition, str], side: str
) -> dict[TopicPartition, PartitionLeader | CausewayError]:
    """Returns the leader of each partition. Its topic must still have the expected id."""
    topics = cluster.metadata({place.topic for place in expected}).topics
    leaders: dict[TopicPartition, PartitionLeader | CausewayError] = {}
    for place, topic_id in expected.items():
        topic = topics.get(place.topic)
        partition = topic.partitions.get(place.partition) if topic else None
        if topic is not None and topic.error is None and not same_topic(topic.topic_id, topic_id):
            remedy = "start with --adopt or --from to mirror the new one"
            if side == "source":
                remedy += f"; to preserve its offsets, `causeway restart --refill {place.topic}`"
            cause = f"the {side} topic was deleted and recreated"
            leaders[place] = DivergedError("resume", str(place), cause, remedy=remedy)
        elif topic is None or partition is None or topic.error is not None:
            code, cause = codes.UNKNOWN_TOPIC_OR_PARTITION, f"the {side} topic does not exist"
            leaders[place] = not_settled(place, cause, code=code)
        elif (
            isinstance(error := partition.error, BrokerError)
            and error.code == codes.UNKNOWN_LEADER_EPOCH
        ):
            leaders[place] = error
        elif partition.leader < 0:
            code, cause = codes.LEADER_NOT_AVAILABLE, f"the {side} partition has no leader"
            leaders[place] = not_settled(place, cause, code=code)
        else:
            leaders[place] = PartitionLeader(partition.leader, partition.leader_epoch)
    return leaders


def is_compacted(cluster: Cluster, topic: str) -> bool:
    entry = value_of(cluster.describe_configs([topic])[topic]).get("cleanup.policy")
    return entry is not None and "compact" in (entry.value or "")
