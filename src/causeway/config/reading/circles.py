"""Flows of a file that go in a circle: refused where neither names nor headers tell where a record
came from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from causeway import filters
from causeway.config.entries import Problems
from causeway.config.keys import PROVENANCE
from causeway.config.reading import both_ways
from causeway.config.reading.overlap import may_share
from causeway.config.settings import LinkSettings


def check(links: list[LinkSettings], problems: Problems) -> None:
    """Flows in a circle are fine only where names tell where a topic came from."""
    names = [link.name for link in links]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add(f"two flows would be called {name}: set source.cluster.alias for one")
    clusters = _clusters(links)
    if not _are_called_alike(links, clusters, problems):
        return
    _check_ways_back(links, problems)
    every, links = links, [link for link in links if not link.way_back]
    _check_themselves(every, problems)
    blind = [circle for circle in both_ways.circles(links) if any(map(_why_blind, circle))]
    told_apart = {link.name for c in blind if both_ways.are_told_apart(c) for link in c}
    both_ways.check_doubles(
        links if told_apart else [link for link in links if link.mingles], problems
    )
    seen: list[set[str]] = []
    for link in links:
        reason = _why_blind(link)
        back = _way_back(links, clusters, link) if reason else None
        if back and {link.name, *back} not in seen and link.name not in told_apart:
            seen.append({link.name, *back})
            circle = " and ".join([link.name, *back])
            problems.add(
                f"records would go round for ever through {circle}: {reason};"
                " headers tell, with causeway.provenance = header for each of these flows; for one"
                " that only `causeway failback` has begin, set causeway.way.back = true"
            )
        unclear = [rename.rule for rename in link.policy.renames if rename.exact is None]
        if unclear and (round_about := _long_way(links, link)):
            problems.add(
                f"{link.name}: what '{unclear[0]}' makes does not tell where it came from, and"
                f" {' and '.join(round_about)} may bring it back: write a rule with one group, and"
                " plain text around it"
            )


def _check_ways_back(links: list[LinkSettings], problems: Problems) -> None:
    """Each leads back what another flow of the file brings, under the same names."""
    ways = {(one.source.alias, one.target.alias) for one in links if not one.way_back}
    for link in links:
        if not link.way_back:
            continue
        there = f"{link.target.alias}->{link.source.alias}"
        what = f"{link.name}: causeway.way.back = true"
        if (link.target.alias, link.source.alias) not in ways:
            problems.add(f"{what} is for a flow beside {there}, which the file does not have")
        elif link.policy.tells_source(link.source.alias):
            problems.add(f"{what} is for flows that keep names, as by the identity policy")
        elif link.has_provenance or link.geo:
            problems.add(f"{what} cannot be with causeway.provenance, nor with causeway.geo")


def _check_themselves(links: list[LinkSettings], problems: Problems) -> None:
    for link in links:
        same = set(link.source.bootstrap) & set(link.target.bootstrap)
        if link.policy.kind == "identity" and same:
            host, port = sorted(same)[0]
            problems.add(
                f"{link.name} would mirror topics onto themselves: both clusters are {host}:{port}"
            )


def _clusters(links: list[LinkSettings]) -> dict[str, str]:
    """By alias, one name for each cluster: flows may call it by several."""
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
    """Whether flows by whose headers clusters are told apart have one alias for each."""
    marked = [link for link in links if link.mingles]
    for alias in dict.fromkeys(
        a for each in marked for a in (each.source.alias, each.target.alias)
    ):
        if (name := clusters[alias]) != alias:
            problems.add(
                f"{name} and {alias} are one cluster by their addresses: headers tell clusters"
                f" apart by their aliases ({PROVENANCE}), so all flows must call it the same"
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


def told_of_renaming(links: list[LinkSettings]) -> list[LinkSettings]:
    """Each with all flows that rename topics: which of them go in a circle shows at any."""
    renaming = tuple(
        filters.Renaming(
            source=link.source.alias,
            target=link.target.alias,
            policy=link.policy,
            topics=link.topics,
            topics_exclude=link.topics_exclude,
            chosen=partial(getattr, link.chosen, "names"),
        )
        for link in links
        if link.policy.renames
    )
    return [replace(link, renaming=renaming) for link in links] if renaming else links


def _way_back(
    links: list[LinkSettings], clusters: dict[str, str], link: LinkSettings
) -> list[str] | None:
    """From its target to its source, by their aliases. By flows that keep names it is one under
    whatever alias; others may go to the same brokers under another one, with other topics."""
    links = [each for each in links if may_share(link, each)]
    blind = [each for each in links if _why_blind(each)]
    direct = (link.target.alias, link.source.alias)
    return _way(links, {alias: alias for alias in clusters}, *direct) or _way(
        blind, clusters, *direct
    )


def _long_way(links: list[LinkSettings], link: LinkSettings) -> list[str] | None:
    """One from its target back to its source by way of other clusters. What comes back directly is
    known by its form."""
    direct = (link.target.alias, link.source.alias)
    others = [each for each in links if (each.source.alias, each.target.alias) != direct]
    return _way(others, {alias: alias for each in links for alias in _ends(each)}, *direct)


def _ends(link: LinkSettings) -> tuple[str, str]:
    return link.source.alias, link.target.alias


def _way(
    links: list[LinkSettings], clusters: dict[str, str], start: str, end: str
) -> list[str] | None:
    """The shortest way from `start` to `end` along the flows, by their names."""
    ways: list[tuple[str, list[str]]] = [(clusters[start], [])]
    seen = {clusters[start]}
    for at, names in ways:
        if at == clusters[end]:
            return names
        for link in links:
            there = clusters[link.target.alias]
            if clusters[link.source.alias] == at and there not in seen:
                seen.add(there)
                ways.append((there, [*names, link.name]))
    return None
