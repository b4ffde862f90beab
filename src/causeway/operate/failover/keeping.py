"""Decides whether a failback can keep the offsets of topics whose mirror kept them.

old source  ……………………│ E                  its log ends at the cut: the reverse link goes on there
old target  ……………………│ E ── new ──►
    old source  ……………………│ E ─ more ─│        an offset can be used only once: stock Kafka cannot
                                              cut the end of a log
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from causeway.cluster import EARLIEST, LATEST, Cluster, offsets_at
from causeway.config import LinkSettings
from causeway.link_topics import Cut
from causeway.model import TopicPartition
from causeway.operate.failover.unmirrored import UnmirroredRecords


class Otherwise(StrEnum):
    """How topics go on if they cannot keep their offsets as they are."""

    REFILL = "refill"  # deleted on the old source, and filled again with the same offsets
    TRANSLATE = "translate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturningOffsets:
    """`topics`: the topics whose offsets the mirror kept and the reverse link preserves. `beyond`:
    by how many offsets logs of the old source go beyond the start of the reverse link. `blocked`:
    topics that cannot keep their offsets for that reason, or because the old target has deleted the
    records that follow."""

    topics: frozenset[str] = frozenset()
    beyond: Mapping[TopicPartition, int] = field(default_factory=dict)
    blocked: frozenset[str] = frozenset()


def returning_offsets(
    reverse: LinkSettings, cuts: Mapping[str, Cut], sighting: UnmirroredRecords
) -> ReturningOffsets:
    """`sighting`: the present state of the old source."""
    kept = frozenset(
        name for name, cut in cuts.items() if cut.preserves and reverse.preserves(name)
    )
    ends = {at: end for at, end in sorted(sighting.ends.items()) if at.topic in kept}
    beyond = {
        at: end - start for at, end in ends.items() if end > (start := sighting.starts.get(at, 0))
    }
    # An empty log is filled up to the first record that is left.
    gone = {at for at in sighting.gone if ends.get(at, 0) > 0}
    blocked = frozenset(at.topic for at in beyond.keys() | gone)
    return ReturningOffsets(topics=kept, beyond=beyond, blocked=blocked)


def offsets_held(
    cluster: Cluster, topics: Collection[str], places: Iterable[TopicPartition]
) -> int:
    """Returns how many offsets the logs of `topics` have in `places`. Raises CausewayError."""
    wanted = [at for at in places if at.topic in topics]
    starts, ends = (offsets_at(cluster, wanted, when) for when in (EARLIEST, LATEST))
    return sum(
        end - start
        for at in wanted
        if isinstance(end := ends[at], int) and isinstance(start := starts[at], int)
    )
