"""The rights that a cluster grants to this client, and the API versions of its brokers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kafka.protocol.admin import DescribeClusterRequest

from causeway.cluster.acls import OPERATIONS
from causeway.errors import CausewayError
from causeway.wire.apis import DESCRIBE_CLUSTER, METADATA, Brokers, Versions
from causeway.wire.codes import broker_error
from causeway.wire.deadline import Deadline

if TYPE_CHECKING:
    from causeway.cluster.client import Client

ASKED_AT_ONCE = 16  # brokers


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


def versions_of_brokers(cluster: Client, timeout_s: float | None = None) -> Brokers:
    """The versions of each broker that answers within `timeout_s` (the request timeout). Only of
    one broker if its Metadata is too old to name the others. Raises CausewayError if none
    answers."""
    limit_s = timeout_s or cluster.timeout_s
    with cluster.lease(None, Deadline(limit_s)) as connection:
        versions = connection.versions
    if not METADATA.is_in(versions):
        return {None: versions}
    nodes = sorted(cluster.bootstrap_check(limit_s).brokers)

    def ask(node: int) -> Versions | None:
        try:
            with cluster.lease(node, Deadline(limit_s)) as connection:
                return connection.versions
        except CausewayError:
            return None  # another broker leads its partitions; a lane that needs it says why

    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        found = dict(zip(nodes, pool.map(ask, nodes), strict=True))
    return {node: versions for node, versions in found.items() if versions is not None}
