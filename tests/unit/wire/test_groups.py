"""Groups in bulk against a scripted broker: old versions, moved coordinators, lost answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from causeway.cluster import Cluster, Committed, client
from causeway.cluster import groups as module
from causeway.cluster.groups import committed_offsets_of
from causeway.config import ClientSettings
from causeway.errors import AuthorizationError, BrokerError, CausewayError, UnreachableError
from causeway.model import TopicPartition
from tests.harness.scripted import ScriptedBroker, response_class, scripted_broker

TP = TopicPartition("t", 0)
AT = Committed(offset=42, leader_epoch=3, metadata="m")
GROUPS = [f"g{number}" for number in range(7)]


class Script:
    """One broker that coordinates every group, under several ids where some are `hanging`: groups
    and the ids of their coordinators, who don't tell what they have committed until `release`, by
    which time nobody asks. `errors`: a group's codes, first to last, before
    success; "hang up" closes the connection instead. `committed`: what commits have arrived."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.errors: dict[str, list[int | str]] = {}
        self.committed: list[str] = []
        self.hanging: dict[str, int] = {}
        self.release = threading.Event()
        broker.handlers |= {
            MetadataRequest: self.metadata,
            FindCoordinatorRequest: self.find_coordinator,
            ListGroupsRequest: self.list_groups,
            OffsetFetchRequest: self.fetch,
            OffsetCommitRequest: self.commit,
        }
        self.settings = ClientSettings(
            alias="A", bootstrap=(("127.0.0.1", broker.port),), request_timeout_ms=2_000
        )

    def count(self, kind: Any) -> int:
        return sum(isinstance(request, kind) for request in self.broker.requests)

    def next(self, group: str) -> int | str:
        codes = self.errors.get(group)
        return codes.pop(0) if codes else 0

    def metadata(self, _request: Any, _version: int) -> Any:
        kind = response_class(MetadataRequest)
        brokers = [
            kind.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=self.broker.port)
            for node in (1, *self.hanging.values())
        ]
        return kind(brokers=brokers, cluster_id="x", controller_id=1, topics=[])

    def find_coordinator(self, request: Any, version: int) -> Any:
        kind = response_class(FindCoordinatorRequest)
        where = {"host": "127.0.0.1", "port": self.broker.port, "error_code": 0}
        if version < 4:
            return kind(node_id=1, **where)
        return kind(
            coordinators=[
                kind.Coordinator(key=key, node_id=self.hanging.get(key, 1), **where)
                for key in request.coordinator_keys
            ]
        )

    def list_groups(self, _request: Any, version: int) -> Any:
        code = self.next("list")
        kind = response_class(ListGroupsRequest)
        if code:
            return kind(error_code=code, groups=[])
        kinds = {"group_type": "Consumer"} if version >= 5 else {}
        return kind(
            error_code=0,
            groups=[
                kind.ListedGroup(
                    group_id="g", protocol_type="consumer", group_state="Stable", **kinds
                )
            ],
        )

    def fetch(self, request: Any, version: int) -> Any:
        if any(asked.group_id in self.hanging for asked in request.groups or ()):
            self.release.wait(60)
            return None
        kind = response_class(OffsetFetchRequest)
        part = {"committed_leader_epoch": 3, "metadata": "m", "error_code": 0}
        if version < 8:
            topic = kind.OffsetFetchResponseTopic
            parts = [
                topic.OffsetFetchResponsePartition(partition_index=0, committed_offset=42, **part),
                topic.OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, **part),
            ]
            return kind(
                error_code=self.next(request.group_id), topics=[topic(name="t", partitions=parts)]
            )
        group = kind.OffsetFetchResponseGroup
        topics = group.OffsetFetchResponseTopics
        parts = [
            topics.OffsetFetchResponsePartitions(partition_index=0, committed_offset=42, **part),
            topics.OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, **part),
        ]
        return kind(
            groups=[
                group(
                    group_id=asked.group_id,
                    error_code=self.next(asked.group_id),
                    topics=[topics(name="t", partitions=parts)],
                )
                for asked in request.groups
            ]
        )

    def commit(self, request: Any, _version: int) -> Any:
        self.committed.append(request.group_id)
        code = self.next(request.group_id)
        if code == "hang up":
            return None
        kind = response_class(OffsetCommitRequest)
        topic = kind.OffsetCommitResponseTopic
        return kind(
            topics=[
                topic(
                    name=asked.name,
                    partitions=[
                        topic.OffsetCommitResponsePartition(
                            partition_index=part.partition_index, error_code=code
                        )
                        for part in asked.partitions
                    ],
                )
                for asked in request.topics
            ]
        )


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_broker() as broker:
        yield Script(broker)


@pytest.fixture
def cluster(script: Script) -> Iterator[Cluster]:
    with Cluster(script.settings) as running:
        yield running


def code(error: object) -> int:
    assert isinstance(error, BrokerError), error
    return error.code


def test_groups_with_state_and_type(script: Script, cluster: Cluster) -> None:
    script.errors["list"] = [14]  # still loading
    (listed,) = cluster.list_groups().values()
    assert (listed.name, listed.state, listed.protocol_type) == ("g", "Stable", "consumer")
    assert listed.type == "consumer"
    assert script.count(ListGroupsRequest) == 2


def test_an_older_broker_knows_only_classic_groups(script: Script, cluster: Cluster) -> None:
    script.broker.versions[ListGroupsRequest.API_KEY] = (0, 4)
    (listed,) = cluster.list_groups().values()
    assert (listed.state, listed.type) == ("Stable", "classic")


def test_a_list_without_one_broker_is_no_list(script: Script, cluster: Cluster) -> None:
    script.errors["list"] = [31]
    with pytest.raises(AuthorizationError, match="list the groups of broker 1 of A"):
        cluster.list_groups()


def test_many_groups_a_request(
    script: Script, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (module, client):
        monkeypatch.setattr(each, "NAMES_A_REQUEST", 3)
    assert cluster.committed_offsets_of(GROUPS) == {group: {TP: AT} for group in GROUPS}
    assert script.count(FindCoordinatorRequest) == 3
    assert script.count(OffsetFetchRequest) == 3


def test_an_older_broker_is_asked_for_one_group_at_a_time(script: Script, cluster: Cluster) -> None:
    script.broker.versions[FindCoordinatorRequest.API_KEY] = (0, 3)
    script.broker.versions[OffsetFetchRequest.API_KEY] = (0, 7)
    assert cluster.committed_offsets_of(GROUPS) == {group: {TP: AT} for group in GROUPS}
    assert script.count(OffsetFetchRequest) == len(GROUPS)
    assert cluster.committed_offsets("g0") == {TP: 42}


def test_each_group_has_its_own_error(script: Script, cluster: Cluster) -> None:
    script.errors = {"g1": [30], "g2": [69], "g3": [16, 14]}
    found = cluster.committed_offsets_of(GROUPS[:4])
    assert found["g0"] == {TP: AT}
    assert isinstance(found["g1"], AuthorizationError)
    assert "DESCRIBE on group g1" in str(found["g1"])
    assert found["g2"] == found["g3"] == {TP: AT}
    assert script.count(OffsetFetchRequest) == 3, "only those with hope are asked again"


def test_a_hanging_transaction_delays_the_others_only_briefly(
    script: Script, cluster: Cluster
) -> None:
    script.errors = {"g1": [88] * 100}
    found = committed_offsets_of(cluster, GROUPS, patience_s=0.2)
    assert code(found.pop("g1")) == 88
    assert found == {group: {TP: AT} for group in GROUPS if group != "g1"}
    assert 1 < script.count(OffsetFetchRequest) < 10


def test_nor_does_a_coordinator_that_moves(
    script: Script, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then what was read of the others would be too old to commit by."""
    script.errors = {"g1": [14] * 100}
    found = committed_offsets_of(cluster, GROUPS, patience_s=0.2)
    assert code(found.pop("g1")) == 14
    assert found == {group: {TP: AT} for group in GROUPS if group != "g1"}

    monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    asked = len(script.errors["g1"])
    results = cluster.commit_offsets({group: {TP: AT} for group in GROUPS})
    assert code(results.pop("g1")) == 14
    assert results == {group: {} for group in GROUPS if group != "g1"}
    assert asked - len(script.errors["g1"]) < 10


def test_nor_do_coordinators_that_hang(script: Script) -> None:
    """All of them together are waited for as one is, and not for half of the request time-out."""
    script.hanging = {group: number for number, group in enumerate(GROUPS[1:], 2)}
    with Cluster(replace(script.settings, request_timeout_ms=60_000)) as cluster:
        begun = time.monotonic()
        try:
            found = committed_offsets_of(cluster, GROUPS, patience_s=1.0)
        finally:
            script.release.set()
        assert time.monotonic() - begun < 20
    assert found.pop("g0") == {TP: AT}
    assert found.keys() == script.hanging.keys()
    for error in found.values():
        assert isinstance(error, UnreachableError), error
        assert error.retriable


def test_commits_have_an_answer_each(script: Script, cluster: Cluster) -> None:
    script.errors = {"g1": [25], "g2": [29], "g3": [16, 14]}
    results = cluster.commit_offsets({group: {TP: AT} for group in GROUPS})
    assert code(results["g1"]) == 25
    assert "it has members" in str(results["g1"])
    refused = results["g2"]
    assert isinstance(refused, dict)
    assert isinstance(refused[TP], AuthorizationError)
    assert "READ on topic t" in str(refused[TP])
    assert [results[group] for group in ("g0", "g3", "g6")] == [{}] * 3
    assert script.committed.count("g0") == 1
    assert script.committed.count("g3") == 3


@pytest.mark.parametrize("doubt", ["hang up", 15])
def test_a_commit_in_doubt_is_not_sent_again(
    script: Script, cluster: Cluster, doubt: int | str
) -> None:
    script.errors = {"g1": [doubt]}
    error = cluster.commit_offsets({"g1": {TP: AT}})["g1"]
    assert isinstance(error, CausewayError)
    assert error.retriable, "in the next round"
    assert isinstance(error, UnreachableError) == (doubt == "hang up")
    assert script.committed == ["g1"]


def test_what_a_commit_says(script: Script, cluster: Cluster) -> None:
    cluster.commit_offsets({"g": {TP: AT, TopicPartition("u", 1): Committed(offset=1)}})
    (request,) = [r for r in script.broker.requests if isinstance(r, OffsetCommitRequest)]
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
    assert [
        (
            topic.name,
            part.partition_index,
            part.committed_offset,
            part.committed_leader_epoch,
            part.committed_metadata,
        )
        for topic in request.topics
        for part in topic.partitions
    ] == [("t", 0, 42, 3, "m"), ("u", 1, 1, -1, "")]


def test_nothing_to_ask(cluster: Cluster) -> None:
    assert cluster.committed_offsets_of([]) == {}
    assert cluster.commit_offsets({}) == {}
