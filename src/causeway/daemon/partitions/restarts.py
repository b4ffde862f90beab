"""Restarts of partitions: decides which ones; deletes a topic and fills it again.

    refill    lanes let go ─► the target topic is deleted ─► its progress is forgotten ─► the next
              look creates it, and claims it like a new one

Each step may have been done already, because the successor of a dead driver repeats the request. A
topic with another id is not deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from causeway.cluster import Cluster
from causeway.control import topics
from causeway.daemon.clients import Sides
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions.claiming import Claimer
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import Row
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import Deletion, PartitionProgress, Scope
from causeway.model import State, TopicPartition
from causeway.wire import codes

_log = logging.getLogger("causeway.link")


def troubled(registry: Registry, scopes: Collection[Scope]) -> list[Row]:
    """Returns the stopped and failed partitions in `scopes`, except those whose topic the source
    has lost."""
    return registry.rows(
        lambda row: (
            row.progress.state in (State.STOPPED, State.FAILED)
            and row.progress.gone_at < 0
            and covered(row.progress.source, scopes)
        )
    )


def covered(at: TopicPartition, scopes: Collection[Scope]) -> bool:
    return any(scope.covers(at) for scope in scopes)


def refill(
    wanted: Mapping[str, str],
    sides: Sides,
    registry: Registry,
    leadership: Leadership,
    claimer: Claimer,
    revoke: Callable[[Iterable[TopicPartition]], bool],
) -> bool:
    """Deletes target topics, and forgets their progress. `wanted`: the ids of the target topics by
    source topic. Returns False if this has to be tried again: a lane still holds a partition, or a
    topic is not gone yet. If a topic cannot be deleted, its partitions stop. Raises
    CausewayError."""
    for name, topic_id in wanted.items():
        known = {
            at: progress
            for at, progress in registry.known().items()
            if at.topic == name and _is_for(progress, topic_id)
        }
        if not revoke(known):
            return False
        try:
            if not _delete(sides.target_admin, topic_id):
                return False
        except CausewayError as error:
            if error.retriable:
                raise
            registry.stop({at: str(error) for at in known})
            continue
        with registry.writing:
            aside = registry.set_aside(known)
            maps = [each for each in aside if isinstance(each, Deletion)]
            leadership.write([*maps, *(Deletion(source=at, of="topic") for at in known)])
            registry.forget(known)
        claimer.forget(known)
        _log.warning("refill", extra={"topic": name, "partitions": len(known)})
    return True


def _is_for(progress: PartitionProgress, topic_id: str) -> bool:
    """Returns whether `progress` is about the target topic with that id, or about no target topic
    because the partition stopped before it was claimed."""
    return not progress.outlets or any(each.topic_id == topic_id for each in progress.outlets)


def _delete(target: Cluster, topic_id: str) -> bool:
    """Deletes the topic with that id. Returns whether the topic is gone. Raises CausewayError."""
    found = [each for each in target.metadata(None).topics.values() if each.topic_id == topic_id]
    for topic in found:
        error = target.delete_topics([topic.name])[topic.name]
        gone = isinstance(error, BrokerError) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION
        if error is not None and not gone:
            raise error
    return not found or all(
        topics.is_missing(each) or each.topic_id != topic_id
        for each in target.metadata([topic.name for topic in found]).topics.values()
    )
