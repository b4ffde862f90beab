"""Flows of a file that form a circle, such as A->B and B->A.

Such flows are refused if neither topic names nor record headers (`causeway.provenance`) show where
a record came from. With headers, flows may form a circle under the same names. Then topic configs
and ACLs follow one direction only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from causeway.config.entries import Problems
from causeway.config.keys import PROVENANCE
from causeway.config.settings import LinkSettings
from causeway.patterns import Pattern

_MAYBE_NONE = "?*{"  # the character before it may be absent
_PLAIN = frozenset("-_")


def check_circles(links: list[LinkSettings], problems: Problems) -> None:
    """Refuses flows in a circle unless names or headers show where a topic came from."""
    names = [link.name for link in links]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add(f"two flows would be called {name}: set source.cluster.alias for one")
    clusters = _clusters(links)
    if not _are_called_alike(links, clusters, problems):
        return
    _check_ways_back(links, problems)
    every, links = links, [link for link in links if not link.way_back]
    _check_themselves(every, problems)
    blind = [circle for circle in circles(links) if any(map(_why_blind, circle))]
    told_apart = {link.name for c in blind if are_told_apart(c) for link in c}
    check_doubles(links if told_apart else [link for link in links if link.mingles], problems)
    seen: list[set[str]] = []
    for link in links:
        reason = _why_blind(link)
        back = _way_back(links, clusters, link) if reason else None
        if back and {link.name, *back} not in seen and link.name not in told_apart:
            seen.append({link.name, *back})
            circle = " and ".join([link.name, *back])
            problems.add(
                f"records would go round for ever through {circle}: {reason}."
                " Set causeway.provenance = header for each of these flows, or causeway.way.back ="
                " true for a flow that only `causeway failback` starts"
            )
        unclear = [rename.rule for rename in link.policy.renames if rename.exact is None]
        if unclear and (round_about := _long_way(links, link)):
            problems.add(
                f"{link.name}: the names that '{unclear[0]}' makes do not show where a topic came"
                f" from, and {' and '.join(round_about)} may mirror it back: write a rule with one"
                " group, and plain text around it"
            )


def _check_ways_back(links: list[LinkSettings], problems: Problems) -> None:
    """Checks that each reverse link mirrors back the topics of another flow of the file."""
    ways = {(one.source.alias, one.target.alias) for one in links if not one.way_back}
    for link in links:
        if not link.way_back:
            continue
        there = f"{link.target.alias}->{link.source.alias}"
        what = f"{link.name}: causeway.way.back = true"
        if (link.target.alias, link.source.alias) not in ways:
            problems.add(f"{what} needs the flow {there}, which the file does not have")
        elif link.policy.tells_source(link.source.alias):
            problems.add(f"{what} is for flows that keep names, as by the identity policy")
        elif link.has_provenance or link.geo:
            problems.add(f"{what} excludes causeway.provenance and causeway.geo")


def _check_themselves(links: list[LinkSettings], problems: Problems) -> None:
    for link in links:
        same = set(link.source.bootstrap) & set(link.target.bootstrap)
        if link.policy.kind == "identity" and same:
            host, port = sorted(same)[0]
            problems.add(
                f"{link.name} would mirror topics onto themselves: both clusters are {host}:{port}"
            )


def _clusters(links: list[LinkSettings]) -> dict[str, str]:
    """Returns one name for each cluster, by alias: flows may use several aliases for a cluster."""
    names: dict[str, str] = {}
    known: dict[tuple[str, int], str] = {}
    for link in links:
        for side in (link.source, link.target):
            if set(link.source.bootstrap) & set(link.target.bootstrap):
                names.setdefault(side.alias, side.alias)  # a cluster's mirror in itself
                continue
            name = next((known[at] for at in side.bootstrap if at in known), side.alias)
            name = names.setdefault(side.alias, name)
            for at in side.bootstrap:
                known.setdefault(at, name)
    return names


def _are_called_alike(
    links: list[LinkSettings], clusters: dict[str, str], problems: Problems
) -> bool:
    """Returns whether the flows that tell clusters apart by headers use one alias for each
    cluster."""
    marked = [link for link in links if link.mingles]
    for alias in dict.fromkeys(
        a for each in marked for a in (each.source.alias, each.target.alias)
    ):
        if (name := clusters[alias]) != alias:
            problems.add(
                f"{name} and {alias} are one cluster by their addresses: headers identify a"
                f" cluster by its alias ({PROVENANCE}), so all flows must use one alias for it"
            )
            return False
    return True


def _why_blind(link: LinkSettings) -> str:
    if link.policy.kind == "identity":
        return f"{link.name} has the identity policy, which cannot see where a topic came from"
    if not link.policy.tells_source(link.source.alias):
        return f"{link.name}: by {link.policy.class_name}, names do not show where they came from"
    for alias in (link.source.alias, link.target.alias):
        if link.policy.kind == "default" and link.policy.separator in alias:
            return (
                f"the alias {alias} holds the separator '{link.policy.separator}',"
                " so that topic names do not show where they came from"
            )
    return ""


def with_renaming(links: list[LinkSettings]) -> list[LinkSettings]:
    """Gives each link the rules of all flows that rename topics."""
    renaming = tuple(link.rules for link in links if link.policy.renames)
    return [replace(link, renaming=renaming) for link in links] if renaming else links


def _way_back(
    links: list[LinkSettings], clusters: dict[str, str], link: LinkSettings
) -> list[str] | None:
    """Returns the flows from the target of `link` to its source. Flows that keep names count under
    any alias of a cluster; other flows may use another alias for the same brokers and other
    topics."""
    links = [each for each in links if may_share(link, each)]
    blind = [each for each in links if _why_blind(each)]
    source, target = link.source.alias, link.target.alias
    return _ways_from(links, target).get(source) or _ways_from(
        blind, clusters[target], clusters
    ).get(clusters[source])


def _long_way(links: list[LinkSettings], link: LinkSettings) -> list[str] | None:
    """Returns the flows from the target of `link` to its source through other clusters. The direct
    way back is left out: there, a topic's name shows that it came back."""
    direct = (link.target.alias, link.source.alias)
    others = [each for each in links if (each.source.alias, each.target.alias) != direct]
    return _ways_from(others, link.target.alias).get(link.source.alias)


def _ways_from(
    links: Sequence[LinkSettings], start: str, clusters: Mapping[str, str] = MappingProxyType({})
) -> dict[str, list[str]]:
    """Returns the shortest way from `start` to each cluster that the flows reach, as the flows'
    names. `clusters`: the clusters' names by alias, if a cluster may have several aliases."""
    ways: dict[str, list[str]] = {start: []}
    waiting = [start]
    for at in waiting:  # the list grows in the loop
        for link in links:
            source, there = (clusters.get(a, a) for a in (link.source.alias, link.target.alias))
            if source == at and there not in ways:
                ways[there] = [*ways[at], link.name]
                waiting.append(there)
    return ways


def circles(links: Sequence[LinkSettings]) -> list[list[LinkSettings]]:
    """Returns groups of flows between clusters that reach each other."""
    found: dict[frozenset[str], list[LinkSettings]] = {}
    for link in links:
        here = link.source.alias
        along = [each for each in links if may_share(link, each)]
        if here in _ways_from(along, link.target.alias):
            reached = _ways_from(along, here)
            together = frozenset(one for one in reached if here in _ways_from(along, one))
            found.setdefault(together, []).append(link)
    return list(found.values())


def are_told_apart(circle: Sequence[LinkSettings]) -> bool:
    """Returns whether each flow of the circle has headers that show where records came from."""
    return all(link.has_provenance for link in circle)


def check_doubles(links: Sequence[LinkSettings], problems: Problems) -> None:
    """Checks that no record reaches a cluster on two paths, among flows that keep names."""
    same = [link for link in links if not link.policy.tells_source(link.source.alias)]
    for start in dict.fromkeys(link.source.alias for link in same):
        known: dict[str, list[tuple[str, Sequence[LinkSettings]]]] = {}
        for at, way, flows in _ways(same, start, (start,), ()):
            for before, others in known.setdefault(at, []):
                if all(may_share(a, b) for a in flows for b in others):
                    problems.add(
                        f"records written on {start} would reach {at} twice, by {before} and by"
                        f" {way}: leave out a flow, or set {PROVENANCE} = local, so that each flow"
                        " mirrors only records that were written on its source"
                    )
                    return
            known[at].append((way, flows))


def _ways(
    links: Sequence[LinkSettings],
    start: str,
    been: tuple[str, ...],
    along: tuple[LinkSettings, ...],
) -> Iterator[tuple[str, str, tuple[LinkSettings, ...]]]:
    """Yields the clusters that a record reaches from `start`, with the path and its flows. The
    record was written on `been[0]` and came to `start` by the flows `along`."""
    for link in links:
        if link.source.alias != start or link.target.alias in been:
            continue
        if len(been) > 1 and any(each.decides.get("local") for each in link.treatments):
            continue
        if not all(may_share(link, each) for each in along):
            continue
        way = (*been, link.target.alias)
        yield link.target.alias, "->".join(way), (*along, link)
        yield from _ways(links, link.target.alias, way, (*along, link))


def without_loops(links: Sequence[LinkSettings]) -> tuple[list[LinkSettings], list[str]]:
    """Returns `links` without topic configs and ACLs that would loop, and notes for the user."""
    settled = {link.name: link for link in links}
    notes: list[str] = []
    for circle in circles([link for link in links if link.mingles]):
        for key, what, has, without in _SYNCED:
            kept, off = _without_circles([link for link in circle if has(link)])
            for link in off:
                settled[link.name] = without(settled[link.name])
            if off:
                names = ", ".join(link.name for link in off)
                follow = ", ".join(link.name for link in kept)
                notes.append(
                    f"{key} is off for {names}: {what} follow {follow}, and would loop. To keep it"
                    " on there, set it to false for the other direction"
                )
    return [settled[link.name] for link in links], notes


def _without_circles(
    links: Sequence[LinkSettings],
) -> tuple[list[LinkSettings], list[LinkSettings]]:
    """Returns the first links that form no loop, and the other links."""
    kept: list[LinkSettings] = []
    off: list[LinkSettings] = []
    for link in links:
        along = [each for each in kept if may_share(link, each)]
        goes_round = link.source.alias in _ways_from(along, link.target.alias)
        (off if goes_round else kept).append(link)
    return kept, off


_SYNCED: tuple[
    tuple[str, str, Callable[[LinkSettings], bool], Callable[..., LinkSettings]], ...
] = (
    (
        "sync.topic.configs.enabled",
        "topic configs",
        lambda link: link.sync_topic_configs_enabled,
        partial(replace, sync_topic_configs_enabled=False),
    ),
    (
        "sync.topic.acls.enabled",
        "ACLs",
        lambda link: link.control.sync_topic_acls_enabled,
        lambda link: replace(link, control=replace(link.control, sync_topic_acls_enabled=False)),
    ),
)


def may_share(one: LinkSettings, other: LinkSettings) -> bool:
    """Returns whether two flows that keep names may mirror one topic. False only if no topic
    matches both."""
    if one.geo or other.geo or {one.policy.kind, other.policy.kind} != {"identity"}:
        return True
    return any(_may_meet(_begin(a), _begin(b)) for a in one.topics for b in other.topics)


def _begin(pattern: Pattern) -> tuple[Sequence[str | None], bool]:
    """Returns the characters that each match begins with (None: any character), and whether these
    are the whole match."""
    text = pattern.pattern
    if "|" in text:
        return (), False
    begin: list[str | None] = []
    at = 0
    while at < len(text):
        char = text[at]
        step = 1
        if char == "\\" and at + 1 < len(text) and not text[at + 1].isalnum():
            char, step = text[at + 1], 2
        elif char == ".":
            char = ""
        elif not (char.isalnum() and char.isascii()) and char not in _PLAIN:
            return begin, False
        after = text[at + step : at + step + 1]
        if after and after in _MAYBE_NONE:
            return begin, False
        begin.append(char or None)
        if after == "+":
            return begin, False
        at += step
    return begin, True


def _may_meet(
    one: tuple[Sequence[str | None], bool], other: tuple[Sequence[str | None], bool]
) -> bool:
    (these, all_of_these), (those, all_of_those) = one, other
    if any(a and b and a != b for a, b in zip(these, those, strict=False)):
        return False
    return not (
        (all_of_these and len(these) < len(those)) or (all_of_those and len(those) < len(these))
    )
