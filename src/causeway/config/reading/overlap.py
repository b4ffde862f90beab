"""Whether two flows may mirror one topic, as far as their patterns tell by how they begin."""

from __future__ import annotations

from collections.abc import Sequence

from causeway.config.settings import LinkSettings
from causeway.patterns import Pattern

_MAYBE_NONE = "?*{"  # what stands before it need not be there
_PLAIN = frozenset("-_")


def may_share(one: LinkSettings, other: LinkSettings) -> bool:
    """False only where no topic matches both. Names have to stay as they are along both."""
    if one.geo or other.geo or {one.policy.kind, other.policy.kind} != {"identity"}:
        return True
    return any(_may_meet(_begin(a), _begin(b)) for a in one.topics for b in other.topics)


def _begin(pattern: Pattern) -> tuple[Sequence[str | None], bool]:
    """The characters that each match begins with, None for any one; whether that is all of it."""
    text = pattern.pattern
    if "|" in text:
        return (), False
    begin: list[str | None] = []
    at = 0
    while at < len(text):
        char = text[at]
        step = 1
        if char == "\\" and at + 1 < len(text) and not text[at + 1].isalnum():
            char, step = text[at + 1], 2
        elif char == ".":
            char = ""
        elif not (char.isalnum() and char.isascii()) and char not in _PLAIN:
            return begin, False
        after = text[at + step : at + step + 1]
        if after and after in _MAYBE_NONE:
            return begin, False
        begin.append(char or None)
        if after == "+":
            return begin, False
        at += step
    return begin, True


def _may_meet(
    one: tuple[Sequence[str | None], bool], other: tuple[Sequence[str | None], bool]
) -> bool:
    (these, all_of_these), (those, all_of_those) = one, other
    if any(a and b and a != b for a, b in zip(these, those, strict=False)):
        return False
    return not (
        (all_of_these and len(these) < len(those)) or (all_of_those and len(those) < len(these))
    )
