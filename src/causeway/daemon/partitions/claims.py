"""Makes the records of a partition's progress, and the assignments that lanes get.

A partition begins with a claim: a new producer id for each outlet, sequence 0, and the pair
(S, T, 0), in which T is the target's end. The claim must be in the progress topic before any lane
relays a record.

A claim for another transform begins at the source offset right behind the records of the earlier
transform. It needs one such offset for all outlets:

    target of each outlet  ──T────[ours]──end►     no record of ours after its pair: the pair is
                             true. All pairs have the same source offset: all before it is there,
                             nothing after it

Only the earlier version could count its records after a pair, and it is gone. Records that were
relayed unchanged can be counted again.

If a partition keeps its offsets, source and target offset of its pair are both the target's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import MirroredTopic, Way, claim_checks, treatment_steps
from causeway.daemon.clients import Sides
from causeway.daemon.partitions import routing
from causeway.daemon.partitions.decisions import (
    Begin,
    Candidate,
)
from causeway.errors import CausewayError, DivergedError
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import State, TopicPartition, same_topic
from causeway.records import GZIP, LZ4, SNAPPY, ZSTD
from causeway.relay import Assignment, Compression, Preserve, TreatmentStep

_MOST_EARLIER = 32  # producer ids of earlier claims, for each partition


def claim(
    one: Candidate,
    begin: Begin,
    producers: Mapping[int, tuple[int, int]],
    *,
    taken_over: bool = False,
) -> PartitionProgress:
    """Returns the progress of a partition that begins. `producers`: (id, epoch) by target
    partition. `taken_over`: the target's records are a copy of the source by another tool."""
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
        offsets_from=begin.offsets_from,
        outlets=tuple(
            _after(
                routing.new_outlet(
                    topic,
                    target,
                    producers[target],
                    begin.start,
                    offsets.target_ends[target],
                    one.link,
                ).replace(copied_to=offsets.target_ends[target] if taken_over else 0),
                earlier.get(target),
                treated=before is not None and before.transform is not None,
            )
            for target in begin.targets
        ),
    )


def _after(outlet: Outlet, before: Outlet | None, *, treated: bool) -> Outlet:
    """Returns `outlet` with the knowledge of the claim `before` it. `treated`: the records of that
    claim went through a transform or treatment."""
    if before is None or not same_topic(before.topic_id, outlet.topic_id):
        return outlet
    ids = (*before.earlier, *([before.producer_id] if before.producer_id >= 0 else []))
    return outlet.replace(
        copied_to=max(outlet.copied_to, before.copied_to),
        differs_to=outlet.claimed_at if treated else before.differs_to,
        earlier=ids[-_MOST_EARLIER:],
    )


def producers(link: LinkSettings, target: Cluster, count: int) -> Iterator[tuple[int, int]]:
    """Returns new producer ids and epochs; -1 with at-least-once. Raises CausewayError."""
    exactly = count > 0 and link.delivery == "exactly-once"
    return iter(target.init_producer_ids(count) if exactly else [(-1, -1)] * count)


def unclaimed(topic: MirroredTopic, partition: int) -> PartitionProgress:
    """Returns the progress of a partition that was never claimed."""
    return PartitionProgress(
        topic=topic.source,
        partition=partition,
        topic_id=topic.source_id,
        leader_epoch=-1,
        position=-1,
        outlets=(),
        state=State.STOPPED,
    )


def target_deleted(progress: PartitionProgress, topic: MirroredTopic) -> str:
    """Returns the stop reason of a partition whose target topic is gone."""
    if claim_checks.other_name(progress, topic) is not None and (
        why := claim_checks.why_another(progress, topic)
    ):
        return why.format(progress.position)
    return f"{topic.target} was deleted on the target ({claim_checks.ACT})"


def compression(link: LinkSettings) -> Compression | None:
    """Returns how lanes compress the batches of `link`. None if batches keep their codec."""
    writer = link.target
    by_type = {
        "gzip": (GZIP, writer.gzip_level),
        "snappy": (SNAPPY, None),
        "lz4": (LZ4, writer.lz4_level),
        "zstd": (ZSTD, writer.zstd_level),
    }
    found = by_type.get(writer.compression_type)
    if found is None or link.recompress == "never":
        return None
    codec, level = found
    return Compression(codec=codec, level=level, always=link.recompress == "always")


def assignment(
    topic: MirroredTopic,
    progress: PartitionProgress,
    link: LinkSettings,
    stage: str | None = None,
    way: Way = "transactions",
) -> Assignment:
    """Returns the message for a lane. The driver fills in the clusters and how the run ends.
    `stage`: the key of the stage that the records go through. `way`: how gaps are filled if the
    partition keeps its offsets."""
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
        sole_writer=link.sole_writer or progress.preserves,
        max_wait_ms=link.fetch.max_wait_ms,
        min_bytes=link.fetch.min_bytes,
        max_bytes=link.fetch.max_bytes,
        max_partition_bytes=link.fetch.max_partition_bytes,
        metadata_max_age_ms=link.fetch.metadata_max_age_ms,
        transform=stage,
        compression=compression(link),
        treated=bool(link.treatments_of(progress.topic)),
        preserve=Preserve(
            begin=progress.offsets_from,
            gaps=way,
            transactional_id=link.offsets_id,
            filler_from=link.offset_filler_from if topic.compacted else None,
            stops=link.offset_filler == "stop",
        )
        if progress.preserves
        else None,
    )


def treatments_of(links: Iterable[LinkSettings]) -> Mapping[str, tuple[TreatmentStep, ...]]:
    """Returns the treatment steps of each link that has any."""
    return {link.name: treatment_steps(link.treatments) for link in links if link.treatments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The source offset to begin at, and the ends of the earlier outlets' target partitions."""

    start: int
    ends: Mapping[TopicPartition, int]


def places_behind(
    changed: Sequence[tuple[MirroredTopic, PartitionProgress]],
    sides: Sides,
    link: LinkSettings,
    *,
    late_by: float = 0.0,
) -> dict[TopicPartition, Behind | CausewayError | None]:
    """Returns the result by source partition; None if there is not exactly one offset. No lane may
    still send for the earlier claims. `late_by` (monotonic): until this time a broker may read
    requests of such lanes. If a result is an error, call this again."""
    from causeway.relay import as_relayed, gone
    from causeway.relay.recovery import LossError, RecoveryRequest, recover

    requests = [
        RecoveryRequest(
            assignment=assignment(topic, progress, link, progress.transform),
            unsettled=True,
            series=as_relayed if progress.transform is None else gone,
            late_by=late_by,
        )
        for topic, progress in changed
    ]
    known = {progress.source: progress for _, progress in changed}
    places: dict[TopicPartition, Behind | CausewayError | None] = {}
    for at, answer in recover(requests, sides.source, sides.target).items():
        # The new claim passes over a loss, or stops at it.
        if isinstance(answer, DivergedError) and not isinstance(answer, LossError):
            places[at] = None
        elif isinstance(answer, CausewayError) and not isinstance(answer, LossError):
            places[at] = answer
        else:
            starts = {outlet.pair.source for outlet in answer.outlets}
            if isinstance(answer, LossError) and len(starts) == 1:
                starts = {answer.loss.start}  # a pair may begin behind what is lost
            ends = {
                TopicPartition(before.topic, before.partition): after.end
                for before, after in zip(known[at].outlets, answer.outlets, strict=True)
            }
            places[at] = Behind(start=starts.pop(), ends=ends) if len(starts) == 1 else None
    return places


def not_alone(at: TopicPartition, what: str, seconds: float) -> CausewayError:
    return CausewayError(
        what,
        str(at),
        f"a lane of an earlier start may still send as before, for at most {seconds:.0f} s",
        retriable=True,
    )
