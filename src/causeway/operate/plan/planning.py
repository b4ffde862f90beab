"""Plans a run with the code of the driver: what `causeway run` would mirror, create and change."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from causeway.cluster import Cluster, Connect, clusters, reach, silent_clusters
from causeway.config import LinkSettings, Settings
from causeway.control import (
    AclPlan,
    Change,
    ConfigPlan,
    CreateTopic,
    MirroredTopic,
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
from causeway.daemon import Sides, settle_clusters
from causeway.daemon.partitions import transform_change
from causeway.errors import (
    AuthorizationError,
    BrokerError,
    CausewayError,
    ConflictError,
    DivergedError,
    UnreachableError,
)
from causeway.link_topics import ProgressContents, ProgressTopic
from causeway.model import TopicPartition
from causeway.operate.plan import conflicts, internal_topics, offsets, starts, transforms
from causeway.operate.plan.link_plan import LinkPlan, Plan, problem
from causeway.operate.plan.transforms import Checks
from causeway.operate.try_transform import OnStep
from causeway.wire import is_unsupported

if TYPE_CHECKING:
    from causeway.schemas import Due


def plan(settings: Settings, on_step: OnStep = lambda _: None) -> Plan:
    """Asks the clusters of every link and decides; writes nothing. Spark on this machine checks the
    transforms first. `on_step` is called with each step that takes time.

    It waits in parallel for clusters that do not answer; the other links still get their plans.
    Raises ConfigError for transforms that cannot be used, UnreachableError if no link's clusters
    answer, another CausewayError if a request to a cluster fails. `LinkPlan.problems` has the
    problems of single topics, partitions and ACLs.
    """
    checks = transforms.check(settings, on_step)
    with clusters() as connect:
        on_step("asking which clusters answer")
        silent = silent_clusters(settings.links, connect)
        links = []
        for link in settings.links:
            on_step(f"asking the clusters of {link.name}")
            known = Transforms(link, settings.spark)
            try:
                for client in (link.source_admin, link.target_admin):
                    if client.alias in silent:
                        raise silent[client.alias]
                links.append(_plan_link(link, known, connect, checks))
            except UnreachableError as error:
                links.append(LinkPlan(link=link, problems=(problem(error),), error=error))
        errors = [each.error for each in links if each.error is not None]
        if errors and len(errors) == len(links):
            raise errors[0]
        own = internal_topics.plan(settings, connect, silent)
        return Plan(links=conflicts.with_other_writers(links), own=own)


def _plan_link(link: LinkSettings, known: Transforms, connect: Connect, checks: Checks) -> LinkPlan:
    source, target = connect(link.source_admin), connect(link.target_admin)
    lacks = [
        *required_apis.lacking(link, "source", source),
        *required_apis.lacking(link, "target", target),
    ]
    required = tuple(problem(lack.error) for lack in lacks if lack.need.required)
    if required:
        return LinkPlan(
            link=link,
            problems=required,
            notes=tuple(str(lack) for lack in lacks if not lack.need.required),
        )
    sides = Sides.of(link, connect)
    log = ProgressTopic(target, link.progress_topic)
    has_run = log.exists()
    contents = log.read() if has_run else ProgressContents()
    settle_clusters(sides, link, contents.clusters)
    for client in (link.source_admin, link.target_admin):
        reach(connect, client)  # fails within seconds if another cluster answers
    observed = topics.observe(source, target, link)
    planned = topics.plan(observed, link, collisions.begun_by(contents.partitions.values()))
    planned = topic_changes.without_changes_if_paused(planned, link)
    planned = topic_changes.without(planned, _lost(planned, contents, link))
    planned = topic_changes.as_target_takes(planned, target, link.target.alias)
    there = {name: len(topic.partitions) for name, topic in observed.target_topics.items()}
    begun = starts.plan(sides, link, planned.mirrored, contents, there, known.identity_of)
    filling = {p.topic for p in contents.partitions.values() if p.begins}
    synced = _plan_configs(source, target, planned.mirrored, link, filling)
    allowed = _plan_acls(source, target, planned.mirrored, link)
    subjects, clashes = _plan_schemas(link, planned.mirrored)
    transformed = transforms.plan(link, checks, [topic.source for topic in planned.mirrored])
    kept = offsets.plan(link, target, planned.mirrored, begun.partitions, transformed, there)
    return LinkPlan(
        link=link,
        mirrored=planned.mirrored,
        left_out=planned.left_out,
        starts=begun.partitions,
        changes=(*planned.changes, *synced.changes),
        acls=allowed,
        new_progress_topic=None if has_run else link.progress_topic,
        subjects=subjects,
        transforms=transformed,
        offsets=kept,
        changed=tuple(
            (at, change)
            for topic in planned.mirrored
            for at in (TopicPartition(topic.source, n) for n in range(topic.partitions))
            if (progress := contents.partitions.get(at)) is not None
            and (change := transform_change(progress, known.identity_of(topic.source)))
        ),
        problems=(
            *planned.problems,
            *begun.problems,
            *synced.problems,
            *map(problem, allowed.problems),
            *clashes,
            *kept.problems,
        ),
        notes=(
            *begun.notes,
            *kept.notes,
            *map(str, lacks),
            *conflicts.loops(link, source, target, observed.source_topics),
            *starts.groups_both_ways(link, contents, observed.source_topics),
        ),
    )


def _plan_configs(
    source: Cluster,
    target: Cluster,
    mirrored: Iterable[MirroredTopic],
    link: LinkSettings,
    filling: Collection[str],
) -> ConfigPlan:
    if not link.sync_topic_configs_enabled:
        return ConfigPlan(changes=(), problems=())
    there = [topic for topic in mirrored if topic.target_id is not None]
    return configs.plan(configs.observe(source, target, there), there, link, filling)


def _plan_acls(
    source: Cluster, target: Cluster, mirrored: Iterable[MirroredTopic], link: LinkSettings
) -> AclPlan:
    """A problem and not an error, because `run` mirrors records without the right to read ACLs."""
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
    """Returns missing target topics that had records of the mirror: `run` does not create them
    again."""
    begun = {
        outlet.topic for progress in contents.partitions.values() for outlet in progress.outlets
    }
    return {
        change: DivergedError(
            "mirror to",
            f"{change.topic} on {link.target.alias}",
            "the topic was mirrored before and no longer exists",
            remedy=claim_checks.ACT,
        )
        for change in planned.changes
        if isinstance(change, CreateTopic) and change.topic in begun
    }


def _plan_schemas(
    link: LinkSettings, mirrored: Iterable[MirroredTopic]
) -> tuple[tuple[Due, ...], tuple[TopicProblem, ...]]:
    """Asks both registries; writes nothing. A registry that does not answer is a problem."""
    if link.schemas is None:
        return (), ()
    from causeway.schemas import LinkSchemas

    try:
        due = LinkSchemas(link.schemas).due([(each.source, each.target) for each in mirrored])
    except CausewayError as error:
        return (), (TopicProblem(topic=link.name, error=error),)
    return tuple(due), tuple(
        TopicProblem(
            topic=one.pair.target,
            error=ConflictError(f"{link.schemas.mode} schemas of", one.pair.source, one.clash),
        )
        for one in due
        if one.clash is not None
    )
