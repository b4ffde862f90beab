"""Translates offsets of records that a link did not mirror, because its reverse link brought them.

    source  ├── by the reverse link ──┤ S ── by this link ──
    target  ├── where they came from ─┤ T ─────────────────

After a failback this link begins right behind the cut of the reverse link, at S. So a source offset
before S has the offset of its origin on the target. Behind it come first the other records that the
reverse link brought, and then the records of this link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from causeway.cluster import Connect
from causeway.config import LinkSettings, Settings, reverse_of
from causeway.errors import CausewayError
from causeway.link_topics import DirectiveLog, PartitionProgress, ProgressContents, read_progress
from causeway.model import TopicPartition
from causeway.translation import reverse
from causeway.translation.logs import Check, MappedCourse, logs_of, mapped_courses
from causeway.translation.values import MappedOffset, OffsetNote

# By partition asked for: of each of its courses, by offset.
Found = dict[TopicPartition, list[dict[int, MappedOffset]]]


class _Missing(NamedTuple):
    """Offsets before the beginning of a mirror, in course `number` of `source`."""

    source: TopicPartition
    number: int
    target: TopicPartition
    offsets: tuple[int, ...]


def fill(
    found: Found,
    by_source: Mapping[TopicPartition, Sequence[MappedCourse]],
    contents: ProgressContents,
    link: LinkSettings,
    settings: Settings,
    connect: Connect,
    check: Check,
) -> None:
    """Replaces offsets before a mirror's beginning if the reverse link translates them exactly.

    Keeps the others, also if the clusters of the reverse link cannot be asked. `contents`: of the
    link's progress topic.
    """
    reverse_link = reverse_of(settings, link)
    missing = [
        _Missing(at, number, mapped.course.target, offsets)
        for at, courses in by_source.items()
        for number, mapped in enumerate(courses)
        if (offsets := tuple(o for o, p in found[at][number].items() if p.why is OffsetNote.BEFORE))
    ]
    if reverse_link is None or not missing:
        return
    try:
        log = DirectiveLog(connect(link.target_admin), link.directives_topic)
        log.look()
        other = read_progress(reverse_link, connect)
        feeding: dict[_Missing, PartitionProgress] = {}
        for each in missing:
            start = log.directives.start_of(each.source)
            there = other.partitions.get(each.target)
            if start is None or there is None:
                continue
            begun = contents.partitions[each.source].begun == start.by
            ends = {outlet.at: outlet.pair.target for outlet in there.outlets}
            if begun and ends == {each.source: start.offset}:
                feeding[each] = there
        known = _translated(feeding, other, reverse_link, settings, connect, check)
    except CausewayError:
        return
    for each, translated in known.items():
        found[each.source][each.number] |= translated


def _translated(
    feeding: Mapping[_Missing, PartitionProgress],
    contents: ProgressContents,
    link: LinkSettings,
    settings: Settings,
    connect: Connect,
    check: Check,
) -> dict[_Missing, dict[int, MappedOffset]]:
    """The exact offsets by the reverse `link`."""
    found: defaultdict[_Missing, dict[int, MappedOffset]] = defaultdict(dict)
    if not feeding:
        return found
    logs = logs_of(link, connect, feeding.values(), check)
    by_source = mapped_courses(link, settings, contents, feeding.values(), logs)
    for each, there in feeding.items():
        for mapped in by_source.get(there.source, ()):
            known = reverse.translate(mapped, each.offsets, logs)
            found[each] |= {offset: place for offset, place in known.items() if place.exact}
    return found
