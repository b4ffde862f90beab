"""Translates offsets of records that a link did not mirror, because its reverse link brought them.

    source  ├── by the reverse link ──┤ S ── by this link ──
    target  ├── where they came from ─┤ T ─────────────────

After a failback this link begins right behind the cut of the reverse link, at S. So a source offset
before S has the offset of its origin on the target. Behind it come first the other records that the
reverse link brought, and then the records of this link.
"""

from __future__ import annotations

from causeway.cluster import Connect
from causeway.config import LinkSettings, Settings, reverse_of
from causeway.errors import CausewayError
from causeway.link_topics import DirectiveLog, PartitionProgress, ProgressContents, read_progress
from causeway.model import TopicPartition
from causeway.translation import directions
from causeway.translation.counting import Check
from causeway.translation.logs import MappedCourse, logs_of, mapped_courses
from causeway.translation.values import MappedOffset, OffsetNote

# By partition asked for: each of its courses, with the results by offset.
Found = dict[TopicPartition, list[tuple[MappedCourse, dict[int, MappedOffset]]]]


def fill(
    found: Found,
    link: LinkSettings,
    settings: Settings,
    connect: Connect,
    contents: ProgressContents,
    check: Check,
) -> None:
    """Replaces offsets before a mirror's beginning if the reverse link translates them exactly.

    Keeps the others, also if the clusters of the reverse link cannot be asked. `contents`: of the
    link's progress topic.
    """
    reverse_link = reverse_of(settings, link)
    missing = [
        (at, mapped.course.target, places, before)
        for at, courses in found.items()
        for mapped, places in courses
        if (before := [o for o, place in places.items() if place.why is OffsetNote.BEFORE])
    ]
    if reverse_link is None or not missing:
        return
    try:
        log = DirectiveLog(connect(link.target_admin), link.directives_topic)
        log.look()
        other = read_progress(reverse_link, connect)
        feeding: dict[TopicPartition, PartitionProgress] = {}  # by the partition that it feeds
        for at, target, _, _ in missing:
            start, there = log.directives.start_of(at), other.partitions.get(target)
            if start is None or there is None or contents.partitions[at].begun != start.by:
                continue
            if {o.at: o.pair.target for o in there.outlets} == {at: start.offset}:
                feeding[at] = there
        if not feeding:
            return
        logs = logs_of(reverse_link, connect, feeding.values(), check)
        mapped_back = mapped_courses(reverse_link, settings, other, feeding.values(), logs)
        for at, target, places, before in missing:
            if at in feeding and feeding[at].source == target:
                for mapped in mapped_back.get(target, ()):
                    known = directions.translate(mapped, before, logs, back=True)
                    places |= {offset: place for offset, place in known.items() if place.exact}
    except CausewayError:
        return
