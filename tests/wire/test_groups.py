"""Consumer groups on a real broker, judged by librdkafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from causeway.cluster import Cluster, Committed
from causeway.config import ClientSettings
from causeway.errors import BrokerError
from causeway.model import TopicPartition
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(source_cluster: LocalCluster) -> Iterator[Cluster]:
    host, _, port = source_cluster.bootstrap.partition(":")
    with Cluster(ClientSettings(alias="A", bootstrap=((host, int(port)),))) as running:
        yield running


def code(error: object) -> str:
    assert isinstance(error, BrokerError), error
    return error.name


def test_what_a_group_has_committed(cluster: Cluster, source: KafkaTools, prefix: str) -> None:
    topic, group = prefix + "t", prefix + "group"
    source.create_topic(topic, 3)
    source.commit_group(group, {(topic, 0): 7, (topic, 2): 0})

    assert cluster.committed_offsets(group) == {
        TopicPartition(topic, 0): 7,
        TopicPartition(topic, 2): 0,
    }
    assert cluster.committed_offsets(prefix + "nobody") == {}


def test_many_groups_are_committed_listed_and_read(
    cluster: Cluster, source: KafkaTools, prefix: str
) -> None:
    """Groups that nobody has ever seen, as a mirror's target has them at first."""
    topic = prefix + "t"
    source.create_topic(topic, 2)
    groups = [f"{prefix}{number}" for number in range(700)]
    commits = {
        group: {
            TopicPartition(topic, partition): Committed(offset=number, metadata=f"m{number}")
            for partition in range(2)
        }
        for number, group in enumerate(groups)
    }

    results = cluster.commit_offsets(commits)

    assert results == {group: {} for group in groups}
    assert cluster.committed_offsets_of([*groups, prefix + "nobody"]) == {
        **commits,
        prefix + "nobody": {},
    }
    assert source.group_offsets(groups[-1]) == {(topic, 0): 699, (topic, 1): 699}
    listing = cluster.list_groups()
    assert {listing[group].state for group in groups} == {"Empty"}
    assert {(listing[group].type, listing[group].protocol_type) for group in groups} == {
        ("classic", "")
    }


def test_a_commit_for_a_topic_that_is_not_there(
    cluster: Cluster, source: KafkaTools, prefix: str
) -> None:
    there, missing = TopicPartition(prefix + "t", 0), TopicPartition(prefix + "missing", 0)
    source.create_topic(there.topic)
    results = cluster.commit_offsets({prefix: dict.fromkeys((there, missing), Committed(offset=1))})
    answer = results[prefix]
    assert isinstance(answer, dict)
    assert answer.keys() == {missing}
    assert code(answer[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.committed_offsets(prefix) == {there: 1}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_keeps_its_offsets(
    cluster: Cluster, source: KafkaTools, prefix: str, protocol: str
) -> None:
    topic, group = prefix + "t", prefix + "group"
    at = TopicPartition(topic, 0)
    source.create_topic(topic)
    source.produce(topic, [b"1", b"2", b"3"])
    consumer = Consumer(
        {
            "bootstrap.servers": source.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        assert consumer.poll(30) is not None
        consumer.commit(offsets=[Position(topic, 0, 1)], asynchronous=False)
        listed = cluster.list_groups()[group]
        assert (listed.state, listed.type, listed.protocol_type) == ("Stable", protocol, "consumer")
        results = cluster.commit_offsets({group: {at: Committed(offset=3)}})
        assert code(results[group]) == "UNKNOWN_MEMBER_ID"
        assert cluster.committed_offsets(group) == {at: 1}
    finally:
        consumer.close()

    await_until(lambda: cluster.list_groups()[group].state == "Empty")
    assert cluster.commit_offsets({group: {at: Committed(offset=3)}}) == {group: {}}
    assert cluster.committed_offsets(group) == {at: 3}


def test_offsets_in_an_open_transaction_are_waited_for(
    cluster: Cluster, source: KafkaTools, prefix: str
) -> None:
    topic, group = prefix + "t", prefix + "group"
    source.create_topic(topic, 2)
    before, first = TopicPartition(topic, 0), TopicPartition(topic, 1)
    source.commit_group(group, {(topic, 0): 2})
    consumer = Consumer({"bootstrap.servers": source.bootstrap, "group.id": group})
    try:
        consumer.subscribe([topic])
        await_until(lambda: consumer.poll(0.1) is None and consumer.assignment() != [])
        with source.transactional(prefix + "writer") as transactions:
            transactions.begin()
            transactions.producer.send_offsets_to_transaction(
                [Position(topic, 0, 5), Position(topic, 1, 6)], consumer.consumer_group_metadata()
            )
            held = cluster.committed_offsets_of([group, prefix + "other"])
            assert code(held[group]) == "UNSTABLE_OFFSET_COMMIT"
            assert held[prefix + "other"] == {}
            transactions.commit()
        assert cluster.committed_offsets(group) == {before: 5, first: 6}
    finally:
        consumer.close()
