"""Clusters of two versions of Kafka, and one Causeway that mirrors both ways between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource

from causeway.dev import KafkaVersion
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import mm2_file

ADMIN = "admin"
SECURITY = Security(
    protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users={ADMIN: "secret"}, acl=True
)
# Everything is looked at every second, so that a test need not wait for it.
QUICK = (
    "refresh.topics.interval.seconds = 1",
    "refresh.groups.interval.seconds = 1",
    "sync.topic.configs.interval.seconds = 1",
    "sync.topic.acls.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 1",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: a cluster with an authorizer, and its administrator."""

    alias: str
    cluster: LocalCluster
    tools: KafkaTools = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", KafkaTools(self.cluster.internal_bootstrap))

    @property
    def version(self) -> KafkaVersion:
        return self.cluster.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """From one side to the other. `prefix` begins its topics and groups, and no others."""

    source: Side
    target: Side
    prefix: str

    @property
    def link(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    def topic(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def mirror(self, name: str) -> str:
        return f"{self.source.alias}.{self.topic(name)}"


def both_ways_file(directory: Path, one: Side, other: Side, topics: str, *lines: str) -> Path:
    """A MirrorMaker 2 file; Causeway logs in as the administrator, with SASL."""
    sides = one, other
    return mm2_file(
        directory,
        {side.alias: side.cluster for side in sides},
        *(
            f"{side.alias}.{key} = {value}"
            for side in sides
            for key, value in side.cluster.security.java_client(ADMIN).items()
        ),
        f"{one.alias}->{other.alias}.enabled = true",
        f"{other.alias}->{one.alias}.enabled = true",
        f"topics = {topics}",
        f"groups = {topics}",
        *QUICK,
        *lines,
    )


def readers(tools: KafkaTools, topic: str) -> set[str]:
    """Who is allowed to read this very topic."""
    which = AclBindingFilter(
        Resource.TOPIC,
        topic,
        Pattern.LITERAL,
        None,
        None,
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    return {rule.principal for rule in tools.admin.describe_acls(which).result(120)}


def in_force(tools: KafkaTools, topic: str, names: Mapping[str, str]) -> dict[str, str]:
    """Of a topic's configuration, these."""
    found = tools.topic_config(topic)
    return {name: found[name] for name in names}
