"""The control client against a real broker, judged by librdkafka."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from causeway.cluster import Cluster, ConfigEntry, NewTopic, OffsetAt, admin, log_reader
from causeway.config import ClientSettings
from causeway.errors import BrokerError
from causeway.model import TopicPartition
from tests.harness.batches import make_batch
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

LATEST, EARLIEST = -1, -2


@pytest.fixture(scope="module")
def cluster(source_cluster: LocalCluster) -> Iterator[Cluster]:
    host, _, port = source_cluster.bootstrap.partition(":")
    with Cluster(ClientSettings(alias="A", bootstrap=((host, int(port)),))) as running:
        yield running


def offset(value: object) -> int:
    assert isinstance(value, OffsetAt), value
    return value.offset


def code(value: object) -> str:
    assert isinstance(value, BrokerError), value
    return value.name


def partitions(cluster: Cluster, topic: str) -> list[int]:
    return list(cluster.metadata([topic]).topics[topic].partitions)


def config(cluster: Cluster, topic: str, name: str) -> ConfigEntry:
    entries = cluster.describe_configs([topic], [name])[topic]
    assert isinstance(entries, dict), entries
    return entries[name]


def new(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> NewTopic:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return NewTopic(name=name, partitions=partitions, replication_factor=replicas, configs=dotted)


def test_many_topics_with_many_configs_are_created(cluster: Cluster, prefix: str) -> None:
    """A KRaft controller takes at most 10,000 records a request: topics, partitions and configs."""
    cluster.create_topics([new(prefix + "known")])
    known = cluster.describe_configs([prefix + "known"])[prefix + "known"]
    assert isinstance(known, dict)
    configs = {name: str(entry.value) for name, entry in known.items() if entry.value}
    topics = [
        NewTopic(name=f"{prefix}{n}", partitions=1, replication_factor=1, configs=configs)
        for n in range(10_000 // len(configs) + 100)
    ]
    answers = cluster.create_topics(topics, validate_only=True)
    assert {str(error) for error in answers.values() if error is not None} == set()


def test_a_request_that_is_too_large_is_halved(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller with another limit than the one we know."""
    monkeypatch.setattr(admin, "RECORDS_A_REQUEST", 1_000_000)
    topics = [new(f"{prefix}{n}", 60) for n in range(180)]
    answers = cluster.create_topics(topics, validate_only=True)
    assert {str(error) for error in answers.values() if error is not None} == set()


def test_topics_are_created_item_by_item(cluster: Cluster, prefix: str) -> None:
    good, bad, odd = prefix + "good", prefix + "bad", prefix + "odd"
    topics = [new(good, 3, retention_ms="-1"), new(bad, 1, 2), new(odd, 1, no_such="1")]
    assert cluster.create_topics([topics[0]], validate_only=True) == {good: None}
    assert code(cluster.metadata([good]).topics[good].error) == "UNKNOWN_TOPIC_OR_PARTITION"

    results = cluster.create_topics(topics)
    assert results[good] is None
    assert code(results[bad]) == "INVALID_REPLICATION_FACTOR"
    assert "too few brokers" in str(results[bad])
    assert code(results[odd]) == "INVALID_CONFIG"
    assert code(cluster.create_topics([topics[0]])[good]) == "TOPIC_ALREADY_EXISTS"

    await_until(lambda: sorted(partitions(cluster, good)) == [0, 1, 2])
    found = cluster.metadata([good]).topics[good]
    assert found.partitions[0].leader in cluster.metadata([]).brokers
    assert len(found.topic_id) == 32
    assert int(found.topic_id, 16)
    assert good in cluster.metadata().topics

    assert cluster.delete_topics([good]) == {good: None}
    assert code(cluster.delete_topics([good])[good]) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_partitions_are_added(cluster: Cluster, prefix: str) -> None:
    topic, missing = prefix + "topic", prefix + "missing"
    cluster.create_topics([new(topic)])
    results = cluster.create_partitions({topic: 4, missing: 2})
    assert results[topic] is None
    assert code(results[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
    await_until(lambda: len(partitions(cluster, topic)) == 4)
    assert code(cluster.create_partitions({topic: 4})[topic]) == "INVALID_PARTITIONS"


def test_configs_are_described_and_altered(cluster: Cluster, prefix: str) -> None:
    topic, missing = prefix + "topic", prefix + "missing"
    cluster.create_topics([new(topic, cleanup_policy="compact", retention_ms="5")])
    await_until(lambda: partitions(cluster, topic) == [0])
    results = cluster.alter_configs(
        {
            topic: {"retention.ms": None, "max.message.bytes": "2000000"},
            missing: {"retention.ms": "5"},
        }
    )
    assert results[topic] is None
    assert code(results[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
    await_until(lambda: not config(cluster, topic, "max.message.bytes").default)
    described = cluster.describe_configs([topic, missing])
    assert code(described[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
    entries = described[topic]
    assert isinstance(entries, dict)
    assert entries["cleanup.policy"] == ConfigEntry(value="compact", source="DYNAMIC_TOPIC_CONFIG")
    assert entries["max.message.bytes"].value == "2000000"
    assert entries["retention.ms"].default
    only = cluster.describe_configs([topic], ["cleanup.policy"])[topic]
    assert isinstance(only, dict)
    assert list(only) == ["cleanup.policy"]
    assert cluster.broker_configs(1)["node.id"].value == "1"


def test_offsets_by_end_time_and_isolation(
    cluster: Cluster, source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "topic"
    tp, empty, missing = (TopicPartition(topic, n) for n in (0, 1, 7))
    source.create_topic(topic, 2, config={"retention.ms": "-1"})
    source.produce(
        topic, [Outgoing(value=b"v", timestamp=1_000 * n, partition=0) for n in range(1, 4)]
    )
    assert {tp: offset(v) for tp, v in cluster.list_offsets([tp, empty], LATEST).items()} == {
        tp: 3,
        empty: 0,
    }
    assert offset(cluster.list_offsets([tp], EARLIEST)[tp]) == 0
    at = cluster.list_offsets([tp], 1_500)[tp]
    assert isinstance(at, OffsetAt)
    assert (at.offset, at.timestamp) == (1, 2_000)
    assert offset(cluster.list_offsets([tp], 9_000)[tp]) == -1
    assert code(cluster.list_offsets([missing], LATEST)[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
    with source.transactional(prefix + "writer") as transactions:
        transactions.begin()
        transactions.send(topic, Outgoing(value=b"open", partition=0))
        transactions.flush()
        assert offset(cluster.list_offsets([tp], LATEST)[tp]) == 4
        assert offset(cluster.list_offsets([tp], LATEST, read_committed=True)[tp]) == 3
        transactions.abort()
    # The marker is written after the writer has its answer.
    await_until(lambda: offset(cluster.list_offsets([tp], LATEST, read_committed=True)[tp]) == 5)
    fetched = cluster.fetch(tp, 3, read_committed=True)
    [(_, first)] = fetched.aborted
    assert first == 3
    assert (fetched.log_start, fetched.high_watermark, fetched.last_stable) == (0, 5, 5)


def test_batches_are_written_and_read_as_they_are(
    cluster: Cluster, source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "topic"
    tp = TopicPartition(topic, 0)
    source.create_topic(topic, config={"retention.ms": "-1"})
    batches = [make_batch([b"a", b"b"]), make_batch([b"c"])]
    assert [cluster.produce_batch(tp, batch) for batch in batches] == [0, 2]
    assert [record.value for record in source.read(topic)[0]] == [b"a", b"b", b"c"]

    records = cluster.fetch(tp, 0).records
    # Alike but for offset and leader epoch, which the broker fills in.
    assert records[16 : len(batches[0])] == batches[0][16:]
    assert cluster.fetch(tp, 2).records[16:] == batches[1][16:]
    assert cluster.fetch(tp, 3, max_wait_ms=0).records == b""
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
        cluster.fetch(tp, 4)
    broken = bytearray(batches[0])
    broken[-1] ^= 1
    with pytest.raises(BrokerError, match="CORRUPT_MESSAGE"):
        cluster.produce_batch(tp, bytes(broken))


def test_producer_ids_are_many_and_different(cluster: Cluster) -> None:
    ids = cluster.init_producer_ids(1_200)
    assert len({producer_id for producer_id, _ in ids}) == 1_200
    assert {epoch for _, epoch in ids} == {0}


def test_a_transactional_id_fences_its_older_holder(
    cluster: Cluster, source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "topic"
    tp = TopicPartition(topic, 0)
    source.create_topic(topic, config={"retention.ms": "-1"})
    assert cluster.knows_transactional_id(prefix + "id") is False
    producer_id, epoch = cluster.init_transactional_id(prefix + "id")
    assert cluster.knows_transactional_id(prefix + "id") is True
    assert cluster.produce_batch(tp, make_batch([b"1"], producer=(producer_id, epoch, 0))) == 0

    assert cluster.init_transactional_id(prefix + "id") == (producer_id, epoch + 1)
    cluster.produce_batch(tp, make_batch([b"2"], producer=(producer_id, epoch + 1, 0)))
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        cluster.produce_batch(tp, make_batch([b"3"], producer=(producer_id, epoch, 1)))
    assert [record.value for record in source.read(topic)[0]] == [b"1", b"2"]


def test_a_throttled_read_waits_and_reads_all(
    source_cluster: LocalCluster, cluster: Cluster, prefix: str
) -> None:
    """A broker that throttles answers without any topic; that is not the end of the log."""
    host, _, port = source_cluster.bootstrap.partition(":")
    settings = ClientSettings(alias="A", bootstrap=((host, int(port)),), client_id=prefix)
    cluster.create_topics([new(prefix, max_message_bytes="200000", retention_ms="-1")])
    at = TopicPartition(prefix, 0)
    for _ in range(10):
        cluster.produce_batch(at, make_batch([os.urandom(100_000)]))
    _limit_reading(cluster, prefix, 80_000)  # as an average of ten seconds: 1 MB is too much
    with Cluster(settings) as throttled:
        assert sum(batch.records for batch in log_reader.relayed(throttled, at, 0, end=10)) == 10


def _limit_reading(cluster: Cluster, client_id: str, bytes_per_s: float) -> None:
    """A quota for the clients of this id alone."""
    kind = AlterClientQuotasRequest.EntryData
    entry = kind(
        entity=[kind.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[kind.OpData(key="consumer_byte_rate", value=bytes_per_s, remove=False)],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    response = cluster.call(request, cluster.metadata([]).controller)
    assert [entry.error_code for entry in response.entries] == [0]


def test_a_bootstrap_name_whose_first_address_accepts_and_never_answers(
    source_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, port = source_cluster.bootstrap.partition(":")
    resolve = socket.getaddrinfo

    def both(host: str, *arguments: Any, **options: Any) -> list[Any]:
        ips = ("127.0.0.2", "127.0.0.1") if host == "two.invalid" else (host,)
        return [found for ip in ips for found in resolve(ip, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    client = ClientSettings(alias="A", bootstrap=(("two.invalid", int(port)),))
    with socket.create_server(("127.0.0.2", int(port))), Cluster(client) as cluster:
        assert cluster.bootstrap_check().brokers
