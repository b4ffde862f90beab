"""The size of the disks on which brokers keep their logs, and the room that is left there.

Brokers give these figures since Kafka 3.3 (KIP-827, DescribeLogDirs version 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka.protocol.admin import DescribeLogDirsRequest

from causeway.wire.apis import DESCRIBE_LOG_DIRS
from causeway.wire.codes import broker_error

if TYPE_CHECKING:
    from causeway.cluster.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system of one directory of logs, in bytes. All files on it count, not only logs.
    None if the broker does not give the figures."""

    broker: int
    path: str
    total: int | None
    usable: int | None


def disks(cluster: Client) -> tuple[Disk, ...]:
    """Of all brokers that are up. Raises AuthorizationError without DESCRIBE on the cluster (before
    Kafka 3.2 brokers tell of none then); CausewayError, also for a disk that has failed."""
    found = []
    for node in sorted(cluster.metadata([]).brokers):
        # Without topics: the sizes of logs are not asked for.
        answer = cluster.call(
            DescribeLogDirsRequest(topics=[], max_version=DESCRIBE_LOG_DIRS.highest), node
        )
        if code := getattr(answer, "error_code", 0) or 0:
            raise broker_error(
                code, "ask for the disks of", str(cluster), needs="DESCRIBE on the cluster"
            )
        for each in answer.results:
            if each.error_code:
                where = f"broker {node} of {cluster} for its disk {each.log_dir}"
                raise broker_error(each.error_code, "ask", where)
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
    """Before version 4 there is no such field; -1 means that the broker could not find it out."""
    return None if size is None or size < 0 else size
