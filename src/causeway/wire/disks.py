"""Where brokers keep their logs, and how much room is left there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka.protocol.admin import DescribeLogDirsRequest

from causeway.wire.apis import DESCRIBE_LOG_DIRS
from causeway.wire.codes import broker_error

if TYPE_CHECKING:
    from causeway.wire.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """Bytes. `usable` is -1 where the broker does not tell (before Kafka 3.3)."""

    broker: int
    path: str
    used: int  # by logs
    usable: int


def log_dirs(cluster: Client) -> tuple[LogDir, ...]:
    """Of all brokers that are up. Raises AuthorizationError without DESCRIBE on the cluster (before
    Kafka 3.2 brokers tell of none then); CausewayError, also for a disk that has failed."""
    found = []
    for node in sorted(cluster.metadata([]).brokers):
        answer = cluster.call(
            DescribeLogDirsRequest(topics=None, max_version=DESCRIBE_LOG_DIRS.highest), node
        )
        if code := getattr(answer, "error_code", 0) or 0:
            raise broker_error(
                code, "ask for the disks of", str(cluster), needs="DESCRIBE on the cluster"
            )
        for each in answer.results:
            if each.error_code:
                where = f"broker {node} of {cluster} for its disk {each.log_dir}"
                raise broker_error(each.error_code, "ask", where)
            sizes = (part.partition_size for topic in each.topics for part in topic.partitions)
            usable = getattr(each, "usable_bytes", None)
            found.append(
                LogDir(
                    broker=node,
                    path=each.log_dir,
                    used=sum(sizes),
                    usable=-1 if usable is None else usable,
                )
            )
    return tuple(found)
