"""Simulated brokers: connections, long polls, sessions of fetches, transactions, groups, topics."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from causeway.wire import apis, markers
from tests.simulation.cluster import ClusterProducer, KafkaCluster, Refused, batch_of
from tests.simulation.manual_client import ManualClient
from tests.simulation.manual_world import START_S, ManualWorld

NOW_MS = int(START_S * 1000)


@pytest.fixture
def world() -> ManualWorld:
    return ManualWorld(seed=11)


@pytest.fixture
def cluster(world: ManualWorld) -> KafkaCluster:
    return KafkaCluster(world, "a", nodes=3, cluster_id="id-of-a")


@pytest.fixture
def client(world: ManualWorld, cluster: KafkaCluster) -> ManualClient:
    return ManualClient(world, cluster.nodes[0])


def leader_client(cluster: KafkaCluster) -> ManualClient:
    leader = cluster.leader("t", 0)
    assert leader is not None
    assert isinstance(cluster.world, ManualWorld)
    return ManualClient(cluster.world, leader)


def batch(value: bytes = b"v") -> bytes:
    return batch_of([(b"k", value)], NOW_MS)


# -- connections ----------------------------------------------------------------------------------


def test_brokers_have_all_apis_that_causeway_calls(client: ManualClient) -> None:
    answer = client.ask(
        ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4
    )
    versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    of_login = (apis.SASL_HANDSHAKE, apis.SASL_AUTHENTICATE)
    lacking = [api.name for api in apis.ALL if not api.is_in(versions) and api not in of_login]
    assert lacking == []
    for api in (apis.LANE_FETCH, apis.LANE_PRODUCE):
        assert versions[api.key][1] == api.highest


def test_requests_of_a_connection_are_handled_in_order(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 3)
    client = leader_client(cluster)
    sent = [client.send_produce("t", 0, batch(b"%d" % n)) for n in range(5)]
    bases = [client.answer(each).responses[0].partition_responses[0].base_offset for each in sent]
    assert bases == [0, 1, 2, 3, 4]


def test_a_frozen_broker_takes_bytes_and_answers_later(
    world: ManualWorld, cluster: KafkaCluster, client: ManualClient
) -> None:
    cluster.nodes[0].freeze()
    sent = client.send(MetadataRequest(topics=None), 9)
    other = ManualClient(world, cluster.nodes[0])
    world.run(5.0)
    assert not client.answers
    cluster.nodes[0].thaw()
    assert client.answer(sent).cluster_id == "id-of-a"
    assert other.ask(MetadataRequest(topics=None), 9).cluster_id == "id-of-a"


def test_requests_of_a_closed_connection_may_come_late(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    """In order, and as many as chance has it."""
    cluster.create_topic("t")
    node = cluster.leader("t", 0)
    assert node is not None
    node.late_s = 20.0
    ends = {}
    for attempt in range(20):
        client = leader_client(cluster)
        start = cluster.log_range("t", 0)[1]
        for number in range(4):
            client.send_produce("t", 0, batch(b"%d-%d" % (attempt, number)))
        client.session.closed()
        world.run(100.0)
        found = [each.value for each in cluster.records("t", 0) if each.offset >= start]
        assert found == [b"%d-%d" % (attempt, number) for number in range(len(found))]
        ends[len(found)] = True
    assert {0, 4} & set(ends)
    assert len(ends) > 2


def test_a_quota_mutes_the_connection(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    client = leader_client(cluster)
    client.node.quotas.producer_byte_rate = 100.0
    answer = client.answer(client.send_produce("t", 0, batch(b"x" * 1_000)))
    assert 9_000 < answer.throttle_time_ms < 11_000
    begun = world.now()
    client.produce("t", 0, batch())
    assert world.now() - begun > 9.0


def test_a_full_disk_stops_the_broker(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    client = leader_client(cluster)
    client.node.fill_disk()
    assert client.produce("t", 0, batch()).error_code == 56
    world.run(1.0)
    assert not client.node.up


# -- fetches --------------------------------------------------------------------------------------


def test_a_fetch_waits_for_records_or_for_its_time(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 3)
    client = leader_client(cluster)
    sent = client.send_fetch([("t", 0, 0)], max_wait_ms=10_000)
    world.run(3.0)
    assert not client.answers
    cluster.append("t", 0, batch())
    begun = world.now()
    assert client.answer(sent).responses[0].partitions[0].records
    assert world.now() - begun < 0.5
    begun = world.now()
    assert not client.fetch("t", 0, 1, max_wait_ms=2_000).records
    assert 2.0 <= world.now() - begun < 2.1


def test_a_session_names_changes_alone(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", 2)
    leader = cluster.leader("t", 0)
    assert leader is not None
    cluster.elect("t", 0, leader.node_id)
    client = leader_client(cluster)
    cluster.append("t", 0, batch())
    world.run(1.0)
    first = client.answer(client.send_fetch([("t", 0, 0)], session=(0, 0)))
    assert first.session_id > 0
    assert first.responses[0].partitions[0].records
    session = first.session_id
    second = client.answer(client.send_fetch([("t", 0, 1)], session=(session, 1)))
    assert (second.session_id, second.responses) == (session, [])
    cluster.append("t", 0, batch())
    third = client.answer(client.send_fetch([], session=(session, 2)))
    assert third.responses[0].partitions[0].high_watermark == 2
    assert client.answer(client.send_fetch([], session=(session, 2))).error_code == 71
    assert client.answer(client.send_fetch([], session=(session + 1, 3))).error_code == 70


def test_answers_are_cut_at_the_size_that_was_asked_for(cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    for _ in range(3):
        cluster.append("t", 0, batch(b"x" * 100))
    client = leader_client(cluster)
    size = len(cluster.batches("t", 0)[0].raw)
    assert len(client.fetch("t", 0, 0, max_bytes=1).records) == size
    assert len(client.fetch("t", 0, 0, max_bytes=size + 7).records) == size + 7


# -- transactions ---------------------------------------------------------------------------------


def test_readers_of_committed_records_wait_for_the_marker(
    world: ManualWorld, cluster: KafkaCluster
) -> None:
    cluster.create_topic("t", 1, 3)
    producer = ClusterProducer(cluster, "tx")
    producer.write("t", 0, [(None, b"a")])
    ClusterProducer(cluster).write("t", 0, [(None, b"b")])
    world.run(0.1)
    client = leader_client(cluster)
    part = client.fetch("t", 0, 0, committed=True)
    assert (part.high_watermark, part.last_stable_offset, part.records) == (2, 0, b"")
    producer.abort()
    world.run(1.0)
    part = client.fetch("t", 0, 0, committed=True)
    assert part.last_stable_offset == 3
    found = [(each.producer_id, each.first_offset) for each in part.aborted_transactions]
    assert found == [(producer.producer[0], 0)]
    assert [each.value for each in cluster.records("t", 0)] == [b"b"]
    assert [each.value for each in cluster.records("t", 0, committed=False)] == [b"a", b"b"]
    producer.write("t", 0, [(None, b"c")])
    producer.commit()
    world.run(1.0)
    assert [(each.offset, each.value) for each in cluster.records("t", 0)] == [(1, b"b"), (3, b"c")]


def coordinator(world: ManualWorld, cluster: KafkaCluster, key: str, kind: int) -> ManualClient:
    client = ManualClient(world, cluster.nodes[0])
    asked = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    return ManualClient(world, cluster.nodes[client.ask(asked, 4).coordinators[0].node_id])


def test_a_successor_fences_and_rolls_back(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    client = coordinator(world, cluster, "tx", 1)

    def begin() -> tuple[int, int, int]:
        request = InitProducerIdRequest(
            transactional_id="tx", transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        answer = client.ask(request, 4)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def end(epoch: int) -> int:
        request = EndTxnRequest(
            transactional_id="tx", producer_id=producer_id, producer_epoch=epoch, committed=True
        )
        return int(client.ask(request, 3).error_code)

    code, producer_id, epoch = begin()
    assert (code, epoch) == (0, 0)
    assert end(0) == 48
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[("t", [0])],
    )
    answer = client.ask(request, 3)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    raw = batch_of(
        [(None, b"v")], NOW_MS, producer=(producer_id, 0), sequence=0, transactional=True
    )
    assert leader_client(cluster).produce("t", 0, raw, transactional_id="tx").error_code == 0
    assert leader_client(cluster).produce("t", 0, raw).error_code == 0  # a repetition
    assert begin()[0] == 51
    world.run(1.0)
    assert begin() == (0, producer_id, 2)
    assert end(0) == 90
    assert cluster.records("t", 0) == []
    late = batch_of(
        [(None, b"v")], NOW_MS, producer=(producer_id, 0), sequence=1, transactional=True
    )
    refused = leader_client(cluster).produce("t", 0, late, transactional_id="tx")
    assert refused.error_code == 47


def test_a_transaction_times_out(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    producer = ClusterProducer(cluster, "tx")
    producer.write("t", 0, [(None, b"a")])
    world.run(80.0)
    assert cluster.records("t", 0) == []
    assert cluster.log_range("t", 0) == (0, 2)
    with pytest.raises(Refused):
        producer.commit()


def test_markers_have_no_sequence(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    producer = ClusterProducer(cluster)
    producer.write("t", 0, [(None, b"a")])
    leader = cluster.leader("t", 0)
    assert leader is not None
    frames: list[bytes] = []
    session = leader.connect(frames.append, lambda: None, "test")
    assert session is not None
    producer_id = producer.producer[0]

    def mark(epoch: int, *places: bytes) -> dict[markers.Marked, int] | None:
        wanted = [markers.Marker(producer_id, epoch, topic, 0, 2) for topic in places]
        buffers, _ = markers.build(1, 1, b"test", wanted)
        session.receive(b"".join(buffers))
        world.run(1.0)
        return markers.parse(memoryview(frames.pop()[4:]))[1] if frames else None

    assert mark(0, b"t") == {(producer_id, b"t", 0): 0}
    producer.write("t", 0, [(None, b"b")])
    assert [each.offset for each in cluster.records("t", 0)] == [0, 3]
    assert mark(1, b"t") == {(producer_id, b"t", 0): 0}
    assert mark(0, b"t") == {(producer_id, b"t", 0): 47}
    with pytest.raises(Refused, match="error 47"):
        producer.write("t", 0, [(None, b"c")])
    assert mark(1, b"t", b"gone") is None, "Kafka never answers that"


# -- groups and topics ----------------------------------------------------------------------------


def test_offsets_of_groups(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", 2)
    client = coordinator(world, cluster, "g", 0)

    def commit(member: str = "", generation: int = -1) -> list[int]:
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        part = kind.OffsetCommitRequestPartition
        parts = [
            part(partition_index=n, committed_offset=7, committed_leader_epoch=-1) for n in (0, 5)
        ]
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[kind(name="t", partitions=parts)],
        )
        return [each.error_code for each in client.ask(request, 8).topics[0].partitions]

    assert commit() == [0, 3]
    assert cluster.committed("g") == {("t", 0): 7}
    cluster.groups.join("g", "m1", topics=("t",))
    assert commit() == [25, 25]
    assert commit("m1", 1) == [0, 3]
    listed = client.ask(ListGroupsRequest(states_filter=[], types_filter=[]), 5).groups
    assert [(each.group_id, each.group_state) for each in listed] == [("g", "Stable")]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)],
        require_stable=True,
    )
    (found,) = client.ask(request, 8).groups
    (part,) = found.topics[0].partitions
    assert (part.partition_index, part.committed_offset, part.error_code) == (0, 7, 0)
    other = next(node for node in cluster.nodes if node is not client.node)
    (found,) = ManualClient(world, other).ask(request, 8).groups
    assert found.error_code == 16


def test_topics_by_requests(
    world: ManualWorld, cluster: KafkaCluster, client: ManualClient
) -> None:
    def create(**configs: str) -> int:
        request = CreateTopicsRequest(
            topics=[("t", 2, 2, [], list(configs.items()))], timeout_ms=1_000, validate_only=False
        )
        return int(client.ask(request, 7).topics[0].error_code)

    assert create(nonsense="1") == 40
    assert create(**{"retention.ms": "9"}) == 0
    assert create() == 36
    world.run(2.0)
    answer = client.ask(MetadataRequest(topics=None), 12)
    (topic,) = answer.topics
    assert topic.topic_id == cluster.topics["t"].id
    assert [len(part.replica_nodes) for part in topic.partitions] == [2, 2]
    request = DescribeConfigsRequest(
        resources=[(2, "t", None)], include_synonyms=False, include_documentation=False
    )
    configs = {each.name: each for each in client.ask(request, 4).results[0].configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("9", 1)
    assert configs["segment.bytes"].config_source == 5
    old = cluster.topics["t"].id
    request = DeleteTopicsRequest(topics=[("t", None)], topic_names=["t"], timeout_ms=1_000)
    assert client.ask(request, 6).responses[0].error_code == 0
    cluster.create_topic("t")
    assert leader_client(cluster).produce(old, 0, batch()).error_code == 100


def test_records_are_deleted_on_all_replicas(world: ManualWorld, cluster: KafkaCluster) -> None:
    cluster.create_topic("t", 1, 3)
    for _ in range(4):
        cluster.append("t", 0, batch())
    world.run(1.0)
    client = leader_client(cluster)
    request = DeleteRecordsRequest(topics=[("t", [(0, 3)])], timeout_ms=5_000)
    (part,) = client.ask(request, 2).topics[0].partitions
    assert (part.error_code, part.low_watermark) == (0, 3)
    assert [cluster.replica("t", 0, node).log.start for node in range(3)] == [3, 3, 3]
    request = DeleteRecordsRequest(topics=[("t", [(0, 9)])], timeout_ms=5_000)
    assert client.ask(request, 2).topics[0].partitions[0].error_code == 1


def test_a_seed_gives_the_same_run_again() -> None:
    def run() -> list[str]:
        world = ManualWorld(seed=3)
        cluster = KafkaCluster(world, "a", nodes=3, cluster_id="id")
        cluster.create_topic("t", 3, 3)
        producer = ClusterProducer(cluster)
        for number in range(60):
            try:
                producer.write("t", number % 3, [(None, b"v")])
            except (Refused, LookupError) as refused:
                world.trace(str(refused))
            if number == 20:
                cluster.nodes[1].freeze()
            if number == 40:
                cluster.nodes[1].thaw()
                cluster.nodes[2].stop(clean=False)
            world.run(0.7)
        cluster.nodes[2].start()
        world.run(400.0)
        ends = [cluster.replica("t", n, node).log.end for n in range(3) for node in range(3)]
        assert ends[0:3] == ends[0:1] * 3
        return [*world.lines, str(ends), str(world.now()), str(world.random.random())]

    assert run() == run()
