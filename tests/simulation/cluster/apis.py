"""The APIs of simulated brokers: versions that Kafka 4.x and kafka-python share, and no others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol import admin, consumer, metadata, producer

from tests.simulation.cluster import (
    admin_requests,
    describing,
    fetching,
    group_requests,
    offset_requests,
    producing,
    topic_requests,
    transaction_requests,
)
from tests.simulation.cluster.errors import UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

Respond = Callable[[Any], None]


class ServedApi(NamedTuple):
    """`handle` takes the broker, the request, and what takes the answer, now or later."""

    request: Any
    lowest: int
    highest: int
    handle: Callable[[BrokerNode, Any, Respond], None]


def _api_versions(node: BrokerNode, _: Any, respond: Respond) -> None:
    respond(_versions(0, node.cluster.lacks))


def refuse_version() -> Any:
    """The answer in version 0 to an ApiVersions request of an unknown version."""
    return _versions(UNSUPPORTED_VERSION)


def _versions(error: int, lacks: Collection[int] = ()) -> Any:
    kind = metadata.ApiVersionsResponse
    return kind(
        error_code=error,
        api_keys=[
            kind.ApiVersion(api_key=key, min_version=api.lowest, max_version=api.highest)
            for key, api in sorted(_apis().items())
            if key not in lacks
        ],
        throttle_time_ms=0,
    )


@cache
def _apis() -> dict[int, ServedApi]:
    served = (
        ServedApi(metadata.ApiVersionsRequest, 0, 4, _api_versions),
        ServedApi(metadata.MetadataRequest, 0, 13, describing.metadata),
        ServedApi(metadata.FindCoordinatorRequest, 0, 6, describing.find_coordinator),
        ServedApi(admin.DescribeClusterRequest, 0, 1, describing.describe_cluster),
        ServedApi(admin.DescribeConfigsRequest, 1, 4, describing.describe_configs),
        ServedApi(admin.DescribeLogDirsRequest, 1, 4, describing.describe_log_dirs),
        ServedApi(producer.ProduceRequest, 3, 13, producing.produce),
        ServedApi(producer.WriteTxnMarkersRequest, 1, 1, producing.write_markers),
        ServedApi(consumer.FetchRequest, 4, 13, fetching.fetch),
        ServedApi(consumer.ListOffsetsRequest, 1, 8, offset_requests.list_offsets),
        ServedApi(consumer.OffsetForLeaderEpochRequest, 2, 4, offset_requests.epoch_ends),
        ServedApi(admin.DescribeProducersRequest, 0, 0, offset_requests.describe_producers),
        ServedApi(admin.DeleteRecordsRequest, 0, 2, offset_requests.delete_records),
        ServedApi(producer.InitProducerIdRequest, 0, 5, transaction_requests.init_producer_id),
        ServedApi(producer.AddPartitionsToTxnRequest, 0, 3, transaction_requests.add_partitions),
        ServedApi(producer.AddOffsetsToTxnRequest, 0, 3, transaction_requests.add_offsets),
        ServedApi(producer.TxnOffsetCommitRequest, 0, 3, group_requests.commit_in_transaction),
        ServedApi(producer.EndTxnRequest, 0, 3, transaction_requests.end),
        ServedApi(admin.DescribeTransactionsRequest, 0, 0, transaction_requests.describe),
        ServedApi(admin.ListTransactionsRequest, 0, 1, transaction_requests.list_all),
        ServedApi(admin.ListGroupsRequest, 0, 5, group_requests.list_groups),
        ServedApi(admin.DescribeGroupsRequest, 0, 5, group_requests.describe_groups),
        ServedApi(admin.DeleteGroupsRequest, 0, 2, group_requests.delete_groups),
        ServedApi(consumer.OffsetFetchRequest, 1, 8, group_requests.fetch_offsets),
        ServedApi(consumer.OffsetCommitRequest, 2, 9, group_requests.commit_offsets),
        ServedApi(consumer.OffsetDeleteRequest, 0, 0, group_requests.delete_offsets),
        ServedApi(admin.CreateTopicsRequest, 2, 7, topic_requests.create_topics),
        ServedApi(admin.DeleteTopicsRequest, 1, 6, topic_requests.delete_topics),
        ServedApi(admin.CreatePartitionsRequest, 0, 3, topic_requests.create_partitions),
        ServedApi(admin.IncrementalAlterConfigsRequest, 0, 1, topic_requests.alter_configs),
        ServedApi(admin.DescribeAclsRequest, 1, 3, admin_requests.describe_acls),
        ServedApi(admin.CreateAclsRequest, 1, 3, admin_requests.create_acls),
        ServedApi(admin.DeleteAclsRequest, 1, 3, admin_requests.delete_acls),
    )
    return {api.request.API_KEY: api for api in served}


def find(node: BrokerNode, key: int, version: int) -> ServedApi | None:
    """None if the broker does not have it."""
    api = None if key in node.cluster.lacks else _apis().get(key)
    return api if api is not None and api.lowest <= version <= api.highest else None
