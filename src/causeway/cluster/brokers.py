"""Brokers: API versions, disks, and the rights that the cluster grants to this client.

Brokers give the figures of disks since Kafka 3.3 (KIP-827, DescribeLogDirs version 4).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kafka.protocol.admin import DescribeClusterRequest, DescribeLogDirsRequest

from causeway.cluster.acls import OPERATIONS
from causeway.cluster.client import ClusterClient
from causeway.errors import CausewayError
from causeway.wire import Brokers, Deadline, Versions, apis, raise_error

ASKED_AT_ONCE = 16  # brokers


def cluster_rights(cluster: ClusterClient) -> frozenset[str] | None:
    """Operations that we may do on the cluster itself, such as ALTER; all of them if it has no
    authorizer. None if it does not say."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, max_version=apis.DESCRIBE_CLUSTER.highest
    )
    answer = cluster.call(request)
    raise_error(answer, "ask for our rights on", str(cluster))
    found: set[int] | None = answer.authorized_operations
    return None if found is None else frozenset(OPERATIONS[n] for n in found if n < len(OPERATIONS))


def versions_of_brokers(cluster: ClusterClient, timeout_s: float | None = None) -> Brokers:
    """The versions of each broker that answers within `timeout_s` (the request timeout). Only of
    one broker if its Metadata is too old to name the others. Raises CausewayError if none
    answers."""
    limit_s = timeout_s or cluster.timeout_s
    with cluster.lease(None, Deadline(limit_s)) as connection:
        versions = connection.versions
    if not apis.METADATA.is_in(versions):
        return {None: versions}
    nodes = sorted(cluster.bootstrap_check(limit_s).brokers)

    def ask(node: int) -> Versions | None:
        try:
            with cluster.lease(node, Deadline(limit_s)) as connection:
                return connection.versions
        except CausewayError:
            return None  # another broker leads its partitions; a lane that needs it reports why

    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        found = dict(zip(nodes, pool.map(ask, nodes), strict=True))
    return {node: versions for node, versions in found.items() if versions is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system of one directory of logs, in bytes. All files on it count, not only logs.
    None if the broker does not give the figures."""

    broker: int
    path: str
    total: int | None
    usable: int | None


def disks(cluster: ClusterClient) -> tuple[Disk, ...]:
    """Of all brokers that are up. Raises AuthorizationError without DESCRIBE on the cluster (before
    Kafka 3.2 brokers list none then); CausewayError, also for a disk that has failed."""
    found = []
    for node in sorted(cluster.metadata([]).brokers):
        # Without topics: the sizes of logs are not asked for.
        answer = cluster.call(
            DescribeLogDirsRequest(topics=[], max_version=apis.DESCRIBE_LOG_DIRS.highest), node
        )
        if hasattr(answer, "error_code"):
            raise_error(answer, "ask for the disks of", str(cluster), "DESCRIBE on the cluster")
        for each in answer.results:
            raise_error(each, "ask", f"broker {node} of {cluster} for its disk {each.log_dir}")
            found.append(
                Disk(
                    broker=node,
                    path=each.log_dir,
                    total=_known(getattr(each, "total_bytes", None)),
                    usable=_known(getattr(each, "usable_bytes", None)),
                )
            )
    return tuple(found)


def _known(size: int | None) -> int | None:
    """Before version 4 there is no such field; -1 means that the broker does not know."""
    return None if size is None or size < 0 else size
