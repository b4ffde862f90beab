"""What one task compares: a stretch of one source partition's series, and where it lies in a target
partition. Plain values, which travel to executors."""

from __future__ import annotations

from dataclasses import dataclass

from causeway.model import Pair, TopicPartition
from causeway.relay import Assignment, TreatmentStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One source partition and one target partition that it feeds. `alone`: nobody else may write
    there. `split`: where keys decide, how the series is divided, and `outlet`, which part of it is
    meant. `steps`: what becomes of each record on the way, without secrets. `earlier`: what lies
    before the mirror's beginning, whoever wrote it to the target. Ids are the topics': what was
    compared is not taken for that of a topic made anew."""

    link: str
    source: TopicPartition
    target: TopicPartition
    source_id: str
    target_id: str
    producer_id: int
    read_committed: bool = True
    alone: bool = True
    split: Assignment | None = None
    outlet: int = 0
    steps: tuple[TreatmentStep, ...] = ()
    earlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The series of `feed` from `start` up to `end`; both pairs are true by the progress topic.

    `start` None: counted back from `end`, for what the map of offsets does not tell. `source_from`
    and `target_from`: what the logs still hold. `cut`: the target has deleted what came before, so
    that the sequence of its first record tells where to begin. `target_to`: where the target ends,
    if that is before `end`. `others_to`: so far it is looked for records of others, if that is
    further on.
    """

    feed: Feed
    start: Pair | None
    end: Pair
    source_from: int
    target_from: int
    target_to: int
    others_to: int = 0
    cut: bool = False
    offset_bytes: float = 1000.0  # about how many one source offset takes

    @property
    def size(self) -> int:
        """About how many bytes it has on the source."""
        return int(max(0, self.end.source - self.source_from) * self.offset_bytes)
