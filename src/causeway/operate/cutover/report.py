"""A cutover in words and as JSON. The keys are stable, and no secrets are shown.

`fenced_until_ms` is by the clock of the leading driver, which is `driver_clock_ahead_ms` ahead of
this machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from causeway.model import age_ms
from causeway.operate.cutover.values import CutoverResult, Producer

_MOST_LINES: Final = 8


def shortened(lines: Iterable[str]) -> tuple[str, ...]:
    found = list(lines)
    if len(found) <= _MOST_LINES:
        return tuple(found)
    return (*found[:_MOST_LINES], f"and {len(found) - _MOST_LINES:,} more")


def count(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def time(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min" if not rest else f"{minutes} min {rest} s"


def producer_lines(producers: Iterable[Producer], now_ms: int) -> tuple[str, ...]:
    """A line for each producer."""
    return shortened(_name(each, now_ms) for each in producers)


def _name(each: Producer, now_ms: int) -> str:
    where = ", ".join(each.topics)
    many = f", {count(each.records, 'record')}" if each.records else ""
    if each.producer_id is None:
        return f"{where}: a producer without an id (not idempotent), so no broker can name it{many}"
    who = f"producer id {each.producer_id}"
    if each.transactional_id is not None:
        who += f", transactional id {each.transactional_id}"
    ago = age_ms(each.last_ms, now_ms)
    dated = "with an impossible time" if ago is None else f"dated {time(ago / 1000)} ago"
    return f"{where}: {who}{many}, newest record {dated}"


def result_json(result: CutoverResult) -> dict[str, Any]:
    """The result of one call. Offsets are of the source; null means unknown."""
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
