"""Asks a cluster for the rights that it grants to this client."""

from __future__ import annotations

from collections.abc import Collection

from kafka.protocol.admin import DescribeClusterRequest

from causeway.cluster.acls import OPERATIONS
from causeway.cluster.client import ClusterClient
from causeway.cluster.metadata import metadata_request
from causeway.cluster.producers import has_transactional_id
from causeway.errors import AuthorizationError, BrokerError
from causeway.wire import apis, raise_error


def cluster_rights(cluster: ClusterClient) -> frozenset[str] | None:
    """Returns the operations that we may do on the cluster itself, for example ALTER; all
    operations if the cluster has no authorizer. None if it does not say. Raises CausewayError."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, max_version=apis.DESCRIBE_CLUSTER.highest
    )
    answer = cluster.call(request)
    raise_error(answer, "ask for our rights on", str(cluster))
    return _named(answer.authorized_operations)


def topic_rights(
    cluster: ClusterClient, topics: Collection[str]
) -> dict[str, frozenset[str] | None]:
    """Returns the same for each of `topics` that exists. Raises CausewayError."""
    if not topics:
        return {}
    request = metadata_request(sorted(topics), with_rights=True)
    answer = cluster.call(request)
    return {
        topic.name: _named(topic.authorized_operations)
        for topic in answer.topics
        if not topic.error_code
    }


def denies_transactional_id(cluster: ClusterClient, transactional_id: str) -> bool:
    """Returns whether the cluster denies us all rights on a transactional id. False if it does not
    say. Raises CausewayError if the coordinator of the id does not answer."""
    try:
        has_transactional_id(cluster, transactional_id)
    except AuthorizationError:
        return True
    except BrokerError as error:
        if error.retriable:
            raise
    return False


def _named(found: set[int] | None) -> frozenset[str] | None:
    return None if found is None else frozenset(OPERATIONS[n] for n in found if n < len(OPERATIONS))
