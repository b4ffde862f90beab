"""What look-ups have told of one source partition and one target partition, while it is true."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.daemon.partitions.mirrored import Mirrored


class Version(NamedTuple):
    """While it stays the same, what was looked up stays true. `term`: rewinds are counted anew in
    each, and nobody tells us of those that another driver has seen."""

    term: int
    producer_id: int
    rewinds: int

    @classmethod
    def of(cls, partition: Mirrored, term: int) -> Version:
        return cls(term, partition.outlet.producer_id, partition.rewinds)


@dataclass(slots=True)
class Known:
    """What look-ups have told: `places`, and `later`: a source offset before which nothing follows
    what was asked for. The next record may lie behind those of others, or not be there yet."""

    version: Version
    places: dict[int, int] = field(default_factory=dict)
    later: dict[int, int] = field(default_factory=dict)

    def nearest(self, offsets: Iterable[int]) -> list[int | None]:
        """Of each offset, the last one of known place that is not above it."""
        ascending = sorted(self.places)
        indexes = (bisect_right(ascending, offset) for offset in offsets)
        return [ascending[index - 1] if index else None for index in indexes]


def remember(before: Known | None, version: Version, offsets: Iterable[int]) -> Known:
    """What is known of each of `offsets`, or else of the last one before it. What nobody asks for
    any more, or may be true no more, is forgotten."""
    kept = Known(version)
    if before is not None and before.version == version:
        asked = set(offsets)
        kept.later = {one: later for one, later in before.later.items() if one in asked}
        for nearest in before.nearest(kept.later.get(one, one) for one in asked):
            if nearest is not None:
                kept.places[nearest] = before.places[nearest]
    return kept
