"""What a comparison has found, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from causeway.model import Pair, TopicPartition
from causeway.relay import Assignment, TreatmentStep


class DifferenceKind(StrEnum):
    CHANGED = "changed"  # the record is there, and is not the same
    MISSING = "missing"  # the target lacks it
    DOUBLED = "doubled"  # the target has it once more
    SWAPPED = "swapped"  # two have changed places
    MOVED = "moved"  # it lies elsewhere
    UNKNOWN = "unknown"  # the target has one that the source has not
    CORRUPT = "corrupt"  # a batch that no consumer can read
    DIFFERENT = "different"  # from here on nothing fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place, or a run of `records` of one kind. `source`: offset of the (first) record on the
    source; of one that is unknown there, the offset that it comes before. `target`: its offset; of
    one that is missing, where it should be. `other`: the offsets of the record that it has changed
    places with; of one that is doubled, the target offset of the first copy. `detail` says what
    differs, never a record's content."""

    kind: DifferenceKind
    source: int
    target: int
    records: int = 1
    other: tuple[int, int] | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOutcome:
    """Of one range. `records`, `size` (bytes on the source, without headers) and `checksum` (sum of
    the CRC-32C of what was compared, modulo 2**64) are of what agrees; `as_they_are`: how many of
    the records were compared as whole batches, byte by byte. `begun`: the first source offset
    compared, -1 where there was none. `others`: records in between that others wrote, and the
    target offset of the first. `timeless`: the target gives times of its own, which are not
    compared. `different`: how many records differ, also those that `differences` has no room for;
    a range that is not looked into stops at the first and tells none. `ended`: why it was not
    compared to its end. `skipped`: records at the beginning of what the
    source has that were never relayed; of what is earlier, of either side that the other has
    not."""

    range: Range
    begun: int
    records: int = 0
    size: int = 0
    as_they_are: int = 0
    checksum: int = 0
    others: int = 0
    others_at: int = -1
    timeless: bool = False
    differs: bool = False
    differences: tuple[Difference, ...] = ()
    different: int = 0
    ended: str | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFeed:
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

    feed: PartitionFeed
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
