"""Where every partition stands, from the clusters alone: no driver needs to run, none is asked.

The position and state come from the progress topic on the target (written about once a second
while records flow), the ends and times from the source.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from causeway.cluster import EARLIEST, LATEST, Cluster, Connect, OffsetAt, clusters, parallel
from causeway.config import LinkSettings, Settings
from causeway.control import (
    Held,
    MirroredTopic,
    ObservedTopics,
    TopicProblem,
    collisions,
    losses,
    open_transactions,
    recreated,
    topic_changes,
    topics,
)
from causeway.errors import CausewayError, UnreachableError
from causeway.link_topics import (
    THE_LINK,
    ActiveDirectives,
    Hold,
    LeaseRecord,
    LinkDirectives,
    PartitionProgress,
    ProgressContents,
    ProgressTopic,
    TaskRecord,
    active_directives,
    recognise,
)
from causeway.model import State, TopicPartition, age_ms
from causeway.operate.plan import transforms
from causeway.operate.plan.transforms import TransformState
from causeway.status import lag
from causeway.status.states import NO_DRIVER, SOURCE_UNAVAILABLE, of_partitions

UNKNOWN: Final = "unknown"  # of a link: it could not be asked
_NONE: Final = ActiveDirectives()


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The link's lease as its record says. `last_seen_ms` by the driver's own clock."""

    owner: str
    running: bool
    last_seen_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Offsets are the source's; None where unknown. `mirrored_to`: the first not yet mirrored."""

    topic: str
    partition: int
    target: str
    source_end: int | None  # as the link reads it: the last stable offset, or the high watermark
    mirrored_to: int | None
    lag_records: int | None  # offsets not yet mirrored; gaps and markers count
    lag_ms: int | None  # age of the first record not yet mirrored, see control.lag
    state: str  # a model.State, or NO_DRIVER
    reason: str | None
    high_watermark: int | None = None  # beyond `source_end` while a transaction is open
    lost_records: int = 0  # offsets that were passed over, and that no person has acknowledged
    gone: bool = False  # a driver has found that the source no longer has its topic
    noted_ms: int | None = None  # when a driver last wrote of it; of what is gone, since when it is

    @property
    def held(self) -> int | None:
        """Source offsets behind an open transaction, which the lag does not count."""
        if self.source_end is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.source_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    link: LinkSettings
    driver: Driver | None  # None: the link never ran
    partitions: tuple[PartitionStatus, ...]
    problems: tuple[TopicProblem, ...]
    tasks: tuple[TaskRecord, ...] = ()  # of the control plane, by name
    notes: tuple[tuple[str, str], ...] = ()  # of target topics, what stays as others want it
    transforms: tuple[TransformState, ...] = ()  # in the file's order
    asked: ActiveDirectives = _NONE
    unavailable: str | None = None  # why its source does not answer
    error: CausewayError | None = None  # why nothing else is known of it

    @property
    def state(self) -> str:
        """In the words of status/states.py, or NO_DRIVER, or UNKNOWN."""
        if self.error is not None:
            return UNKNOWN
        standing = LinkDirectives({each.key: each for each in self.asked.directives})
        if (end := standing.end_of(THE_LINK)) is not None:
            return end.how
        if self.unavailable is not None:
            return SOURCE_UNAVAILABLE
        if self.driver is None or not self.driver.running:
            return NO_DRIVER
        return of_partitions(one.state for one in self.partitions if not one.gone)


def status(settings: Settings, only: Collection[str] | None = None) -> tuple[LinkStatus, ...]:
    """Ask the clusters of every link, side by side; `only`: of these topics of the sources. Of a
    link whose target does not answer, where its progress is, nothing is known but the `error`;
    raises it where that is so of all."""
    retention_s = settings.run.deleted_topics_retention_s
    with clusters() as connect:
        found = parallel.each(
            settings.links, lambda link: status_of(link, connect, retention_s, only)
        )
    return tuple(
        LinkStatus(link=link, driver=None, partitions=(), problems=(), error=one)
        if isinstance(one, CausewayError)
        else one
        for link, one in zip(settings.links, found, strict=True)
    )


def status_of(
    link: LinkSettings,
    connect: Connect,
    retention_s: float | None,
    only: Collection[str] | None = None,
) -> LinkStatus:
    """Of one link; `only`: of these topics of its source. Raises CausewayError where it cannot be
    asked."""
    with ThreadPoolExecutor(1) as beside:
        reaching = beside.submit(parallel.reach, connect, link.target_admin)
        try:
            source = parallel.reach(connect, link.source_admin)
        except UnreachableError as error:
            from causeway.status.without_source import without_source

            target = reaching.result()
            return without_source(link, target, contents_of(link, target, only), str(error))
        target = reaching.result()
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(contents_of, link, target)
        observed = topics.observe(source, target, link, only)
    # Progress before ends: read the other way round, a busy partition could seem ahead of its end.
    answered = source.cluster_id
    contents = recognise(link, connect, reading.result())
    if source.cluster_id != answered:  # another cluster has answered
        try:
            parallel.reach(connect, link.source_admin)
        except UnreachableError as error:
            from causeway.status.without_source import without_source

            return without_source(link, target, contents, str(error))
        observed = topics.observe(source, target, link, only)
    planned = topics.plan(observed, link, collisions.begun_by(contents.partitions.values()))
    planned = topic_changes.fitted(planned, target, link.target.alias)
    if only is not None:
        contents.partitions = {tp: p for tp, p in contents.partitions.items() if tp.topic in only}
    # By now: a broker that hangs may keep us waiting longer below than a lease lasts.
    driver = driver_of(contents.leases, int(time.time() * 1000))
    mirrored = {
        TopicPartition(topic.source, number): topic
        for topic in planned.mirrored
        for number in range(topic.partitions)
    }
    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(_target_ends, target, contents)
        ends, tops = open_transactions.both_ends(
            source, mirrored, read_committed=link.fetch.read_committed
        )
    target_ends = asking.result()
    new = [tp for tp in mirrored if tp not in contents.partitions]
    starts = source.list_offsets(new, EARLIEST) if new and link.fetch.start == "earliest" else {}
    empty = [tp for tp, end in target_ends.items() if end == 0 and tp in mirrored]
    firsts = source.list_offsets(empty, EARLIEST) if empty else {}
    behind = {
        tp: position
        for tp in mirrored
        if (position := _position(tp, contents, starts)) is not None
        and isinstance(end := ends.get(tp), OffsetAt)
        and position < end.offset
    }
    # A driver may have told: a record keeps its time.
    oldest = {
        tp: known.first_unmirrored
        for tp in behind
        if (known := contents.partitions.get(tp)) is not None and known.first_unmirrored >= 0
    }
    undated = {tp: position for tp, position in behind.items() if tp not in oldest}
    oldest |= lag.timestamps_at(source, undated)
    now_ms = int(time.time() * 1000)
    why = open_transactions.explain(source, _held(source, ends, tops, now_ms))
    told = active_directives(target, link, contents)
    standing = LinkDirectives({each.key: each for each in told.directives})
    return LinkStatus(
        link=link,
        driver=driver,
        partitions=tuple(
            partition_status(
                tp,
                topic,
                contents.partitions.get(tp),
                end=ends.get(tp),
                top=tops.get(tp),
                held=why.get(tp),
                target_end=target_ends.get(tp),
                start=_position(tp, contents, starts),
                source_first=first.offset
                if isinstance(first := firsts.get(tp), OffsetAt)
                else None,
                first_unmirrored_ms=oldest.get(tp),
                driver=driver,
                now_ms=now_ms,
                ended=standing.hold_of(tp) if standing.has_ended(tp) else None,
                by_file=topic_changes.why_paused(link) if link.records_paused else None,
            )
            for tp, topic in sorted(mirrored.items(), key=lambda item: item[0])
        )
        + _gone(contents, observed, now_ms, retention_s),
        problems=planned.problems,
        tasks=tuple(contents.tasks[name] for name in sorted(contents.tasks)),
        notes=tuple((topic.target, note) for topic in planned.mirrored for note in topic.notes),
        transforms=transforms.states(
            link, contents, {topic.source: topic.partitions for topic in planned.mirrored}
        ),
        asked=told,
    )


def contents_of(
    link: LinkSettings, target: Cluster, only: Collection[str] | None = None
) -> ProgressContents:
    """What its progress topic holds besides offset maps; `only`: of these topics of the source."""
    progress = ProgressTopic(target, link.progress_topic)
    contents = progress.read(maps=False) if progress.exists() else ProgressContents()
    if only is not None:
        contents.partitions = {tp: p for tp, p in contents.partitions.items() if tp.topic in only}
    return contents


def _held(
    source: Cluster,
    ends: Mapping[TopicPartition, OffsetAt | CausewayError],
    tops: Mapping[TopicPartition, OffsetAt | CausewayError],
    now_ms: int,
) -> dict[TopicPartition, Held]:
    """The partitions held back by an open transaction whose first record, the one at the last
    stable offset, is dated HELD_MS ago."""
    places = {
        tp: (end.offset, top.offset)
        for tp, end in ends.items()
        if isinstance(end, OffsetAt)
        and isinstance(top := tops[tp], OffsetAt)
        and top.offset > end.offset
    }
    begun = lag.timestamps_at(source, {tp: stable for tp, (stable, _) in places.items()})
    return {
        tp: Held(*places[tp], age, dated=True)
        for tp, stamp in begun.items()
        if (age := age_ms(stamp, now_ms)) is not None and age >= open_transactions.HELD_MS
    }


def _target_ends(target: Cluster, contents: ProgressContents) -> dict[TopicPartition, int]:
    """Where each mirrored partition ends on the target, by source partition, if we alone write."""
    alone = {
        tp: TopicPartition(outlet.topic, outlet.partition)
        for tp, progress in contents.partitions.items()
        for outlet in progress.outlets
        if outlet.exclusive and len(progress.outlets) == 1
    }
    ends = target.list_offsets(list(alone.values()), LATEST) if alone else {}
    return {tp: end.offset for tp, at in alone.items() if isinstance(end := ends[at], OffsetAt)}


def _gone(
    contents: ProgressContents, observed: ObservedTopics, now_ms: int, retention_s: float | None
) -> tuple[PartitionStatus, ...]:
    """Partitions that were mirrored and whose topic the source no longer has, for a while."""
    return tuple(
        PartitionStatus(
            topic=tp.topic,
            partition=tp.partition,
            target=progress.outlets[0].topic if progress.outlets else "",
            source_end=None,
            mirrored_to=reached(progress),
            lag_records=None,
            lag_ms=None,
            state=State.STOPPED,
            reason=progress.reason or "the source no longer has this topic",
            gone=progress.gone_at >= 0,
            noted_ms=progress.gone_at if progress.gone_at >= 0 else progress.written_at,
        )
        for tp, progress in sorted(contents.partitions.items(), key=lambda item: item[0])
        if tp.topic not in observed.source_topics
        and not recreated.is_over(progress, now_ms, retention_s)
    )


def driver_of(leases: list[LeaseRecord], now_ms: int) -> Driver | None:
    """Who leads, by the newest lease record.

    A lease is renewed three times as often as it must be. Twice its length is allowed for before
    the driver counts as gone, since our clock and the driver's may differ.
    """
    if not leases:
        return None
    newest = leases[-1]
    fresh = now_ms - newest.written_at <= 2 * newest.lease_s * 1000
    return Driver(
        owner=newest.owner,
        running=fresh and not newest.released,
        last_seen_ms=newest.written_at,
    )


def partition_status(
    tp: TopicPartition,
    topic: MirroredTopic,
    progress: PartitionProgress | None,
    *,
    end: OffsetAt | CausewayError | None,
    top: OffsetAt | CausewayError | None,
    held: str | None,
    target_end: int | None,
    start: int | None,
    source_first: int | None,
    first_unmirrored_ms: int | None,
    driver: Driver | None,
    now_ms: int,
    ended: Hold | None = None,
    by_file: str | None = None,
) -> PartitionStatus:
    """Judge one partition. `top`: its high watermark; `held`: why its end stands; `start`: its
    position, or where a first run would begin; `target_end`: where its mirror ends, if we alone
    write to it; `source_first`: asked for if that is 0; `ended`: how its mirror has, and why;
    `by_file`: why the file has no record of it copied."""
    source_end = end.offset if isinstance(end, OffsetAt) else None
    left = None if source_end is None or start is None else max(0, source_end - start)
    stamp = -1 if first_unmirrored_ms is None else first_unmirrored_ms
    high_watermark = top.offset if isinstance(top, OffsetAt) else None
    state, reason = _state(topic, progress, high_watermark, driver)
    if progress is None and by_file is not None and state is not NO_DRIVER:
        state, reason = State.PAUSED, f"{by_file}; not begun"
    if reason is None and progress is not None and target_end is not None:
        reason = losses.why_incomplete(progress, target_end, source_first)
    if isinstance(end, CausewayError) and reason is None:
        reason = str(end)
    lost = losses.note(progress) if progress else None
    reason = "; ".join(filter(None, (reason, held, lost))) or None
    if ended is not None:  # nobody cares for it any more, and what its driver does is no matter
        state, reason = ended
    return PartitionStatus(
        topic=tp.topic,
        partition=tp.partition,
        target=topic.target,
        source_end=source_end,
        high_watermark=high_watermark,
        mirrored_to=reached(progress) if progress else None,
        lag_records=left,
        lag_ms=lag.lag_ms(left, stamp, now_ms),
        state=state,
        reason=reason,
        noted_ms=progress.written_at if progress else None,
        lost_records=losses.unacknowledged(progress) if progress else 0,
    )


def _state(
    topic: MirroredTopic, progress: PartitionProgress | None, top: int | None, driver: Driver | None
) -> tuple[str, str | None]:
    running = driver is not None and driver.running
    if progress is None:
        return (State.WAITING, "not begun") if running else (NO_DRIVER, "not begun")
    if progress.state == State.STOPPED:
        return State.STOPPED, progress.reason
    if anew := recreated.why_another(progress, topic):
        return State.STOPPED, anew.format(progress.position)
    if progress.outlets and topic.target_id is None:
        return State.STOPPED, f"the target topic is gone ({recreated.ACT})"
    # What is committed may end before: MirrorMaker 2, who was here first, copies what is open, too.
    if top is not None and top < progress.position:
        return State.STOPPED, (
            f"the source was truncated: it ends at {top}, below the position "
            f"{progress.position} ({recreated.ACT})"
        )
    if not running:
        # What the last driver said is old news, but why it failed is still worth knowing.
        return NO_DRIVER, progress.reason
    return progress.state, progress.reason


def reached(progress: PartitionProgress) -> int | None:
    """None for a partition that was stopped before it had begun."""
    return progress.position if progress.position >= 0 else None


def _position(
    tp: TopicPartition,
    contents: ProgressContents,
    starts: Mapping[TopicPartition, OffsetAt | CausewayError],
) -> int | None:
    if tp in contents.partitions:
        return reached(contents.partitions[tp])
    start = starts.get(tp)
    return start.offset if isinstance(start, OffsetAt) else None
