"""Decides whether consumer groups can be followed in topics that programs write on both clusters.

A group's place on the target follows from both flows (translation/both_ways.py), if each record of
the target comes by the flow itself, or goes back by the reverse flow. Otherwise groups are not
followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from causeway.config.entries import Problems
from causeway.config.keys import PROVENANCE, SKIP_HEADER
from causeway.config.settings import LinkSettings, ReverseFlow, TreatmentSettings

_OFFSETS = ("emit.checkpoints.enabled", "sync.group.offsets.enabled")


def with_reverse_flows(
    links: Sequence[LinkSettings], problems: Problems
) -> tuple[list[LinkSettings], list[str]]:
    """Returns `links` and notes for the user. If programs write the topics of a link on both
    clusters, the link gets its reverse flow; if the places of its groups are not certain, it
    follows no groups. Keys that ask for such groups are problems."""
    found: list[LinkSettings] = []
    notes: list[str] = []
    for link in links:
        if not link.mingles:
            found.append(link)
            continue
        if link.control.read_only_mirrors:
            problems.add(
                f"{link.places['causeway.read.only.mirrors']} excludes {PROVENANCE} under the same"
                " names: programs write to both clusters' topics"
            )
        back = next((each for each in links if _is_back(link, each)), None)
        asked = [link.places[key] for key in _asked(link)]
        why = _why_uncertain(link, back)
        if why is not None:
            for place in asked:
                problems.add(f"{place} excludes {PROVENANCE} under the same names: {why}")
        elif back is not None or asked:
            reverse = _assumed(link) if back is None else _flow_of(back)
            found.append(replace(link, reverse=reverse))
            continue
        else:
            why = f"the file has no flow {link.target.alias}->{link.source.alias}"
        notes.append(f"{link.name} syncs no consumer groups: {why}")
        off = replace(
            link.control, emit_checkpoints_enabled=False, sync_group_offsets_enabled=False
        )
        found.append(replace(link, control=off))
    return found, notes


def _asked(link: LinkSettings) -> list[str]:
    on = link.control.emit_checkpoints_enabled, link.control.sync_group_offsets_enabled
    return [key for key, asked in zip(_OFFSETS, on, strict=True) if asked and key in link.places]


def _is_back(link: LinkSettings, other: LinkSettings) -> bool:
    ends = other.source.alias, other.target.alias
    return other.mingles and ends == (link.target.alias, link.source.alias)


def _why_uncertain(link: LinkSettings, back: LinkSettings | None) -> str | None:
    if link.policy.kind != "identity":
        return "it renames topics, so the same records have other topics on the other cluster"
    if back is None:
        return None
    if any(each.kind == "skip-header" for each in back.treatments):
        return (
            f"{back.name} leaves out records by {SKIP_HEADER}, so a group on {link.source.alias}"
            " does not read them"
        )
    if any(each.decides.get("local") for each in back.treatments):
        return (
            f"{back.name} leaves out what other clusters have written ({PROVENANCE} = local), so a"
            f" group on {link.source.alias} does not read it there"
        )
    return None


def _flow_of(back: LinkSettings) -> ReverseFlow:
    return ReverseFlow(treatments=back.treatments, read_committed=back.fetch.read_committed)


def _assumed(link: LinkSettings) -> ReverseFlow:
    """Returns the reverse flow as another file may have it. Its claims show whether that flow
    treats records in another way."""
    decides = {"source": link.target.alias, "target": link.source.alias}
    step = TreatmentSettings(kind="provenance", decides=decides, text="")
    return ReverseFlow(treatments=(step,), assumed=True)
