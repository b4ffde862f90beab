"""The dry run: what `causeway run` would mirror, make and change, by the code that does it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from causeway.cluster import Cluster, Connect, clusters, reach, silent_clusters
from causeway.config import LinkSettings, Settings
from causeway.control import (
    AclPlan,
    AlterTopicConfigs,
    Change,
    ConfigPlan,
    CreateTopic,
    GrowTopic,
    MirroredTopic,
    MissingApi,
    SyncConfigs,
    TopicPlan,
    TopicProblem,
    Transforms,
    acls,
    claim_checks,
    collisions,
    configs,
    required_apis,
    topic_changes,
    topics,
)
from causeway.daemon.partitions import identity
from causeway.daemon.partitions.claims import transform_change
from causeway.daemon.partitions.discovery import Sides
from causeway.errors import (
    AuthorizationError,
    BrokerError,
    CausewayError,
    ConfigError,
    DivergedError,
    UnreachableError,
)
from causeway.link_topics import ProgressContents, ProgressTopic
from causeway.model import TopicPartition
from causeway.operate import internal_topics
from causeway.operate.internal_topics import OwnTopic
from causeway.operate.plan import loops, schemas, shared_groups, starts, transforms
from causeway.operate.plan.schemas import SchemaPlan
from causeway.operate.plan.starts import Start, Starts
from causeway.operate.plan.transforms import Checks, Told, TransformPlan
from causeway.wire import is_unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`own`: topics that a run makes besides the mirrors, on all clusters of the file."""

    links: tuple[LinkPlan, ...]
    own: tuple[OwnTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """`error`: a cluster of the link does not answer, so that the plan has nothing else."""

    link: LinkSettings
    topics: TopicPlan
    starts: Starts
    configs: ConfigPlan  # of mirrors that are there; a new one is created with its configs
    acls: AclPlan
    new_progress_topic: str | None  # None: it exists, the link has run before
    loops: tuple[str, ...] = ()  # topics that flows of other files mirror back
    lacks: tuple[
        MissingApi, ...
    ] = ()  # APIs that brokers lack; if one is required, the plan has nothing else
    transforms: tuple[TransformPlan, ...] = ()  # in the file's order
    schemas: SchemaPlan = field(default_factory=SchemaPlan)
    # Partitions whose records were treated in another way so far, and what that means to them.
    changed: tuple[tuple[TopicPartition, str], ...] = ()
    error: CausewayError | None = None

    @property
    def internal_in_kafka_3(self) -> tuple[str, ...]:
        """Topics that are mirrored now, and that a MirrorMaker 2 before Kafka 4.0 left out."""
        internal = self.link.policy.is_internal_in_kafka_3
        return tuple(topic.source for topic in self.topics.mirrored if internal(topic.source))

    @property
    def problems(self) -> tuple[TopicProblem, ...]:
        return (
            *(() if self.error is None else (_problem(self.error),)),
            *(_problem(lack.error) for lack in self.lacks if lack.need.required),
            *self.topics.problems,
            *self.starts.problems,
            *self.configs.problems,
            *map(_problem, self.acls.problems),
            *self.schemas.problems,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know before a run."""
        lacks = (str(lack) for lack in self.lacks if not lack.need.required)
        return (*self.starts.notes, *lacks, *self.loops)


def _problem(error: CausewayError) -> TopicProblem:
    return TopicProblem(topic=error.subject, error=error)


def plan(settings: Settings, told: Told = lambda _: None) -> Plan:
    """Ask the clusters of every link and decide; writes nothing anywhere. Where there are
    transforms, a Spark on this machine reads them first; `told` hears what takes time.

    Clusters that do not answer are waited for at the same time; the other links have their plans.
    Raises ConfigError for transforms that cannot be used; UnreachableError if no link can be asked;
    another CausewayError if a cluster cannot be asked at all. `LinkPlan.problems` tells of single
    topics, partitions and ACLs.
    """
    checks = transforms.check(settings, told)
    with clusters() as connect:
        told("asking which clusters answer")
        silent = silent_clusters(settings.links, connect)
        links = []
        for link in settings.links:
            told(f"asking the clusters of {link.name}")
            known = Transforms(link, settings.spark)
            try:
                for client in (link.source_admin, link.target_admin):
                    if client.alias in silent:
                        raise silent[client.alias]
                links.append(_plan_link(link, known, connect, checks))
            except UnreachableError as error:
                links.append(_nothing(link, error=error))
        errors = [each.error for each in links if each.error is not None]
        if errors and len(errors) == len(links):
            raise errors[0]
        links = shared_groups.told(links)
        return Plan(links=not_alone(links), own=internal_topics.plan(settings, connect, silent))


def not_alone(links: Sequence[LinkPlan]) -> tuple[LinkPlan, ...]:
    """With a problem for each topic to which another link would write as well, where a link is to
    be alone there: a foreign record would stop it."""
    writers: defaultdict[tuple[Any, str], list[tuple[LinkSettings, str]]] = defaultdict(list)
    for each in links:
        for topic in each.topics.mirrored:
            place = each.link.target.bootstrap, topic.target
            writers[place].append((each.link, topic.source))
    return tuple(
        replace(each, topics=replace(each.topics, problems=(*each.topics.problems, *found)))
        if each.link.sole_writer and (found := tuple(_shared(each, writers)))
        else each
        for each in links
    )


def _shared(
    each: LinkPlan, writers: Mapping[tuple[Any, str], Sequence[tuple[LinkSettings, str]]]
) -> Iterator[TopicProblem]:
    link = each.link
    for topic in each.topics.mirrored:
        others = [
            f"{source} by {other.name}"
            for other, source in writers[link.target.bootstrap, topic.target]
            if other.name != link.name
        ]
        if others:
            error = ConfigError(
                "mirror",
                f"{topic.source} of {link.source.alias}",
                f"{topic.target} on {link.target.alias} would be the mirror of "
                f"{', '.join(others)}, too, and a record of others stops a partition",
                remedy="give one of them another name (causeway.rename), or set "
                f"{link.name}.causeway.sole.writer = false",
            )
            yield TopicProblem(topic=topic.source, error=error)


def _plan_link(link: LinkSettings, known: Transforms, connect: Connect, checks: Checks) -> LinkPlan:
    source, target = connect(link.source_admin), connect(link.target_admin)
    lacks = (
        *required_apis.lacking(link, "source", source),
        *required_apis.lacking(link, "target", target),
    )
    if any(lack.need.required for lack in lacks):
        return _nothing(link, lacks=lacks)
    sides = Sides(
        source=connect(link.source),
        target=connect(link.target),
        source_admin=source,
        target_admin=target,
    )
    log = ProgressTopic(target, link.progress_topic)
    has_run = log.exists()
    contents = log.read() if has_run else ProgressContents()
    identity.settle(sides, link, contents.clusters)
    for client in (link.source_admin, link.target_admin):
        reach(connect, client)  # within seconds, as one that is another cluster's is asked again
    observed = topics.observe(source, target, link)
    planned = topics.plan(observed, link, collisions.begun_by(contents.partitions.values()))
    planned = topic_changes.without_changes_if_paused(planned, link)
    planned = topic_changes.without(planned, _lost(planned, contents, link))
    planned = topic_changes.as_target_takes(planned, target, link.target.alias)
    there = {name: len(topic.partitions) for name, topic in observed.target_topics.items()}
    return LinkPlan(
        link=link,
        topics=planned,
        starts=starts.plan(sides, link, planned.mirrored, contents, there, known.identity_of),
        configs=_plan_configs(source, target, planned.mirrored, link),
        acls=_plan_acls(source, target, planned.mirrored, link),
        new_progress_topic=None if has_run else link.progress_topic,
        lacks=lacks,
        loops=tuple(loops.warnings(link, source, target, observed.source_topics)),
        schemas=schemas.plan(link, planned.mirrored),
        transforms=transforms.plan(link, checks, [topic.source for topic in planned.mirrored]),
        changed=tuple(
            (at, change)
            for topic in planned.mirrored
            for at in (TopicPartition(topic.source, n) for n in range(topic.partitions))
            if (progress := contents.partitions.get(at)) is not None
            and (change := transform_change(progress, known.identity_of(topic.source)))
        ),
    )


def _nothing(
    link: LinkSettings, *, lacks: tuple[MissingApi, ...] = (), error: CausewayError | None = None
) -> LinkPlan:
    """The plan of a link that would not begin: its brokers lack a required API, or do not
    answer."""
    return LinkPlan(
        link=link,
        topics=TopicPlan(mirrored=(), left_out=(), changes=(), problems=()),
        starts=Starts(),
        configs=ConfigPlan(changes=(), problems=()),
        acls=AclPlan(),
        new_progress_topic=None,
        lacks=lacks,
        error=error,
    )


def _plan_configs(
    source: Cluster, target: Cluster, mirrored: Iterable[MirroredTopic], link: LinkSettings
) -> ConfigPlan:
    if not link.sync_topic_configs_enabled:
        return ConfigPlan(changes=(), problems=())
    there = [topic for topic in mirrored if topic.target_id is not None]
    return configs.plan(configs.observe(source, target, there), there, link)


def _plan_acls(
    source: Cluster, target: Cluster, mirrored: Iterable[MirroredTopic], link: LinkSettings
) -> AclPlan:
    """`run` mirrors records where it may not see ACLs: this is a problem beside the others."""
    if not (link.control.sync_topic_acls_enabled or link.control.read_only_mirrors):
        return AclPlan()
    try:
        return acls.plan(acls.observe(source, target, link), mirrored, link)
    except AuthorizationError as error:
        return AclPlan(problems=(error,))
    except BrokerError as error:
        if not is_unsupported(error):
            raise
        return AclPlan()  # see `lacks`


def _lost(
    planned: TopicPlan, contents: ProgressContents, link: LinkSettings
) -> dict[Change, CausewayError]:
    """Target topics that had records of the mirror and are gone: `run` does not make them again."""
    begun = {
        outlet.topic for progress in contents.partitions.values() for outlet in progress.outlets
    }
    return {
        change: DivergedError(
            "mirror to",
            f"{change.topic} on {link.target.alias}",
            "the topic was mirrored before and is gone",
            remedy=claim_checks.ACT,
        )
        for change in planned.changes
        if isinstance(change, CreateTopic) and change.topic in begun
    }


def as_json(whole: Plan) -> dict[str, Any]:
    """For `--json`: stable keys, no secrets."""
    return {
        "links": [_link_json(each) for each in whole.links],
        "own_topics": [
            {
                "cluster": topic.cluster,
                "topic": topic.topic,
                "purpose": topic.purpose,
                "exists": topic.there,
                "error": None if topic.error is None else str(topic.error),
                "change": topic.change,
                "problem": None if topic.problem is None else str(topic.problem),
            }
            for topic in whole.own
        ],
    }


def _link_json(each: LinkPlan) -> dict[str, Any]:
    treated_by = {topic: one.settings.name for one in each.transforms for topic in one.topics}
    taken_up: defaultdict[str, list[Start]] = defaultdict(list)
    for start in each.starts.partitions:
        taken_up[start.topic].append(start)
    return {
        "link": each.link.name,
        "source": each.link.source.alias,
        "target": each.link.target.alias,
        "error": None if each.error is None else str(each.error),
        "mirrored": [
            {
                "topic": topic.source,
                "target_topic": topic.target,
                "partitions": topic.partitions,
                "target_partitions": topic.target_partitions,
                "topic_id": topic.source_id,
                "target_topic_id": topic.target_id,
                "notes": list(topic.notes),
                "transform": treated_by.get(topic.source),
                "starts": [_start_json(start) for start in taken_up[topic.source]],
            }
            for topic in each.topics.mirrored
        ],
        "transforms": [transforms.as_json(one) for one in each.transforms],
        "treatments": [{"kind": one.kind, "text": one.text} for one in each.link.treatments],
        "transform_changes": [
            {"topic": at.topic, "partition": at.partition, "change": change}
            for at, change in each.changed
        ],
        "changes": [
            change_json(change) for change in (*each.topics.changes, *each.configs.changes)
        ],
        "acls": {
            "create": [str(acl) for acl in each.acls.creates],
            "left_out": [
                {"acl": str(left.acl), "reason": left.reason} for left in each.acls.left_out
            ],
            "notes": list(each.acls.notes),
        },
        "schemas": schemas.as_json(each.schemas),
        "new_progress_topic": each.new_progress_topic,
        "notes": list(each.notes),
        "internal_in_kafka_3": list(each.internal_in_kafka_3),
        "left_out": [
            {"topic": left.topic, "code": left.code, "reason": left.reason}
            for left in each.topics.left_out
        ],
        "problems": [
            {
                "topic": problem.topic,
                "operation": problem.error.operation,
                "subject": problem.error.subject,
                "cause": problem.error.cause,
                "remedy": problem.error.remedy,
            }
            for problem in each.problems
        ],
    }


def _start_json(start: Start) -> dict[str, Any]:
    return {
        "partition": start.partition,
        "how": start.how,
        "offset": start.offset,
        "source_first": start.first,
        "source_end": start.end,
    }


def change_json(change: Change | SyncConfigs) -> dict[str, Any]:
    match change:
        case CreateTopic():
            return {
                "change": "create topic",
                "topic": change.topic,
                "partitions": change.partitions,
                "replication_factor": change.replication_factor,
                "configs": dict(change.configs),
            }
        case GrowTopic():
            return {
                "change": "add partitions",
                "topic": change.topic,
                "partitions": change.partitions,
                "before": change.before,
            }
        case AlterTopicConfigs() | SyncConfigs():
            return {
                "change": "alter configs",
                "topic": change.topic,
                "configs": dict(change.configs),
            }
