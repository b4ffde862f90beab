"""Consumer groups: what they have committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import OffsetFetchRequest

from causeway.model import TopicPartition
from causeway.wire.codes import broker_error
from causeway.wire.deadline import Deadline

if TYPE_CHECKING:
    from causeway.wire.client import Client

GROUP = 0
_GROUP_ID_NOT_FOUND = 69


def committed_offsets(cluster: Client, group: str) -> dict[TopicPartition, int]:
    """Everything that `group` has committed; nothing where there is no such group.

    Waits for offsets that a transaction is about to commit. Raises AuthorizationError without
    DESCRIBE on the group, else CausewayError.
    """
    deadline = Deadline(cluster.timeout_s)
    return cluster.retry(deadline, lambda: _committed(cluster, group, deadline))


def _committed(cluster: Client, group: str, deadline: Deadline) -> dict[TopicPartition, int]:
    request = OffsetFetchRequest(
        group_id=group,
        topics=None,  # all of them
        require_stable=True,
        min_version=2,
        max_version=7,  # later ones ask for several groups
    )
    answer = cluster.once(request, cluster.coordinator(GROUP, group), deadline)
    _check(cluster, group, answer.error_code)
    found = {}
    for topic in answer.topics:
        for part in topic.partitions:
            _check(cluster, group, part.error_code)
            if part.committed_offset >= 0:
                found[TopicPartition(topic.name, part.partition_index)] = part.committed_offset
    return found


def _check(cluster: Client, group: str, code: Any) -> None:
    if code and code != _GROUP_ID_NOT_FOUND:
        raise broker_error(
            code,
            "read the offsets of",
            f"group {group} on {cluster}",
            needs=f"DESCRIBE on group {group}",
        )
