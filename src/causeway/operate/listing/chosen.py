"""What a person wants listed."""

from __future__ import annotations

from collections.abc import Collection

from causeway.config.settings import LinkSettings, Settings
from causeway.errors import ConfigError
from causeway.operate import scopes


def links_of(settings: Settings, link: str | None, action: str) -> tuple[LinkSettings, ...]:
    """The one that is named, or all. Raises ConfigError, with names like one that is unknown."""
    if not settings.links:
        raise ConfigError(action, cause="no flow is enabled", remedy="set A->B.enabled = true")
    names = [each.name for each in settings.links]
    if link is not None and link not in names:
        raise scopes.unknown(action, "flow", link, names)
    return tuple(each for each in settings.links if link in (None, each.name))


def refuse_unknown(action: str, kind: str, given: Collection[str], words: Collection[str]) -> None:
    """Raises ConfigError where one of those `given` is no such word, with words like it."""
    for each in given:
        if each not in words:
            raise scopes.unknown(action, kind, each, words, fixed=True)


def fits(text: str, match: str) -> bool:
    """Whether `match` is part of it, in any case."""
    return match.casefold() in text.casefold()
