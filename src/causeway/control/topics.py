"""Topics of one link: which ones are mirrored, their names, and what the target needs for them.

`observe` asks both clusters, `plan` decides purely; `topic_changes.apply` applies a plan item by
item. `causeway plan` is the same code without `apply`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from causeway.cluster import Cluster, ClusterMetadata, ConfigEntry, TopicMetadata
from causeway.config import LinkSettings
from causeway.control import collisions, preserving, topic_configs
from causeway.errors import (
    AuthorizationError,
    BrokerError,
    CausewayError,
    ConfigError,
    TooFewBrokersError,
)
from causeway.filters import UNMIRRORABLE, Verdict, plain_names
from causeway.model import BROKERS_PAGE, NO_TOPIC_ID
from causeway.wire import codes


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopics:
    """Answers of both clusters. Config values are those in force (of the topic, or its broker)."""

    source_topics: Mapping[str, TopicMetadata]
    source_configs: Mapping[str, Mapping[str, ConfigEntry] | CausewayError]
    target_topics: Mapping[str, TopicMetadata]
    target_configs: Mapping[str, Mapping[str, ConfigEntry] | CausewayError]
    target_defaults: Mapping[str, str]  # empty if we may not describe the target's brokers
    target_brokers: int
    target_names: frozenset[str] | None = None  # the configs that it knows; None if unknown
    target_without_ids: bool = False
    names: collisions.Names = field(default_factory=collisions.Names)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopic:
    """A topic that is, or after `changes` will be, mirrored."""

    source: str
    target: str
    partitions: int  # of the source; numbered from 0
    source_id: str  # 32 hex digits
    target_id: str | None  # None if the topic will be created
    target_partitions: int  # once the changes are made
    max_message_bytes: int  # of the target, once the changes are made
    notes: tuple[str, ...] = ()  # about the target, such as configs that stay
    # The routing of records (daemon/partitions/routing.py): whether keys decide, and to how many of
    # the target's partitions records have gone so far.
    by_key: bool = False
    fed: int = 0
    preserves: bool = False  # its records keep their offsets
    compacted: bool = False  # on the target, once the changes are made
    deletes: bool = True  # the target deletes records, so it accepts DeleteRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    topic: str
    reason: str
    code: str  # a filters.Verdict, for programs


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    topic: str
    partitions: int
    replication_factor: int  # -1: the broker's default
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic:
    topic: str
    partitions: int  # the new total
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfigs:
    topic: str
    configs: tuple[tuple[str, str], ...]


# The configs of the target's topics that a plan compares.
_DESCRIBED = (
    *topic_configs.LIMIT_NAMES,
    topic_configs.REMOTE_STORAGE,
    topic_configs.CLEANUP_POLICY,
)

Change = CreateTopic | GrowTopic | AlterTopicConfigs


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProblem:
    """An error for a person to solve. If the topic is in `TopicPlan.mirrored`, it is mirrored in
    spite of the error."""

    topic: str  # on the source
    error: CausewayError


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    mirrored: tuple[MirroredTopic, ...]
    left_out: tuple[LeftOut, ...]
    changes: tuple[Change, ...]
    problems: tuple[TopicProblem, ...]


def observe(
    source: Cluster, target: Cluster, link: LinkSettings, only: Collection[str] | None = None
) -> ObservedTopics:
    """Asks both clusters, in a few bulk requests for any number of topics. `only`: asks about the
    source's topics with these names.

    Raises CausewayError only if a cluster does not answer at all; the result has the errors of
    single topics.
    """
    source_topics = visible_topics(source, link) if only is None else topics_named(source, only)
    there = target.metadata(None)
    decisions = {
        name: link.decide_topic(name)
        for name, topic in source_topics.items()
        if topic.error is None
    }
    mirrors = {name: one.target_name for name, one in decisions.items() if one.mirrored}
    existing = sorted(there.topics.keys() & set(mirrors.values()))
    if only is not None and link.policy.chooses_names:
        decisions |= {name: link.decide_topic(name) for name in source.metadata(None).topics}
    observed = describe(source, target, link, source_topics, sorted(mirrors), there, existing)
    return replace(
        observed,
        target_without_ids=any(
            topic.topic_id == NO_TOPIC_ID and topic.error is None for topic in there.topics.values()
        ),
        names=collisions.observe(
            decisions,
            source_topics,
            there.topics,
            target,
            link,
            one_cluster=source.cluster_id is not None and source.cluster_id == there.cluster_id,
        ),
    )


def describe(
    source: Cluster,
    target: Cluster,
    link: LinkSettings,
    source_topics: Mapping[str, TopicMetadata],
    names: Sequence[str],
    there: ClusterMetadata,
    existing: Sequence[str],
) -> ObservedTopics:
    """Asks for the configs of the source's topics `names`, and for those of the target that a plan
    compares. `there`: the target's topics, of which `existing` are mirrors."""
    return ObservedTopics(
        source_topics=source_topics,
        source_configs=source.describe_configs(names) if names else {},
        target_topics=there.topics,
        target_configs=target.describe_configs(existing, _DESCRIBED) if existing else {},
        target_defaults=topic_configs.default_configs(target, min(there.brokers, default=-1)),
        target_brokers=len(there.brokers),
        target_names=topic_configs.known_configs(target, link, there.topics, existing),
    )


def plan(
    observed: ObservedTopics, link: LinkSettings, begun: collisions.Begun = MappingProxyType({})
) -> TopicPlan:
    """Decides purely: the same answer for the same observation, sorted by topic. `begun`: from the
    progress topic, see control/collisions.py."""
    mirrored: list[MirroredTopic] = []
    left_out: list[LeftOut] = []
    changes: list[Change] = []
    problems: list[TopicProblem] = []
    for name, topic in sorted(observed.source_topics.items()):
        verdict = link.decide_topic(name)
        if verdict.target_name is None:
            left_out.append(LeftOut(topic=name, reason=verdict.reason, code=verdict.verdict))
            if verdict.verdict in UNMIRRORABLE:
                error = ConfigError("mirror topic", name, verdict.reason, remedy=_ANOTHER_NAME)
                problems.append(TopicProblem(topic=name, error=error))
            continue
        taken = collisions.refusal(name, verdict, observed.names, begun, link)
        if taken is not None:
            left_out.append(LeftOut(topic=name, reason=taken.cause, code=Verdict.NAME_TAKEN))
            problems.append(TopicProblem(topic=name, error=taken))
            continue
        decision = plan_topic(topic, verdict.target_name, observed, link, len(topic.partitions))
        if decision.mirrored is not None:
            mirrored.append(decision.mirrored)
        changes += decision.changes
        problems += [TopicProblem(topic=name, error=error) for error in decision.errors]
    return TopicPlan(
        mirrored=tuple(mirrored),
        left_out=tuple(left_out),
        changes=tuple(changes),
        problems=tuple(problems),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The plan for one topic. `mirrored`: None if it cannot be mirrored; then `errors` have the
    reasons."""

    mirrored: MirroredTopic | None = None
    changes: tuple[Change, ...] = ()
    errors: tuple[CausewayError, ...] = ()


def plan_topic(
    topic: TopicMetadata, target: str, observed: ObservedTopics, link: LinkSettings, partitions: int
) -> Decision:
    """Plans `target` for the records of `topic`, with this number of partitions."""
    if topic.error is not None:
        return Decision(errors=(topic.error,))
    if topic.topic_id == NO_TOPIC_ID:
        return Decision(errors=(without_id(topic.name, link.source.alias),))
    described = observed.source_configs.get(topic.name, {})
    errors: tuple[CausewayError, ...] = ()
    if isinstance(described, CausewayError):
        errors, described = (described,), {}
    existing = observed.target_topics.get(target)
    preserves = link.preserves(topic.name)
    refusal: CausewayError | None = _refusal(target, existing, observed, link)
    if preserves and refusal is None:
        refusal = preserving.refusal(topic.name, target, existing, partitions, link)
    if refusal is not None:
        return Decision(errors=(*errors, refusal))
    wanted, names = topic_configs.effective(described), observed.target_names
    changes: list[Change] = []
    if existing is None:
        before = partitions
        configs = topic_configs.copied(
            described, link.config_properties_exclude, link.use_defaults_from
        )
        lost = topic_configs.unknown_configs(configs, described, names, link.target.alias)
        configs = {name: value for name, value in configs.items() if name not in lost}
        in_force = {**observed.target_defaults, **configs}
        configs |= topic_configs.needed(wanted, in_force, names)
        create = CreateTopic(
            topic=target,
            partitions=partitions,
            replication_factor=link.replication_factor,
            configs=tuple(sorted(configs.items())),
        )
        changes.append(create)
        notes = tuple(filter(None, lost.values()))
    else:
        before, configs, in_force = len(existing.partitions), {}, {}
        entries = observed.target_configs.get(target, {})
        if isinstance(entries, CausewayError):
            # Its limits are not known, so nothing is changed. A batch beyond them gets an error.
            errors = (*errors, entries)
        else:
            in_force = topic_configs.effective(entries)
            configs = topic_configs.needed(wanted, in_force)
        stays: Mapping[str, str] = {}
        if not link.is_sole_writer(topic.name):
            stays = topic_configs.left_to_others(configs, in_force, link.config_properties_exclude)
            configs = {name: value for name, value in configs.items() if name not in stays}
        if configs:
            changes.append(AlterTopicConfigs(topic=target, configs=tuple(sorted(configs.items()))))
        # If keys decide, counts may differ, and growing would move keys of other producers.
        if partitions > before and link.partitioning != "by-key":
            changes.append(GrowTopic(topic=target, partitions=partitions, before=before))
            before = partitions
        notes = (*stays.values(), *_untiered(described, in_force, link))
    policy = {**in_force, **configs}.get(topic_configs.CLEANUP_POLICY, "delete")
    mirrored = MirroredTopic(
        source=topic.name,
        target=target,
        partitions=partitions,
        preserves=preserves,
        compacted="compact" in policy,
        deletes="delete" in policy,
        source_id=topic.topic_id,
        target_id=None if existing is None else existing.topic_id,
        target_partitions=before,
        max_message_bytes=topic_configs.max_message_bytes({**in_force, **configs}),
        notes=notes,
    )
    return Decision(mirrored=mirrored, changes=tuple(changes), errors=errors)


def _refusal(
    target: str, existing: TopicMetadata | None, observed: ObservedTopics, link: LinkSettings
) -> CausewayError | None:
    """Returns why nothing can be mirrored to `target`; None if it can."""
    alias, brokers = link.target.alias, observed.target_brokers
    if existing is not None and existing.error is not None:
        return existing.error
    if observed.target_without_ids if existing is None else existing.topic_id == NO_TOPIC_ID:
        return without_id(target, alias)
    if existing is None and link.replication_factor > brokers:
        return TooFewBrokersError(
            "create topic",
            f"{target} on {alias}",
            f"needs {link.replication_factor} brokers, {alias} has {brokers}",
            remedy=f"set replication.factor to {brokers} or less, or start more brokers",
        )
    return None


def _untiered(
    described: Mapping[str, ConfigEntry], in_force: Mapping[str, str], link: LinkSettings
) -> Iterator[str]:
    """Yields a note if the mirror does not follow its source into tiered storage."""
    name = topic_configs.REMOTE_STORAGE
    copied = topic_configs.copied(described, link.config_properties_exclude, link.use_defaults_from)
    if copied.get(name) == "true" and in_force.get(name) == "false":
        yield topic_configs.refused_config_note(name, "true", link.target.alias)


_ANOTHER_NAME = "name it in topics.exclude, or give it another name by causeway.rename"


def without_id(topic: str, alias: str) -> CausewayError:
    """Returns the error for a topic without id: a recreated topic would look the same."""
    return BrokerError(
        "mirror",
        f"{topic} on {alias}",
        "it has no topic id",
        code=codes.UNSUPPORTED_VERSION,
        name="UNSUPPORTED_VERSION",
        remedy="set inter.broker.protocol.version to 2.8 or later; a broker that is not Apache "
        f"Kafka must give ids to its topics, see {BROKERS_PAGE}",
    )


def visible_topics(source: Cluster, link: LinkSettings) -> dict[str, TopicMetadata]:
    """Returns all topics of the source. A topic has an error if its full name is in the file and we
    may not see it. Raises CausewayError."""
    found = dict(source.metadata(None).topics)
    return found | _hidden(source, link, found)


def topics_named(cluster: Cluster, names: Collection[str]) -> dict[str, TopicMetadata]:
    """Returns the topics of `names` that exist. A topic that we may not see has an error. Raises
    CausewayError."""
    found = cluster.metadata(sorted(names)).topics if names else {}
    return {name: topic for name, topic in found.items() if not is_missing(topic)}


def is_missing(topic: TopicMetadata) -> bool:
    error = topic.error
    return isinstance(error, BrokerError) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION


def _hidden(
    source: Cluster, link: LinkSettings, visible: Mapping[str, TopicMetadata]
) -> dict[str, TopicMetadata]:
    """Returns the topics whose full names are in the file and that we may not see."""
    wanted = sorted({*plain_names(link.topics), *link.chosen} - visible.keys())
    if not wanted:
        return {}
    found = source.metadata(wanted).topics
    return {
        name: topic for name, topic in found.items() if isinstance(topic.error, AuthorizationError)
    }
