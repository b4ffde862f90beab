"""What a cluster says that we may do there, without trying it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from causeway.wire.acls import OPERATIONS
from causeway.wire.codes import broker_error

if TYPE_CHECKING:
    from causeway.wire.client import Client

_NOT_TOLD = -(2**31)


def cluster_rights(cluster: Client) -> frozenset[str] | None:
    """Operations that we may do on the cluster itself, as ALTER; all of them where it has no
    authorizer. None where it does not tell."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, max_version=1)
    answer = cluster.call(request)
    if answer.error_code:
        raise broker_error(
            answer.error_code, "ask for our rights on", str(cluster), answer.error_message
        )
    return _names(answer.cluster_authorized_operations)


def topic_rights(cluster: Client, topics: Collection[str]) -> dict[str, frozenset[str] | None]:
    """The same of topics; those that are not there, or are hidden from us, are left out."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        min_version=10,
        max_version=12,
    )
    answer = cluster.call(request)
    return {
        topic.name: _names(topic.topic_authorized_operations)
        for topic in answer.topics
        if not topic.error_code
    }


def _names(bits: int) -> frozenset[str] | None:
    if bits == _NOT_TOLD:
        return None
    return frozenset(name for place, name in enumerate(OPERATIONS) if bits >> place & 1)
