"""Numbers and lists in the words of a checklist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
