"""Sets of Unicode's characters, for computing Java's character classes.

The tables of the `regex` package have the properties of characters. Surrogates are in no set: they
are halves of characters, and no name contains them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import regex

_HALVES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF
_SPECIAL_IN_CLASS = frozenset("\\]^-[&|~")


@dataclass(frozen=True, slots=True)
class Points:
    """`ranges`: (first, last) code points, ascending. They neither overlap nor touch."""

    ranges: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(ranges: Iterable[tuple[int, int]]) -> Points:
        """Returns the union of `ranges`, which may be in any order."""
        joined: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], last))
            else:
                joined.append((first, last))
        return Points(tuple(joined))

    @staticmethod
    def chars(chars: Iterable[str]) -> Points:
        return Points.of((ord(char), ord(char)) for char in chars)

    def __or__(self, other: Points) -> Points:
        return Points.of((*self.ranges, *other.ranges))

    def __invert__(self) -> Points:
        gaps, start = [], 0
        for first, last in Points.of((*self.ranges, _HALVES)).ranges:
            if start < first:
                gaps.append((start, first - 1))
            start = last + 1
        if start <= _LAST:
            gaps.append((start, _LAST))
        return Points(tuple(gaps))

    def __and__(self, other: Points) -> Points:
        return ~(~self | ~other)

    def __contains__(self, code: int) -> bool:
        return any(first <= code <= last for first, last in self.ranges)

    def in_class(self) -> str:
        """Returns the set as a class of a regular expression, in the syntax of RE2 and Python."""
        if self in (EVERYTHING, Points()):
            return ANYTHING if self.ranges else f"[^{ANYTHING[1:]}"
        inverse = ~self
        if len(inverse.ranges) < len(self.ranges):
            return f"[^{inverse._members()}]"
        return f"[{self._members()}]"

    def _members(self) -> str:
        return "".join(
            _member(first) + ("-" if last > first + 1 else "") + (_member(last) * (last > first))
            for first, last in self.ranges
        )


def _member(code: int) -> str:
    char = chr(code)
    return "\\" + char if char in _SPECIAL_IN_CLASS else char


EVERYTHING = ~Points()
ANYTHING = f"[{chr(0)}-{chr(_LAST)}]"  # as a class
ASCII = Points.of([(0, 127)])


@lru_cache(maxsize=256)
def having(members: str) -> Points:
    r"""Returns the characters of the class `[members]`, by the `regex` package:
    `having(r"\p{Lu}")`. Raises regex.error for an unknown property."""
    found = regex.compile(f"[{members}]+").finditer(_all())
    return Points.of((ord(match[0][0]), ord(match[0][-1])) for match in found) & EVERYTHING


@lru_cache(maxsize=1)
def _all() -> str:
    return "".join(map(chr, (*range(_HALVES[0]), *range(_HALVES[1] + 1, _LAST + 1))))


def ignoring_ascii_case(points: Points) -> Points:
    """Returns the set with `(?i)`: also the other case of each ASCII letter."""
    letters = (chr(code) for code in range(128) if code in points and chr(code).isalpha())
    return points | Points.chars(letter.swapcase() for letter in letters)


def ignoring_case(points: Points) -> Points:
    """Returns a range with `(?iu)`. Java compares it with the upper case of a character, and with
    the lower case of that upper case."""
    return points | Points.of(
        (code, code) for code, upper, folded in _cases() if upper in points or folded in points
    )


def same_letter(char: str) -> Points:
    """Returns a single character with `(?iu)`. Java compares the lower case of the upper case."""
    wanted = ord(_lower(_upper(char)))
    same = (code for code, _, folded in _cases() if folded == wanted)
    return Points.of((code, code) for code in (ord(char), wanted, *same))


@lru_cache(maxsize=1)
def _cases() -> tuple[tuple[int, int, int], ...]:
    """Returns (code point, its upper case, the lower case of that) of all characters with cases."""
    chars = (
        chr(code)
        for span in having(r"\p{Cased}\p{M}\p{Nl}\p{So}").ranges
        for code in range(span[0], span[1] + 1)
    )
    cases = ((char, _upper(char)) for char in chars)
    return tuple(
        (ord(char), ord(upper), ord(_lower(upper)))
        for char, upper in cases
        if upper != char or _lower(upper) != char
    )


def _upper(char: str) -> str:
    """Returns a character's upper case, if that is one character, like Character.toUpperCase."""
    return next((text for text in (char.upper(), char.title()) if len(text) == 1), char)


def _lower(char: str) -> str:
    return char.lower()[0]  # only İ has two characters: i and a dot above
