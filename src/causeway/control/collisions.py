"""Finds names on the target that a topic cannot have, because another topic has them.

    orders, orders-old ─► sales     two topics, one name: the topic that has the name keeps it; if
                                    none has it, neither gets it, because it is not clear which one
    orders ─► sales, which exists and has records, but none of this topic

The policies of MirrorMaker 2 make no such names; rename rules and custom policies may. An existing
topic that is empty is used: a person created it for the mirror, or a driver died after creating it.
With each policy a topic may be its own mirror, if both aliases are one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from causeway.cluster import LATEST, Cluster, OffsetAt, TopicMetadata
from causeway.config import LinkSettings
from causeway.errors import ConfigError
from causeway.filters import POLICY, TopicDecision
from causeway.link_topics import PartitionProgress
from causeway.model import NO_TOPIC_ID, TopicPartition
from causeway.renames import KEY

Begun = Mapping[str, frozenset[str]]  # by source topic, the target topics that have had its records


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """`rivals`: by target name, the source topics that would all have it. `used`: names made by
    rules, of existing topics that have or had records. `itself`: source topics that would be
    mirrored onto themselves, because both aliases are one cluster. `endless`: source topics whose
    mirrors would be mirrored again, for the same reason."""

    rivals: Mapping[str, frozenset[str]] = field(default_factory=dict)
    used: frozenset[str] = frozenset()
    itself: frozenset[str] = frozenset()
    endless: frozenset[str] = frozenset()


def begun_by(partitions: Iterable[PartitionProgress]) -> dict[str, frozenset[str]]:
    """Returns the target topics of each source topic in the progress topic, without those of
    transforms."""
    found: dict[str, frozenset[str]] = {}
    for progress in partitions:
        own = frozenset(outlet.topic for outlet in progress.outlets if outlet.routed is None)
        if own:
            found[progress.topic] = found.get(progress.topic, frozenset()) | own
    return found


def observe(
    decisions: Mapping[str, TopicDecision],
    source_topics: Mapping[str, TopicMetadata],
    target_topics: Mapping[str, TopicMetadata],
    target: Cluster,
    link: LinkSettings,
    *,
    one_cluster: bool = False,
) -> Names:
    """`decisions`: of all topics of the source. `source_topics`: the topics that are looked at.
    `one_cluster`: source and target are the same cluster by their ids. Asks the target only for
    ends of topics that rules name. Raises CausewayError."""
    itself = frozenset(
        name
        for name in source_topics.keys() & decisions.keys()
        if (mirror := target_topics.get(decisions[name].target_name or "")) is not None
        and mirror.topic_id == source_topics[name].topic_id != NO_TOPIC_ID
    )
    endless = frozenset(
        name
        for name, decision in decisions.items()
        if one_cluster
        and decision.target_name is not None
        and link.decide_topic(decision.target_name).target_name is not None
    )
    if not link.policy.chooses_names:
        return Names(itself=itself, endless=endless)
    sources: dict[str, set[str]] = {}
    for name, decision in decisions.items():
        if decision.target_name is not None:
            sources.setdefault(decision.target_name, set()).add(name)
    there: dict[str, TopicMetadata] = {}
    for name in source_topics.keys() & decisions.keys():
        own = target_topics.get(decisions[name].target_name or "")
        if decisions[name].renamed is not None and own is not None:
            there[own.name] = own
    places = [TopicPartition(name, n) for name, topic in there.items() for n in topic.partitions]
    ends = target.list_offsets(places, LATEST) if places and not link.joins else {}
    return Names(
        rivals={name: frozenset(each) for name, each in sources.items() if len(each) > 1},
        used=frozenset(
            at.topic for at, end in ends.items() if not isinstance(end, OffsetAt) or end.offset > 0
        ),
        itself=itself,
        endless=endless,
    )


def refusal(
    topic: str, decision: TopicDecision, names: Names, begun: Begun, link: LinkSettings
) -> ConfigError | None:
    """Returns why `topic` cannot be mirrored under the decided name; None if it can."""
    target, alias = str(decision.target_name), link.target.alias
    if topic in names.itself:
        cause = f"{target} on {alias} is this topic itself"
        if decision.renamed is not None:
            return _taken(topic, cause, link)
        clusters = f"{link.source.alias} and {alias} are one cluster"
        remedy = f"{clusters}: correct {alias}.bootstrap.servers, or give another name by {POLICY}"
        return ConfigError("mirror", f"{topic} of {link.source.alias}", cause, remedy=remedy)
    if topic in names.endless:
        return ConfigError(
            "mirror",
            f"{topic} of {link.source.alias}",
            f"{link.source.alias} and {alias} are one cluster by its id, so the mirror {target}"
            " would be mirrored again, without end",
            remedy=f"correct {alias}.bootstrap.servers, or leave {target} out of topics",
        )
    if target in begun.get(topic, ()):
        return None
    others = sorted(names.rivals.get(target, frozenset()) - {topic})
    if others:
        having = [other for other in others if target in begun.get(other, ())]
        shown = ", ".join((having or others)[:3])
        what = "is the mirror of" if having else "would be the mirror of"
        return _taken(topic, f"{target} on {alias} {what} {shown}, too", link)
    if target in names.used:
        cause = f"{target} is on {alias} already, with records that this link did not mirror"
        return _taken(topic, cause, link, or_join=True)
    return None


def _taken(topic: str, cause: str, link: LinkSettings, *, or_join: bool = False) -> ConfigError:
    remedy = f"leave one of them out of topics, or change {link.places.get(KEY, KEY)}"
    if or_join:
        place = f"{link.name}.causeway.sole.writer = false"
        remedy = f"change {link.places.get(KEY, KEY)}, or set {place} if it should take them in"
    return ConfigError("mirror", f"{topic} of {link.source.alias}", cause, remedy=remedy)
