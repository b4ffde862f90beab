"""Topics that transforms route records to: their names, and what the target needs for them.

Such a topic has the configs and ACLs of the source topic with its name, if that topic is mirrored
itself. Otherwise those of the topic whose records are routed there; of several, the first by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from causeway.cluster import Cluster
from causeway.config import MOST_PARTITIONS, NOT_A_PARTITION, LinkSettings, RouteError, Routes
from causeway.control import topic_changes, topics
from causeway.control.topics import Change
from causeway.errors import CausewayError


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteNeed:
    """`base`: the source topic whose records are routed there. `partitions`: the wanted ones."""

    base: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTopic:
    """A topic of the target that records can go to. `created`: it is new, so it is empty."""

    target: str
    topic_id: str
    created: bool


def target_of(name: str, link: LinkSettings) -> str:
    """Returns the target name of the topic that a transform calls `name`, as on the source. Raises
    RouteError if records may not go there. The error does not quote the name, which comes from a
    record."""
    return Routes.of(link).target_of(name)


def make_ready(
    needs: Mapping[str, RouteNeed], source: Cluster, target: Cluster, link: LinkSettings
) -> dict[str, RoutedTopic | CausewayError]:
    """Prepares the target for topics, by their names as on the source: creates missing topics, and
    adds partitions. Each topic that is not ready has an error.

    Raises CausewayError only if a cluster does not answer at all.
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
    plans = _plans(names, needs, source, target, link)
    ready |= {name: plan for name, plan in plans.items() if isinstance(plan, CausewayError)}
    good = {name: plan for name, plan in plans.items() if not isinstance(plan, CausewayError)}
    answers = topic_changes.apply([change for plan in good.values() for change in plan], target)
    failed = {change.topic: error for change, error in answers.items() if error is not None}
    created = {change.topic for change in answers if isinstance(change, topics.CreateTopic)}
    ready |= {name: failed[names[name]] for name in good if names[name] in failed}
    waited = {
        names[name]: max(needs[name].partitions) + 1 for name in good if names[name] not in failed
    }
    there = topic_changes.await_leaders(waited, target, "lead records to topic")
    for name in good.keys() - ready.keys():
        at, found = names[name], there[names[name]]
        ready[name] = (
            RoutedTopic(target=at, topic_id=found, created=at in created)
            if isinstance(found, str)
            else found
        )
    return ready


def _plans(
    names: Mapping[str, str],
    needs: Mapping[str, RouteNeed],
    source: Cluster,
    target: Cluster,
    link: LinkSettings,
) -> dict[str, tuple[Change, ...] | CausewayError]:
    """Returns the changes for each topic. `names`: on the target, by those on the source."""
    sources = source.metadata(sorted({*names, *(needs[name].base for name in names)})).topics
    bases = {}  # the source topic whose configs each topic has
    for name in names:
        own = sources.get(name)
        mirrored = own is not None and own.error is None and link.decide_topic(name).mirrored
        bases[name] = sources[name if mirrored else needs[name].base]
    there = target.metadata(sorted({*names.values(), link.progress_topic}))
    there = replace(
        there, topics={n: topic for n, topic in there.topics.items() if topic.partitions}
    )
    described = sorted({base.name for base in bases.values()})
    existing = sorted(there.topics.keys() & set(names.values()))
    observed = topics.describe(source, target, link, sources, described, there, existing)
    # A transform chooses the partition, and the records that it leads on get new offsets.
    by_partition = replace(link, partitioning="same", offsets="translate", preserve_topics=())
    plans: dict[str, tuple[Change, ...] | CausewayError] = {}
    for name, at in names.items():
        need = needs[name]
        counts = [len(sources[each].partitions) for each in (need.base, name) if each in sources]
        if bases[name].name == name and link.preserves(name):
            plans[name] = RouteError("lead a record on", "", "that topic keeps its own offsets")
            continue
        most = max(need.partitions)
        if most >= max(MOST_PARTITIONS, *counts) or min(need.partitions) < 0:
            plans[name] = RouteError("lead a record on", "", NOT_A_PARTITION)
            continue
        partitions = max(most + 1, *counts)
        if at in there.topics and most < len(there.topics[at].partitions):
            partitions = len(there.topics[at].partitions)
        decision = topics.plan_topic(bases[name], at, observed, by_partition, partitions)
        plans[name] = decision.errors[0] if decision.mirrored is None else decision.changes
    return plans
