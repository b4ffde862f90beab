"""References of schemas that form a circle: they define no schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from causeway.schemas.client import UnansweredError

MOST_LEVELS: Final = 100  # of references below a schema
_SHOWN: Final = 6  # versions, in a message


class CircularError(UnansweredError):
    """A schema refers to itself through others, or through more than `MOST_LEVELS` of them. A
    person must change it on the source: no later try can succeed."""


class Trail:
    """The path of versions, each of which the one before refers to. `url`: of their registry."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._followed: list[tuple[str, int]] = []

    @contextmanager
    def into(self, subject: str, number: int) -> Iterator[None]:
        """Raises CircularError if version `number` of `subject` is followed already."""
        key = (subject, number)
        if key in self._followed:
            circle = [*self._followed[self._followed.index(key) :], key]
            raise self._error(f"its schema refers to itself: {_shown(circle)}")
        if len(self._followed) > MOST_LEVELS:
            raise self._error(f"its schema has more than {MOST_LEVELS} levels of references")
        self._followed.append(key)
        try:
            yield
        finally:
            self._followed.pop()

    def _error(self, reason: str) -> CircularError:
        error = CircularError(f"{reason}; register a version without that reference")
        error.url = self._url
        return error


def _shown(circle: list[tuple[str, int]]) -> str:
    named = [f"{subject} version {number}" for subject, number in circle]
    if len(named) > _SHOWN:
        named[_SHOWN - 2 : -1] = ["…"]
    return " -> ".join(named)
