"""Flows of a file that go in a circle: refused where neither names nor headers tell where a record
came from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from causeway import filters
from causeway.config import both_ways
from causeway.config.problems import Problems
from causeway.config.settings import LinkSettings


def check(links: list[LinkSettings], problems: Problems) -> None:
    """Flows in a circle are fine only where names tell where a topic came from."""
    names = [link.name for link in links]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add(f"two flows would be called {name}: set source.cluster.alias for one")
    blind = [circle for circle in both_ways.circles(links) if any(map(_why_blind, circle))]
    told_apart = {link.name for c in blind if both_ways.are_told_apart(c) for link in c}
    both_ways.check_doubles(
        links if told_apart else [link for link in links if link.mingles], problems
    )
    seen: list[set[str]] = []
    for link in links:
        reason = _why_blind(link)
        back = _way(links, link.target.alias, link.source.alias) if reason else None
        if back is not None and {link.name, *back} not in seen and link.name not in told_apart:
            seen.append({link.name, *back})
            circle = " and ".join([link.name, *back])
            problems.add(
                f"records would go round for ever through {circle}: {reason};"
                " headers tell, with causeway.provenance = header for each of these flows"
            )
        unclear = [rename.rule for rename in link.policy.renames if rename.exact is None]
        if unclear and (round_about := _long_way(links, link)):
            problems.add(
                f"{link.name}: what '{unclear[0]}' makes does not tell where it came from, and"
                f" {' and '.join(round_about)} may bring it back: write a rule with one group, and"
                " plain text around it"
            )
        same = set(link.source.bootstrap) & set(link.target.bootstrap)
        if link.policy.kind == "identity" and same:
            host, port = sorted(same)[0]
            problems.add(
                f"{link.name} would mirror topics onto themselves: both clusters are {host}:{port}"
            )


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


def _long_way(links: list[LinkSettings], link: LinkSettings) -> list[str] | None:
    """One from its target back to its source by way of other clusters. What comes back directly is
    known by its form."""
    direct = (link.target.alias, link.source.alias)
    others = [each for each in links if (each.source.alias, each.target.alias) != direct]
    return _way(others, *direct)


def _way(links: list[LinkSettings], start: str, end: str) -> list[str] | None:
    """The shortest way from `start` to `end` along the flows, by their names."""
    ways: list[tuple[str, list[str]]] = [(start, [])]
    seen = {start}
    for at, names in ways:
        if at == end:
            return names
        for link in links:
            if link.source.alias == at and link.target.alias not in seen:
                seen.add(link.target.alias)
                ways.append((link.target.alias, [*names, link.name]))
    return None
