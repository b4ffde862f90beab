"""A source with logins and ACLs, for a cutover that fences its producers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from confluent_kafka.admin import AclOperation, ResourceType

from causeway.config import ControlSettings, LinkSettings, SaslSettings, Secret
from causeway.filters import compile_patterns
from causeway.naming import ReplicationPolicy
from tests.harness.daemon import link
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.lanes import client


class Guarded(NamedTuple):
    cluster: LocalCluster
    tools: KafkaTools  # may do everything, whatever is denied
    shop: KafkaTools  # may write to topics


def grant(tools: KafkaTools) -> None:
    """To Causeway what docs/how-to/cutover.md lists, to the shop that it may write."""
    for kind, name, operation in (
        (ResourceType.TOPIC, "*", AclOperation.READ),
        (ResourceType.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS),
        (ResourceType.GROUP, "*", AclOperation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),
        (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
        (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER),
    ):
        tools.allow("causeway", operation, kind, name)
    tools.allow("shop", AclOperation.WRITE, ResourceType.TOPIC, "*")


def mirror_of(guarded: Guarded, target: KafkaTools, prefix: str) -> LinkSettings:
    """A link of the test's own, as what is asked of one stands on."""
    alias = prefix.partition("-")[0]
    a = replace(
        client(alias, guarded.cluster.bootstrap),
        protocol="SASL_PLAINTEXT",
        sasl=SaslSettings(mechanism="PLAIN", username="causeway", password=Secret("secret")),
    )
    own: dict[str, Any] = {
        "source": a,
        "source_admin": a,
        "policy": ReplicationPolicy(source_alias=alias),
    }
    own["control"] = ControlSettings(groups=compile_patterns(prefix + ".*"))
    return link(guarded.tools.bootstrap, target.bootstrap, prefix + ".*", more=own)


def mirror_name(mirror: LinkSettings, topic: str) -> str:
    return mirror.policy.format_remote_topic(mirror.source.alias, topic)
