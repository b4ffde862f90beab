"""A cutover as JSON: stable keys, no secrets. `fenced_until_ms` is by the clock of the driver that
leads, which is `driver_clock_ahead_ms` ahead of this machine's."""

from __future__ import annotations

from typing import Any

from causeway.operate.cutover.outcome import Result
from causeway.operate.cutover.undoing import Lifted
from causeway.operate.cutover.values import Producer


def as_json(result: Result) -> dict[str, Any]:
    """Of one call. Offsets are the source's; null where a value is unknown."""
    look = result.look
    return {
        "link": result.link.name,
        "end": result.end.value,
        "first": result.wishes.first.value,
        "pause_ms": result.pause_ms,
        "driver_clock_ahead_ms": look.ahead_ms,
        "steps": [
            {
                "step": step.name,
                "state": step.state.value,
                "text": step.text,
                "lines": list(step.lines),
                "left_s": None if step.left_s is None else round(step.left_s, 1),
            }
            for step in result.checklist.steps
        ],
        "checks": [
            {"check": each.name, "mark": each.mark.value, "text": each.text} for each in look.checks
        ],
        "topics": [
            {
                "topic": topic,
                "target_topic": target,
                "fenced_until_ms": look.fences[topic].record.until
                if topic in look.fences
                else None,
                "ended": topic in look.ended,
                "partitions": [
                    {
                        "partition": place.at.partition,
                        "source_end": place.end,
                        "mirrored_to": place.position,
                        "state": place.state,
                        "reason": place.reason,
                    }
                    for place in look.places
                    if place.at.topic == topic
                ],
            }
            for topic, target in sorted(look.topics.items())
        ],
        "groups": [
            {
                "group": group.name,
                "members_on_source": group.busy_here,
                "members_on_target": group.busy_there,
                "behind": group.behind,
                "placed": group.placed,
                "ahead": group.ahead,
                "reason": group.reason,
            }
            for group in look.groups
        ],
        "producers": [_producer(each) for each in look.producers],
        "through_the_fence": [_producer(each) for each in result.through],
        "behind_the_cut": [_producer(each) for each in look.late],
    }


def _producer(each: Producer) -> dict[str, Any]:
    return {
        "topics": list(each.topics),
        "producer_id": each.producer_id,
        "transactional_id": each.transactional_id,
        "last_ms": each.last_ms,
        "records": each.records or None,
    }


def undone_json(lifted: Lifted) -> dict[str, Any]:
    """Of `--undo`."""
    return {
        "link": lifted.link.name,
        "changed": lifted.changed,
        "held": list(lifted.held),
        "stopped": lifted.stopped,
        "fences": [
            {
                "topic": topic,
                "ended": topic in lifted.ended,
                "error": None if error is None else str(error),
            }
            for topic, error in sorted(lifted.topics.items())
        ],
    }
