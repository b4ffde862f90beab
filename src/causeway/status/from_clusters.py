"""The status of links by their clusters alone: no driver needs to run, and none is asked."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from causeway.cluster import EARLIEST, LATEST, Cluster, Connect, OffsetAt, ask_each, clusters, reach
from causeway.config import LinkSettings, Settings
from causeway.control import Held, TopicPlan, collisions, open_transactions, topic_changes, topics
from causeway.errors import CausewayError, UnreachableError
from causeway.link_topics import (
    PartitionProgress,
    ProgressContents,
    ProgressTopic,
    active_directives,
    recognise,
)
from causeway.model import TopicPartition, age_ms
from causeway.status import judging, lag
from causeway.status.judging import ClusterFacts, driver_of
from causeway.status.values import LinkProblem, LinkStatus, PartitionStatus

_MEASURED_S = 1.0
Ends = Mapping[TopicPartition, OffsetAt | CausewayError]


def status(settings: Settings, only: Collection[str] | None = None) -> tuple[LinkStatus, ...]:
    """Asks the clusters of every link at the same time. `only`: only for these topics of the
    sources. If a link's target, which has the progress, does not answer, the link has only the
    `error`. Raises that error if no target answers."""
    retention_s = settings.run.deleted_topics_retention_s
    with clusters() as connect:
        found = ask_each(settings.links, lambda link: status_of(link, connect, retention_s, only))
    return tuple(
        _link_status(link, error=one) if isinstance(one, CausewayError) else one
        for link, one in zip(settings.links, found, strict=True)
    )


def status_of(
    link: LinkSettings,
    connect: Connect,
    retention_s: float | None,
    only: Collection[str] | None = None,
) -> LinkStatus:
    """Returns the status of one link. `only`: only for these topics of its source. Raises
    CausewayError if its target does not answer."""
    with ThreadPoolExecutor(1) as pool:
        reaching = pool.submit(reach, connect, link.target_admin)
        try:
            source = reach(connect, link.source_admin)
        except UnreachableError as error:
            target = reaching.result()
            return _without_source(link, target, contents_of(link, target, only), str(error))
        target = reaching.result()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(contents_of, link, target)
        observed = topics.observe(source, target, link, only)
    # Progress is read before the ends. Otherwise a busy partition could seem ahead of its end.
    answered = source.cluster_id
    contents = recognise(link, connect, reading.result())
    if source.cluster_id != answered:  # another cluster has answered
        try:
            reach(connect, link.source_admin)
        except UnreachableError as error:
            return _without_source(link, target, contents, str(error))
        observed = topics.observe(source, target, link, only)
    planned = topics.plan(observed, link, collisions.begun_by(contents.partitions.values()))
    planned = topic_changes.as_target_takes(planned, target, link.target.alias)
    if only is not None:
        contents.partitions = _of_topics(contents, only)
    # The time is taken now: below, a broker that hangs may delay this for longer than a lease.
    driver = driver_of(contents.leases, int(time.time() * 1000))
    found = _link_status(link, target, contents, driver=driver)
    partitions = _partitions(link, source, target, contents, planned, found)
    now_ms = int(time.time() * 1000)
    return replace(
        found,
        partitions=partitions
        + judging.deleted_partitions(link, contents, observed, now_ms, retention_s),
        problems=tuple(
            LinkProblem(topic=each.topic, reason=str(each.error)) for each in planned.problems
        ),
        notes=tuple((topic.target, note) for topic in planned.mirrored for note in topic.notes),
        transforms=judging.transform_statuses(
            link, contents, {topic.source: topic.partitions for topic in planned.mirrored}
        ),
    )


def contents_of(
    link: LinkSettings, target: Cluster, only: Collection[str] | None = None
) -> ProgressContents:
    """Returns the link's progress topic without offset maps. `only`: only for these topics of the
    source."""
    progress = ProgressTopic(target, link.progress_topic)
    contents = progress.read(maps=False) if progress.exists() else ProgressContents()
    if only is not None:
        contents.partitions = _of_topics(contents, only)
    return contents


def _of_topics(
    contents: ProgressContents, only: Collection[str]
) -> dict[TopicPartition, PartitionProgress]:
    return {tp: each for tp, each in contents.partitions.items() if tp.topic in only}


def _without_source(
    link: LinkSettings, target: Cluster, contents: ProgressContents, reason: str
) -> LinkStatus:
    now_ms = int(time.time() * 1000)
    driver = driver_of(contents.leases, now_ms)
    found = _link_status(link, target, contents, driver=driver, unavailable=reason)
    partitions = judging.without_source(link, contents, found.directives, now_ms)
    return replace(found, partitions=partitions)


def _link_status(
    link: LinkSettings,
    target: Cluster | None = None,
    contents: ProgressContents | None = None,
    **more: Any,
) -> LinkStatus:
    """Returns a status with the target's knowledge of the link, if there is a target. Raises
    CausewayError."""
    if target is not None and contents is not None:
        asked = active_directives(target, link, contents)
        more |= {
            "tasks": tuple(contents.tasks[name] for name in sorted(contents.tasks)),
            "directives": asked.directives,
            "directives_reason": asked.reason,
        }
    return LinkStatus(
        name=link.name,
        source=link.source.alias,
        target=link.target.alias,
        treatments=link.treatments,
        **more,
    )


def _partitions(
    link: LinkSettings,
    source: Cluster,
    target: Cluster,
    contents: ProgressContents,
    planned: TopicPlan,
    found: LinkStatus,
) -> tuple[PartitionStatus, ...]:
    """Returns the partitions that are, or will be, mirrored. `found`: the link's status without
    them."""
    mirrored = {
        TopicPartition(topic.source, number): topic
        for topic in planned.mirrored
        for number in range(topic.partitions)
    }
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(_target_ends, target, contents)
        ends, tops = open_transactions.both_ends(
            source, mirrored, read_committed=link.fetch.read_committed
        )
    target_ends = asking.result()
    filled_per_s = _filled_per_s(target, contents, target_ends)
    starts = _starts(link, source, contents, mirrored)
    empty = [tp for tp, end in target_ends.items() if end == 0 and tp in mirrored]
    firsts = source.list_offsets(empty, EARLIEST) if empty else {}
    oldest = _first_unmirrored(source, contents, ends, starts)
    now_ms = int(time.time() * 1000)
    held = open_transactions.explain(source, _held(source, ends, tops, now_ms))
    directives = found.directives
    by_file = topic_changes.why_paused(link) if link.records_paused else None
    return tuple(
        judging.partition_status(
            tp,
            topic,
            contents.partitions.get(tp),
            ClusterFacts(
                end=ends.get(tp),
                top=tops.get(tp),
                held=held.get(tp),
                start=starts.get(tp),
                target_end=target_ends.get(tp),
                source_first=_offset(firsts.get(tp)),
                first_unmirrored=oldest.get(tp),
                ended=directives.hold_of(tp) if directives.has_ended(tp) else None,
                filled_per_s=filled_per_s.get(tp),
                by_file=by_file,
            ),
            link,
            found.driver,
            now_ms,
        )
        for tp, topic in sorted(mirrored.items(), key=lambda item: item[0])
    )


def _starts(
    link: LinkSettings,
    source: Cluster,
    contents: ProgressContents,
    mirrored: Collection[TopicPartition],
) -> dict[TopicPartition, int]:
    """Returns the position of each partition, or the offset at which a first run would begin."""
    new = [tp for tp in mirrored if tp not in contents.partitions]
    firsts = source.list_offsets(new, EARLIEST) if new and link.fetch.start == "earliest" else {}
    begun = contents.partitions
    found = {
        tp: judging.reached(begun[tp]) if tp in begun else _offset(firsts.get(tp))
        for tp in mirrored
    }
    return {tp: start for tp, start in found.items() if start is not None}


def _first_unmirrored(
    source: Cluster, contents: ProgressContents, ends: Ends, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns, for each partition that lags, the time (ms) of the first unmirrored record."""
    behind = {
        tp: start
        for tp, start in starts.items()
        if (end := _offset(ends.get(tp))) is not None and start < end
    }
    # If a driver has written the time of a record, it is used.
    oldest = {
        tp: known.first_unmirrored
        for tp in behind
        if (known := contents.partitions.get(tp)) is not None and known.first_unmirrored >= 0
    }
    undated = {tp: start for tp, start in behind.items() if tp not in oldest}
    return oldest | lag.timestamps_at(source, undated)


def _held(source: Cluster, ends: Ends, tops: Ends, now_ms: int) -> dict[TopicPartition, Held]:
    """Returns the partitions that an open transaction holds back. Its first record, the one at the
    last stable offset, is at least HELD_MS old by its timestamp."""
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
    """Returns the end of each partition's mirror, by source partition, if only we write to it."""
    alone = {
        tp: TopicPartition(outlet.topic, outlet.partition)
        for tp, progress in contents.partitions.items()
        for outlet in progress.outlets
        if outlet.exclusive and len(progress.outlets) == 1
    }
    ends = target.list_offsets(list(alone.values()), LATEST) if alone else {}
    return {tp: end for tp, at in alone.items() if (end := _offset(ends[at])) is not None}


def _filled_per_s(
    target: Cluster, contents: ProgressContents, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Returns how fast the beginnings of target logs are filled. If there are any, this measures
    for a second."""
    partitions = {tp: each for tp, each in contents.partitions.items() if each.begins}
    if not partitions:
        return {}
    begun = time.monotonic()
    time.sleep(_MEASURED_S)
    later = _target_ends(target, replace(contents, partitions=partitions))
    passed = time.monotonic() - begun
    return {tp: (end - ends[tp]) / passed for tp, end in later.items() if tp in ends}


def _offset(found: OffsetAt | CausewayError | None) -> int | None:
    return found.offset if isinstance(found, OffsetAt) else None
