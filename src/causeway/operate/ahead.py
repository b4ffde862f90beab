"""Finds consumer groups that are further on the target than on the source. After a move they would
skip the records in between.

    source  ── commit ──────── S ──     S: the source offset of the group's place on the target
                 └─ skipped ─┘

This uses only the progress topic and its offset maps; it reads no log. Each point of a map shows
how many records were mirrored before it, so the number is exact at a point and on a straight
stretch. On a stretch with gaps, or with records of other producers, it is the least possible
number. If offsets are preserved, it is the number of offsets, those of gaps included.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from causeway.control import Commits
from causeway.errors import CausewayError
from causeway.link_topics import ProgressContents, offset_maps_of
from causeway.model import Pair, TopicPartition
from causeway.records import distance

_SOURCE: Final = attrgetter("source")
_TARGET: Final = attrgetter("target")


class Ahead:
    """Counts skipped records from one read of a link's progress topic."""

    def __init__(self, contents: ProgressContents, partitions: Iterable[TopicPartition]) -> None:
        """`partitions`: the partitions of the source to look at."""
        self._feeds: defaultdict[TopicPartition, list[tuple[TopicPartition, Sequence[Pair]]]]
        self._feeds = defaultdict(list)
        for at in partitions:
            progress = contents.partitions.get(at)
            if progress is None or progress.transform is not None:
                continue
            maps = offset_maps_of(progress, contents.maps.get(at, {}))
            for target, found in maps.items():
                points = () if progress.preserves else found.points
                self._feeds[target].append((at, points))

    def records(self, commits: Commits, there: Commits | CausewayError | None) -> int:
        """Returns the least number of records that a group would skip if it has committed `commits`
        on the source and `there` on the target; 0 if there are none, or if that is not known."""
        if there is None or isinstance(there, CausewayError):
            return 0
        return sum(
            _skipped(points, commits[at].offset, own.offset)
            for target, own in there.items()
            for at, points in self._feeds.get(target, ())
            if at in commits
        )


def _skipped(points: Sequence[Pair], commit: int, own: int) -> int:
    """Returns the fewest records before `own` on the target, minus the most records before `commit`
    on the source. `points` is empty if offsets are preserved."""
    if not points:
        return max(0, own - commit)
    read = bisect_right(points, commit, key=_SOURCE) - 1
    reached = bisect_right(points, own, key=_TARGET) - 1
    if reached < max(read, 0):
        return 0
    most = 0
    if 0 <= read < len(points) - 1:
        start, end = points[read : read + 2]
        most = min(distance(start.sequence, end.sequence), commit - start.source)
    least = 0
    if reached < len(points) - 1:
        start, end = points[reached : reached + 2]
        records = distance(start.sequence, end.sequence)
        others = end.target - start.target - records
        least = max(0, own - start.target - others)
    between = distance(points[max(read, 0)].sequence, points[reached].sequence)
    return max(0, between + least - most)


def of_all(
    contents: ProgressContents,
    commits: Mapping[str, Commits | CausewayError],
    there: Mapping[str, Commits | CausewayError],
    ended: Collection[TopicPartition] = (),
) -> dict[str, int]:
    """Returns the groups that are ahead, with the least number of records that each would skip.
    Partitions whose mirror has `ended` do not count: their groups have moved, and continue
    there."""
    known = {name: own for name, own in commits.items() if not isinstance(own, CausewayError)}
    ahead = Ahead(contents, {at for own in known.values() for at in own} - set(ended))
    found = {name: ahead.records(own, there.get(name)) for name, own in known.items()}
    return {name: records for name, records in found.items() if records}
