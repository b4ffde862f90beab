"""Numbers and lists in the words of a checklist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from causeway.model import age_ms
from causeway.operate.cutover.values import Producer

_MOST_LINES: Final = 8


def cut(lines: Iterable[str]) -> tuple[str, ...]:
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


def named(producers: Iterable[Producer], now_ms: int) -> tuple[str, ...]:
    """A line for each producer."""
    return cut(_name(each, now_ms) for each in producers)


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
