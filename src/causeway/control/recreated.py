"""Says whether a partition's topics are still those that it was claimed for. Pure."""

from __future__ import annotations

from causeway.control.topics import MirroredTopic
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import same_topic

ACT = "`causeway restart --adopt` goes on, or start with --from TIMESTAMP"
RENAMED = "and the file calls its mirror"


def why_another(progress: PartitionProgress, topic: MirroredTopic) -> str | None:
    """Why `topic` is not the topic that was mirrored until now; None if it is the same one. In the
    text, `{}` is for the offset before which everything is mirrored."""
    if not same_topic(progress.topic_id, topic.source_id):
        return (
            f"{topic.source} was deleted and recreated on the source after offset {{}} was "
            f"mirrored ({ACT})"
        )
    if (before := other_name(progress, topic)) is not None:
        return (
            f"{topic.source} was mirrored to {before} up to offset {{}}, {RENAMED} "
            f"{topic.target} by now ({ACT})"
        )
    if not all(same_topic(o.topic_id, topic.target_id) for o in own_outlets(progress)):
        return f"{topic.target} was deleted and recreated on the target ({ACT})"
    return None


def other_name(progress: PartitionProgress, topic: MirroredTopic) -> str | None:
    """The name of the partition's target topic until now, if the file gives it another one."""
    names = (outlet.topic for outlet in own_outlets(progress))
    return next((name for name in names if name != topic.target), None)


def own_outlets(progress: PartitionProgress) -> list[Outlet]:
    """The partition's outlets without those that a transform has led to."""
    return [outlet for outlet in progress.outlets if outlet.routed is None]


def is_over(progress: PartitionProgress, now_ms: int, retention_s: float | None) -> bool:
    """Whether a partition of a deleted topic leaves the status."""
    if progress.gone_at < 0 or retention_s is None:
        return False
    return now_ms - progress.gone_at >= retention_s * 1000
