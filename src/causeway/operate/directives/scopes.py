"""Chooses the links that a request means, and checks that they have the named topic."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypedDict

from causeway.cluster import ANSWER_S, Connect, silent_clusters_of
from causeway.config import LinkSettings, Settings, links_of, unknown
from causeway.control import Sharer
from causeway.errors import CausewayError, ConfigError, UnreachableError
from causeway.link_topics import AnyDirective, DirectiveLog, ProgressTopic, Scope

WAIT_S: Final = 30.0
MOST_TEXT: Final = 500  # characters of a reason
_AHEAD = ("pause", "throttle")  # possible for a topic that does not exist yet


class Asked(TypedDict, total=False):
    """The arguments that all requests share: the fields of Wanted."""

    link: str | None
    topic: str | None
    partition: int | None
    ahead: bool
    reason: str | None
    who: str | None
    wait_s: float | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A person's request. `link`: None for all links of the file. `topic`: its name on the source.
    `ahead`: the topic need not exist yet. `who` is this user at this host unless given. `wait_s`:
    how long to wait for the leading driver; None: does not wait."""

    link: str | None = None
    topic: str | None = None
    partition: int | None = None
    ahead: bool = False
    reason: str | None = None
    who: str | None = None
    wait_s: float | None = WAIT_S

    @property
    def scope(self) -> Scope:
        return Scope(self.topic, self.partition)

    @property
    def author(self) -> str:
        return (self.who or current_user())[:MOST_TEXT]

    def wish(self, which: type[AnyDirective], **fields: Any) -> AnyDirective:
        """Returns a directive about the scope, as of now. `fields`: those of its class. Raises
        ConfigError for a reason that is too long."""
        if self.reason is not None and len(self.reason) > MOST_TEXT:
            cause = f"it has {len(self.reason)} characters, and may have {MOST_TEXT}"
            raise ConfigError(str(which.kind), "reason", cause)
        why, at = (self.reason or "").strip() or None, int(time.time() * 1000)
        return which(scope=self.scope, who=self.author, why=why, at=at, **fields)


def current_user() -> str:
    """Returns this process's user and machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in some containers
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


class Answering(NamedTuple):
    """`links`: the chosen links that can be asked. `left`: why each other link cannot be asked, by
    its name. `silent`: why clusters do not answer, by alias."""

    links: tuple[LinkSettings, ...]
    left: Mapping[str, CausewayError]
    silent: Mapping[str, UnreachableError]


def choose(
    settings: Settings, wanted: Wanted, connect: Connect, action: str
) -> tuple[LinkSettings, ...]:
    """Returns the wanted links: the named link, else all that have the topic, or all. Raises
    ConfigError for an unknown name, with similar names; CausewayError."""
    links = _named(settings, wanted, action)
    chosen, troubles = _having(links, wanted, connect, action)
    if troubles:
        raise next(iter(troubles.values()))  # a silent link may have the topic, too
    return chosen


def choose_answering(
    settings: Settings,
    wanted: Wanted,
    connect: Connect,
    action: str,
    *,
    patience_s: float = ANSWER_S,
) -> Answering:
    """Like `choose`, without the links whose clusters do not answer. It waits for all clusters at
    the same time: for the targets, and for the sources if a topic may need them. If there are
    several links, it waits for `patience_s`. Raises like `choose`; raises the first
    UnreachableError if no link can be asked."""
    links = _named(settings, wanted, action)
    if len(links) == 1:
        patience_s = ANSWER_S
    clients = []
    if wanted.topic is not None and not wanted.ahead:
        clients += [each.source_admin for each in links]
    # If a cluster is both, it is asked as a target: without its target, a link is left out.
    clients += [each.target_admin for each in links]
    silent = silent_clusters_of(clients, connect, patience_s)
    left: dict[str, CausewayError] = {
        each.name: silent[each.target_admin.alias]
        for each in links
        if each.target_admin.alias in silent and _may_have(each, wanted)
    }
    there = tuple(each for each in links if each.target_admin.alias not in silent)
    if left and not there:
        raise next(iter(left.values()))
    chosen, troubles = _having(there or links, wanted, connect, action, silent)
    left |= {
        each.name: troubles[each.name]
        for each in there
        if each.name in troubles and _may_have(each, wanted)
    }
    return Answering(chosen, left, silent)


def _may_have(link: LinkSettings, wanted: Wanted) -> bool:
    return wanted.topic is None or link.decide_topic(wanted.topic).target_name is not None


def _named(settings: Settings, wanted: Wanted, action: str) -> tuple[LinkSettings, ...]:
    """Returns the named link, else all links."""
    links = links_of(settings, wanted.link, action)
    if wanted.partition is not None and (wanted.topic is None or wanted.partition < 0):
        raise ConfigError(action, f"partition {wanted.partition}", "of which topic? (--topic)")
    return links


def _having(
    links: tuple[LinkSettings, ...],
    wanted: Wanted,
    connect: Connect,
    action: str,
    silent: Mapping[str, UnreachableError] = MappingProxyType({}),
) -> tuple[tuple[LinkSettings, ...], dict[str, CausewayError]]:
    """Returns those of `links` that have the topic, and why this is unknown for other links."""
    if wanted.topic is None:
        return links, {}
    if wanted.ahead:
        chosen = tuple(each for each in links if each.decide_topic(wanted.topic).target_name)
        if not chosen:
            why = links[0].decide_topic(wanted.topic).reason
            raise ConfigError(action, f"topic {wanted.topic}", f"it will not be mirrored: {why}")
        return chosen, {}
    found = {each.name: _known(each, wanted, connect, silent) for each in links}
    chosen = tuple(each for each in links if _has(found[each.name][0], wanted))
    troubles = {name: why for name, (_, why) in found.items() if why is not None}
    if chosen:
        return chosen, troubles
    trouble = next(iter(troubles.values()), None)
    counts = [known[wanted.topic] for known, _ in found.values() if wanted.topic in known]
    if counts:
        what = f"partition {wanted.partition} of {wanted.topic}"
        raise ConfigError(action, what, f"it has {max(counts)} partitions, numbered from 0")
    names = {name for known, _ in found.values() for name in known}
    if trouble is not None and not get_close_matches(wanted.topic, names):
        raise trouble  # it is unknown whether the topic exists
    more = "topics are named as on the source"
    if action in _AHEAD:
        more += "; --ahead if it is yet to come"
    raise unknown(action, "topic", wanted.topic, names, more)


def _has(counts: Mapping[str, int], wanted: Wanted) -> bool:
    count = counts.get(wanted.topic or "")
    return count is not None and (wanted.partition is None or wanted.partition < count or not count)


def _known(
    link: LinkSettings,
    wanted: Wanted,
    connect: Connect,
    silent: Mapping[str, UnreachableError],
) -> tuple[dict[str, int], CausewayError | None]:
    """Returns the numbers of partitions by topic of the source, from the progress and the
    directives, and from the source if that is not enough. The number is 0 if only a directive names
    the topic. Also returns why the source could not be asked."""
    target = connect(link.target_admin)
    progress = ProgressTopic(target, link.progress_topic)
    partitions = progress.read().partitions if progress.exists() else {}
    log = DirectiveLog(target, link.directives_topic)
    log.look()
    named = (scope.topic for _, scope in log.directives.by_key)
    counts: dict[str, int] = {name: 0 for name in named if name is not None}
    for at in partitions:
        counts[at.topic] = max(counts.get(at.topic, 0), at.partition + 1)
    error = silent.get(link.source_admin.alias)
    if _has(counts, wanted) or error is not None:
        return counts, None if _has(counts, wanted) else error
    try:
        found = connect(link.source_admin).metadata(None).topics
    except UnreachableError as unreachable:
        return counts, unreachable
    return counts | {
        name: len(topic.partitions)
        for name, topic in found.items()
        if name in counts or link.decide_topic(name).target_name is not None
    }, None


def choose_one(
    settings: Settings, link: str | None, topics: Collection[str], connect: Connect
) -> tuple[LinkSettings, tuple[str, ...]]:
    """Returns the only link that has all the topics, and the topics without duplicates. Raises
    ConfigError for unknown topics, with similar names, and if several links have the topics."""
    links = list(choose(settings, Wanted(link), connect, "cut over"))
    for topic in topics:
        having = choose(settings, Wanted(link, topic), connect, "cut over")
        links = [each for each in links if each in having]
    if not links:
        cause = "no flow mirrors all of them"
        raise ConfigError("cut over", f"topics {', '.join(topics)}", cause, remedy="one at a time")
    if len(links) > 1:
        names = ", ".join(each.name for each in links)
        raise ConfigError("cut over", names, "the file has several flows", remedy="--link 'A->B'")
    return links[0], tuple(dict.fromkeys(topics))


def sharers_of(settings: Settings, link: LinkSettings, connect: Connect) -> tuple[Sharer, ...]:
    """Returns the other links of the file with the same source: they may fence its topics."""
    return tuple(
        Sharer(connect(each.target_admin), each)
        for each in settings.links
        if each.source.alias == link.source.alias and each.name != link.name
    )
