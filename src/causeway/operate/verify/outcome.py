"""Values of a comparison: the ranges to compare, and the result of each. They travel to
executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from google_crc32c import value as crc32c
from msgspec import Struct

from causeway.cluster import Content
from causeway.link_topics import Value
from causeway.model import Pair, TopicPartition
from causeway.relay import Assignment, TreatmentStep

_CHECKSUM = 1 << 64

FeedIdentity = tuple[str, TopicPartition, TopicPartition, int, str, str]  # results are for one


class DifferenceKind(StrEnum):
    CHANGED = "changed"  # the target has the record with other content
    MISSING = "missing"  # the target lacks the record
    DOUBLED = "doubled"  # the target has the record twice
    SWAPPED = "swapped"  # two records have changed places
    MOVED = "moved"  # the record is at another place
    UNKNOWN = "unknown"  # the target has a record that the source does not have
    CORRUPT = "corrupt"  # a batch that no consumer can read
    DIFFERENT = "different"  # no record fits from here on


class Difference(Value, rename={"source": "source_offset", "target": "target_offset"}):
    """One record, or a run of `records` of one kind. `source`: the (first) source offset; for an
    unknown record, the source offset before which it appears, None if that is not known. `target`:
    the target offset; for a missing record, where it should be. `other`: the offsets of the record
    with which it changed places, or of the first copy of a doubled record. `detail`: which parts
    differ, never content."""

    kind: DifferenceKind
    source: int | None
    target: int
    other: tuple[int, int] | None = None
    records: int = 1
    detail: str | None = None


class Sums(Struct, kw_only=True):
    """The records that agree: their number, their `size` (bytes on the source, without headers) and
    `checksum` (sum of the CRC-32C of the compared bytes, modulo 2**64). `as_they_are`: the records
    among them that were compared byte by byte, as whole batches. `timeless`: timestamps were not
    compared, because the target sets its own."""

    records: int = 0
    size: int = 0
    as_they_are: int = 0
    checksum: int = 0
    timeless: bool = False

    def add(self, other: Sums) -> None:
        self.records += other.records
        self.size += other.size
        self.as_they_are += other.as_they_are
        self.checksum = (self.checksum + other.checksum) % _CHECKSUM
        self.timeless |= other.timeless

    def add_batch(self, payload: bytes, count: int) -> None:
        """Counts a whole batch with the same bytes on both sides."""
        self.records += count
        self.as_they_are += count
        self.size += len(payload)
        self.checksum = (self.checksum + crc32c(payload)) % _CHECKSUM

    def add_records(self, contents: Sequence[Content]) -> None:
        """Counts records with the same content on both sides."""
        self.records += len(contents)
        for content in contents:
            self.size += size_of(content)
            self.checksum += crc32c((content[1] or b"") + (content[2] or b""))
        self.checksum %= _CHECKSUM


def size_of(content: Content) -> int:
    """Returns the bytes of key and value."""
    return len(content[1] or b"") + len(content[2] or b"")


class RangeOutcome(Sums, kw_only=True):
    """The result for one range; the comparison fills it in step by step.

    `begun`: the first source offset compared, -1 if there is none. `others`: records of other
    producers in between; `others_at`: the target offset of the first. `different`: the number of
    records that differ, even if `differences` has no room for all; a comparison that does not look
    into differences stops at the first and lists none. `ended`: why the comparison stopped before
    the end. `skipped`: records at the beginning of the source that were never relayed; for an
    `earlier` range, of the side that has more. `one_sided`: records that only one side has at their
    offset, if compaction may have removed them on the other side."""

    range: Range
    begun: int
    others: int = 0
    others_at: int = -1
    differs: bool = False
    differences: tuple[Difference, ...] = ()
    different: int = 0
    ended: str | None = None
    skipped: int = 0
    one_sided: int = 0

    def foreign(self, count: int, base: int) -> None:
        """Counts `count` records of another producer at target offset `base`."""
        self.others += count
        self.others_at = base if self.others_at < 0 else self.others_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFeed:
    """One source partition and one target partition that it feeds.

    `alone`: no other producer may write to the target partition. `split` and `outlet`: if keys
    decide the target partition, how the series is divided, and which part is compared. `steps`: the
    treatment of each record, without secrets. `earlier`: the records before the mirror began, of
    any producer. `by_offset`: each record, of any writer, must have the same offset on both sides.
    `compacted`: compaction may have removed records on one side. The topic ids separate the results
    of a deleted topic from those of its successor."""

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
    by_offset: bool = False
    compacted: bool = False

    @property
    def identity(self) -> FeedIdentity:
        return (
            self.link,
            self.source,
            self.target,
            self.producer_id,
            self.source_id,
            self.target_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The series of `feed` from `start` up to `end`; the progress topic proves both pairs.

    `start`: None if the offset map does not reach the start; it is counted back from `end`.
    `source_from` and `target_from`: the first offsets that the logs still have. `cut`: the target
    has deleted earlier records, so the sequence of its first record decides the start. `target_to`:
    the end of the target log if that is before `end`. `others_to`: the end of the search for
    records of other producers, if that is after `end`.
    """

    feed: PartitionFeed
    start: Pair | None
    end: Pair
    source_from: int
    target_from: int
    target_to: int
    others_to: int = 0
    cut: bool = False
    offset_bytes: float = 1000.0  # estimated bytes per source offset

    @property
    def size(self) -> int:
        """Estimated bytes on the source."""
        return int(max(0, self.end.source - self.source_from) * self.offset_bytes)
