"""Finds the links of a file that a command means, and says which names exist if one is unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from causeway.config.settings import LinkSettings, Settings
from causeway.errors import ConfigError

_NEAR = 3  # similar names that are offered
_LISTED = 10  # names that are listed if none is similar
_FIXED = 30  # of words that Causeway defines, all are listed


def links_of(settings: Settings, link: str | None, action: str) -> tuple[LinkSettings, ...]:
    """The one that is named, or all. Raises ConfigError, with the names that there are."""
    if not settings.links:
        raise ConfigError(action, cause="no flow is enabled", remedy="set A->B.enabled = true")
    found = tuple(each for each in settings.links if link in (None, each.name))
    if not found:
        names = [each.name for each in settings.links]
        raise unknown(action, "flow", str(link), names, _unquoted(str(link), names))
    return found


def _unquoted(link: str, names: Iterable[str]) -> str:
    """The remedy if a shell took the `>` of a link's name for a redirection, and left `A-`."""
    meant = next((each for each in names if link and each.startswith(f"{link}>")), None)
    if meant is None:
        return ""
    written = meant.removeprefix(f"{link}>")
    return (
        f"quote it: --link '{meant}'; without quotes the shell takes > for a redirection, and has"
        f" written to the file {written}"
    )


def reverse_of(settings: Settings, link: LinkSettings) -> LinkSettings | None:
    """The link of the file that goes the other way."""
    ends = link.target.alias, link.source.alias
    found = (each for each in settings.links if (each.source.alias, each.target.alias) == ends)
    return next(found, None)


def unknown(
    action: str,
    kind: str,
    name: str,
    names: Collection[str],
    more: str = "",
    *,
    fixed: bool = False,
) -> ConfigError:
    """That there is no such `kind`, with those like it; else with all, or the first of many; of
    `fixed` words always with all."""
    known = sorted(names)
    near = get_close_matches(name, known, _NEAR)
    cause = f"there is no {kind} of that name"
    if near:
        cause += f"; like it: {', '.join(near)}"
    else:
        listed = known[: _FIXED if fixed else _LISTED]
        rest = f" and {len(known) - len(listed):,} more" if len(known) > len(listed) else ""
        cause += f"; there is {', '.join(listed) or 'none'}{rest}"
    return ConfigError(action, f"{kind} {name}", cause, remedy=more)
