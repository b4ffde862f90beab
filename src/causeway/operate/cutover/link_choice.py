"""Which link is meant: a cutover is of one."""

from __future__ import annotations

from collections.abc import Collection

from causeway.cluster import Connect
from causeway.config import LinkSettings, Settings
from causeway.control import Sharer
from causeway.errors import ConfigError
from causeway.operate.directives.scopes import Wanted, choose


def the_one(
    settings: Settings, link: str | None, topics: Collection[str], connect: Connect
) -> tuple[LinkSettings, tuple[str, ...]]:
    """The link, and the names that were given, each once. Raises ConfigError for those that are
    unknown, with names like them, and where several links have them."""
    links = list(choose(settings, Wanted(link, None, None, ahead=False), connect, "cut over"))
    for topic in topics:
        having = choose(settings, Wanted(link, topic, None, ahead=False), connect, "cut over")
        links = [each for each in links if each in having]
    if not links:
        cause = "no flow mirrors all of them"
        raise ConfigError("cut over", f"topics {', '.join(topics)}", cause, remedy="one at a time")
    if len(links) > 1:
        names = ", ".join(each.name for each in links)
        raise ConfigError("cut over", names, "the file has several flows", remedy="--link 'A->B'")
    return links[0], tuple(dict.fromkeys(topics))


def sharers_of(settings: Settings, link: LinkSettings, connect: Connect) -> tuple[Sharer, ...]:
    """The other links of the file that mirror from the same cluster, and may fence its topics."""
    return tuple(
        Sharer(connect(each.target_admin), each)
        for each in settings.links
        if each.source.alias == link.source.alias and each.name != link.name
    )
