"""What a cluster says of a topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from causeway.errors import ConfigError
from causeway.producer.refusals import OF_TOPICS

TIMEOUT_S = 10.0
_POLL_S = 0.1
UNKNOWN_S = 3.0  # so long a topic may be so that is made by the very question

# Codes of a side that does not answer, as against one that answers no.
NOBODY = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
)
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A topic on one side."""

    partitions: int
    cluster_id: str


def look(
    client: Any, topic: str, timeout_s: float = TIMEOUT_S, *, unknown_s: float = UNKNOWN_S
) -> Seen:
    """Raises KafkaException: of the topic, or since nobody answered in time. It may be unknown for
    `unknown_s`."""
    begun = time.monotonic()
    while True:
        waited = time.monotonic() - begun
        metadata = client.list_topics(topic, max(_POLL_S, timeout_s - waited))
        found = metadata.topics[topic]
        if found.error is None:
            return Seen(partitions=len(found.partitions), cluster_id=metadata.cluster_id or "")
        code = found.error.code()
        patience_s = {
            **dict.fromkeys(_UNKNOWN, unknown_s),
            KafkaError.LEADER_NOT_AVAILABLE: timeout_s,
        }
        if waited >= patience_s.get(code, 0):
            raise KafkaException(found.error)
        time.sleep(_POLL_S)


def agree(topic: str, seen: Mapping[str, Seen], *, least: bool) -> int:
    """How many partitions are written to, by what the sides say that answered."""
    clusters = {each.cluster_id for each in seen.values()}
    if len(seen) > 1 and len(clusters) == 1 and "" not in clusters:
        raise ConfigError(
            "produce to", topic, f"{' and '.join(seen)} are the same cluster, {clusters.pop()}"
        )
    counts = {name: each.partitions for name, each in seen.items()}
    if len(set(counts.values())) > 1 and not least:
        told = ", ".join(f"{count} on {name}" for name, count in counts.items())
        raise ConfigError(
            "produce to",
            topic,
            f"it has different numbers of partitions: {told}",
            remedy='make them alike, or use those that both have: partition_counts="least"',
        )
    return min(counts.values())


def writable(client: Mapping[str, Any], topic: str) -> bool:
    """Whether it is there and we may write to it, as far as the cluster tells. Raises
    KafkaException where it does not say."""
    admin = AdminClient(dict(client))
    asked = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    try:
        allowed = asked[topic].result(TIMEOUT_S).authorized_operations
    except KafkaException as error:
        if error.args[0].code() in OF_TOPICS:
            return False
        raise
    return not allowed or AclOperation.WRITE in allowed


def ends(client: Mapping[str, Any], topic: str, count: int) -> dict[int, int]:
    """Where each partition ends, for readers of uncommitted records."""
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(count)}
    admin = AdminClient(dict(client))  # lives until its answers are here
    answers = admin.list_offsets(asked, request_timeout=TIMEOUT_S)
    return {at.partition: answer.result(TIMEOUT_S).offset for at, answer in answers.items()}
