"""The versions of APIs: those that a broker names, and each of them in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from causeway.cluster import admin
from causeway.model import TopicPartition
from causeway.wire import apis, codes
from tests.contract.client import Client, batch, refusal
from tests.contract.grouped import Group
from tests.harness.markers import receive_frame

# Of Kafka 4.3. A real broker has these; a simulated one may have fewer, but no others.
KAFKA: Final = {
    "ApiVersions": (0, 4),
    "AddPartitionsToTxn": (0, 5),
    "CreateAcls": (1, 3),
    "CreatePartitions": (0, 3),
    "CreateTopics": (2, 7),
    "DeleteAcls": (1, 3),
    "DeleteRecords": (0, 2),
    "DeleteTopics": (1, 6),
    "DescribeAcls": (1, 3),
    "DescribeCluster": (0, 2),
    "DescribeConfigs": (1, 4),
    "DescribeLogDirs": (1, 5),
    "DescribeProducers": (0, 0),
    "DescribeTransactions": (0, 0),
    "EndTxn": (0, 5),
    "Fetch": (4, 18),
    "FindCoordinator": (0, 6),
    "IncrementalAlterConfigs": (0, 1),
    "InitProducerId": (0, 5),
    "ListGroups": (0, 5),
    "ListOffsets": (1, 11),
    "ListTransactions": (0, 2),
    "Metadata": (0, 13),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
    "OffsetForLeaderEpoch": (2, 4),
    "Produce": (0, 13),
    "SaslAuthenticate": (0, 2),
    "SaslHandshake": (0, 1),
    "WriteTxnMarkers": (1, 2),
}
# The clusters of this suite have no logins.
_LOGINS: Final = ("SaslAuthenticate", "SaslHandshake")


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic()


def test_the_versions_that_a_broker_names(client: Client, is_real: bool) -> None:
    """Each API that Causeway calls is there, in a version that it calls."""
    for versions in admin.versions_of_brokers(client.cluster).values():
        for api in apis.ALL:
            if api.name in _LOGINS and not is_real:
                continue
            lowest, highest = versions[api.key]
            its_lowest, its_highest = KAFKA[api.name]
            assert api.is_in(versions), api
            assert its_lowest <= lowest <= highest <= its_highest, api
            assert not is_real or (lowest, highest) == (its_lowest, its_highest), api


def test_an_unknown_version_of_the_question(client: Client, at: TopicPartition) -> None:
    """The answer comes in version 0, so that the client learns the versions."""
    with client.connect(at) as connection:
        header = bytes.fromhex("00120063") + bytes(3) + b"\x07" + b"\x00\x01c" + b"\x00"
        connection.queue([len(header).to_bytes(4) + header])
        connection.flush()
        frame = receive_frame(connection)
        assert int.from_bytes(frame[:4]) == 7
        answer = ApiVersionsResponse.decode(frame[4:], version=0)
        assert answer.error_code == codes.UNSUPPORTED_VERSION
        assert 18 in {each.api_key for each in answer.api_keys}
        again = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        assert refusal(connection.call(again)) == "NONE"


def each_version(
    client: Client, at: TopicPartition, request: Any, highest: int | None = None
) -> Iterator[dict[str, int]]:
    """The arguments of each version that the broker and kafka-python have."""
    with client.connect(at) as connection:
        lowest, its_highest = connection.versions[request.API_KEY]
    limit = request.max_version if highest is None else highest
    versions = range(lowest, min(its_highest, limit) + 1)
    assert versions
    for version in versions:
        yield {"min_version": version, "max_version": version}


def test_each_version_of_produce(client: Client, at: TopicPartition) -> None:
    """Those that name topics by ids are in test_produce.py."""
    written = 0
    for version in each_version(client, at, ProduceRequest, 12):
        if version["min_version"] < 3:  # before record batches
            continue
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[(at.topic, [(0, batch("a"))])],
            **version,
        )
        part = client.ask(request, client.node_of(at)).responses[0].partition_responses[0]
        assert (refusal(part), part.base_offset) == ("NONE", written)
        written += 1


def test_each_version_of_fetch(client: Client, at: TopicPartition) -> None:
    """Those that name topics by ids are in test_fetch.py."""
    client.write(at, "a", "b")
    sent = set()
    kind = FetchRequest.FetchTopic
    for version in each_version(client, at, FetchRequest, 12):
        part = kind.FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=1,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[kind(topic=at.topic, partitions=[part])],
            forgotten_topics_data=[],
            rack_id="",
            **version,
        )
        answer = client.ask(request, client.node_of(at)).responses[0].partitions[0]
        assert (refusal(answer), answer.high_watermark) == ("NONE", 2)
        sent.add(bytes(answer.records))
    assert len(sent) == 1


def test_each_version_of_metadata(client: Client, at: TopicPartition) -> None:
    for version in each_version(client, at, MetadataRequest):
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=at.topic)],
            allow_auto_topic_creation=False,
            **version,
        )
        (topic,) = client.ask(request).topics
        assert (refusal(topic), topic.name) == ("NONE", at.topic)
        assert [part.partition_index for part in topic.partitions] == [0]


def test_each_version_of_list_offsets(client: Client, at: TopicPartition) -> None:
    client.write(at, "a", "b")
    for version in each_version(client, at, ListOffsetsRequest):
        kind = ListOffsetsRequest.ListOffsetsTopic
        part = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[kind(name=at.topic, partitions=[part])],
            timeout_ms=5_000,
            **version,
        )
        answer = client.ask(request, client.node_of(at)).topics[0].partitions[0]
        assert (refusal(answer), answer.offset) == ("NONE", 2)


def test_each_version_of_offset_for_leader_epoch(client: Client, at: TopicPartition) -> None:
    client.write(at, "a", "b")
    for version in each_version(client, at, OffsetForLeaderEpochRequest):
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[(at.topic, [(0, -1, 0)])], **version
        )
        answer = client.ask(request, client.node_of(at)).topics[0].partitions[0]
        assert (refusal(answer), answer.end_offset) == ("NONE", 2)


def test_each_version_of_init_producer_id(client: Client, at: TopicPartition) -> None:
    client.writer()  # a broker that has just started has no ids for a moment
    for version in each_version(client, at, InitProducerIdRequest):
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=1_000,
            producer_id=-1,
            producer_epoch=-1,
            **version,
        )
        answer = client.ask(request)
        assert (refusal(answer), answer.producer_epoch) == ("NONE", 0)
        assert answer.producer_id >= 0


def test_each_version_of_find_coordinator(client: Client, at: TopicPartition) -> None:
    name = client.prefix + "group"
    Group(client, "group").described()  # the first question creates the topic of groups
    for version in each_version(client, at, FindCoordinatorRequest):
        request = FindCoordinatorRequest(key=name, key_type=0, coordinator_keys=[name], **version)
        answer = client.ask(request)
        found = answer.coordinators[0] if version["min_version"] >= 4 else answer
        assert (refusal(found), found.node_id) == ("NONE", client.node_of(at))
