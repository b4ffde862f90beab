"""What a lane is told of a partition that it gets, and of what becomes of its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from causeway.config import LinkSettings, TreatmentSettings
from causeway.control import MirroredTopic
from causeway.link_topics import ClusterIds, PartitionProgress
from causeway.relay import Assignment, TreatmentStep

_UNKNOWN = ClusterIds()


def assignment(
    topic: MirroredTopic,
    progress: PartitionProgress,
    link: LinkSettings,
    *,
    source_key: str,
    target_key: str,
    stop_at: int | None,
    finish: bool = False,
    settled: bool = False,
    stage: str | None = None,
    clusters: ClusterIds = _UNKNOWN,
) -> Assignment:
    """`stage`: key of what its records go through."""
    return Assignment(
        link=link.name,
        source=source_key,
        target=target_key,
        topic=progress.topic,
        partition=progress.partition,
        topic_id=progress.topic_id,
        leader_epoch=progress.leader_epoch,
        outlets=progress.outlets,
        keys_from=progress.keys_from,
        settled=settled,
        stop_at=stop_at,
        finish=finish,
        read_committed=link.fetch.read_committed,
        max_message_bytes=topic.max_message_bytes,
        sole_writer=link.sole_writer,
        max_wait_ms=link.fetch.max_wait_ms,
        min_bytes=link.fetch.min_bytes,
        max_bytes=link.fetch.max_bytes,
        max_partition_bytes=link.fetch.max_partition_bytes,
        metadata_max_age_ms=link.fetch.metadata_max_age_ms,
        transform=stage,
        treated=bool(link.treatments_of(progress.topic)),
        source_cluster=clusters.source,
        target_cluster=clusters.target,
    )


def treatments_of(links: Iterable[LinkSettings]) -> Mapping[str, tuple[TreatmentStep, ...]]:
    """By link, those that have one."""
    return {link.name: _steps(link.treatments) for link in links if link.treatments}


def steps_of(link: LinkSettings, topic: str) -> tuple[TreatmentStep, ...]:
    """What becomes of each record of `topic`, with what is needed for it."""
    return _steps(link.treatments_of(topic))


def _steps(treatments: Iterable[TreatmentSettings]) -> tuple[TreatmentStep, ...]:
    return tuple(
        TreatmentStep(kind=each.kind, settings={**each.decides, **each.needs})
        for each in treatments
    )
