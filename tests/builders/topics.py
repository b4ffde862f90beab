"""What the two clusters of a link have: topics, configurations and ACLs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from causeway.cluster import (
    AclBinding,
    ConfigEntry,
    PartitionMetadata,
    TopicMetadata,
)
from causeway.control import MirroredTopic, ObservedTopics
from causeway.control.topic_configs import LONG_MAX
from causeway.errors import CausewayError

DEFAULTS = {
    "max.message.bytes": "1048588",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.after.max.ms": "3600000",
}


def topic(name: str, partitions: int = 1, error: CausewayError | None = None) -> TopicMetadata:
    return TopicMetadata(
        name=name,
        topic_id=name.encode().hex()[:32].ljust(32, "0"),
        partitions={
            number: PartitionMetadata(leader=1, leader_epoch=0, replicas=(1,), isr=(1,), error=None)
            for number in range(partitions)
        },
        internal=False,
        error=error,
    )


def entry(
    value: str | None,
    source: str = "DYNAMIC_TOPIC_CONFIG",
    *,
    read_only: bool = False,
    sensitive: bool = False,
) -> ConfigEntry:
    return ConfigEntry(
        value=value,
        source=source,
        read_only=read_only,
        sensitive=sensitive,
        default=source == "DEFAULT_CONFIG",
    )


def entries(own: Mapping[str, str] = {}, **broker: str) -> dict[str, ConfigEntry]:
    """As DescribeConfigs would answer: defaults, then the broker's, then the topic's own."""
    found = {name: entry(value, "DEFAULT_CONFIG") for name, value in DEFAULTS.items()}
    found |= {
        name.replace("_", "."): entry(value, "STATIC_BROKER_CONFIG")
        for name, value in broker.items()
    }
    return found | {name: entry(value) for name, value in own.items()}


def observed(
    source: Mapping[str, int],
    target: Mapping[str, int] = {},
    *,
    source_configs: Mapping[str, Any] = {},
    target_configs: Mapping[str, Any] = {},
    **changes: Any,
) -> ObservedTopics:
    base = ObservedTopics(
        source_topics={name: topic(name, count) for name, count in source.items()},
        source_configs={name: entries() for name in source} | dict(source_configs),
        target_topics={name: topic(name, count) for name, count in target.items()},
        target_configs={name: entries() for name in target} | dict(target_configs),
        target_defaults=DEFAULTS,
        target_brokers=3,
    )
    return replace(base, **changes)


def mirrored(*names: str) -> list[MirroredTopic]:
    return [
        MirroredTopic(
            source=name,
            target=f"A.{name}",
            partitions=1,
            source_id="0" * 32,
            target_id="1" * 32,
            target_partitions=1,
            max_message_bytes=1_000_000,
        )
        for name in names
    ]


def acl(
    permission: str,
    operation: str,
    name: str,
    principal: str = "User:ann",
    *,
    pattern: str = "LITERAL",
    host: str = "*",
) -> AclBinding:
    return AclBinding(
        resource_type="TOPIC",
        name=name,
        pattern=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )
