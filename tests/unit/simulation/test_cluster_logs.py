"""Simulated brokers keep logs as Kafka's do: Produce, Fetch, replicas, elections, producers."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from causeway.records import BatchHeader, decode, frames
from tests.simulation.cluster import (
    BrokerSettings,
    ClusterProducer,
    KafkaCluster,
    Refused,
    batch_of,
)
from tests.simulation.manual_client import ManualClient
from tests.simulation.manual_world import START_S, ManualWorld

NOW_MS = int(START_S * 1000)
DAY_S = 86_400.0


@pytest.fixture
def world() -> ManualWorld:
    return ManualWorld(seed=7)


@pytest.fixture
def cluster(world: ManualWorld) -> KafkaCluster:
    return KafkaCluster(world, "a", nodes=3, cluster_id="id-of-a")


def client_of(cluster: KafkaCluster, topic: str = "t", partition: int = 0) -> ManualClient:
    leader = cluster.leader(topic, partition)
    assert leader is not None
    assert isinstance(cluster.world, ManualWorld)
    return ManualClient(cluster.world, leader)


def batch(*values: bytes, producer: tuple[int, int] = (-1, -1), sequence: int = -1) -> bytes:
    return batch_of([(None, each) for each in values], NOW_MS, producer=producer, sequence=sequence)


def values(cluster: KafkaCluster, *, committed: bool = True) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in cluster.records("t", 0, committed=committed)]


def test_a_batch_is_acknowledged_when_the_replicas_in_sync_have_it(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    topic = cluster.create_topic("t", 1, 3)
    client = client_of(cluster)
    answer = client.produce(topic.id, 0, batch(b"x", b"y"))
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, -1)
    assert [cluster.replica("t", 0, node).log.end for node in range(3)] == [2, 2, 2]
    fetched = client.fetch("t", 0, 0)
    assert (fetched.high_watermark, fetched.last_stable_offset) == (2, 2)
    (raw,) = frames(memoryview(bytes(fetched.records)))
    assert BatchHeader.of(raw).leader_epoch == 0
    assert [record.value for record in decode(raw)] == [b"x", b"y"]


def test_readers_see_nothing_that_a_replica_in_sync_lacks(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 2)
    leader = cluster.leader("t", 0)
    follower = next(n for n in cluster.topics["t"].partitions[0].replicas if n != leader.node_id)  # type: ignore[union-attr]
    client = client_of(cluster)
    client.produce("t", 0, batch(b"x"))
    cluster.nodes[follower].freeze()
    waiting = client.send_produce("t", 0, batch(b"y"), timeout_ms=2_000)
    other = client_of(cluster)
    world.run(1.0)
    assert waiting not in client.answers
    assert other.fetch("t", 0, 1).high_watermark == 1
    assert other.fetch("t", 0, 2).error_code == 0
    assert other.fetch("t", 0, 3).error_code == 1
    part = client.answer(waiting).responses[0].partition_responses[0]
    assert (part.error_code, part.base_offset) == (7, 1)
    world.run(20.0)  # the controller fences the frozen broker
    assert other.fetch("t", 0, 1).high_watermark == 2
    cluster.nodes[follower].thaw()
    world.run(20.0)
    assert cluster.topics["t"].partitions[0].isr == cluster.topics["t"].partitions[0].replicas


def test_too_few_replicas_in_sync_refuse(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", 1, 2, {"min.insync.replicas": "2"})
    state = cluster.topics["t"].partitions[0]
    cluster.nodes[state.replicas[1]].stop(clean=True)
    world.run(5.0)
    client = client_of(cluster)
    answer = client.produce("t", 0, batch(b"x"))
    assert answer.error_code == 19
    cluster.nodes[state.replicas[1]].start()
    world.run(20.0)
    assert client.produce("t", 0, batch(b"x")).error_code == 0


def test_a_killed_leader_is_replaced_and_loses_nothing_acknowledged(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 3)
    first = cluster.leader("t", 0)
    assert first is not None
    client = client_of(cluster)
    assert client.produce("t", 0, batch(b"x")).error_code == 0
    lost = client.send_produce("t", 0, batch(b"never acknowledged"))
    first.stop(clean=False)
    assert client.is_closed
    assert lost not in client.answers
    assert first.connect(lambda _: None, lambda: None, "test") is None
    world.run(15.0)
    second = cluster.leader("t", 0)
    assert second is not None
    assert second is not first
    client = client_of(cluster)
    assert client.produce("t", 0, batch(b"y")).base_offset == 1
    first.start()
    world.run(20.0)
    assert cluster.replica("t", 0, first.node_id).log.end == 2
    assert values(cluster) == [(0, b"x"), (1, b"y")]


def test_an_unclean_election_loses_the_tail_and_fetches_show_it(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 2)
    one, two = cluster.topics["t"].partitions[0].replicas
    client_of(cluster).produce("t", 0, batch(b"x"))
    cluster.nodes[two].stop(clean=True)
    world.run(1.0)
    client_of(cluster).produce("t", 0, batch(b"lost"))
    assert cluster.leader("t", 0) is cluster.nodes[one]
    cluster.nodes[one].stop(clean=True)
    cluster.nodes[two].start()
    world.run(20.0)
    assert cluster.leader("t", 0) is None
    cluster.elect("t", 0, two, unclean=True)
    world.run(1.0)
    client = client_of(cluster)
    client.produce("t", 0, batch(b"new"))
    cluster.nodes[one].start()
    world.run(20.0)
    assert cluster.replica("t", 0, one).log.batches == cluster.replica("t", 0, two).log.batches
    assert values(cluster) == [(0, b"x"), (1, b"new")]
    client = client_of(cluster)
    diverging = client.fetch("t", 0, 2, last_epoch=0).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 1)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[("t", [(0, -1, 0)])], max_version=4
    )
    found = client.ask(request, 4).topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == (0, 1)
    assert client.fetch("t", 0, 0, leader_epoch=0).error_code == 74


def test_sequences_let_each_batch_in_once(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    client, producer = client_of(cluster), (4000, 0)

    def produce(sequence: int, epoch: int = 0) -> tuple[int, int, int]:
        raw = batch(b"v", producer=(producer[0], epoch), sequence=sequence)
        answer = client.produce("t", 0, raw)
        return answer.error_code, answer.base_offset, answer.log_append_time_ms

    assert produce(5) == (0, 0, -1)  # an unknown producer begins anywhere
    assert produce(5) == (0, 0, NOW_MS)  # a repetition
    assert produce(7)[0] == 45
    assert [produce(sequence)[:2] for sequence in range(6, 11)] == [(0, n) for n in range(1, 6)]
    assert produce(6) == (0, 1, NOW_MS)
    assert produce(5)[0] == 45  # only five are remembered
    assert produce(3, epoch=1)[0] == 45
    assert produce(0, epoch=1)[0] == 0
    assert produce(11)[0] == 47
    asked = client.ask(DescribeProducersRequest(topics=[("t", [0])]), 0)
    (known,) = asked.topics[0].partitions[0].active_producers
    assert (known.producer_id, known.producer_epoch, known.last_sequence) == (4000, 1, 0)
    assert (known.last_timestamp, known.current_txn_start_offset) == (NOW_MS, -1)


def test_a_producer_expires_by_the_times_of_its_last_batch(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", configs={"retention.ms": "-1"})
    producer = ClusterProducer(cluster)
    producer.write("t", 0, [(None, b"young")])
    producer.write("t", 0, [(None, b"old")], timestamp_ms=NOW_MS - 2 * 86_400_000)
    client = client_of(cluster)
    late = batch(b"v", producer=producer.producer, sequence=9)
    assert client.produce("t", 0, late).error_code == 45
    world.run(700.0)
    assert client.produce("t", 0, late).error_code == 0


def test_a_restart_forgets_old_producers(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", configs={"retention.ms": "-1"})
    producer = ClusterProducer(cluster)
    producer.write("t", 0, [(None, b"old")], timestamp_ms=NOW_MS - 2 * 86_400_000)
    node = cluster.leader("t", 0)
    assert node is not None
    node.stop(clean=True)
    node.start()
    world.run(5.0)
    late = batch(b"v", producer=producer.producer, sequence=9)
    assert client_of(cluster).produce("t", 0, late).error_code == 0


def refusals() -> list[Any]:
    good = batch(b"v", b"w")
    return [
        pytest.param(good[:-1] + b"?", 2, id="crc"),
        pytest.param((7).to_bytes(8) + good[8:], 87, id="base offset"),
        pytest.param(batch_of([(None, b"v")], NOW_MS + 4_000_000), 32, id="future"),
        pytest.param(batch(b"v" * 2_000), 10, id="size"),
        pytest.param(good + good, 87, id="two batches"),
    ]


@pytest.mark.parametrize(("raw", "code"), refusals())
def test_bad_batches_are_refused(cluster: KafkaCluster, raw: bytes, code: int) -> None:
    cluster.create_topic("t", configs={"max.message.bytes": "1000"})
    assert client_of(cluster).produce("t", 0, raw).error_code == code
    assert cluster.log_range("t", 0) == (0, 0)


def test_compacted_topics_want_keys_and_keep_the_newest(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 3, configs={"cleanup.policy": "compact"})
    assert client_of(cluster).produce("t", 0, batch(b"v")).error_code == 87
    producer = ClusterProducer(cluster)
    for number in range(4):
        producer.write("t", 0, [(b"k", b"%d" % number), (b"k%d" % number, b"x")])
    world.run(1.0)
    assert cluster.compact("t", 0) == 2  # the last batch is in the active segment
    left = [(each.offset, each.key) for each in cluster.records("t", 0)]
    assert left == [(1, b"k0"), (3, b"k1"), (4, b"k"), (5, b"k2"), (6, b"k"), (7, b"k3")]
    first = BatchHeader.of(cluster.batches("t", 0)[0].raw)
    assert (first.base, first.last, first.records, first.sequence) == (0, 1, 1, 0)


def test_append_times_are_the_leaders(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    node = cluster.leader("t", 0)
    assert node is not None
    node.clock_ahead_s = 3600.0
    answer = client_of(cluster).produce("t", 0, batch_of([(None, b"v")], 5))
    assert answer.log_append_time_ms // 1000 == NOW_MS // 1000 + 3600
    (record,) = cluster.records("t", 0)
    assert record.timestamp == answer.log_append_time_ms


def list_offset(client: ManualClient, timestamp: int, committed: bool = False) -> tuple[int, int]:
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=int(committed), topics=[("t", [(0, -1, timestamp)])]
    )
    part = client.ask(request, 8).topics[0].partitions[0]
    assert part.error_code == 0
    return part.offset, part.timestamp


def test_offsets_by_time(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", configs={"retention.ms": "-1"})
    producer = ClusterProducer(cluster)
    for time_ms in (100, 300, 200, 400):
        producer.write("t", 0, [(None, b"a"), (None, b"b")], timestamp_ms=time_ms)
    client = client_of(cluster)
    assert list_offset(client, -2) == (0, -1)
    assert list_offset(client, -1) == (8, -1)
    assert list_offset(client, -3) == (6, 400)
    assert list_offset(client, 150) == (2, 300)
    assert list_offset(client, 401) == (-1, -1)


def test_retention_deletes_old_segments(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", 1, 2, configs={"retention.ms": "1000000", "segment.bytes": "100"})
    producer = ClusterProducer(cluster)
    producer.write("t", 0, [(None, b"x" * 30)])
    world.run(900.0)
    producer.write("t", 0, [(None, b"y" * 30)])
    world.run(410.0)
    assert cluster.log_range("t", 0) == (1, 2)
    assert client_of(cluster).fetch("t", 0, 0).error_code == 1
    world.run(1_000.0)
    assert cluster.log_range("t", 0) == (2, 2)
    assert world.waiting == 0, "an idle cluster plans nothing"


def test_followers_answer_fetches_up_to_what_they_know(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 2)
    follower = cluster.topics["t"].partitions[0].replicas[1]
    client = ManualClient(world, cluster.nodes[follower])
    waiting = client.send_fetch([("t", 0, 0)], max_wait_ms=20_000)
    assert client_of(cluster).produce("t", 0, batch(b"v")).error_code == 0
    (part,) = client.answer(waiting, within_s=1.0).responses[0].partitions
    assert part.high_watermark == 1
    assert part.records == cluster.batches("t", 0)[0].raw


def test_a_topic_may_want_an_unclean_leader(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", 1, 2, {"unclean.leader.election.enable": "true"})
    one, two = cluster.topics["t"].partitions[0].replicas
    cluster.nodes[two].stop(clean=True)
    world.run(5.0)
    assert client_of(cluster).produce("t", 0, batch(b"v")).error_code == 0
    cluster.nodes[one].stop(clean=True)
    cluster.nodes[two].start()
    world.run(10.0)
    assert cluster.leader("t", 0) is cluster.nodes[two]
    assert cluster.log_range("t", 0) == (0, 0)


def test_a_thawed_leader_that_was_replaced_acknowledges_nothing(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    """It appends before it learns of its successor, and cuts that off."""
    cluster.create_topic("t", 1, 3, {"min.insync.replicas": "2"})
    old = cluster.leader("t", 0)
    assert old is not None
    client = client_of(cluster)
    client.produce("t", 0, batch(b"x"))
    old.freeze()
    sent = client.send_produce("t", 0, batch(b"late"))
    world.run(15.0)
    assert client_of(cluster).produce("t", 0, batch(b"y")).base_offset == 1
    old.thaw()
    assert client.answer(sent).responses[0].partition_responses[0].error_code in (6, 7)
    world.run(30.0)
    assert [cluster.replica("t", 0, node).log.end for node in range(3)] == [2, 2, 2]
    assert values(cluster) == [(0, b"x"), (1, b"y")]


def test_logs_are_compacted_by_chance(world: ManualWorld) -> None:
    cluster = KafkaCluster(
        world, "a", nodes=3, cluster_id="id", settings=BrokerSettings(compaction_s=(1.0, 9.0))
    )
    cluster.create_topic("t", 1, 3, {"cleanup.policy": "compact"})
    producer = ClusterProducer(cluster)
    for number in range(5):
        producer.write("t", 0, [(b"k", b"%d" % number)])
    world.run(20.0)
    assert values(cluster) == [(3, b"3"), (4, b"4")]
    assert world.waiting == 0


def test_cut_loses_records_on_all_replicas(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", 1, 3)
    producer = ClusterProducer(cluster)
    for value in (b"x", b"y", b"z"):
        producer.write("t", 0, [(None, value)])
    world.run(1.0)
    cluster.cut("t", 0, 1)
    world.run(1.0)
    assert values(cluster) == [(0, b"x")]
    diverging = client_of(cluster).fetch("t", 0, 3, last_epoch=0).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 1)
    with pytest.raises(Refused, match="error 45"):
        producer.write("t", 0, [(None, b"next")])
