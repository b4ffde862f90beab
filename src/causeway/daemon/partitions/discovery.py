"""Looks at both clusters: finds the partitions, and the offsets where new ones begin.

It asks in bulk. If a topic or partition cannot be decided now, the result contains a trouble for
it, and the next look asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import (
    CreateTopic,
    GrowTopic,
    MirroredTopic,
    collisions,
    topic_changes,
    topics,
)
from causeway.daemon.clients import Sides
from causeway.daemon.partitions.decisions import (
    Offsets,
    Wish,
)
from causeway.daemon.partitions.routing import routed, targets_of
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import PartitionProgress
from causeway.model import State, TopicPartition
from causeway.status import LinkProblem

_EARLIEST, _LATEST = -2, -1


@dataclass(slots=True)
class Found:
    """The result of a look. By source name: `mirrored`: topics with an existing target; `ended`:
    existing topics whose mirror has ended, which the link does not touch; `lost_targets`: topics
    whose target was deleted. `created`: target topics that this look created, which are empty.
    `counts`: the number of partitions of each source topic. `lost_led`: deleted target topics to
    which transforms led. `unfinished`: another look may find more soon. `held`: a lane still holds
    partitions that are no longer wanted."""

    mirrored: dict[str, MirroredTopic] = field(default_factory=dict)
    ended: dict[str, MirroredTopic] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: list[LinkProblem] = field(default_factory=list)
    errors: list[CausewayError] = field(default_factory=list)
    lost_targets: Mapping[str, MirroredTopic] = field(default_factory=dict)
    lost_led: frozenset[str] = frozenset()
    unfinished: bool = False
    held: bool = False

    def trouble(self, topic: str, error: CausewayError) -> None:
        self.problems.append(LinkProblem(topic=topic, reason=str(error)))
        self.errors.append(error)
        self.unfinished = True


def look(
    sides: Sides,
    link: LinkSettings,
    known: Mapping[TopicPartition, PartitionProgress],
    wish_of: Callable[[TopicPartition], Wish],
    has_ended: Callable[[str], bool] = lambda _: False,
) -> Found:
    """Finds the link's topics and prepares the target for them. Prepares nothing for ended mirrors,
    or while the file pauses the link. Raises CausewayError only if a whole cluster does not answer.

    A deleted target topic with progress is not created again, unless a person says how to go on
    (see `wish_of` for the topic's first partition).
    """
    observed = topics.observe(sides.source_admin, sides.target_admin, link)
    plan = topics.plan(observed, link, _begun(observed, link, known, wish_of))
    plan = topic_changes.without_changes_if_paused(plan, link)
    begun = {at.topic for at, progress in known.items() if progress.outlets}
    ended = {topic.source: topic for topic in plan.mirrored if has_ended(topic.source)}
    targets = {topic.target for topic in ended.values()}
    plan = replace(
        plan,
        mirrored=tuple(topic for topic in plan.mirrored if topic.source not in ended),
        changes=tuple(change for change in plan.changes if change.topic not in targets),
        problems=tuple(each for each in plan.problems if each.topic not in ended),
    )
    found = Found(
        ended={n: t for n, t in ended.items() if n in begun and t.target_id is not None},
        counts={name: len(topic.partitions) for name, topic in observed.source_topics.items()},
    )
    for problem in plan.problems:
        found.trouble(problem.topic, problem.error)
    if waiting := sum(each.code == topic_changes.PAUSED for each in plan.left_out):
        reason = f"{topic_changes.why_paused(link)}; topics without a mirror: {waiting}, "
        reason += "and none is made"
        found.problems.append(LinkProblem(topic="", reason=reason))
    lost = {
        t.target: t.source
        for t in plan.mirrored
        if t.target_id is None
        and t.source in begun
        and not wish_of(TopicPartition(t.source, 0)).acts
    }
    led = {
        outlet.topic
        for progress in known.values()
        if progress.state is not State.STOPPED and progress.topic not in ended
        for outlet in progress.outlets
        if outlet.routed is not None and outlet.topic not in observed.target_topics
    }
    found.lost_led = absent(sides.target_admin, led, found, again=True)
    missing = absent(sides.target_admin, lost, found, again=True, shown=lost)
    found.lost_targets = {t.source: t for t in plan.mirrored if t.target in missing}
    names = {topic.target: topic.source for topic in plan.mirrored}
    changes = [change for change in plan.changes if change.topic not in lost]
    failed: dict[str, type] = {}
    for change, error in topic_changes.apply(changes, sides.target_admin).items():
        if error is not None:
            found.trouble(names.get(change.topic, change.topic), error)
            failed[change.topic] = type(change)
    for topic in routed(plan.mirrored, known, link):
        if topic.target in lost or failed.get(topic.target) is CreateTopic:
            continue
        if failed.get(topic.target) is GrowTopic:
            there = len(observed.target_topics[topic.target].partitions)
            few = min(topic.partitions, there)
            found.mirrored[topic.source] = replace(topic, target_partitions=there, partitions=few)
        else:
            found.mirrored[topic.source] = topic
    await_new(sides.target_admin, found)
    return found


def _begun(
    observed: topics.ObservedTopics,
    link: LinkSettings,
    known: Mapping[TopicPartition, PartitionProgress],
    wish_of: Callable[[TopicPartition], Wish],
) -> dict[str, frozenset[str]]:
    """Returns the target topics that are mirrors, by progress or because a person says so."""
    begun = collisions.begun_by(known.values())
    if observed.names.used:
        for name in observed.source_topics:
            target = link.decide_topic(name).target_name
            if target in observed.names.used and wish_of(TopicPartition(name, 0)).acts:
                begun[name] = begun.get(name, frozenset()) | {str(target)}
    return begun


def await_new(target: Cluster, found: Found) -> None:
    """Notes the ids of created topics, and waits until their partitions have leaders."""
    new = {t.target: t for t in found.mirrored.values() if t.target_id is None}
    counts = {name: topic.target_partitions for name, topic in new.items()}
    for name, known in topic_changes.await_leaders(counts, target, "create topic").items():
        topic = new[name]
        if isinstance(known, CausewayError):
            del found.mirrored[topic.source]
            found.trouble(topic.source, known)
        else:
            found.mirrored[topic.source] = replace(topic, target_id=known)
            found.created.add(name)


def find_places(
    sides: Sides,
    link: LinkSettings,
    wanted: Sequence[tuple[MirroredTopic, int]],
    wish_of: Callable[[TopicPartition], Wish],
    found: Found,
    was_there: Callable[[TopicPartition], bool],
    copied: Container[TopicPartition],
) -> dict[TopicPartition, Offsets]:
    """Returns the offsets of each of `wanted` (topic, partition), by source partition. Leaves out
    partitions without an answer; a trouble has the reason.

    `was_there`: whether a partition existed at this process's first look. A later one belongs to
    the mirror from its first record on, also if the mirror began with the latest records.
    `copied`: the partitions with a position of MirrorMaker 2, perhaps past `end`.
    """
    if not wanted:
        return {}
    sources = [TopicPartition(topic.source, partition) for topic, partition in wanted]
    starts = _offsets(sides.source, sources, _EARLIEST, found)
    committed = link.fetch.read_committed
    ends = _offsets(sides.source, sources, _LATEST, found, read_committed=committed)
    noted = [at for at in sources if at in copied]
    tops = {at: end for at, end in ends.items() if at not in copied}
    tops |= _offsets(sides.source, noted, _LATEST, found)
    begins = dict(starts)
    if link.fetch.start == "latest":
        begins |= {at: o for at, o in ends.items() if was_there(at)}
    if link.group_id is not None:
        group = sides.source.committed_offsets(link.group_id)
        begins |= {at: o for at, o in group.items() if at in ends and o <= ends[at]}
    times = {at: time for at in sources if (time := wish_of(at).start_from) is not None}
    for since in set(times.values()):
        timed = [at for at in times if times[at] == since]
        at_time = _offsets(sides.source, timed, since, found)
        begins |= dict.fromkeys(timed, -1)
        # -1 means that all existing records are older: none of them is wanted.
        begins |= {at: ends.get(at, -1) if o < 0 else o for at, o in at_time.items()}
    feeds = {
        at: [TopicPartition(topic.target, target) for target in targets_of(topic, at.partition)]
        for (topic, _), at in zip(wanted, sources, strict=True)
    }
    targets = {place for each in feeds.values() for place in each}
    # Not asked for: a broker takes seconds to answer for a thousand new logs.
    target_ends = {at: 0 for at in targets if at.topic in found.created}
    target_ends |= _offsets(sides.target, targets - target_ends.keys(), _LATEST, found)
    keeping = {topic.target for topic, _ in wanted if topic.preserves}
    filled = {at for at, end in target_ends.items() if end and at.topic in keeping}
    target_starts = dict.fromkeys(target_ends.keys() - filled, 0)
    target_starts |= _offsets(sides.target, filled, _EARLIEST, found)
    return {
        at: Offsets(
            log_start=starts[at],
            end=ends[at],
            high_watermark=tops[at],
            start=max(begins[at], starts[at]),
            target_ends={place.partition: target_ends[place] for place in fed},
            target_starts={place.partition: target_starts[place] for place in fed},
        )
        for at, fed in feeds.items()
        if all(at in answers for answers in (starts, tops, ends))
        and begins.get(at, -1) >= 0
        and target_starts.keys() >= set(fed)
    }


def _offsets(
    cluster: Cluster,
    places: Iterable[TopicPartition],
    timestamp: int,
    found: Found,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    answers = cluster.list_offsets(list(places), timestamp, read_committed=read_committed)
    offsets: dict[TopicPartition, int] = {}
    for at, answer in answers.items():
        if isinstance(answer, CausewayError):
            found.trouble(str(at), answer)
        else:
            offsets[at] = answer.offset
    return offsets


def absent(
    cluster: Cluster,
    missing: Collection[str],
    found: Found | None = None,
    *,
    again: bool = False,
    shown: Mapping[str, str] = MappingProxyType({}),
) -> frozenset[str]:
    """Returns those of `missing` that do not exist. `found`: the result of a look that did not list
    these topics; it gets a trouble for each topic that exists nevertheless, under its name in
    `shown`. `again`: waits a moment first, and each other error is a trouble as well: a broker that
    has just started may not know all topics yet, and a list leaves out topics that this user may
    not see. Raises CausewayError."""
    if not missing:
        return frozenset()
    if again:
        time.sleep(1.0)
    topics_found = cluster.metadata(sorted(missing)).topics
    gone = frozenset(name for name, topic in topics_found.items() if topics.is_missing(topic))
    if found is not None:
        for name in topics_found.keys() - gone:
            if (error := topics_found[name].error) is None:
                found.trouble(shown.get(name, name), _left_out(name))
            elif again:
                found.trouble(shown.get(name, name), error)
    return gone


def _left_out(topic: str) -> BrokerError:
    return BrokerError(
        "look up topic",
        topic,
        "a list of all topics left it out, though it is there: a broker that has just started may "
        "not know all of them yet",
        code=-1,
        name="BEHIND",
        retriable=True,
    )
