"""The plan of a link, and its JSON."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from causeway.config import LinkSettings
from causeway.control import (
    AclPlan,
    AlterTopicConfigs,
    Change,
    ConfigPlan,
    CreateTopic,
    GrowTopic,
    MissingApi,
    SyncConfigs,
    TopicPlan,
    TopicProblem,
)
from causeway.errors import (
    CausewayError,
)
from causeway.model import TopicPartition
from causeway.operate.plan import transforms
from causeway.operate.plan.internal_topics import OwnTopic
from causeway.operate.plan.starts import Start, Starts
from causeway.operate.plan.transforms import TransformPlan

if TYPE_CHECKING:
    from causeway.schemas import Due


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    subjects: tuple[Due, ...] = ()
    problems: tuple[TopicProblem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`own`: topics that a run creates besides the mirrors, on all clusters of the file."""

    links: tuple[LinkPlan, ...]
    own: tuple[OwnTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """`error`: a cluster of the link does not answer; then the plan is empty."""

    link: LinkSettings
    topics: TopicPlan
    starts: Starts
    configs: ConfigPlan  # of existing mirrors; a new mirror is created with its configs
    acls: AclPlan
    new_progress_topic: str | None  # None: it exists, because the link has run before
    loops: tuple[str, ...] = ()  # topics that flows of other files mirror back
    lacks: tuple[MissingApi, ...] = ()  # missing APIs; if one is required, the plan is empty
    transforms: tuple[TransformPlan, ...] = ()  # in the file's order
    schemas: SchemaPlan = field(default_factory=SchemaPlan)
    # Partitions whose records went through another transform so far, and the consequence.
    changed: tuple[tuple[TopicPartition, str], ...] = ()
    error: CausewayError | None = None

    @property
    def internal_in_kafka_3(self) -> tuple[str, ...]:
        """Mirrored topics that MirrorMaker 2 before Kafka 4.0 left out."""
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
        """Facts that an operator should know before a run."""
        lacks = (str(lack) for lack in self.lacks if not lack.need.required)
        return (*self.starts.notes, *lacks, *self.loops)


def _problem(error: CausewayError) -> TopicProblem:
    return TopicProblem(topic=error.subject, error=error)


def as_json(whole: Plan) -> dict[str, Any]:
    """JSON for `--json`: stable keys, no secrets."""
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
    transform_of = {topic: one.settings.name for one in each.transforms for topic in one.topics}
    starts: defaultdict[str, list[Start]] = defaultdict(list)
    for start in each.starts.partitions:
        starts[start.topic].append(start)
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
                "transform": transform_of.get(topic.source),
                "starts": [_start_json(start) for start in starts[topic.source]],
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
        "schemas": _schemas_json(each.schemas),
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


def _schemas_json(planned: SchemaPlan) -> list[dict[str, Any]]:
    return [
        {
            "subject": one.pair.source,
            "target_subject": one.pair.target,
            "changes": list(one.changes),
            "clash": one.clash,
        }
        for one in planned.subjects
    ]
