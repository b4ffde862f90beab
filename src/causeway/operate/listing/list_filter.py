"""What a person wants listed, and what is found of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Generic, NamedTuple, TypeVar

from causeway.cluster import ask_each
from causeway.config import LinkSettings, unknown
from causeway.errors import CausewayError

T = TypeVar("T")


class Listed(NamedTuple, Generic[T]):
    """`errors`: the links that could not be asked, and why; `lines` has nothing of those."""

    lines: tuple[T, ...]
    errors: tuple[tuple[str, CausewayError], ...] = ()


def listed(
    links: tuple[LinkSettings, ...], ask: Callable[[LinkSettings], Iterable[T]]
) -> Listed[T]:
    """What `ask` finds of the links, asked side by side. Raises CausewayError where none can be."""
    found = ask_each(links, lambda link: tuple(ask(link)))
    return Listed(
        tuple(line for one in found if not isinstance(one, CausewayError) for line in one),
        tuple(
            (link.name, one)
            for link, one in zip(links, found, strict=True)
            if isinstance(one, CausewayError)
        ),
    )


def refuse_unknown(action: str, kind: str, given: Collection[str], words: Collection[str]) -> None:
    """Raises ConfigError where one of those `given` is no such word, with words like it."""
    for each in given:
        if each not in words:
            raise unknown(action, kind, each, words, fixed=True)


def fits(text: str, match: str) -> bool:
    """Whether `match` is part of it, in any case."""
    return match.casefold() in text.casefold()
