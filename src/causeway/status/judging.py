"""Judges partitions of a link by its progress topic and by the clusters' answers. Pure.

The position and state come from the progress topic on the target (written about once a second
while records flow), the ends and times from the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from causeway.cluster import OffsetAt
from causeway.config import LinkSettings, TransformSettings
from causeway.control import MirroredTopic, ObservedTopics, claim_checks
from causeway.errors import CausewayError, ConfigError
from causeway.filters import is_heartbeats
from causeway.link_topics import (
    Hold,
    LeaseRecord,
    LinkDirectives,
    PartitionProgress,
    ProgressContents,
    Value,
)
from causeway.model import ENDED, State, TopicPartition
from causeway.status import lag
from causeway.status.states import NO_DRIVER, SOURCE_UNAVAILABLE
from causeway.status.values import DriverStatus, PartitionStatus, Preserving, TransformStatus


class ClusterFacts(Value):
    """The facts about one partition besides its progress.

    `end`: the source's end as the link reads it, or why it is unknown. `top`: the high watermark
    there. `held`: why an open transaction holds the end back. `start`: the position, or the offset
    at which a first run would begin. `target_end`: the mirror's end, if the link is its only
    writer. `source_first`: the source's first offset, asked for if that end is 0.
    `first_unmirrored`: the time of the first unmirrored record (ms). `ended`: how the mirror has
    ended, and why. `filled_per_s`: the rate at which its beginning is being filled. `by_file`: why
    the file lets no record be copied."""

    end: OffsetAt | CausewayError | None = None
    top: OffsetAt | CausewayError | None = None
    held: str | None = None
    start: int | None = None
    target_end: int | None = None
    source_first: int | None = None
    first_unmirrored: int | None = None
    ended: Hold | None = None
    filled_per_s: float | None = None
    by_file: str | None = None


def driver_of(leases: Sequence[LeaseRecord], now_ms: int) -> DriverStatus | None:
    """Returns who leads, by the newest lease record.

    A lease is renewed three times as often as necessary. The driver counts as gone after twice the
    lease's length, because our clock and the driver's may differ.
    """
    if not leases:
        return None
    newest = leases[-1]
    fresh = now_ms - newest.written_at <= 2 * newest.lease_s * 1000
    return DriverStatus(
        owner=newest.owner,
        running=fresh and not newest.released,
        last_seen_ms=newest.written_at,
    )


def partition_status(
    tp: TopicPartition,
    topic: MirroredTopic,
    progress: PartitionProgress | None,
    facts: ClusterFacts,
    link: LinkSettings,
    driver: DriverStatus | None,
    now_ms: int,
) -> PartitionStatus:
    """Returns the status of a partition that is, or will be, mirrored. `progress`: None if no
    driver has claimed it."""
    end, top = facts.end, facts.top
    source_end = end.offset if isinstance(end, OffsetAt) else None
    high_watermark = top.offset if isinstance(top, OffsetAt) else None
    start = facts.start
    left = None if source_end is None or start is None else max(0, source_end - start)
    stamp = -1 if facts.first_unmirrored is None else facts.first_unmirrored
    state, reason = _state(topic, progress, high_watermark, driver)
    if progress is None and facts.by_file is not None and state is not NO_DRIVER:
        state, reason = State.PAUSED, f"{facts.by_file}; not begun"
    if reason is None and progress is not None and facts.target_end is not None:
        reason = claim_checks.why_incomplete(progress, facts.target_end, facts.source_first)
    if isinstance(end, CausewayError) and reason is None:
        reason = str(end)
    lost = claim_checks.note(progress) if progress else None
    preserving = None
    if progress is not None:
        preserving = Preserving.of(progress, facts.target_end, facts.filled_per_s)
    filling = None if preserving is None else preserving.note
    reason = "; ".join(filter(None, (reason, facts.held, lost, filling))) or None
    if facts.ended is not None:  # then a driver's state does not matter
        state, reason = facts.ended
    return PartitionStatus(
        topic=tp.topic,
        partition=tp.partition,
        target_topic=topic.target,
        state=state,
        reason=reason,
        source_end=source_end,
        high_watermark=high_watermark,
        mirrored_to=reached(progress) if progress else None,
        lag_records=left,
        lag_ms=lag.lag_ms(left, stamp, now_ms),
        lost=progress.lost if progress else 0,
        unacknowledged=claim_checks.unacknowledged(progress) if progress else 0,
        preserving=preserving,
        noted_ms=progress.written_at if progress else None,
        **_by_topic(link, tp.topic),
    )


def _by_topic(link: LinkSettings, topic: str) -> dict[str, Any]:
    transform = link.transform_of(topic)
    return {
        "transform": None if transform is None else transform.name,
        "heartbeats": is_heartbeats(topic, link.policy),
    }


def _state(
    topic: MirroredTopic,
    progress: PartitionProgress | None,
    top: int | None,
    driver: DriverStatus | None,
) -> tuple[str, str | None]:
    running = driver is not None and driver.running
    if progress is None:
        return (State.WAITING, "not begun") if running else (NO_DRIVER, "not begun")
    if progress.state == State.STOPPED:
        return State.STOPPED, progress.reason
    if another := claim_checks.why_another(progress, topic):
        return State.STOPPED, another.format(progress.position)
    if progress.outlets and topic.target_id is None:
        return State.STOPPED, f"the target topic is gone ({claim_checks.ACT})"
    # The last stable offset may be lower: MirrorMaker 2 copies open transactions, too.
    if top is not None and top < progress.position:
        return State.STOPPED, (
            f"the source was truncated: it ends at {top}, below the position "
            f"{progress.position} ({claim_checks.ACT})"
        )
    if not running:
        # The state is out of date, but the reason of a failure is still useful.
        return NO_DRIVER, progress.reason
    return progress.state, progress.reason


def reached(progress: PartitionProgress) -> int | None:
    """See PartitionProgress.mirrored_to. None for a partition that was stopped before it had
    begun."""
    return progress.mirrored_to if progress.position >= 0 else None


def deleted_partitions(
    link: LinkSettings,
    contents: ProgressContents,
    observed: ObservedTopics,
    now_ms: int,
    retention_s: float | None,
) -> tuple[PartitionStatus, ...]:
    """Returns the mirrored partitions whose topic the source has lost, for a while."""
    return tuple(
        _by_progress(
            link, progress, State.STOPPED, progress.reason or "the source no longer has this topic"
        )
        for _, progress in sorted(contents.partitions.items(), key=lambda item: item[0])
        if progress.topic not in observed.source_topics
        and not claim_checks.is_over(progress, now_ms, retention_s)
    )


def without_source(
    link: LinkSettings, contents: ProgressContents, directives: LinkDirectives, now_ms: int
) -> tuple[PartitionStatus, ...]:
    """Returns the partitions of a link whose source does not answer. Ends and lags are those that
    the last driver saw. If a partition had nothing left to mirror then, its lag is the time since
    then, unless its mirror has ended."""
    answered_ms = lag.answered_at(contents.tasks.values())
    return tuple(
        _by_progress(
            link,
            progress,
            *(directives.hold_of(tp) or (SOURCE_UNAVAILABLE, progress.reason)),
            source_end=progress.source_end if progress.source_end >= 0 else None,
            lag_records=(left := lag.lag_records(progress.source_end, progress.mirrored_to)),
            lag_ms=lag.lag_ms(
                left,
                progress.first_unmirrored,
                now_ms,
                None if progress.state in ENDED else lag.seen_at(progress, answered_ms),
            ),
        )
        for tp, progress in sorted(contents.partitions.items(), key=lambda item: item[0])
    )


def by_progress(link: LinkSettings, progress: PartitionProgress) -> PartitionStatus:
    """Returns the status that the last driver wrote of a partition."""
    return _by_progress(link, progress, progress.state, progress.reason)


def _by_progress(
    link: LinkSettings,
    progress: PartitionProgress,
    state: str,
    reason: str | None,
    *,
    source_end: int | None = None,
    lag_records: int | None = None,
    lag_ms: int | None = None,
) -> PartitionStatus:
    return PartitionStatus(
        topic=progress.topic,
        partition=progress.partition,
        target_topic=progress.outlets[0].topic if progress.outlets else "",
        state=state,
        reason=reason,
        source_end=source_end,
        mirrored_to=reached(progress),
        lag_records=lag_records,
        lag_ms=lag_ms,
        preserving=Preserving.of(progress),
        noted_ms=progress.written_at,
        gone_ms=progress.gone_at if progress.gone_at >= 0 else None,
        **_by_topic(link, progress.topic),
    )


def transform_statuses(
    link: LinkSettings, contents: ProgressContents, mirrored: Mapping[str, int]
) -> tuple[TransformStatus, ...]:
    """`mirrored`: the topics that the link mirrors now, and the number of partitions of each."""
    found: Counter[str] = Counter()
    for topic, partitions in mirrored.items() if link.transforms else ():
        if (chosen := link.transform_of(topic)) is not None:
            found[chosen.name] += partitions
    return tuple(_transform(each, found[each.name], contents) for each in link.transforms)


def _transform(
    transform: TransformSettings, partitions: int, contents: ProgressContents
) -> TransformStatus:
    record = contents.transforms.get(transform.name)
    if record is None:
        return TransformStatus(name=transform.name, kind=transform.kind, partitions=partitions)
    names = _rule_names(transform)
    return TransformStatus(
        name=transform.name,
        kind=transform.kind,
        partitions=partitions,
        counts=record.counts,
        rules=record.counts.by_rule(names),
        unseen=tuple(name for bit, name in enumerate(names) if not record.counts.seen >> bit & 1),
        troubles=() if record.reason is None else (record.reason,),
    )


def _rule_names(transform: TransformSettings) -> tuple[str, ...]:
    from causeway.transform.rules import rule_names

    if transform.rules is None:
        return ()
    try:
        return rule_names(transform.rules)
    except ConfigError:
        return ()  # `plan` and `run` report the error
