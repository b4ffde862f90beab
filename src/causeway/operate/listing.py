"""Lists the parts of a mirror: topics, groups and events from the clusters alone; lanes from the
driver on this machine, because only the driver knows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from causeway.cluster import Connect, ask_each, clusters, reach, silent_clusters
from causeway.config import LinkSettings, Settings, TransformSettings, links_of, unknown
from causeway.errors import CausewayError
from causeway.link_topics import EventRecord, LinkDirectives, ProgressTopic, TaskRecord
from causeway.operate.explain import CODES, Explanation, Known
from causeway.status import RANKING, LinkStatus, TopicStatus, status, status_of, topics_of

T = TypeVar("T")


class Listed(NamedTuple, Generic[T]):
    """`errors`: the links that did not answer, and the reasons. `lines`: entries of the others."""

    lines: tuple[T, ...]
    errors: tuple[tuple[str, CausewayError], ...] = ()


def listed(
    links: tuple[LinkSettings, ...], ask: Callable[[LinkSettings], Iterable[T]]
) -> Listed[T]:
    """Returns the results of `ask` for all links, in parallel. Raises CausewayError if every link
    fails."""
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
    """Raises ConfigError if one of `given` is not in `words`, with similar words."""
    for each in given:
        if each not in words:
            raise unknown(action, kind, each, words, fixed=True)


def fits(text: str, match: str) -> bool:
    """Returns whether `text` contains `match`, ignoring case."""
    return match.casefold() in text.casefold()


_PROBLEM: Final = "problem"  # the state of a topic that cannot be mirrored
_STATES: Final = frozenset({*RANKING, _PROBLEM})


def topics(
    settings: Settings,
    *,
    link: str | None = None,
    match: str = "",
    states: Collection[str] = (),
) -> Listed[TopicStatus]:
    """Returns the topics by link and name. `match`: a part of the name, ignoring case. `states`:
    only topics with a partition in one of these states. Raises ConfigError for an unknown link or
    state, CausewayError if no link answers."""
    refuse_unknown("list topics", "state", states, _STATES)
    chosen = links_of(settings, link, "list topics")
    retention_s = settings.run.deleted_topics_retention_s
    with clusters() as connect:
        return listed(
            chosen,
            lambda link: (
                one
                for one in topic_lines(status_of(link, connect, retention_s))
                if fits(one.topic, match)
                and (not states or not one.states.keys().isdisjoint(states))
            ),
        )


def topic_lines(link: LinkStatus) -> Iterable[TopicStatus]:
    """Returns the topics of one link by name, including those that cannot be mirrored."""
    found = topics_of(link)
    there = {one.topic for one in found}
    found += [
        TopicStatus(
            link=link.name,
            topic=problem.topic,
            target_topic="",
            transform=None,
            partitions=0,
            state=_PROBLEM,
            states={_PROBLEM: 1},
            reasons=(problem.reason,),
        )
        for problem in link.problems
        if problem.topic not in there
    ]
    return sorted(found, key=lambda one: one.topic)


def topic_json(one: TopicStatus) -> dict[str, Any]:
    """JSON for `--json`: stable keys."""
    return {
        "link": one.link,
        "topic": one.topic,
        "target_topic": one.target_topic or None,
        "transform": one.transform,
        "partitions": one.partitions,
        "states": one.states,
        "lag_records": one.lag_records,
        "lag_ms": one.lag_ms,
        "reason": next(iter(one.reasons), None),
    }


def groups(
    settings: Settings,
    *,
    link: str | None = None,
    match: str = "",
    codes: Collection[str] = (),
) -> Listed[Explanation]:
    """Returns all groups of the sources by link and name. `match`: a part of the name, ignoring
    case. `codes`: only groups with one of these codes. Raises like `topics`, and ConfigError for an
    unknown code."""
    refuse_unknown("list groups", "code", codes, CODES)
    chosen = links_of(settings, link, "list groups")
    with clusters() as connect:
        away = silent_clusters(chosen, connect)
        return listed(
            chosen,
            lambda link: (
                each
                for each in _groups_of(link, settings, connect, match, away)
                if not codes or each.code in codes
            ),
        )


def _groups_of(
    link: LinkSettings,
    settings: Settings,
    connect: Connect,
    match: str,
    away: Mapping[str, CausewayError],
) -> tuple[Explanation, ...]:
    # Without the list of the source there is nothing to show, so this is an error.
    if link.source.alias in away:
        raise away[link.source.alias]
    there = connect(link.source_admin).list_groups()
    known = Known(link, settings, connect, away)
    return known.groups([name for name in sorted(there) if fits(name, match)], there)


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
    """Returns the newest `limit` events that fit, the oldest first. `match`: a part of the text,
    ignoring case. `levels`: info, warning, error. Asks only the targets. Raises like `topics`, and
    ConfigError for an unknown level."""
    refuse_unknown("list events", "level", levels, LEVELS)
    chosen = links_of(settings, link, "list events")
    with clusters() as connect:
        found = listed(
            chosen,
            lambda link: (
                one
                for one in _events_of(link, connect)
                if (not levels or one.event.level in levels)
                and any(fits(text, match) for text in (one.event.event, *one.event.about.values()))
            ),
        )
    newest = sorted(found.lines, key=lambda one: one.event.at)
    if limit is not None:
        newest = newest[max(0, len(newest) - limit) :]
    return found._replace(lines=tuple(newest))


def _events_of(link: LinkSettings, connect: Connect) -> Iterator[EventLine]:
    progress = ProgressTopic(reach(connect, link.target_admin), link.progress_topic)
    if progress.exists():
        found = progress.read().events
        yield from (EventLine(link=link.name, event=found[number]) for number in sorted(found))


def event_json(one: EventLine) -> dict[str, Any]:
    """JSON for `--json`, as in the API."""
    return {
        "at_ms": one.event.at,
        "level": one.event.level,
        "event": one.event.event,
        "link": one.link,
        "about": dict(one.event.about),
    }


_ACTION = "show the status of"


def narrowed(settings: Settings, link: str | None, topic: str | None) -> tuple[LinkStatus, ...]:
    """Returns the status of `link` (default: all links) and `topic` (name on the source; default:
    all topics). Leaves out links without the topic, except links that did not answer. Raises
    ConfigError for an unknown name, with the known names; otherwise like `status`."""
    chosen = settings
    if link is not None:
        chosen = replace(settings, links=links_of(settings, link, _ACTION))
    if topic is None:
        return status(chosen)
    looked = status(chosen, {topic})
    found = [each for each in looked if each.error is not None or topic in _topic_names(each)]
    if not found:
        known = {name for each in status(chosen) for name in _topic_names(each)}
        more = "topics are named as on the source"
        raise unknown(_ACTION, "topic", topic, known, more)
    transforms = {each.name: each.transform_of(topic) for each in chosen.links}
    return tuple(_only_topic(each, topic, transforms[each.name]) for each in found)


def _topic_names(each: LinkStatus) -> Collection[str]:
    return {one.topic for one in each.partitions} | {one.topic for one in each.problems}


def _only_topic(each: LinkStatus, topic: str, transform: TransformSettings | None) -> LinkStatus:
    """Returns `each` with the partitions, problems and notes of `topic` only."""
    names = {topic, *(one.target_topic for one in each.partitions)} - {""}
    return replace(
        each,
        tasks=tuple(_only_names(task, names) for task in each.tasks),
        transforms=tuple(
            one for one in each.transforms if transform is not None and one.name == transform.name
        ),
        directives=LinkDirectives.of(
            one for one in each.directives if one.scope.topic in (None, topic)
        ),
    )


def _only_names(task: TaskRecord, names: Collection[str]) -> TaskRecord:
    """Returns `task` without reasons that name other topics or groups, and without figures of the
    link."""
    named = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?:-\d+)?(?![\w.-])")
    items = {item: why for item, why in task.items.items() if named.search(item)}
    return task.replace(items=items, figures={})


def lanes(settings: Settings) -> list[dict[str, Any]]:
    """Returns the lanes of the driver on this machine. Raises like RunningDriver."""
    # Imported here, because the other lists do not need it.
    from causeway.operate.running import RunningDriver

    return RunningDriver(settings).items("lanes", dict[str, Any])
