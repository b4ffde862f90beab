"""The plan of a link, and its JSON."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from causeway.config import LinkSettings
from causeway.control import (
    AclPlan,
    AlterTopicConfigs,
    Change,
    CreateTopic,
    GrowTopic,
    LeftOut,
    MirroredTopic,
    SyncConfigs,
    TopicProblem,
)
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.operate.plan.internal_topics import OwnTopic
from causeway.operate.plan.offsets import OffsetsPlan
from causeway.operate.plan.starts import Start
from causeway.operate.plan.transforms import TransformPlan

if TYPE_CHECKING:
    from causeway.schemas import Due

_CHANGES: Final = {
    CreateTopic: "create topic",
    GrowTopic: "add partitions",
    AlterTopicConfigs: "alter configs",
    SyncConfigs: "alter configs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`own`: topics that a run creates besides the mirrors, on all clusters of the file."""

    links: tuple[LinkPlan, ...]
    own: tuple[OwnTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """`error`: a cluster of the link does not answer. Then the plan has no topics. It has none
    either if brokers lack a required API. `problems`: for a person to solve. `notes`: facts that an
    operator should know before a run."""

    link: LinkSettings
    mirrored: tuple[MirroredTopic, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    starts: tuple[Start, ...] = ()
    changes: tuple[Change | SyncConfigs, ...] = ()
    acls: AclPlan = field(default_factory=AclPlan)
    new_progress_topic: str | None = None  # None: it exists, because the link has run before
    transforms: tuple[TransformPlan, ...] = ()  # in the file's order
    subjects: tuple[Due, ...] = ()
    # Partitions whose records have gone through another transform so far, and the consequence.
    changed: tuple[tuple[TopicPartition, str], ...] = ()
    offsets: OffsetsPlan = field(default_factory=OffsetsPlan)
    problems: tuple[TopicProblem, ...] = ()
    notes: tuple[str, ...] = ()
    error: CausewayError | None = None

    @property
    def internal_in_kafka_3(self) -> tuple[str, ...]:
        """Mirrored topics that MirrorMaker 2 before Kafka 4.0 left out."""
        internal = self.link.policy.is_internal_in_kafka_3
        return tuple(topic.source for topic in self.mirrored if internal(topic.source))


def problem(error: CausewayError) -> TopicProblem:
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
    starts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for start in each.starts:
        starts[start.topic].append(
            {
                "partition": start.partition,
                "how": start.how,
                "offset": start.offset,
                "source_first": start.first,
                "source_end": start.end,
                "offsets_to_fill": start.fills,
            }
        )
    kept = {one.topic: one.as_json() for one in each.offsets.topics}
    filling = each.offsets.filling
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
                "starts": starts[topic.source],
                "keeps_offsets": topic.preserves,
                "offsets": kept.get(topic.source),
            }
            for topic in each.mirrored
        ],
        "offset_gaps": None
        if filling is None
        else {"filled_by": filling.way, "lacks": filling.lacks},
        "transforms": [one.as_json() for one in each.transforms],
        "treatments": [{"kind": one.kind, "text": one.text} for one in each.link.treatments],
        "transform_changes": [
            {"topic": at.topic, "partition": at.partition, "change": change}
            for at, change in each.changed
        ],
        "changes": [_change_json(change) for change in each.changes],
        "acls": {
            "create": [str(acl) for acl in each.acls.creates],
            "left_out": [
                {"acl": str(left.acl), "reason": left.reason} for left in each.acls.left_out
            ],
            "notes": list(each.acls.notes),
        },
        "schemas": [
            {
                "subject": one.pair.source,
                "target_subject": one.pair.target,
                "changes": list(one.changes),
                "clash": one.clash,
            }
            for one in each.subjects
        ],
        "new_progress_topic": each.new_progress_topic,
        "notes": list(each.notes),
        "internal_in_kafka_3": list(each.internal_in_kafka_3),
        "left_out": [
            {"topic": left.topic, "code": left.code, "reason": left.reason}
            for left in each.left_out
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


def _change_json(change: Change | SyncConfigs) -> dict[str, Any]:
    found = {"change": _CHANGES[type(change)], **asdict(change)}
    return found | {"configs": dict(found["configs"])} if "configs" in found else found
