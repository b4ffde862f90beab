"""What a cluster says of a topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_POLL_S = 0.1
# Said of a topic that was made a moment ago, by this very question it may be.
_NEW = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
)


def partition_count(client: Any, topic: str, timeout_s: float) -> int:
    """Raises KafkaException: of the topic, or since nobody answered in time."""
    until = time.monotonic() + timeout_s
    unknown = 0
    while True:
        left = max(_POLL_S, until - time.monotonic())
        found = client.list_topics(topic, left).topics[topic]
        if found.error is None:
            return len(found.partitions)
        unknown += found.error.code() != KafkaError.LEADER_NOT_AVAILABLE
        if found.error.code() not in _NEW or time.monotonic() > until or unknown > 20:
            raise KafkaException(found.error)
        time.sleep(_POLL_S)


def ends(client: Mapping[str, Any], topic: str, count: int, timeout_s: float) -> dict[int, int]:
    """Where each partition ends, for readers of uncommitted records."""
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(count)}
    admin = AdminClient(dict(client))  # lives until its answers are here
    answers = admin.list_offsets(asked, request_timeout=timeout_s)
    return {at.partition: answer.result(timeout_s).offset for at, answer in answers.items()}
