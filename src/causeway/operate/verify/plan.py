"""Plans a comparison: the ranges that can be compared, and the reasons for the others.

source  ├─ deleted ─┤├────── compared ──────┤├─ not mirrored yet ─┤
target  ├─ there before ─┤├── compared ─────┤
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from msgspec import Struct

from causeway.cluster import ConfigEntry, Connect
from causeway.config import LinkSettings, Settings, links_of, unknown
from causeway.control import (
    MirroredTopic,
    claim_checks,
    collisions,
    only_treated,
    treatment_steps,
)
from causeway.control import topics as planning
from causeway.daemon.partitions import assignment, routing
from causeway.errors import CausewayError
from causeway.link_topics import (
    PartitionProgress,
    offset_maps_of,
    read_progress,
)
from causeway.model import ENDED, HELD, Pair, State, TopicPartition
from causeway.operate.verify.outcome import PartitionFeed, Range
from causeway.operate.verify.state import Agreed
from causeway.operate.verify.stretches import (
    RANGE_BYTES,
    Ends,
    Logs,
    after_mirrored,
    cut,
    earlier,
    same_offsets,
)
from causeway.status import driver_of

_NO_PRODUCER = -2  # an id that no record has
_POLICY = "cleanup.policy"


class Why(StrEnum):
    """Reasons for records that were not compared."""

    NOT_MIRRORED = "not-mirrored-yet"
    SOURCE_DELETED = "deleted-on-the-source"
    TARGET_DELETED = "deleted-on-the-target"
    BEFORE = "before-the-mirror"
    COMPACTED = "compacted"
    TRANSFORMED = "transformed"
    REPEATS = "at-least-once"
    OTHERS = "written-by-others"
    TIMES = "append-times"
    TOPIC = "topic"  # the topic is missing, was recreated, or cannot be mirrored
    UNREADABLE = "unreadable"


class NotCompared(Struct, frozen=True):
    """A part that was not compared, and the reason."""

    why: Why
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """The comparison of one source partition with one target partition. `feed`: None if nothing can
    be compared. `earlier`: the records of both sides from before the mirror. `compacted`:
    compaction may have removed records on one side."""

    link: LinkSettings
    source: TopicPartition
    target_topic: str | None
    target: TopicPartition | None = None
    feed: PartitionFeed | None = None
    ranges: tuple[Range, ...] = ()
    earlier: Range | None = None
    compacted: bool = False
    left: tuple[NotCompared, ...] = ()


def plan(
    settings: Settings,
    connect: Connect,
    *,
    link: str | None = None,
    topics: Collection[str] | None = None,
    agreed: Callable[[PartitionFeed], Agreed | None] = lambda _: None,
    range_bytes: int = RANGE_BYTES,
) -> list[PartitionPlan]:
    """Returns plans for all partitions of the links, or only of `topics` (names on the source).
    `agreed`: the ranges that agreed before; they are left out. `range_bytes`: see `cut`. Raises
    ConfigError for unknown names, CausewayError if a cluster does not answer."""
    links = links_of(settings, link, "verify")
    planners = [_LinkPlanner(each, connect, agreed, range_bytes) for each in links]
    found = [share for each in planners for share in each.shares(topics)]
    known = {name for each in planners for name in each.names}
    for topic in topics or ():
        if topic not in known:
            more = "topics are named as on the source"
            raise unknown("verify", "topic", topic, known, more=more)
    return found


class _LinkPlanner:
    def __init__(
        self,
        link: LinkSettings,
        connect: Connect,
        agreed: Callable[[PartitionFeed], Agreed | None],
        range_bytes: int,
    ) -> None:
        self._range_bytes = range_bytes
        self._link, self._agreed = link, agreed
        self._source, self._target = connect(link.source), connect(link.target)
        self._target_admin = connect(link.target_admin)
        self._contents = read_progress(link, connect)
        observed = planning.observe(connect(link.source_admin), self._target_admin, link)
        self._observed = observed
        self._target_policies: Mapping[str, Mapping[str, ConfigEntry] | CausewayError] = {}
        every = self._contents.partitions.values()
        self._planned = planning.plan(observed, link, collisions.begun_by(every))
        gone = {at.topic for at in self._contents.partitions} - observed.source_topics.keys()
        mirrored, problems = self._planned.mirrored, self._planned.problems
        # The names of all topics on the source.
        self.names = sorted(
            {*(each.source for each in mirrored), *(each.topic for each in problems), *gone}
        )
        self._led = routing.led_to(every)
        self._fed = {outlet.at for one in every for outlet in one.outlets}
        driver = driver_of(self._contents.leases, int(time.time() * 1000))
        self._runs = driver is not None and driver.running

    def shares(self, topics: Collection[str] | None) -> Iterator[PartitionPlan]:
        """Yields plans by topic."""
        mirrored = {topic.source: topic for topic in self._planned.mirrored}
        problems = {each.topic: each for each in self._planned.problems}
        wanted = [name for name in self.names if topics is None or name in topics]
        chosen = [mirrored[name] for name in wanted if name in mirrored]
        mirrors = [topic.target for topic in chosen if topic.target_id is not None]
        if mirrors:
            self._target_policies = self._target_admin.describe_configs(mirrors, (_POLICY,))
        beyond = {topic.source: self._beyond(topic) for topic in chosen}
        unfed = [at for each in beyond.values() for at in each]
        logs = Ends(self._source, self._target, chosen, self._contents, self._link, unfed)
        for name in wanted:
            if name not in mirrored:
                problem = problems.get(name)
                text = str(problem.error) if problem else "the source no longer has this topic"
                yield self._nothing(TopicPartition(name, 0), None, NotCompared(Why.TOPIC, text))
                continue
            topic = mirrored[name]
            for number in range(topic.partitions):
                yield from self._partition(topic, TopicPartition(name, number), logs)
            for there in beyond[name]:
                yield from self._unfed(topic, there, logs)

    def _nothing(self, at: TopicPartition, target: str | None, *left: NotCompared) -> PartitionPlan:
        return PartitionPlan(link=self._link, source=at, target_topic=target, left=left)

    def _partition(
        self, topic: MirroredTopic, at: TopicPartition, logs: Ends
    ) -> Iterator[PartitionPlan]:
        progress = self._contents.partitions.get(at)
        if progress is None or not progress.outlets:
            why = progress.reason if progress is not None else None
            text = f"no record is mirrored yet{f': {why}' if why else ''}"
            yield self._nothing(at, topic.target, NotCompared(Why.NOT_MIRRORED, text))
            return
        recreated = claim_checks.why_another(progress, topic)
        if recreated is not None or topic.target_id is None:
            text = "the target topic does not exist"
            if recreated is not None:
                text = recreated.format(progress.position)
            yield self._nothing(at, topic.target, NotCompared(Why.TOPIC, text))
            return
        if progress.preserves:
            progress = _reached(progress, logs)
            if progress.begins:
                text = "the beginning of its log on the target is being filled"
                yield self._nothing(at, topic.target, NotCompared(Why.NOT_MIRRORED, text))
                return
        beats = self._runs and self._link.policy.is_heartbeats_topic(at.topic)
        behind = _behind(progress, logs, beats=beats)
        if only_treated(self._link.treatments_of(progress.topic), progress) is None:
            left = NotCompared(Why.TRANSFORMED, self._transformed(topic))
            yield self._nothing(at, topic.target, left, *behind)
        elif any(outlet.producer_id < 0 for outlet in progress.outlets):
            text = "at-least-once delivery may repeat records, so they are not compared"
            yield self._nothing(at, topic.target, NotCompared(Why.REPEATS, text), *behind)
        else:
            for index in range(len(progress.outlets)):
                yield self._share(topic, progress, index, logs, behind if not index else ())

    def _beyond(self, topic: MirroredTopic) -> Sequence[TopicPartition]:
        """Returns partitions of a mirror with a sole writer that no source partition feeds."""
        known = self._contents.partitions
        places = (TopicPartition(topic.source, number) for number in range(topic.partitions))
        of_topic = [one for at in places if (one := known.get(at)) is not None and one.outlets]
        if topic.target_id is None or not self._link.is_sole_writer(topic.source) or not of_topic:
            return ()
        recreated = any(claim_checks.why_another(one, topic) is not None for one in of_topic)
        if recreated or any(one.transform is not None or one.state in ENDED for one in of_topic):
            return ()
        numbers = self._observed.target_topics[topic.target].partitions
        there = (TopicPartition(topic.target, each) for each in sorted(numbers))
        return [at for at in there if at.partition >= topic.partitions and at not in self._fed]

    def _unfed(
        self, topic: MirroredTopic, there: TopicPartition, logs: Ends
    ) -> Iterator[PartitionPlan]:
        """Yields a plan for a target partition without a source: all its records are foreign."""
        at = TopicPartition(topic.source, there.partition)
        share = PartitionPlan(link=self._link, source=at, target_topic=there.topic, target=there)
        try:
            start, end = logs.there(there)
        except CausewayError as error:
            yield replace(share, left=(NotCompared(Why.UNREADABLE, str(error)),))
            return
        if start >= end:
            return
        feed = PartitionFeed(
            link=self._link.name,
            source=at,
            target=there,
            source_id=topic.source_id,
            target_id=topic.target_id or "",
            producer_id=_NO_PRODUCER,
        )
        yield replace(share, feed=feed, ranges=(after_mirrored(feed, Pair(0, start, 0), end),))

    def _transformed(self, topic: MirroredTopic) -> str:
        transform = self._link.transform_of(topic.source)
        if transform is None and (steps := self._link.treatments_of(topic.source)):
            does = "; ".join(step.text for step in steps)
            return f"its records are changed, and cannot be recreated here: each is {does}"
        if transform is None:
            return "its records went through a transform or treatment that the file no longer has"
        record = self._contents.transforms.get(transform.name)
        text = f"its records go through transform {transform.name}, so they differ from the source"
        if record is None:
            return text
        counts = record.counts
        return (
            f"{text}; over all its topics since its last change, {counts.records_in:,} went in,"
            f" {counts.records_out:,} came out, {counts.dropped:,} were dropped,"
            f" {counts.refused:,} refused"
        )

    def _share(
        self,
        topic: MirroredTopic,
        progress: PartitionProgress,
        index: int,
        logs: Ends,
        behind: Sequence[NotCompared],
    ) -> PartitionPlan:
        link, at, outlet = self._link, progress.source, progress.outlets[index]
        target = outlet.at
        alone = outlet.exclusive and link.sole_writer
        alone &= target not in self._led
        alone |= progress.preserves
        several = len(progress.outlets) > 1
        feed = PartitionFeed(
            link=link.name,
            source=at,
            target=target,
            source_id=progress.topic_id,
            target_id=outlet.topic_id,
            producer_id=outlet.producer_id,
            read_committed=link.fetch.read_committed,
            alone=alone,
            split=assignment(topic, progress, link) if several else None,
            outlet=index,
            steps=()
            if progress.transform is None
            else treatment_steps(link.treatments_of(at.topic)),
            by_offset=progress.preserves,
            compacted=progress.preserves and self._compacts(topic),
        )
        share = PartitionPlan(
            link=link, source=at, target_topic=target.topic, target=target, feed=feed
        )
        try:
            ends = logs.of(at, target)
        except CausewayError as error:
            return replace(share, left=(NotCompared(Why.UNREADABLE, str(error)), *behind))
        # The known points of the offset map, up to the last mirrored record.
        records = self._contents.maps.get(at, {})
        known = offset_maps_of(progress, records, multiplied=False).get(target)
        points, since = ([outlet.pair], None) if known is None else ([*known.points], known.since)
        if progress.preserves:
            points = same_offsets(progress.offsets_from, outlet.pair.target, ends)
        first = points[0]
        begun = first.sequence == 0 or progress.preserves
        if begun and since is not None and since < first.source:
            points[0] = first = first._replace(source=since)
        before = self._agreed(feed)
        done = () if before is None else before.stretches
        ranges = cut(feed, points, ends, from_first=begun, done=done, range_bytes=self._range_bytes)
        last = points[-1]
        if alone and progress.state not in ENDED and ends.target_end > last.target:
            ranges.append(after_mirrored(feed, last, ends.target_end))
        return replace(
            share,
            ranges=tuple(ranges),
            earlier=earlier(feed, first, ends)
            if begun and not (several or feed.steps or feed.by_offset)
            else None,
            compacted=self._compacts(topic) and not feed.by_offset,
            left=(*_before(first, ends, begun=begun), *behind),
        )

    def _compacts(self, topic: MirroredTopic) -> bool:
        found = (
            self._observed.source_configs.get(topic.source),
            self._target_policies.get(topic.target),
        )
        return any(
            not isinstance(configs, CausewayError)
            and configs is not None
            and (entry := configs.get(_POLICY)) is not None
            and "compact" in (entry.value or "")
            for configs in found
        )


def _reached(progress: PartitionProgress, logs: Ends) -> PartitionProgress:
    """Returns the progress by the target's log: while the mirror goes on, its end is the
    position."""
    (outlet,) = progress.outlets
    try:
        _, end = logs.there(outlet.at)
        readable, _ = logs.readable(progress.source)
    except CausewayError:
        return progress
    end = min(end, readable)
    if progress.state in ENDED or end <= outlet.pair.target:
        return progress
    return progress.reached(end)


def _behind(
    progress: PartitionProgress, logs: Ends, *, beats: bool = False
) -> tuple[NotCompared, ...]:
    """Returns the source records that are not mirrored yet. `beats`: a heartbeats topic whose
    mirror runs. Drivers write to such a topic all the time, so its last records are always
    missing."""
    try:
        end, written = logs.readable(progress.source)
    except CausewayError as error:
        text = f"source offsets from {progress.position} on cannot be read: {error}"
        return (NotCompared(Why.UNREADABLE, text),)
    found = []
    if end > progress.position and not (beats and progress.state is State.RUNNING):
        text = f"source offsets {progress.position} to {end - 1} are not mirrored yet"
        if progress.state in HELD | {State.STOPPED, State.FAILED}:
            text += f": it is {progress.state}"
            text += f", {progress.reason}" if progress.reason else ""
        found.append(NotCompared(Why.NOT_MIRRORED, text))
    if written > (held := max(end, progress.position)):
        text = f"an open transaction holds back source offsets {held} to {written - 1}"
        found.append(NotCompared(Why.NOT_MIRRORED, text))
    return tuple(found)


def _before(first: Pair, logs: Logs, *, begun: bool) -> Iterator[NotCompared]:
    if begun and first.source > logs.source_start:
        yield NotCompared(
            Why.BEFORE,
            f"source offsets {logs.source_start} to {first.source - 1} are from before the mirror's"
            " beginning",
        )
    if begun and first.target > logs.target_start:
        yield NotCompared(
            Why.BEFORE,
            f"target offsets {logs.target_start} to {first.target - 1} were there before the"
            " mirror began",
        )
    for side, why, start, lost in (
        ("source", Why.SOURCE_DELETED, logs.source_start, first.source if begun else 0),
        ("target", Why.TARGET_DELETED, logs.target_start, first.target if begun else 0),
    ):
        if start > lost:
            yield NotCompared(why, f"the {side} has deleted offsets {lost} to {start - 1}")
