"""Retries, and what is remembered between them, against scripted brokers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from causeway.cluster import LATEST, Cluster, ClusterClient, NewTopic, OffsetAt, value_of
from causeway.cluster import client as module
from causeway.cluster.pool import cluster_ids_of
from causeway.config import ClientSettings
from causeway.errors import BrokerError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Deadline
from tests.harness.scripted import ScriptedBroker, response_class, scripted_broker

TP = TopicPartition("t", 0)


class Script:
    """A cluster of one scripted broker. `errors` are given out, first to last, before success;
    "hang up" closes the connection instead."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.errors: list[int | str] = []
        self.topic_id = uuid.UUID(int=0)
        self.epoch = 7  # of all leaders
        self.cluster_id: str | None = "x"
        self.broker = broker
        broker.handlers |= {
            MetadataRequest: self.metadata,
            ListOffsetsRequest: self.list_offsets,
            CreateTopicsRequest: self.create_topics,
            ProduceRequest: self.produce,
            FindCoordinatorRequest: self.find_coordinator,
            InitProducerIdRequest: self.init_producer_id,
        }
        self.settings = ClientSettings(
            alias="A", bootstrap=(("127.0.0.1", broker.port),), request_timeout_ms=3_000
        )

    def count(self, kind: Any) -> int:
        return sum(isinstance(request, kind) for request in self.broker.requests)

    def _next(self) -> int | str:
        return self.errors.pop(0) if self.errors else 0

    def metadata(self, request: Any, _version: int) -> Any:
        kind = response_class(MetadataRequest)
        topic = kind.MetadataResponseTopic
        return kind(
            brokers=[
                kind.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)
            ],
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=[
                topic(
                    error_code=0,
                    name=wanted.name,
                    topic_id=self.topic_id,
                    partitions=[
                        topic.MetadataResponsePartition(
                            error_code=0,
                            partition_index=0,
                            leader_id=1,
                            leader_epoch=self.epoch,
                            replica_nodes=[1],
                            isr_nodes=[1],
                            offline_replicas=[],
                        )
                    ],
                )
                for wanted in request.topics or ()
            ],
        )

    def list_offsets(self, request: Any, _version: int) -> Any:
        code = self._next()
        if code == "hang up":
            return None
        kind = response_class(ListOffsetsRequest)
        topic = kind.ListOffsetsTopicResponse
        return kind(
            topics=[
                topic(
                    name=asked.name,
                    partitions=[
                        topic.ListOffsetsPartitionResponse(
                            partition_index=part.partition_index,
                            error_code=code,
                            timestamp=-1,
                            offset=42,
                            leader_epoch=part.current_leader_epoch,
                        )
                        for part in asked.partitions
                    ],
                )
                for asked in request.topics
            ]
        )

    def create_topics(self, request: Any, _version: int) -> Any:
        code = self._next()
        kind = response_class(CreateTopicsRequest)
        if code == "hang up":
            return None
        return kind(
            topics=[kind.CreatableTopicResult(name=t.name, error_code=code) for t in request.topics]
        )

    def produce(self, request: Any, _version: int) -> Any:
        code = self._next()
        if code == "hang up":
            return None
        kind = response_class(ProduceRequest)
        topic = kind.TopicProduceResponse
        answer = topic.PartitionProduceResponse(index=0, error_code=code, base_offset=9)
        return kind(responses=[topic(name="t", partition_responses=[answer])])

    def find_coordinator(self, request: Any, version: int) -> Any:
        kind = response_class(FindCoordinatorRequest)
        where = {"node_id": 1, "host": "127.0.0.1", "port": self.broker.port, "error_code": 0}
        if version < 4:
            return kind(**where)
        return kind(coordinators=[kind.Coordinator(key=request.coordinator_keys[0], **where)])

    def init_producer_id(self, request: Any, _version: int) -> Any:
        code = self._next()
        kind = response_class(InitProducerIdRequest)
        serial = self.count(InitProducerIdRequest)
        return kind(error_code=code, producer_id=serial, producer_epoch=3)


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_broker() as broker:
        yield Script(broker)


@pytest.fixture
def cluster(script: Script) -> Iterator[Cluster]:
    with Cluster(script.settings) as running:
        yield running


def test_a_leader_that_moved_is_looked_up_again(script: Script, cluster: Cluster) -> None:
    script.errors = [6, 74]
    found = cluster.list_offsets([TP], -1)
    assert found == {TP: OffsetAt(offset=42, timestamp=-1, leader_epoch=7)}
    assert script.count(ListOffsetsRequest) == 3
    assert script.count(MetadataRequest) == 4, "one of them asks which cluster it is"
    cluster.list_offsets([TP], -1)
    assert script.count(MetadataRequest) == 4, "remembered while nothing goes wrong"


def test_a_lasting_error_is_reported_for_its_item(script: Script, cluster: Cluster) -> None:
    script.errors = [1]
    error = cluster.list_offsets([TP], -1)[TP]
    assert isinstance(error, BrokerError)
    assert error.name == "OFFSET_OUT_OF_RANGE"
    assert script.count(ListOffsetsRequest) == 1


def test_an_unknown_topic_is_given_little_time(
    script: Script, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ClusterClient.retry_each,
        "__kwdefaults__",
        {**(ClusterClient.retry_each.__kwdefaults__ or {}), "unknown_topic_grace_s": 0.2},
    )
    script.errors = [3] * 100
    error = cluster.list_offsets([TP], -1)[TP]
    assert isinstance(error, BrokerError)
    assert error.code == 3
    assert 1 < script.count(ListOffsetsRequest) < 10


def test_a_partition_without_a_leader_delays_the_others_only_briefly(
    script: Script, cluster: Cluster
) -> None:
    script.errors = [5] * 100
    error = cluster.list_offsets([TP], -1, patience_s=0.2)[TP]
    assert isinstance(error, BrokerError)
    assert error.code == 5
    assert 1 < script.count(ListOffsetsRequest) < 10


def test_a_lost_answer_is_asked_for_again(script: Script, cluster: Cluster) -> None:
    script.errors = ["hang up"]
    assert cluster.list_offsets([TP], -1)[TP] == OffsetAt(offset=42, timestamp=-1, leader_epoch=7)


def test_a_topic_made_by_a_lost_attempt_counts_as_made(script: Script, cluster: Cluster) -> None:
    new = [NewTopic(name="t", partitions=1, replication_factor=1)]
    script.errors = ["hang up", 36]
    assert cluster.create_topics(new) == {"t": None}
    script.errors = [36]
    error = cluster.create_topics(new)["t"]
    assert isinstance(error, BrokerError)
    assert error.name == "TOPIC_ALREADY_EXISTS"


def test_a_batch_is_sent_again_only_if_nothing_was_appended(
    script: Script, cluster: Cluster
) -> None:
    script.errors = [6, 19, 3]
    assert cluster.produce_batch(TP, b"batch") == 9
    assert script.count(ProduceRequest) == 4
    for doubt in (7, 20, "hang up"):
        script.broker.requests.clear()
        script.errors = [doubt]
        with pytest.raises((BrokerError, UnreachableError)):
            cluster.produce_batch(TP, b"batch")
        assert script.count(ProduceRequest) == 1, doubt


def test_sequence_errors_come_through(script: Script, cluster: Cluster) -> None:
    script.errors = [47]
    with pytest.raises(BrokerError, match="write to t-0 on A: INVALID_PRODUCER_EPOCH"):
        cluster.produce_batch(TP, b"batch")


def test_producer_ids_are_asked_for_until_there_are_enough(
    script: Script, cluster: Cluster
) -> None:
    script.errors = [0, 14, 0, 15]
    ids = cluster.init_producer_ids(700)
    assert len(set(ids)) == 700
    assert script.count(InitProducerIdRequest) == 702


def test_a_transactional_id_waits_for_its_coordinator(script: Script, cluster: Cluster) -> None:
    script.errors = [14, 16, 51]
    assert cluster.init_transactional_id("x")[1] == 3
    assert script.count(FindCoordinatorRequest) == 4


def test_a_cluster_that_is_not_there_names_every_server_and_the_time() -> None:
    client = ClientSettings(
        alias="A", bootstrap=(("127.0.0.1", 1), ("127.0.0.1", 2)), request_timeout_ms=500
    )
    with Cluster(client) as cluster, pytest.raises(UnreachableError) as caught:
        cluster.bootstrap_check()
    assert str(caught.value).startswith("reach cluster A: no broker answered in 0.5 s: 127.0.0.1:")
    for port in (1, 2):
        assert f"127.0.0.1:{port}: connection refused" in str(caught.value)


def test_brokers_before_topic_ids_are_refused(script: Script, cluster: Cluster) -> None:
    script.broker.versions[MetadataRequest.API_KEY] = (0, 9)  # Kafka 2.7
    with pytest.raises(BrokerError, match="needs version 10, the first with topic ids") as caught:
        cluster.metadata(["t"])
    assert not caught.value.retriable


def test_big_questions_are_cut_in_pieces(
    script: Script, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOPICS_A_REQUEST", 10)
    found = cluster.metadata([f"t{n}" for n in range(25)])
    assert list(found.topics) == [f"t{n}" for n in range(25)]
    assert script.count(MetadataRequest) == 4, "one of them asks which cluster it is"


# -- brokers that have not heard of the latest election -------------------------------------------


def test_a_leader_that_an_older_election_chose_counts_no_more() -> None:
    """Two brokers: one says the old leader, the other one the new. The second is asked then."""
    with scripted_broker() as old, scripted_broker() as new:
        scripts = Script(old), Script(new)
        for script, epoch in zip(scripts, (6, 7), strict=True):
            script.topic_id, script.epoch = uuid.UUID(int=5), epoch
        bootstrap = tuple(("127.0.0.1", broker.port) for broker in (old, new))
        with Cluster(replace(scripts[0].settings, bootstrap=bootstrap)) as cluster:
            cluster.note_leader_epoch(uuid.UUID(int=5).hex, 0, 7)  # of a record that was read
            assert cluster.retry(Deadline(10.0), lambda: cluster.leader(TP)).epoch == 7
            assert cluster.list_offsets([TP], LATEST)[TP] == OffsetAt(
                offset=42, timestamp=-1, leader_epoch=7
            )
        assert not any(isinstance(one, ListOffsetsRequest) for one in old.requests)


def test_a_leader_that_all_brokers_know_late_is_waited_for(script: Script) -> None:
    script.topic_id = uuid.UUID(int=5)
    with Cluster(script.settings) as cluster:
        cluster.note_leader_epoch(uuid.UUID(int=5).hex, 0, 8)
        found = cluster.metadata(["t"]).topics["t"].partitions[0]
        assert found.leader == -1
        assert "leader epoch 7, but epoch 8" in str(found.error)
        assert found.error is not None
        assert found.error.retriable
        script.epoch = 8
        assert cluster.retry(Deadline(10.0), lambda: cluster.leader(TP)).epoch == 8
        script.epoch = 7  # the broker was asked before, and answers late
        assert cluster.metadata(["t"]).topics["t"].partitions[0].leader == -1


def test_the_epochs_of_another_topic_of_that_name_do_not_count(script: Script) -> None:
    script.topic_id = uuid.UUID(int=5)
    with Cluster(script.settings) as cluster:
        assert cluster.retry(Deadline(10.0), lambda: cluster.leader(TP)).epoch == 7
        script.topic_id, script.epoch = uuid.UUID(int=6), 0
        assert value_of(cluster.leaders([TP], refresh=True)[TP]).epoch == 0


def test_another_broker_is_asked_first_of_a_leader() -> None:
    with scripted_broker() as leader, scripted_broker() as other:
        Script(leader)
        Script(other)
        bootstrap = tuple(("127.0.0.1", broker.port) for broker in (leader, other))
        settings = Script(leader).settings
        with Cluster(replace(settings, bootstrap=bootstrap[:1])) as cluster:
            cluster.metadata(["t"])  # node 1 is there
            cluster.renew(replace(settings, bootstrap=bootstrap))
            before = len(leader.requests)
            cluster.leaders([TP], refresh=True, last=1)
            assert len(leader.requests) == before
            assert len(other.requests) == 2, "one of them asks which cluster it is"


@pytest.mark.parametrize(("code", "end"), [(1, 42), (0, 43)])
def test_a_fetch_tells_a_logs_end_where_no_broker_tells_it_by_epoch(
    script: Script, cluster: Cluster, code: int, end: int
) -> None:
    """A leader has no records behind its log's end, and says so; it says nothing of those that its
    followers lack."""
    asked: list[int] = []

    def fetch(request: Any, _version: int) -> Any:
        asked.append(request.topics[0].partitions[0].fetch_offset)
        kind = response_class(FetchRequest)
        topic = kind.FetchableTopicResponse
        part = topic.PartitionData(partition_index=0, error_code=code, high_watermark=42)
        return kind(error_code=0, responses=[topic(topic="t", partitions=[part])])

    script.broker.handlers[FetchRequest] = fetch
    place = TopicPartition("t", 0)
    assert cluster.log_ends([place]) == {place: end}
    assert asked == [43]


def test_a_broker_without_dry_runs_creates_no_topic(script: Script, cluster: Cluster) -> None:
    script.broker.versions[CreateTopicsRequest.API_KEY] = (0, 3)
    new = NewTopic(name="t", partitions=1, replication_factor=1)
    found = cluster.create_topics([new], validate_only=True)
    assert "CreateTopics in versions 0 to 3, and Causeway needs version 4" in str(found["t"])
    assert not script.count(CreateTopicsRequest)


def test_a_broker_of_another_cluster_is_refused(script: Script) -> None:
    with ClusterClient(script.settings) as client:
        assert client.expect("x") == "x"
        client.bootstrap_check()
        assert client.expect("y") == "x", "who expects something first is believed"
    with ClusterClient(script.settings) as client:
        client.bootstrap_check()
        assert client.cluster_id == "x", "learned of the first broker"
        assert client.expect("y") == "y", "that was no more than a guess"
        with pytest.raises(UnreachableError, match="cluster x, and A is cluster y") as caught:
            client.bootstrap_check(0.2)
        assert "A.causeway.cluster.id = x" in str(caught.value)
        assert caught.value.retriable
        assert cluster_ids_of(client.settings, 5) == {("127.0.0.1", script.broker.port): "x"}
    pinned = replace(script.settings, cluster_id="y")
    with ClusterClient(pinned) as client:
        with pytest.raises(UnreachableError, match=r"check bootstrap\.servers and causeway\.cl"):
            client.bootstrap_check(0.2)
        assert client.expect("x") == "y", "the settings win"


def test_of_two_addresses_that_of_the_right_cluster_is_used(script: Script) -> None:
    with scripted_broker() as strange:
        other = Script(strange)
        other.cluster_id = "other"
        addresses = (*other.settings.bootstrap, *script.settings.bootstrap)
        with ClusterClient(replace(script.settings, bootstrap=addresses)) as client:
            client.expect("x")
            assert client.bootstrap_check().cluster_id == "x"


def test_a_broker_that_tells_no_cluster_id_is_talked_to(script: Script) -> None:
    script.cluster_id = None
    with ClusterClient(replace(script.settings, cluster_id="y")) as client:
        assert client.bootstrap_check().cluster_id is None
        assert cluster_ids_of(client.settings, 5) == {}
