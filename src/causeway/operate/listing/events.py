"""The newest events of the file's links, as their leading drivers noted them on the targets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from causeway.cluster import Connect, clusters, reach
from causeway.config import LinkSettings, Settings, links_of
from causeway.link_topics import EventRecord, ProgressTopic
from causeway.operate.listing.list_filter import Listed, fits, listed, refuse_unknown

LEVELS: Final = ("info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    link: str
    event: EventRecord


def events(
    settings: Settings,
    *,
    link: str | None = None,
    match: str = "",
    levels: Collection[str] = (),
    limit: int | None = None,
) -> Listed[EventLine]:
    """The oldest first; the newest `limit` of those that fit. `match`: a part of what is said, in
    any case; `levels`: info, warning, error. Only targets are asked. Raises as `topics` does, and
    ConfigError for a level that there is not."""
    refuse_unknown("list events", "level", levels, LEVELS)
    chosen = links_of(settings, link, "list events")
    with clusters() as connect:
        found = listed(
            chosen,
            lambda link: (
                one
                for one in _of_link(link, connect)
                if (not levels or one.event.level in levels) and _says(one.event, match)
            ),
        )
    newest = sorted(found.lines, key=lambda one: one.event.at)
    if limit is not None:
        newest = newest[max(0, len(newest) - limit) :]
    return found._replace(lines=tuple(newest))


def _of_link(link: LinkSettings, connect: Connect) -> Iterator[EventLine]:
    progress = ProgressTopic(reach(connect, link.target_admin), link.progress_topic)
    if progress.exists():
        found = progress.read().events
        yield from (EventLine(link=link.name, event=found[number]) for number in sorted(found))


def _says(event: EventRecord, match: str) -> bool:
    return any(fits(text, match) for text in (event.event, *event.about.values()))


def as_json(one: EventLine) -> dict[str, Any]:
    """For `--json`: as the API has it."""
    return {
        "at_ms": one.event.at,
        "level": one.event.level,
        "event": one.event.event,
        "link": one.link,
        "about": dict(one.event.about),
    }
