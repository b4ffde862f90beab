"""What a cluster says that we may do there, without trying it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.protocol.admin import DescribeClusterRequest

from causeway.wire.acls import OPERATIONS
from causeway.wire.apis import DESCRIBE_CLUSTER
from causeway.wire.codes import broker_error

if TYPE_CHECKING:
    from causeway.wire.client import Client


def cluster_rights(cluster: Client) -> frozenset[str] | None:
    """Operations that we may do on the cluster itself, such as ALTER; all of them where it has no
    authorizer. None where it does not tell."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, max_version=DESCRIBE_CLUSTER.highest
    )
    answer = cluster.call(request)
    if answer.error_code:
        raise broker_error(
            answer.error_code, "ask for our rights on", str(cluster), answer.error_message
        )
    found: set[int] | None = answer.authorized_operations
    return None if found is None else frozenset(OPERATIONS[n] for n in found if n < len(OPERATIONS))
