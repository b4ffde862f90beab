"""A cluster's metadata: brokers, topics, partitions, leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.metadata import MetadataRequest

from causeway.errors import CausewayError
from causeway.model import NO_TOPIC_ID
from causeway.wire import apis, broker_error, codes

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")


def value_of(answer: T | CausewayError) -> T:
    """Returns the answer. Raises it if it is an error."""
    if isinstance(answer, CausewayError):
        raise answer
    return answer


def each_value(
    answers: Mapping[K, T | CausewayError], read: Callable[[T], U]
) -> dict[K, U | CausewayError]:
    """Applies `read` to each answer. Errors stay the same."""
    return {
        key: answer if isinstance(answer, CausewayError) else read(answer)
        for key, answer in answers.items()
    }


def by_topic(items: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """Groups the items by topic, in the form that requests have."""
    found: dict[str, list[T]] = defaultdict(list)
    for topic, item in items:
        found[topic].append(item)
    return list(found.items())


class Leader(NamedTuple):
    node_id: int
    epoch: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`leader` is -1 if there is none; then there is an `error`. `leader_epoch` is -1 if
    unknown."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: CausewayError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """`topic_id`: 32 hex digits; zeros if the cluster gives no id, because its protocol version is
    still older than 2.8.

    `error`: the topic does not exist, or we may not see it. Then there are no partitions.
    """

    name: str
    topic_id: str
    partitions: Mapping[int, PartitionMetadata]
    internal: bool = False
    error: CausewayError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """`controller`: the broker for administrative requests; -1 if unknown."""

    cluster_id: str | None
    brokers: Mapping[int, tuple[str, int]]
    controller: int
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)


class LeaderEpochs:
    """The newest known leader epoch of each partition. A broker that names an older epoch does not
    know the latest election: it was frozen, or is cut off. The leader that it names may lead no
    longer, and the log of that leader may be wrong. Kafka's own clients check this, too (`Metadata`
    of Apache Kafka, KIP-320). Not thread-safe."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], int] = {}

    def note(self, topic_id: str, partition: int, epoch: int) -> None:
        if topic_id != NO_TOPIC_ID:  # without ids, a topic that is created again has the same key
            key = topic_id, partition
            self._newest[key] = max(epoch, self._newest.get(key, -1))

    def checked(self, found: ClusterMetadata, alias: str) -> tuple[ClusterMetadata, bool]:
        """Returns `found` with an error in place of each leader whose epoch is older than a known
        one, and whether there is such a leader."""
        outdated: dict[str, TopicMetadata] = {}
        for topic in found.topics.values():
            stale: dict[int, PartitionMetadata] = {}
            for number, one in topic.partitions.items():
                newest = self._newest.get((topic.topic_id, number), -1)
                if 0 <= one.leader_epoch < newest:
                    stale[number] = _outdated(one, f"{topic.name}-{number} on {alias}", newest)
                elif one.leader_epoch > newest:
                    self.note(topic.topic_id, number, one.leader_epoch)
            if stale:
                outdated[topic.name] = replace(topic, partitions={**topic.partitions, **stale})
        if outdated:
            found = replace(found, topics={**found.topics, **outdated})
        return found, bool(outdated)


def _outdated(one: PartitionMetadata, where: str, newest: int) -> PartitionMetadata:
    error = broker_error(
        codes.UNKNOWN_LEADER_EPOCH,
        "find the leader of",
        where,
        f"a broker names broker {one.leader} with leader epoch {one.leader_epoch}, but epoch "
        f"{newest} is known: the metadata is out of date",
    )
    return replace(one, leader=-1, error=error)


def metadata_request(topics: list[str] | None, *, with_rights: bool = False) -> Any:
    """Returns a request for the brokers, and the topics with these names (all topics if None). It
    creates no topic. `with_rights`: the answer has our rights on each topic."""
    return MetadataRequest(
        topics=topics
        if topics is None
        else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=with_rights,
        min_version=apis.METADATA.lowest,
        max_version=apis.METADATA.highest,
    )


def parse_metadata(response: Any, alias: str) -> ClusterMetadata:
    """Reads a MetadataResponse of version 10 or later."""
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        brokers={broker.node_id: (broker.host, broker.port) for broker in response.brokers},
        controller=response.controller_id,
        topics={topic.name: _topic(topic, alias) for topic in response.topics},
    )


def _topic(topic: Any, alias: str) -> TopicMetadata:
    error = None
    if topic.error_code:
        error = broker_error(
            topic.error_code,
            "look up topic",
            f"{topic.name} on {alias}",
            needs=f"DESCRIBE (or READ, or WRITE) on topic {topic.name}",
        )
    return TopicMetadata(
        name=topic.name,
        topic_id=topic.topic_id.hex if topic.topic_id else NO_TOPIC_ID,
        partitions={p.partition_index: _partition(p, topic.name, alias) for p in topic.partitions},
        internal=topic.is_internal,
        error=error,
    )


def _partition(partition: Any, topic: str, alias: str) -> PartitionMetadata:
    error = None
    if partition.error_code:
        where = f"{topic}-{partition.partition_index} on {alias}"
        error = broker_error(partition.error_code, "look up partition", where)
    return PartitionMetadata(
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        error=error,
    )
