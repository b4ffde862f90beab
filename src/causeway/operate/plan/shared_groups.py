"""What `plan` says of consumer groups whose topics others write as well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from causeway.config import LinkSettings
from causeway.control import MirroredTopic
from causeway.daemon.partitions.decisions import Offsets
from causeway.link_topics import Outlet, ProgressContents
from causeway.model import TopicPartition

if TYPE_CHECKING:
    from causeway.operate.plan.plan import LinkPlan
    from causeway.operate.plan.starts import Starts

_RULE = "a group gets no offset past a record that it has not read there"


def foreign_before(
    link: LinkSettings,
    wanted: Sequence[tuple[MirroredTopic, int]],
    places: Mapping[TopicPartition, Offsets],
    contents: ProgressContents,
    taken_over: set[TopicPartition],
) -> tuple[str, ...]:
    """A note for each target topic that had records before the mirror. `taken_over`: by source
    partition, if another tool has copied them from the source."""
    if not _commits(link):
        return ()
    topics: dict[str, None] = {}
    for topic, number in wanted:
        at = TopicPartition(topic.source, number)
        if at not in places or at in taken_over:
            continue
        progress = contents.partitions.get(at)
        outlets: tuple[Outlet, ...] = () if progress is None else progress.outlets
        if (
            any(o.claimed_at > o.copied_to and not o.earlier for o in outlets)
            if outlets
            else any(places[at].target_ends.values())
        ):
            topics[topic.target] = None
    return tuple(
        f"{topic} on {link.target.alias} has records that {link.name} did not bring: {_RULE}"
        for topic in topics
    )


def told(links: Sequence[LinkPlan]) -> list[LinkPlan]:
    """`links` with a note for each target topic that another link of the file writes as well."""
    writers: defaultdict[tuple[object, str], list[str]] = defaultdict(list)
    for each in links:
        for topic in each.topics.mirrored:
            writers[each.link.target.bootstrap, topic.target].append(each.link.name)
    return [replace(each, starts=_told(each, writers)) for each in links]


def _told(each: LinkPlan, writers: Mapping[tuple[object, str], Sequence[str]]) -> Starts:
    link = each.link
    if not _commits(link):
        return each.starts
    notes = list(each.starts.notes)
    for topic in each.topics.mirrored:
        named = writers[link.target.bootstrap, topic.target]
        if others := ", ".join(name for name in named if name != link.name):
            notes.append(
                f"{topic.target} on {link.target.alias} is written by {others} as well: {_RULE}"
            )
    return replace(each.starts, notes=tuple(notes))


def _commits(link: LinkSettings) -> bool:
    return link.control.sync_group_offsets_enabled and not link.sole_writer
