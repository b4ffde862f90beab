"""Explains a name from the clusters alone. No driver has to run. If a cluster does not answer, the
explanation says what is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import partial as bound
from typing import Final

from causeway.cluster import clusters, silent_clusters
from causeway.config import LinkSettings, Settings, links_of
from causeway.errors import ConfigError
from causeway.naming import MAX_TOPIC_LENGTH, is_topic_name
from causeway.operate.explain.groups import decide
from causeway.operate.explain.known import Known
from causeway.operate.explain.values import Explanation, SubjectKind

_PARTITION: Final = re.compile(r"(.+)-(\d{1,9})")
_NEAR: Final = 3  # similar names in a message
_IMPOSSIBLE: Final = (
    f"no topic can have that name: Kafka takes 1 to {MAX_TOPIC_LENGTH} letters, digits and . _ -"
)

Explain = Callable[[], Explanation]


def explain(
    settings: Settings, name: str, *, kind: SubjectKind | None = None, link: str | None = None
) -> tuple[Explanation, ...]:
    """Why `name` is mirrored or synced, or not, on each link of the file, or on `link`. `name` is a
    topic (name on the source), a partition (`orders-3`) or a group. Without `kind`, every kind that
    has this name is explained.

    Raises ConfigError if no cluster knows the name (with similar names), or if no topic or group
    can have it. If a cluster does not answer, the reason is in `Explanation.unknown`.
    """
    links = links_of(settings, link, "explain")
    kinds = [kind] if kind is not None else list(SubjectKind)
    possible = _possible(name, kinds)
    with clusters() as connect:
        away = silent_clusters(links, connect)
        found = [Known(each, settings, connect, away) for each in links]
        subjects = [each for one in possible for each in _subjects(one, name, found)]
        if not subjects:
            if all(each.complete for each in found):
                raise _unknown(name, kinds, possible, found)
            # The kind is not known: the file alone decides on each kind.
            subjects = [each for one in possible for each in _all(one, name, found)]
        return tuple(each() for each in subjects)


def _possible(name: str, kinds: Sequence[SubjectKind]) -> list[SubjectKind]:
    """The kinds that may have the name. Raises ConfigError if there is none."""
    if not name:
        raise ConfigError("explain", "a name", "it is empty")
    found = [
        each for each in kinds if each is SubjectKind.GROUP or is_topic_name(_topic(name, each))
    ]
    if not found:
        raise ConfigError("explain", f"{_listed(kinds)} {name}", _IMPOSSIBLE)
    return found


def _topic(name: str, kind: SubjectKind) -> str:
    parts = _PARTITION.fullmatch(name) if kind is SubjectKind.PARTITION else None
    return name if parts is None else parts[1]


def _listed(kinds: Sequence[SubjectKind]) -> str:
    return kinds[0].value if len(kinds) == 1 else "topic, partition or group"


def _subjects(kind: SubjectKind, name: str, links: Collection[Known]) -> Iterator[Explain]:
    """How to explain `name` on every link, if one link has a subject of this kind."""
    if kind is SubjectKind.GROUP:
        there = [each.has_group(name) for each in links]
    elif kind is SubjectKind.TOPIC:
        there = [each.has_topic(name) for each in links]
    elif (parts := _PARTITION.fullmatch(name)) is not None:
        there = [each.has_partition(parts[1], int(parts[2])) for each in links]
    else:
        return
    if any(there):
        yield from _all(kind, name, links)


def _all(kind: SubjectKind, name: str, links: Collection[Known]) -> Iterator[Explain]:
    parts = _PARTITION.fullmatch(name) if kind is SubjectKind.PARTITION else None
    for each in links:
        if kind is SubjectKind.GROUP:
            yield bound(each.group, name)
        elif kind is SubjectKind.TOPIC:
            yield bound(each.topic, name)
        elif parts is not None:
            yield bound(each.topic, parts[1], int(parts[2]))


def _unknown(
    name: str,
    kinds: Sequence[SubjectKind],
    possible: Sequence[SubjectKind],
    links: Collection[Known],
) -> ConfigError:
    topics = {
        topic for each in links for topic in each.all_topics() if kinds != [SubjectKind.GROUP]
    }
    groups = {group for each in links for group in each.all_groups() if SubjectKind.GROUP in kinds}
    upstream = {each.upstream(name) for each in links} & topics
    what = _listed(kinds)
    if upstream:
        there = ", ".join(sorted(str(each) for each in upstream))
        cause = f"topics are named as on the source, where it is {there}"
        return ConfigError("explain", f"{what} {name}", cause)
    if (
        SubjectKind.TOPIC not in kinds
        and (parts := _PARTITION.fullmatch(name))
        and parts[1] in topics
    ):
        cause = f"{parts[1]} has fewer partitions; they are numbered from 0"
        return ConfigError("explain", f"{what} {name}", cause)
    near = get_close_matches(name, sorted(topics | groups), _NEAR)
    cause = f"there is no {what} with that name"
    if possible != kinds:
        cause = f"there is no {_listed(possible)} with that name, and {_IMPOSSIBLE}"
    if near:
        cause += f"; like it: {', '.join(near)}"
    would = _would_group if possible == [SubjectKind.GROUP] else _would_topic
    decisions = "; ".join(f"on {each.link.name} it {would(each.link, name)}" for each in links)
    return ConfigError("explain", f"{what} {name}", cause, remedy=f"if it existed: {decisions}")


def _would_topic(link: LinkSettings, name: str) -> str:
    decision = link.decide_topic(name)
    if decision.target_name is None:
        return f"would be left out, {decision.reason}"
    return f"would go to {decision.target_name}, {decision.reason}"


def _would_group(link: LinkSettings, name: str) -> str:
    _, reason, _ = decide(link, name)
    return f"is {reason}"
