"""Flows that go round under the same names: A->B and B->A, or A->B->C->A.

Names don't tell there where a record came from; headers do (`causeway.provenance`), so each flow
of such a circle needs them. Besides records, what goes round would never rest: configs and ACLs of
topics follow each other one way only, and consumer groups are not followed at all. What a group has
read on one cluster says nothing of the other's own records: they lie among those that it has read,
and in the log that it comes from they lie elsewhere, or not at all yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from causeway.config.control_settings import ControlSettings
from causeway.config.entries import Entry, Problems
from causeway.config.keys import PROVENANCE
from causeway.config.reading.overlap import may_share
from causeway.config.settings import LinkSettings

_CONFIGS, _ACLS = "sync.topic.configs.enabled", "sync.topic.acls.enabled"


def control_of(link: LinkSettings, own: Mapping[str, Entry], problems: Problems) -> ControlSettings:
    """Of a flow whose topics both sides write: without its groups. What asks for them goes to
    `problems`."""
    control = link.control
    if not link.mingles:
        return control
    why = "both clusters' own records lie in the same topics, so a group's place in one tells"
    for key, asked in (
        ("emit.checkpoints.enabled", control.emit_checkpoints_enabled),
        ("sync.group.offsets.enabled", control.sync_group_offsets_enabled),
    ):
        if asked and key in own:
            problems.add(
                f"{own[key].place} cannot be with {PROVENANCE} under the same names: {why}"
                " nothing sure of its place in the other"
            )
    if control.read_only_mirrors:
        problems.add(
            f"{own['causeway.read.only.mirrors'].place} cannot be with {PROVENANCE} under"
            " the same names: programs write to both clusters' topics"
        )
    return replace(control, emit_checkpoints_enabled=False, sync_group_offsets_enabled=False)


def circles(links: Sequence[LinkSettings]) -> list[list[LinkSettings]]:
    """Flows each of which has a way back; those of clusters that reach each other together."""
    found: dict[frozenset[str], list[LinkSettings]] = {}
    for link in links:
        here = link.source.alias
        along = [each for each in links if may_share(link, each)]
        if here in _reached(along, link.target.alias):
            reached = _reached(along, here)
            together = frozenset(one for one in reached if here in _reached(along, one))
            found.setdefault(together, []).append(link)
    return list(found.values())


def _reached(links: Sequence[LinkSettings], start: str) -> set[str]:
    reached, waiting = {start}, [start]
    while waiting:
        at = waiting.pop()
        new = {link.target.alias for link in links if link.source.alias == at} - reached
        reached |= new
        waiting += new
    return reached


def are_told_apart(circle: Sequence[LinkSettings]) -> bool:
    """Whether headers tell, all along the circle, where records came from."""
    return all(link.has_provenance for link in circle)


def check_doubles(links: Sequence[LinkSettings], problems: Problems) -> None:
    """Of flows whose headers tell where records came from, and all that lie in one file with such
    that go round: that no record comes to a cluster by two ways."""
    same = [link for link in links if not link.policy.tells_source(link.source.alias)]
    for start in dict.fromkeys(link.source.alias for link in same):
        known: dict[str, list[tuple[str, Sequence[LinkSettings]]]] = {}
        for at, way, flows in _ways(same, start, (start,), ()):
            for before, others in known.setdefault(at, []):
                if all(may_share(a, b) for a in flows for b in others):
                    problems.add(
                        f"what is written on {start} would come to {at} twice, by {before} and by"
                        f" {way}: leave out a flow, or set {PROVENANCE} = local, so that each"
                        " takes only what was written on its source"
                    )
                    return
            known[at].append((way, flows))


def _ways(
    links: Sequence[LinkSettings],
    start: str,
    been: tuple[str, ...],
    along: tuple[LinkSettings, ...],
) -> Iterator[tuple[str, str, tuple[LinkSettings, ...]]]:
    """Where a record of `been[0]` that is at `start`, come by `along`, comes to, and which way."""
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


def one_way(links: Sequence[LinkSettings]) -> tuple[list[LinkSettings], list[str]]:
    """`links` of which configs and ACLs don't go round, and what a person should know of them."""
    settled = {link.name: link for link in links}
    mingled = [link.name for link in links if link.mingles]
    notes = [
        f"consumer groups are not followed by {name}: both clusters write its topics"
        for name in mingled
    ]
    for circle in circles([link for link in links if link.mingles]):
        for key, what in ((_CONFIGS, "topic configs"), (_ACLS, "ACLs")):
            kept, off = _without_circles([link for link in circle if _has(link, key)])
            for link in off:
                settled[link.name] = _without(settled[link.name], key)
            if off:
                names = ", ".join(link.name for link in off)
                follow = ", ".join(link.name for link in kept)
                notes.append(
                    f"{key} is off for {names}: {what} follow {follow}, and would go round; set it"
                    " to false for the other way to have it so"
                )
    return [settled[link.name] for link in links], notes


def _without_circles(
    links: Sequence[LinkSettings],
) -> tuple[list[LinkSettings], list[LinkSettings]]:
    """Those that go round no more, the first ones first, and the others."""
    kept: list[LinkSettings] = []
    off: list[LinkSettings] = []
    for link in links:
        along = [each for each in kept if may_share(link, each)]
        goes_round = link.source.alias in _reached(along, link.target.alias)
        (off if goes_round else kept).append(link)
    return kept, off


def _has(link: LinkSettings, key: str) -> bool:
    control = link.control
    return link.sync_topic_configs_enabled if key == _CONFIGS else control.sync_topic_acls_enabled


def _without(link: LinkSettings, key: str) -> LinkSettings:
    if key == _CONFIGS:
        return replace(link, sync_topic_configs_enabled=False)
    return replace(link, control=replace(link.control, sync_topic_acls_enabled=False))
