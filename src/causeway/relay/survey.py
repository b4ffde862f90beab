"""What both clusters say of the partitions that are to be recovered, asked in bulk."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from causeway.errors import BrokerError, CausewayError, DivergedError
from causeway.model import TopicPartition, same_topic
from causeway.relay import walk
from causeway.relay.messages import Assignment, Outlet
from causeway.wire.batches import HEADER
from causeway.wire.cluster import Cluster
from causeway.wire.offsets import EARLIEST, LATEST

SETTLE_S = 0.2  # the target's end must stand still this long before it is believed
SETTLE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A flow to recover: its assignment with the newest outlets, and whether batches may have
    reached the target that nobody told us of."""

    assignment: Assignment
    unsettled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What both clusters say of all requests' partitions, asked in bulk."""

    source_nodes: Mapping[TopicPartition, int | CausewayError]
    target_nodes: Mapping[TopicPartition, int | CausewayError]
    source_starts: Mapping[TopicPartition, int | CausewayError]
    source_ends: Mapping[TopicPartition, int | CausewayError]
    target_ends: Mapping[TopicPartition, int | CausewayError]

    @classmethod
    def take(cls, requests: Sequence[Request], source: Cluster, target: Cluster) -> Survey:
        sources = {r.assignment.source_partition: r.assignment.topic_id for r in requests}
        targets = {place_of(o): o.topic_id for r in requests for o in r.assignment.outlets}
        unsettled = {place_of(o) for r in requests if r.unsettled for o in r.assignment.outlets}
        producers = {o.producer_id for r in requests for o in r.assignment.outlets}
        read_committed = all(r.assignment.read_committed for r in requests)
        source_nodes = _leaders(source, sources, "source")
        target_nodes = _leaders(target, targets, "target")
        return cls(
            source_nodes=source_nodes,
            target_nodes=target_nodes,
            source_starts=_with_errors(source_nodes, lambda led: offsets_at(source, led, EARLIEST)),
            source_ends=_with_errors(
                source_nodes,
                lambda led: offsets_at(source, led, LATEST, read_committed=read_committed),
            ),
            target_ends=_with_errors(
                target_nodes,
                lambda led: _settled_ends(target, led, unsettled & led, producers),
            ),
        )


def _with_errors(
    nodes: Mapping[TopicPartition, int | CausewayError],
    ask: Callable[[set[TopicPartition]], dict[TopicPartition, int | CausewayError]],
) -> dict[TopicPartition, int | CausewayError]:
    """Asks for the partitions that have a leader: the others would hold up all of them."""
    errors = {place: node for place, node in nodes.items() if isinstance(node, CausewayError)}
    return {**errors, **ask(nodes.keys() - errors.keys())}


def _settled_ends(
    target: Cluster,
    places: Collection[TopicPartition],
    unsettled: Collection[TopicPartition],
    producers: Collection[int],
) -> dict[TopicPartition, int | CausewayError]:
    """Log ends; those in `unsettled` are asked again until nothing of ours (`producers`) was
    appended for SETTLE_S: a request whose connection died may still lie in the broker's queue."""
    ends = offsets_at(target, places, LATEST)
    moving = set(unsettled)
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while moving and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
        again = offsets_at(target, moving, LATEST)
        moving = {
            place
            for place in moving
            if not isinstance(again[place], CausewayError)
            and again[place] != ends[place]
            and _grew_by_ours(target, place, ends[place], again[place], producers)
        }
        ends.update(again)
    for place in moving:
        ends[place] = BrokerError(
            "resume",
            str(place),
            "its end keeps moving: another lane is at work",
            code=-1,
            name="UNSETTLED",
            retriable=True,
        )
    return ends


def _grew_by_ours(
    target: Cluster,
    place: TopicPartition,
    before: int | CausewayError,
    after: int | CausewayError,
    producers: Collection[int],
) -> bool:
    if isinstance(before, CausewayError) or isinstance(after, CausewayError) or after < before:
        return True
    return any(
        HEADER.unpack_from(raw)[9] in producers
        for raw in walk.raw_batches(target, place, before, after)
    )


def offsets_at(
    cluster: Cluster,
    places: Collection[TopicPartition],
    timestamp: int,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int | CausewayError]:
    answers = cluster.list_offsets(list(places), timestamp, read_committed=read_committed)
    return {
        place: answer if isinstance(answer, CausewayError) else answer.offset
        for place, answer in answers.items()
    }


def _leaders(
    cluster: Cluster, expected: Mapping[TopicPartition, str], side: str
) -> dict[TopicPartition, int | CausewayError]:
    """The leader of each partition, whose topic must still bear the expected id."""
    topics = cluster.metadata({place.topic for place in expected}).topics
    leaders: dict[TopicPartition, int | CausewayError] = {}
    for place, topic_id in expected.items():
        topic = topics.get(place.topic)
        partition = topic.partitions.get(place.partition) if topic else None
        if topic is not None and topic.error is None and not same_topic(topic.topic_id, topic_id):
            leaders[place] = DivergedError(
                "resume",
                str(place),
                f"the {side} topic was deleted and made anew",
                remedy="start with --adopt or --from to mirror the new one",
            )
        elif topic is None or partition is None or topic.error is not None:
            leaders[place] = BrokerError(
                "resume",
                str(place),
                f"the {side} topic does not exist",
                code=3,
                name="UNKNOWN_TOPIC_OR_PARTITION",
                retriable=True,
            )
        elif partition.leader < 0:
            leaders[place] = BrokerError(
                "resume",
                str(place),
                f"the {side} partition has no leader",
                code=5,
                name="LEADER_NOT_AVAILABLE",
                retriable=True,
            )
        else:
            leaders[place] = partition.leader
    return leaders


def place_of(outlet: Outlet) -> TopicPartition:
    return TopicPartition(outlet.topic, outlet.partition)


def value_of(answer: int | CausewayError) -> int:
    if isinstance(answer, CausewayError):
        raise answer
    return answer
