"""Places in records that a link did not mirror, as they came from its target: the link the other
way brought them, until it was turned round.

    source  ├── by the link the other way ──┤ S ── by this link ──
    target  ├── where they came from ───────┤ T ──────────────────

This link begins right behind the cut of the other one, at S. So a source offset before S has the
place of its origin on the target: behind it come first the other records that went back, and then
those of this link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from causeway.cluster import Connect
from causeway.config import LinkSettings, Settings
from causeway.daemon.partitions.rows import place_of
from causeway.errors import CausewayError
from causeway.link_topics.directive_log import DirectiveLog
from causeway.link_topics.progress import Progress
from causeway.model import TopicPartition
from causeway.operate.directives.scopes import reverse_of
from causeway.translation.answers import back
from causeway.translation.answers.courses import Book, Course, courses, sides
from causeway.translation.answers.values import Place, Why
from causeway.translation.reverse_lookup import Check

Places = dict[TopicPartition, list[dict[int, Place]]]


class _Lacking(NamedTuple):
    """Offsets before the beginning of a mirror, in the course with this number at `source`."""

    source: TopicPartition
    number: int
    target: TopicPartition
    offsets: tuple[int, ...]


def fill(
    places: Places,
    by_asked: Mapping[TopicPartition, Sequence[Course]],
    book: Book,
    settings: Settings,
    connect: Connect,
    check: Check,
) -> None:
    """Replaces places that lie before a mirror's beginning if the link the other way tells them
    exactly. Leaves the others as they are, also if that link's clusters cannot be asked."""
    reverse = reverse_of(settings, book.link)
    lacking = list(_lacking(places, by_asked))
    if reverse is None or not lacking:
        return
    try:
        found = _known(lacking, book, reverse, settings, connect, check)
    except CausewayError:
        return
    for each, known in found.items():
        places[each.source][each.number] |= known


def _lacking(places: Places, by_asked: Mapping[TopicPartition, Sequence[Course]]) -> list[_Lacking]:
    found = []
    for at, asked in by_asked.items():
        for number, course in enumerate(asked):
            offsets = tuple(o for o, p in places[at][number].items() if p.why is Why.BEFORE)
            if offsets:
                found.append(_Lacking(at, number, course.target, offsets))
    return found


def _known(
    lacking: Sequence[_Lacking],
    book: Book,
    reverse: LinkSettings,
    settings: Settings,
    connect: Connect,
    check: Check,
) -> dict[_Lacking, dict[int, Place]]:
    log = DirectiveLog(connect(book.link.target_admin), book.link.directives_topic)
    log.look()
    other = Book.read(reverse, connect)
    feeding: dict[_Lacking, Progress] = {}
    for each in lacking:
        start = log.standing.start_of(each.source)
        there = other.contents.partitions.get(each.target)
        if start is None or there is None:
            continue
        begun = book.contents.partitions[each.source].begun == start.by
        ends = {place_of(outlet): outlet.pair.target for outlet in there.outlets}
        if begun and ends == {each.source: start.offset}:
            feeding[each] = there
    if not feeding:
        return {}
    source, target = sides(reverse, connect, feeding.values())
    by_source = courses(other, settings, feeding.values(), source, target)
    found: defaultdict[_Lacking, dict[int, Place]] = defaultdict(dict)
    for each, there in feeding.items():
        for course in by_source.get(there.source, ()):
            known = back.places(
                course,
                each.offsets,
                source,
                target,
                check,
                read_committed=reverse.fetch.read_committed,
            )
            found[each] |= {offset: place for offset, place in known.items() if place.exact}
    return found
