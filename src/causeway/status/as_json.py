"""What `causeway status` found, as JSON."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from causeway.control import geo_topics
from causeway.link_topics import directive_as_json
from causeway.operate.plan import transforms
from causeway.status.from_clusters import LinkStatus


def as_json(links: Collection[LinkStatus]) -> dict[str, Any]:
    """For `--json`: stable keys, no secrets; null where a value is unknown."""
    return {"links": [_link_json(each) for each in links]}


def _link_json(each: LinkStatus) -> dict[str, Any]:
    return {
        "link": each.link.name,
        "source": each.link.source.alias,
        "target": each.link.target.alias,
        "state": str(each.state),
        "source_reason": each.unavailable,
        "error": None if each.error is None else str(each.error),
        "driver": None
        if each.driver is None
        else {
            "owner": each.driver.owner,
            "running": each.driver.running,
            "last_seen_ms": each.driver.last_seen_ms,
        },
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "target_topic": one.target,
                "source_end": one.source_end,
                "high_watermark": one.high_watermark,
                "mirrored_to": one.mirrored_to,
                "lag_records": one.lag_records,
                "held_records": one.held,
                "lag_ms": one.lag_ms,
                "lost_records": one.lost_records,
                "state": str(one.state),
                "reason": one.reason,
            }
            for one in each.partitions
        ],
        "tasks": [
            {
                "task": task.name,
                "reason": task.reason,
                "items": dict(task.items),
                "figures": dict(task.figures),
                "done_at_ms": task.done_at if task.done_at >= 0 else None,
            }
            for task in each.tasks
        ],
        "transforms": [transforms.state_json(one) for one in each.transforms],
        "treatments": [{"kind": one.kind, "text": one.text} for one in each.link.treatments],
        "directives": [directive_as_json(one) for one in geo_topics.asked(each.asked.directives)],
        "directives_reason": each.asked.reason,
        "notes": [{"target_topic": topic, "note": note} for topic, note in each.notes],
        "problems": [
            {"topic": problem.topic, "reason": str(problem.error)} for problem in each.problems
        ],
    }
