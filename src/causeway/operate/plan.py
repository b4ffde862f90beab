"""The dry run: what `causeway run` would mirror, make and change, by the code that does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from causeway.config.settings import LinkSettings, Settings
from causeway.control import topics
from causeway.control.topics import (
    AlterTopicConfigs,
    Change,
    CreateTopic,
    GrowTopic,
    TopicPlan,
)
from causeway.daemon.claims import ACT
from causeway.errors import CausewayError, DivergedError
from causeway.operate.clusters import Connect, clusters
from causeway.relay.progress import Contents, ProgressTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    link: LinkSettings
    topics: TopicPlan
    new_progress_topic: str | None  # None: it exists, the link has run before


def plan(settings: Settings) -> tuple[LinkPlan, ...]:
    """Ask the clusters of every link and decide; writes nothing anywhere.

    Raises a CausewayError where a cluster cannot be asked at all; what is wrong with single topics
    stands in `TopicPlan.problems`.
    """
    with clusters() as connect:
        return tuple(_plan_link(link, connect) for link in settings.links)


def _plan_link(link: LinkSettings, connect: Connect) -> LinkPlan:
    source, target = connect(link.source_admin), connect(link.target_admin)
    observed = topics.observe(source, target, link)
    planned = topics.plan(observed, link)
    known = link.progress_topic in observed.target_topics
    errors = topics.refused(planned.changes, target)
    if known:
        errors |= _lost(planned, ProgressTopic(target, link.progress_topic).read(), link)
    return LinkPlan(
        link=link,
        topics=topics.without(planned, errors),
        new_progress_topic=None if known else link.progress_topic,
    )


def _lost(
    planned: TopicPlan, contents: Contents, link: LinkSettings
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
            remedy=ACT,
        )
        for change in planned.changes
        if isinstance(change, CreateTopic) and change.topic in begun
    }


def as_json(plans: tuple[LinkPlan, ...]) -> dict[str, Any]:
    """For `--json`: stable keys, no secrets."""
    return {"links": [_link_json(each) for each in plans]}


def _link_json(each: LinkPlan) -> dict[str, Any]:
    return {
        "link": each.link.name,
        "source": each.link.source.alias,
        "target": each.link.target.alias,
        "mirrored": [
            {
                "topic": topic.source,
                "target_topic": topic.target,
                "partitions": topic.partitions,
                "target_partitions": topic.target_partitions,
                "topic_id": topic.source_id,
                "target_topic_id": topic.target_id,
            }
            for topic in each.topics.mirrored
        ],
        "changes": [change_json(change) for change in each.topics.changes],
        "new_progress_topic": each.new_progress_topic,
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
            for problem in each.topics.problems
        ],
    }


def change_json(change: Change) -> dict[str, Any]:
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
        case AlterTopicConfigs():
            return {
                "change": "alter configs",
                "topic": change.topic,
                "configs": dict(change.configs),
            }
