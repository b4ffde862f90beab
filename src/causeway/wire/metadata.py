"""What a cluster says of itself: brokers, topics, partitions, leaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from causeway.errors import CausewayError
from causeway.model import NO_TOPIC_ID
from causeway.wire.codes import broker_error


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`leader` is -1 where there is none (then `error` says so); `leader_epoch` -1 if unknown."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: CausewayError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """`topic_id`: 32 hex digits, zeros where the cluster gives none (it still runs by a protocol
    version before 2.8).

    `error`: the topic does not exist, or we may not see it; then there are no partitions.
    """

    name: str
    topic_id: str
    partitions: Mapping[int, PartitionMetadata]
    internal: bool = False
    error: CausewayError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """`controller`: the broker for administrative requests, -1 if unknown."""

    cluster_id: str | None
    brokers: Mapping[int, tuple[str, int]]
    controller: int
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)


def parse_metadata(response: Any, alias: str) -> ClusterMetadata:
    """Of a MetadataResponse of version 10 or later."""
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
