"""Topics that transforms route records to: their names, and what the target needs for them.

Such a topic has the configs and ACLs of the source topic of its name, if that is mirrored itself;
else those of the topic whose records are routed there, the first by name of several.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from causeway.cluster import Cluster, TopicMetadata
from causeway.config import MOST_PARTITIONS, NOT_A_PARTITION, LinkSettings, RouteError, Routes
from causeway.control import topic_changes, topic_configs, topics
from causeway.control.topics import Change, ObservedTopics
from causeway.errors import CausewayError
from causeway.model import NO_TOPIC_ID

_READY_S = 30.0  # the wait until the partitions of a new topic have leaders


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteNeed:
    """`base`: the source topic whose records are routed there; `partitions`: those wanted."""

    base: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTopic:
    """A topic of the target that records can go to. `created`: just now, so it is empty."""

    target: str
    topic_id: str
    created: bool


def target_of(name: str, link: LinkSettings) -> str:
    """The target name of the topic that a transform calls `name`, as on the source. Raises
    RouteError if records may not go there; it does not quote the name, which comes from a
    record."""
    return Routes.of(link).target_of(name)


def make_ready(
    needs: Mapping[str, RouteNeed], source: Cluster, target: Cluster, link: LinkSettings
) -> dict[str, RoutedTopic | CausewayError]:
    """Prepares the target for topics, by their names as on the source: creates missing topics, and
    adds partitions. Each topic that is not ready has an error.

    Raises a CausewayError only where a cluster as a whole cannot be asked.
    """
    ready: dict[str, RoutedTopic | CausewayError] = {}
    names: dict[str, str] = {}
    for name in needs:
        try:
            names[name] = target_of(name, link)
        except RouteError as error:
            ready[name] = error
    if not names:
        return ready
    plans = _plan(observe(names, needs, source, target, link), names, needs, link)
    ready |= {name: plan for name, plan in plans.items() if isinstance(plan, CausewayError)}
    good = {name: plan for name, plan in plans.items() if not isinstance(plan, CausewayError)}
    answers = topic_changes.apply([change for plan in good.values() for change in plan], target)
    failed = {change.topic: error for change, error in answers.items() if error is not None}
    created = {change.topic for change in answers if isinstance(change, topics.CreateTopic)}
    ready |= {name: failed[names[name]] for name in good if names[name] in failed}
    waited = {
        names[name]: max(needs[name].partitions) for name in good if names[name] not in failed
    }
    there = _await(waited, target)
    for name in good:
        found = there.get(names[name])
        if isinstance(found, str):
            ready[name] = RoutedTopic(
                target=names[name], topic_id=found, created=names[name] in created
            )
        elif found is not None:
            ready[name] = found
    return ready


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRoutes:
    """`bases`: the source topic whose configs each topic has, by its name as on the source."""

    observed: ObservedTopics
    bases: Mapping[str, TopicMetadata]


def observe(
    names: Mapping[str, str],
    needs: Mapping[str, RouteNeed],
    source: Cluster,
    target: Cluster,
    link: LinkSettings,
) -> ObservedRoutes:
    """`names`: on the target, by those on the source."""
    wanted = {*names, *(needs[name].base for name in names)}
    there = source.metadata(sorted(wanted)).topics
    bases = {}
    for name in names:
        own = there.get(name)
        mirrored = own is not None and own.error is None and link.decide_topic(name).mirrored
        bases[name] = there[name if mirrored else needs[name].base]
    metadata = target.metadata(sorted(names.values()))
    existing = {name: topic for name, topic in metadata.topics.items() if topic.partitions}
    observed = ObservedTopics(
        source_topics=there,
        source_configs=source.describe_configs(sorted({base.name for base in bases.values()})),
        target_topics=existing,
        target_configs=target.describe_configs(sorted(existing), topic_configs.LIMIT_NAMES)
        if existing
        else {},
        target_defaults=topic_configs.default_configs(target, min(metadata.brokers, default=-1)),
        target_brokers=len(metadata.brokers),
        target_names=topic_configs.known_configs(
            target, link, {*existing, link.progress_topic}, sorted(existing)
        ),
    )
    return ObservedRoutes(observed=observed, bases=bases)


def _plan(
    seen: ObservedRoutes,
    names: Mapping[str, str],
    needs: Mapping[str, RouteNeed],
    link: LinkSettings,
) -> dict[str, tuple[Change, ...] | CausewayError]:
    there = seen.observed.source_topics
    plans: dict[str, tuple[Change, ...] | CausewayError] = {}
    for name, target in names.items():
        need, base = needs[name], seen.bases[name]
        fed = [there[each] for each in (need.base, name) if each in there]
        counts = [len(topic.partitions) for topic in fed]
        most, limit = max(need.partitions), max(MOST_PARTITIONS, *counts)
        if most >= limit or min(need.partitions) < 0:
            plans[name] = RouteError("lead a record on", "", NOT_A_PARTITION)
            continue
        partitions = max(most + 1, *counts)
        existing = seen.observed.target_topics.get(target)
        if existing is not None and most < len(existing.partitions):
            partitions = len(existing.partitions)
        grown = replace(link, partitioning="same")  # a transform says which partition it is
        decision = topics.plan_topic(base, target, seen.observed, grown, partitions)
        if decision.mirrored is None:
            plans[name] = decision.errors[0]
        else:
            plans[name] = decision.changes
    return plans


def _await(wanted: Mapping[str, int], target: Cluster) -> dict[str, str | CausewayError]:
    """The ids of topics, once the wanted partition of each, and all before it, have leaders."""
    found: dict[str, str | CausewayError] = {}
    deadline = time.monotonic() + _READY_S
    while left := wanted.keys() - found.keys():
        for name, topic in target.metadata(sorted(left)).topics.items():
            partitions = [topic.partitions.get(n) for n in range(wanted[name] + 1)]
            if any(one is None or one.leader < 0 for one in partitions):
                continue
            without = topic.topic_id == NO_TOPIC_ID
            found[name] = topics.without_id(name, str(target)) if without else topic.topic_id
        if left - found.keys():
            if time.monotonic() > deadline:
                cause = "it has no leaders yet"
                return found | {
                    name: CausewayError("lead records to topic", name, cause, retriable=True)
                    for name in left - found.keys()
                }
            time.sleep(0.05)
    return found
