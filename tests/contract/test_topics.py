"""Topics: metadata, creation, deletion, partitions, configs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from causeway.cluster import SecurityDisabled, admin
from causeway.model import TopicPartition
from tests.contract.client import Client, batch, refusal
from tests.harness.waiting import await_until

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2
OF_TOPIC, OF_BROKER_FILE, DEFAULT = 1, 4, 5


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic(partitions=3)


# -- metadata --------------------------------------------------------------------------------------


def metadata(client: Client, *topics: str | UUID | None, version: int = 12) -> Any:
    """None: all topics."""
    kind = MetadataRequest.MetadataRequestTopic
    wanted = [
        kind(topic_id=one, name=None) if isinstance(one, UUID) else kind(name=one)
        for one in topics
        if one is not None
    ]
    request = MetadataRequest(
        topics=None if None in topics else wanted,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
        min_version=version,
        max_version=version,
    )
    return client.ask(request)


@pytest.mark.parametrize("version", [10, 12])
def test_a_topic(client: Client, at: TopicPartition, version: int) -> None:
    answer = metadata(client, at.topic, version=version)
    (broker,) = answer.brokers
    (topic,) = answer.topics
    assert (refusal(topic), topic.name, topic.is_internal) == ("NONE", at.topic, False)
    assert topic.topic_id.int != 0
    parts = sorted(topic.partitions, key=lambda part: part.partition_index)
    assert [part.partition_index for part in parts] == [0, 1, 2]
    for part in parts:
        assert (refusal(part), part.leader_id, part.leader_epoch) == ("NONE", broker.node_id, 0)
        assert list(part.replica_nodes) == list(part.isr_nodes) == [broker.node_id]
        assert list(part.offline_replicas) == []


def test_the_cluster(client: Client) -> None:
    answer = metadata(client)
    assert list(answer.topics) == []
    assert answer.cluster_id
    (broker,) = answer.brokers
    assert answer.controller_id == broker.node_id
    with client.cluster.open_connection(broker.node_id) as connection:
        assert (connection.host, connection.port) == (broker.host, broker.port)
    described = client.ask(DescribeClusterRequest(max_version=1))
    assert (refusal(described), described.cluster_id) == ("NONE", answer.cluster_id)
    assert [(each.broker_id, each.host, each.port) for each in described.brokers] == [
        (broker.node_id, broker.host, broker.port)
    ]


def test_all_topics(client: Client, at: TopicPartition) -> None:
    other = client.topic()
    names = [topic.name for topic in metadata(client, None).topics]
    assert {at.topic, other.topic} <= set(names)
    assert len(names) == len(set(names))


def test_topics_that_do_not_exist(client: Client, at: TopicPartition) -> None:
    """Each topic has its own result. None is created."""
    unknown = client.prefix + "no"
    for _ in range(2):
        answer = metadata(client, unknown, at.topic, "not/legal")
        assert {topic.name: refusal(topic) for topic in answer.topics} == {
            unknown: "UNKNOWN_TOPIC_OR_PARTITION",
            at.topic: "NONE",
            "not/legal": "INVALID_TOPIC_EXCEPTION",
        }
        missing = next(topic for topic in answer.topics if topic.name == unknown)
        assert (list(missing.partitions), missing.topic_id) == ([], None)


def test_a_topic_by_its_id(client: Client, at: TopicPartition) -> None:
    known, unknown = UUID(bytes=client.id_of(at.topic)), UUID(int=0x7F)
    answer = metadata(client, known, unknown)
    found = {topic.topic_id: (topic.name, refusal(topic)) for topic in answer.topics}
    assert found == {known: (at.topic, "NONE"), unknown: (None, "UNKNOWN_TOPIC_ID")}


def test_a_deleted_topic(client: Client, at: TopicPartition) -> None:
    """A topic of the same name gets another id."""
    old = UUID(bytes=client.id_of(at.topic))
    client.recreate(at)
    (gone,) = metadata(client, old).topics
    assert refusal(gone) == "UNKNOWN_TOPIC_ID"


# -- creation --------------------------------------------------------------------------------------


def create(client: Client, *topics: tuple[Any, ...], validate_only: bool = False) -> list[Any]:
    """The results in the order of `topics`: name, partitions, replicas, configs."""
    request = CreateTopicsRequest(
        topics=[(name, parts, copies, [], configs) for name, parts, copies, configs in topics],
        timeout_ms=10_000,
        validate_only=validate_only,
        min_version=5,
    )
    answer = client.ask(request)
    found = {topic.name: topic for topic in answer.topics}
    return [found[topic[0]] for topic in topics]


def test_a_topic_is_created(client: Client) -> None:
    name = client.prefix + "new"
    (found,) = create(client, (name, 2, 1, [("retention.ms", "5000")]))
    assert refusal(found) == "NONE"
    assert (found.num_partitions, found.replication_factor) == (2, 1)
    configs = {each.name: (each.value, each.config_source) for each in found.configs}
    assert configs["retention.ms"] == ("5000", OF_TOPIC)
    assert configs["cleanup.policy"] == ("delete", DEFAULT)
    client.await_leader(TopicPartition(name, 1))
    assert client.id_of(name) == found.topic_id.bytes


def test_the_brokers_defaults(client: Client) -> None:
    (found,) = create(client, (client.prefix + "new", -1, -1, []))
    assert refusal(found) == "NONE"
    assert (found.num_partitions, found.replication_factor) == (1, 1)


def test_topics_are_only_validated(client: Client) -> None:
    name = client.prefix + "new"
    (found,) = create(client, (name, 2, 1, []), validate_only=True)
    assert refusal(found) == "NONE"
    (missing,) = metadata(client, name).topics
    assert refusal(missing) == "UNKNOWN_TOPIC_OR_PARTITION"
    (refused,) = create(client, (name, 0, 1, []), validate_only=True)
    assert refusal(refused) == "INVALID_PARTITIONS"


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "configs", "error"),
    [
        ("", 1, 1, [], "INVALID_TOPIC_EXCEPTION"),
        (".", 1, 1, [], "INVALID_TOPIC_EXCEPTION"),
        ("a/b", 1, 1, [], "INVALID_TOPIC_EXCEPTION"),
        ("x" * 250, 1, 1, [], "INVALID_TOPIC_EXCEPTION"),
        ("wrong", 0, 1, [], "INVALID_PARTITIONS"),
        ("wrong", -2, 1, [], "INVALID_PARTITIONS"),
        ("wrong", 1, 0, [], "INVALID_REPLICATION_FACTOR"),
        ("wrong", 1, 2, [], "INVALID_REPLICATION_FACTOR"),
        ("wrong", 1, 1, [("no.such.key", "1")], "INVALID_CONFIG"),
        ("wrong", 1, 1, [("retention.ms", "long")], "INVALID_CONFIG"),
        ("wrong", 1, 1, [("retention.ms", "-2")], "INVALID_CONFIG"),
        ("wrong", 1, 1, [("cleanup.policy", "burn")], "INVALID_CONFIG"),
        ("wrong", 1, 1, [("message.timestamp.type", "Now")], "INVALID_CONFIG"),
        ("wrong", 1, 1, [("retention.ms", None)], "INVALID_CONFIG"),
    ],
)
def test_what_is_not_created(
    client: Client, name: str, partitions: int, replicas: int, configs: list[Any], error: str
) -> None:
    (refused,) = create(client, (name, partitions, replicas, configs))
    assert refusal(refused) == error
    assert refused.error_message


def test_each_topic_of_a_request_has_its_own_result(client: Client, at: TopicPartition) -> None:
    new = client.prefix + "new"
    results = create(client, (at.topic, 1, 1, []), (new, 1, 1, []), (new + "2", 0, 1, []))
    assert [refusal(each) for each in results] == [
        "TOPIC_ALREADY_EXISTS",
        "NONE",
        "INVALID_PARTITIONS",
    ]


def test_names_that_are_alike_in_metrics(client: Client) -> None:
    client.create(client.prefix + "a.b")
    (refused,) = create(client, (client.prefix + "a_b", 1, 1, []))
    assert refusal(refused) == "INVALID_TOPIC_EXCEPTION"


# -- deletion --------------------------------------------------------------------------------------


def test_topics_are_deleted(client: Client, at: TopicPartition) -> None:
    unknown = client.prefix + "no"
    request = DeleteTopicsRequest(
        topics=[(at.topic, None), (unknown, None)],
        topic_names=[at.topic, unknown],
        timeout_ms=10_000,
    )
    assert {one.name: refusal(one) for one in client.ask(request).responses} == {
        at.topic: "NONE",
        unknown: "UNKNOWN_TOPIC_OR_PARTITION",
    }


def test_a_topic_is_deleted_by_its_id(client: Client, at: TopicPartition) -> None:
    known, unknown = UUID(bytes=client.id_of(at.topic)), UUID(int=0x7F)
    request = DeleteTopicsRequest(
        topics=[(None, known), (None, unknown)], timeout_ms=10_000, min_version=6
    )
    assert {one.topic_id: refusal(one) for one in client.ask(request).responses} == {
        known: "NONE",
        unknown: "UNKNOWN_TOPIC_ID",
    }


# -- partitions ------------------------------------------------------------------------------------


def grow(client: Client, topic: str, count: int, *, validate_only: bool = False) -> str:
    request = CreatePartitionsRequest(
        topics=[(topic, count, None)], timeout_ms=10_000, validate_only=validate_only
    )
    (found,) = client.ask(request).results
    assert found.name == topic
    return refusal(found)


def test_partitions_are_added(client: Client, at: TopicPartition) -> None:
    """The others keep their leader epochs and records."""
    client.write(at, "a")
    assert grow(client, at.topic, 5, validate_only=True) == "NONE"
    assert grow(client, at.topic, 5) == "NONE"
    client.await_leader(TopicPartition(at.topic, 4))
    (topic,) = metadata(client, at.topic).topics
    assert {part.partition_index: part.leader_epoch for part in topic.partitions} == dict.fromkeys(
        range(5), 0
    )
    assert client.ends(at) == (0, 1, 1)
    assert client.ends(TopicPartition(at.topic, 4)) == (0, 0, 0)


def test_a_number_of_partitions_that_is_not_higher(client: Client, at: TopicPartition) -> None:
    for count in (3, 2, 0, -1):
        assert grow(client, at.topic, count) == "INVALID_PARTITIONS"
    assert grow(client, client.prefix + "no", 5) == "UNKNOWN_TOPIC_OR_PARTITION"


# -- configs ---------------------------------------------------------------------------------------


def describe(client: Client, kind: int, name: str, keys: list[str] | None = None) -> Any:
    request = DescribeConfigsRequest(
        resources=[(kind, name, keys)], include_synonyms=False, include_documentation=False
    )
    node = int(name) if kind == BROKER else None
    (found,) = client.ask(request, node).results
    return found


def alter(client: Client, topic: str, *changes: tuple[str, int, str | None]) -> Any:
    request = IncrementalAlterConfigsRequest(
        resources=[(TOPIC, topic, list(changes))], validate_only=False
    )
    (found,) = client.ask(request).responses
    return found


def value(client: Client, topic: str, key: str) -> tuple[str | None, int]:
    """The value of a config, and its source."""
    (found,) = describe(client, TOPIC, topic, [key]).configs
    return found.value, found.config_source


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("delete.retention.ms", "86400000"),
        ("max.compaction.lag.ms", "9223372036854775807"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.after.max.ms", "3600000"),
        ("message.timestamp.before.max.ms", "9223372036854775807"),
        ("message.timestamp.type", "CreateTime"),
        ("min.cleanable.dirty.ratio", "0.5"),
        ("min.compaction.lag.ms", "0"),
        ("retention.bytes", "-1"),
        ("retention.ms", "604800000"),
        ("segment.bytes", "1073741824"),
        ("segment.ms", "604800000"),
        ("unclean.leader.election.enable", "false"),
    ],
)
def test_defaults(client: Client, at: TopicPartition, key: str, default: str) -> None:
    assert value(client, at.topic, key) == (default, DEFAULT)


def test_all_configs(client: Client, at: TopicPartition) -> None:
    found = describe(client, TOPIC, at.topic)
    assert (refusal(found), found.resource_type, found.resource_name) == ("NONE", TOPIC, at.topic)
    by_name = {each.name: each for each in found.configs}
    assert {"cleanup.policy", "retention.ms", "segment.bytes"} <= set(by_name)
    assert not any(each.read_only or each.is_sensitive for each in found.configs)


def test_named_configs(client: Client, at: TopicPartition) -> None:
    """A name that does not exist is left out."""
    keys = ["retention.ms", "no.such.key", "cleanup.policy"]
    found = describe(client, TOPIC, at.topic, keys)
    assert {each.name for each in found.configs} == {"retention.ms", "cleanup.policy"}


def test_configs_of_an_unknown_topic(client: Client) -> None:
    found = describe(client, TOPIC, client.prefix + "no")
    assert (refusal(found), list(found.configs)) == ("UNKNOWN_TOPIC_OR_PARTITION", [])


def test_configs_of_a_broker(client: Client) -> None:
    (broker,) = metadata(client).brokers
    found = describe(client, BROKER, str(broker.node_id))
    assert refusal(found) == "NONE"
    configs = {each.name: each.value for each in found.configs}
    assert configs["message.max.bytes"] == "1048588"
    assert configs["auto.create.topics.enable"] == "false"


def test_configs_are_set_and_unset(client: Client, at: TopicPartition) -> None:
    """Each of them alone."""
    assert refusal(alter(client, at.topic, ("retention.ms", SET, "5000"))) == "NONE"
    assert refusal(alter(client, at.topic, ("max.message.bytes", SET, "900"))) == "NONE"

    def values() -> list[tuple[str | None, int]]:
        return [value(client, at.topic, key) for key in ("retention.ms", "max.message.bytes")]

    await_until(lambda: values() == [("5000", OF_TOPIC), ("900", OF_TOPIC)], what=str(values()))
    assert refusal(client.produce(at, batch("x" * 1_000))) == "MESSAGE_TOO_LARGE"
    assert refusal(alter(client, at.topic, ("max.message.bytes", DELETE, None))) == "NONE"
    await_until(lambda: values() == [("5000", OF_TOPIC), ("1048588", DEFAULT)], what=str(values()))
    assert refusal(client.produce(at, batch("x" * 1_000))) == "NONE"
    assert refusal(alter(client, at.topic, ("segment.ms", DELETE, None))) == "NONE"


@pytest.mark.parametrize(
    ("key", "operation", "text"),
    [
        ("no.such.key", SET, "1"),
        ("retention.ms", SET, "long"),
        ("retention.ms", APPEND, "1"),
        ("cleanup.policy", SET, "burn"),
        ("min.insync.replicas", SET, "0"),
    ],
)
def test_configs_that_are_not_set(
    client: Client, at: TopicPartition, key: str, operation: int, text: str | None
) -> None:
    """Then none of the topic is."""
    good = ("max.message.bytes", SET, "900")
    refused = alter(client, at.topic, good, (key, operation, text))
    assert (refusal(refused), refused.resource_name) == ("INVALID_CONFIG", at.topic)
    assert refused.error_message
    assert value(client, at.topic, "max.message.bytes") == ("1048588", DEFAULT)


def test_configs_of_an_unknown_topic_are_not_set(client: Client) -> None:
    refused = alter(client, client.prefix + "no", ("retention.ms", SET, "1"))
    assert refusal(refused) == "UNKNOWN_TOPIC_OR_PARTITION"


# -- the rest of a broker --------------------------------------------------------------------------


def test_disks(client: Client) -> None:
    (disk,) = admin.disks(client.cluster)
    assert disk.path
    assert disk.total is not None
    assert disk.usable is not None
    assert 0 < disk.usable <= disk.total


def test_a_cluster_without_acls(client: Client) -> None:
    assert isinstance(client.cluster.describe_acls(), SecurityDisabled)
