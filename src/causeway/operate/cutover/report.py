"""A cutover in words and as JSON. The keys are stable, and no secrets are shown.

`fenced_until_ms` is by the clock of the leading driver, which is `driver_clock_ahead_ms` ahead of
this machine's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from causeway.model import age_ms
from causeway.operate.cutover.values import CutoverResult, Producer
from causeway.status import picked

_MOST_LINES: Final = 8
_MOST_NAMES: Final = 5


def shortened(lines: Iterable[str]) -> tuple[str, ...]:
    found = list(lines)
    if len(found) <= _MOST_LINES:
        return tuple(found)
    return (*found[:_MOST_LINES], f"and {len(found) - _MOST_LINES:,} more")


def named(found: Collection[str]) -> str:
    """The first names, and how many more there are."""
    more = len(found) - _MOST_NAMES
    shown = ", ".join(list(found)[:_MOST_NAMES])
    return shown + (f" and {more:,} more" if more > 0 else "")


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
    return shortened(_line(each, now_ms) for each in producers)


def _line(each: Producer, now_ms: int) -> str:
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
    return picked(
        result,
        "end pause_ms",
        link=result.link.name,
        first=result.wishes.first,
        driver_clock_ahead_ms=look.ahead_ms,
        steps=[
            picked(
                step,
                "step=name state text lines",
                left_s=None if step.left_s is None else round(step.left_s, 1),
            )
            for step in result.checklist.steps
        ],
        checks=[picked(each, "check=name mark text") for each in look.checks],
        topics=[
            {
                "topic": topic,
                "target_topic": target,
                "fenced_until_ms": None
                if (fence := look.fences.get(topic)) is None
                else fence.record.until,
                "ended": topic in look.ended,
                "partitions": [
                    picked(
                        place,
                        "source_end=end mirrored_to=position state reason",
                        partition=place.at.partition,
                    )
                    for place in look.places
                    if place.at.topic == topic
                ],
            }
            for topic, target in sorted(look.topics.items())
        ],
        groups=[
            picked(
                group,
                "group=name members_on_source=busy_here members_on_target=busy_there behind placed"
                " ahead reason",
            )
            for group in look.groups
        ],
        producers=_producers(look.producers),
        through_the_fence=_producers(result.through),
        behind_the_cut=_producers(look.late),
    )


def _producers(found: Iterable[Producer]) -> list[dict[str, Any]]:
    return [
        picked(
            each,
            "topics producer_id transactional_id last_ms",
            records=each.records or None,
        )
        for each in found
    ]
