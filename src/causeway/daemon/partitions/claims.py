"""Makes the records of a partition's progress, and the assignments that lanes get.

To begin is to claim: a fresh producer id for each outlet, sequence 0, and the pair (S, T, 0) with
T the target's end. The claim must be in the progress topic before any lane relays a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from causeway.config import LinkSettings, TreatmentSettings
from causeway.control import MirroredTopic, claim_checks
from causeway.daemon.partitions.decisions import Begin, Candidate
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import NO_TOPIC_ID, Loss, Pair, State, same_topic
from causeway.relay import Assignment, TreatmentStep

_MOST_EARLIER = 32  # producer ids of earlier claims, of one partition


def claim(
    one: Candidate,
    begin: Begin,
    producers: Mapping[int, tuple[int, int]],
    *,
    taken_over: bool = False,
) -> PartitionProgress:
    """The progress of a partition that begins. `producers`: (id, epoch) by target partition;
    `taken_over`: the target's records are a copy of the source by another tool."""
    topic, before, offsets = one.topic, one.progress, one.offsets
    earlier = {} if before is None else {o.partition: o for o in claim_checks.own_outlets(before)}
    lost, goes_on = 0 if before is None else before.lost, begin.first_copy_end
    return PartitionProgress(
        topic=topic.source,
        partition=one.partition,
        topic_id=topic.source_id,
        leader_epoch=-1,
        position=begin.start,
        transform=one.transform,
        state=State.WAITING,
        begun=begin.by,
        first_copy_end=max(offsets.end, begin.start) if goes_on is None else goes_on,
        lost=lost,
        acknowledged=lost if before is None or goes_on is None else before.acknowledged,
        outlets=tuple(
            _after(
                Outlet(
                    topic=topic.target,
                    partition=target,
                    topic_id=topic.target_id or NO_TOPIC_ID,
                    producer_id=producers[target][0],
                    producer_epoch=producers[target][1],
                    pair=Pair(source=begin.start, target=offsets.target_ends[target], sequence=0),
                    exclusive=one.link.sole_writer,
                    claimed_at=offsets.target_ends[target],
                    copied_to=offsets.target_ends[target] if taken_over else 0,
                ),
                earlier.get(target),
            )
            for target in begin.targets
        ),
    )


def _after(outlet: Outlet, before: Outlet | None) -> Outlet:
    """`outlet` with what the claim `before` it knew."""
    if before is None or not same_topic(before.topic_id, outlet.topic_id):
        return outlet
    ids = (*before.earlier, *([before.producer_id] if before.producer_id >= 0 else []))
    return outlet.replace(
        copied_to=max(outlet.copied_to, before.copied_to), earlier=ids[-_MOST_EARLIER:]
    )


def stopped(
    topic: MirroredTopic,
    partition: int,
    progress: PartitionProgress | None,
    reason: str,
    loss: Loss | None = None,
) -> PartitionProgress:
    """The progress of a partition that stops. It keeps all that is known of the partition."""
    before = progress or PartitionProgress(
        topic=topic.source,
        partition=partition,
        topic_id=topic.source_id,
        leader_epoch=-1,
        position=-1,
        outlets=(),
        state=State.STOPPED,
    )
    return before.replace(
        state=State.STOPPED, reason=reason, loss=loss, dated=None, gone_at=-1, written_at=-1
    )


def deleted(topic: str) -> str:
    """The stop reason of a partition whose source topic is gone; `{}` as in `why_another`."""
    return f"{topic} was deleted on the source; all before offset {{}} is mirrored"


def target_deleted(progress: PartitionProgress, topic: MirroredTopic) -> str:
    """The stop reason of a partition whose target topic is gone."""
    if claim_checks.other_name(progress, topic) is not None and (
        why := claim_checks.why_another(progress, topic)
    ):
        return why.format(progress.position)
    return f"{topic.target} was deleted on the target ({claim_checks.ACT})"


def assignment(
    topic: MirroredTopic, progress: PartitionProgress, link: LinkSettings, stage: str | None = None
) -> Assignment:
    """The message for a lane; the driver fills in the clusters and how the run ends. `stage`: the
    key of the stage that the records go through."""
    return Assignment(
        link=link.name,
        source="",
        target="",
        topic=progress.topic,
        partition=progress.partition,
        topic_id=progress.topic_id,
        leader_epoch=progress.leader_epoch,
        outlets=progress.outlets,
        keys_from=progress.keys_from,
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
    )


def treatments_of(links: Iterable[LinkSettings]) -> Mapping[str, tuple[TreatmentStep, ...]]:
    """The treatment steps of each link that has some."""
    return {link.name: _steps(link.treatments) for link in links if link.treatments}


def steps_of(link: LinkSettings, topic: str) -> tuple[TreatmentStep, ...]:
    """The treatment steps of the records of `topic`, with the settings that they need."""
    return _steps(link.treatments_of(topic))


def _steps(treatments: Iterable[TreatmentSettings]) -> tuple[TreatmentStep, ...]:
    return tuple(
        TreatmentStep(kind=each.kind, settings={**each.decides, **each.needs})
        for each in treatments
    )
