"""Finds the records that the target lacks if a mirror ends now.

partition   has begun                               has not begun
source ends: the source has said so just now        all records that it has
             its driver saw them, a while ago       unknown: never counted as none

The age of the first missing record follows from its timestamp. The source gives it now, or the
driver has noted it. If nothing was missing when the driver last saw the source, all missing records
came later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from causeway.cluster import EARLIEST, LATEST, OffsetAt
from causeway.config import LinkSettings
from causeway.control import topics
from causeway.errors import CausewayError
from causeway.link_topics import PartitionProgress, Scope
from causeway.model import TopicPartition
from causeway.operate.failover.ending import Ending, has_begun
from causeway.status import lag


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoss:
    """The loss of one topic. `unbegun`: how many of its `partitions` have no mirror yet.
    `newest_ms`: the timestamp of the newest record that is surely mirrored (ms since 1970, -1 if
    unknown); if partitions lag, that of the partition that is furthest behind. `missing`: the
    number of the source's records that are not mirrored, None if unknown. `exact`: the source says
    so now. Otherwise its driver said so when it last saw the source, and all later records are
    missing too. `first_ms`: no missing record is older (ms since 1970, -1 if unknown); None if
    nothing is missing."""

    topic: str
    target: str
    partitions: int
    unbegun: int = 0
    newest_ms: int
    missing: int | None
    exact: bool
    first_ms: int | None


class Unbegun(NamedTuple):
    """A partition without a mirror. `target`: the topic that its records would go to. `records`:
    the number of its records, None if unknown."""

    target: str
    records: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """`ends`: the ends of the partitions for which the source answered. `firsts`: the timestamps
    (ms) of the first missing records in them, if known. `reason`: why the source does not
    answer."""

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unbegun: Mapping[TopicPartition, Unbegun] = field(default_factory=dict)
    reason: str | None = None


def look(
    ending: Ending,
    progress: Mapping[TopicPartition, PartitionProgress],
    patience_s: float,
    silent: CausewayError | None = None,
) -> SourceAnswer:
    """Asks the source, for at most `patience_s`; otherwise the target. `progress`: all entries of
    the progress topic, also of mirrors that have not begun. `silent`: why the source does not
    answer, if that is known. Raises CausewayError if the target does not answer."""
    link, scope, source = ending.link, ending.scope, ending.sides.source_admin
    try:
        if silent is not None:
            raise silent
        source.bootstrap_check(patience_s)
        # The offset of the first missing record of each partition.
        first = {at: each.mirrored_to for at, each in progress.items() if has_begun(each)}
        others = {  # partitions that the source has and the link would mirror
            at: name
            for topic, metadata in sorted(topics.visible_topics(source, link).items())
            if scope.covers(Scope(topic))
            and (name := link.decide_topic(topic).target_name) is not None
            for number in sorted(metadata.partitions)
            if (at := TopicPartition(topic, number)) not in first
        }
        ends = _known(source.list_offsets([*sorted(first), *others], LATEST, patience_s=patience_s))
        starts = _known(source.list_offsets(list(others), EARLIEST, patience_s=patience_s))
        first |= starts
        lagging = {at: offset for at, offset in first.items() if offset < ends.get(at, offset)}
        firsts = lag.timestamps_at(source, lagging)
    except CausewayError as error:
        unbegun = _of_target(ending, progress)
        return SourceAnswer(unbegun=unbegun, reason=str(error))
    unbegun = {
        at: Unbegun(name, ends[at] - starts[at] if at in starts and at in ends else None)
        for at, name in others.items()
    }
    return SourceAnswer(ends=ends, firsts=firsts, unbegun=unbegun)


def _known(
    found: Mapping[TopicPartition, OffsetAt | CausewayError],
) -> dict[TopicPartition, int]:
    return {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}


def _of_target(
    ending: Ending, progress: Mapping[TopicPartition, PartitionProgress]
) -> dict[TopicPartition, Unbegun]:
    """Returns the partitions without a mirror that the target shows: its driver has created the
    target topic, or has noted why the mirror has not begun. Other topics of the source are
    unknown."""
    link, scope = ending.link, ending.scope
    found: dict[TopicPartition, Unbegun] = {}
    known = {topic for topic, _ in progress}
    own = {link.progress_topic, link.directives_topic, link.checkpoints_topic}
    own.add(link.offset_syncs_topic)
    for mirror, metadata in sorted(ending.target.metadata(None).topics.items()):
        if mirror in own or link.policy.is_internal_topic(mirror):
            continue  # some internal topics have names like those of mirrors
        topic = _source_of(link, mirror, known)
        if topic is None or not scope.covers(Scope(topic)):
            continue
        parts = [each for at, each in progress.items() if at.topic == topic and each.outlets]
        if any([one.partition for one in each.outlets] != [each.partition] for each in parts):
            continue  # keys, or a transform, decide: numbers of partitions prove nothing
        for number in sorted(metadata.partitions):
            at = TopicPartition(topic, number)
            if at not in progress:
                found[at] = Unbegun(mirror, None)
    for at, each in progress.items():
        if not each.outlets and each.gone_at < 0 and scope.covers(at):
            name = link.decide_topic(at.topic).target_name
            found[at] = Unbegun(name or at.topic, None)
    return found


def _source_of(link: LinkSettings, mirror: str, known: set[str]) -> str | None:
    """Returns the topic that is mirrored to `mirror`, or would be. None if the name alone does not
    show that `mirror` is a mirror."""
    policy = link.policy
    topic = policy.upstream_topic(mirror)
    if topic is None or policy.topic_source(mirror) != link.source.alias:
        return None
    if topic == mirror and topic not in known:
        return None  # it may be one of the target's own
    return topic if link.decide_topic(topic).target_name == mirror else None


def topics_known(
    progress: Iterable[PartitionProgress], seen: SourceAnswer, answered_ms: int = -1
) -> tuple[TopicLoss, ...]:
    """Returns the facts about each topic. `progress`: the mirrors that have begun by now; some may
    have begun since `seen`. `answered_ms`: when the source last answered its driver, -1 if
    unknown."""
    parts = {each.source: each for each in progress}
    others = {at: each for at, each in seen.unbegun.items() if at not in parts}
    found = []
    for topic, group in groupby(sorted({*parts, *others}), key=lambda at: at.topic):
        places = list(group)
        facts = [
            _begun(parts[at], seen, answered_ms)
            if at in parts
            else _Facts(
                records := others[at].records, -1, seen.firsts.get(at, -1) if records != 0 else None
            )
            for at in places
        ]
        begun = next((parts[at].outlets[0].topic for at in places if at in parts), None)
        missing = [each.missing for each in facts]
        # If records are missing, a partition's newest record says nothing about other partitions.
        late = [each.newest_ms for each in facts if each.missing != 0]
        stamps = [each.first_ms for each in facts if each.first_ms is not None]
        found.append(
            TopicLoss(
                topic=topic,
                target=begun or others[places[0]].target,
                partitions=len(places),
                unbegun=sum(at in others for at in places),
                newest_ms=min(late) if late else max(each.newest_ms for each in facts),
                missing=None if None in missing else sum(each or 0 for each in missing),
                exact=all(at in seen.ends for at in places),
                first_ms=min(stamps, default=None),
            )
        )
    return tuple(found)


class _Facts(NamedTuple):
    """The loss of one partition, see TopicLoss."""

    missing: int | None
    newest_ms: int
    first_ms: int | None


def _begun(progress: PartitionProgress, seen: SourceAnswer, answered_ms: int) -> _Facts:
    at, newest_ms = progress.source, progress.last_timestamp
    end = seen.ends.get(at, progress.source_end)
    missing = None if end < 0 else max(0, end - progress.mirrored_to)
    if missing == 0:
        stamp = None if at in seen.ends else lag.seen_at(progress, answered_ms)
    else:
        stamp = seen.firsts.get(at, progress.first_unmirrored)
    # Records after the newest mirrored record are not older than that record.
    return _Facts(missing, newest_ms, newest_ms if stamp == -1 else stamp)
