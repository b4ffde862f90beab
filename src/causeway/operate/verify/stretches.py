"""Cuts the mirrored records of one feed into ranges that can be compared independently.

    map of offsets   ●──straight──────────────●──gaps──●─●──●──straight──────────●  pair
    ranges           [       ][       ][      ][             ][        ][        ]

In a straight span, every offset can start a range, because target minus source offset is constant.
Elsewhere only the points of the offset map can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

from causeway.cluster import (
    EARLIEST,
    LATEST,
    Cluster,
    OffsetAt,
    bytes_an_offset,
    offsets_at,
    value_of,
)
from causeway.config import LinkSettings
from causeway.control import MirroredTopic, open_transactions
from causeway.errors import CausewayError
from causeway.link_topics import ProgressContents, Span
from causeway.model import Pair, TopicPartition
from causeway.operate.verify.outcome import PartitionFeed, Range
from causeway.records import SEQUENCE_SPACE, advance

RANGE_BYTES = 64 * 1024 * 1024  # of the source, estimated

Stretch = tuple[Pair, Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The start of the source log, start and end of the target log, estimated bytes per offset."""

    source_start: int
    target_start: int
    target_end: int
    offset_bytes: float


def cut(
    feed: PartitionFeed,
    points: Sequence[Pair],
    logs: Logs,
    *,
    from_first: bool,
    done: Sequence[Stretch] = (),
    range_bytes: int,
) -> list[Range]:
    """Returns the ranges to compare. `points`: of the offset map, ascending; all records are
    mirrored up to the last one. `from_first`: nothing was mirrored before the first point. `done`:
    stretches that agreed before, in order; they are left out. `range_bytes`: estimated size of a
    range."""
    most = max(1, int(range_bytes / logs.offset_bytes))
    known = sorted({*points, *(pair for stretch in done for pair in stretch)})
    stretches = [
        (one, other)
        for one, other in pairwise(known)
        if not any(a.source <= one.source and other.source <= b.source for a, b in done)
    ]
    found: list[Range] = []
    if not from_first:
        found += _range(feed, None, known[0], logs)
    for start, end in _sized(stretches, most):
        found += _range(feed, start, end, logs)
    return found


def _sized(stretches: Sequence[Stretch], most: int) -> Iterator[Stretch]:
    """Yields stretches of about `most` source offsets. A gap between stretches starts a new one."""
    begin = last = stretches[0][0] if stretches else Pair(0, 0, 0)
    for start, end in stretches:
        if start != last:
            if begin != last:
                yield begin, last
            begin = start
        if Span(start, end).straight:
            while end.source - begin.source > most:
                step = max(begin.source + most, start.source) - start.source
                if not step:
                    break
                place = _after(start, step)
                yield begin, place
                begin = place
        if end.source - begin.source >= most:
            yield begin, end
            begin = end
        last = end
    if begin != last:
        yield begin, last


def same_offsets(begin: int, end: int, logs: Logs) -> list[Pair]:
    """Returns points from which each offset up to `end` is the same on both sides. `begin`: the
    first offset that was mirrored. After a failback, the target also has earlier records with their
    offsets."""
    if logs.target_start < begin:
        begin = max(logs.source_start, logs.target_start)
    offsets = [*range(begin, end, SEQUENCE_SPACE // 2), end]
    return [Pair(offset, offset, offset % SEQUENCE_SPACE) for offset in offsets]


def _after(pair: Pair, count: int) -> Pair:
    """Returns the pair `count` records later in a straight span."""
    return Pair(pair.source + count, pair.target + count, advance(pair.sequence, count))


def _range(feed: PartitionFeed, start: Pair | None, end: Pair, logs: Logs) -> Iterator[Range]:
    """Yields the range of a stretch; nothing if a log has deleted all its records."""
    if end.source <= logs.source_start or 0 < logs.target_start >= end.target:
        return
    begin = start or Pair(0, 0, 0)
    if start is not None:
        lost = max(logs.source_start - start.source, logs.target_start - start.target)
        if lost > 0 and Span(start, end).straight:
            start = begin = _after(start, lost)
        elif logs.source_start > start.source:
            start = None
    yield Range(
        feed=feed,
        start=start,
        end=end,
        source_from=max(begin.source, logs.source_start),
        target_from=max(begin.target, logs.target_start),
        target_to=min(end.target, logs.target_end),
        cut=logs.target_start > begin.target,
        offset_bytes=logs.offset_bytes,
    )


def earlier(feed: PartitionFeed, first: Pair, logs: Logs) -> Range | None:
    """Returns a range for records that another tool mirrored before. None if a log has deleted
    them."""
    if first.source <= logs.source_start or first.target <= logs.target_start:
        return None
    return Range(
        feed=replace(feed, earlier=True),
        start=None,
        end=first,
        source_from=logs.source_start,
        target_from=logs.target_start,
        target_to=min(first.target, logs.target_end),
        offset_bytes=logs.offset_bytes,
    )


def after_mirrored(feed: PartitionFeed, last: Pair, target_end: int) -> Range:
    """Returns a range without own records, to find records of other producers after the mirrored
    ones."""
    return Range(
        feed=feed,
        start=last,
        end=last,
        source_from=last.source,
        target_from=last.target,
        target_to=last.target,
        others_to=target_end,
    )


_MANY = 20_000  # offsets; if there are more, the bytes per offset are measured
_SAMPLED_AT_ONCE = 8
_USUAL_BYTES = 1_000.0


Answers = Mapping[TopicPartition, int | CausewayError]


class Ends:
    """The starts and ends of all logs, asked in bulk. `beyond`: target partitions without a source.
    Raises CausewayError; its methods raise it for a log that did not answer."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        topics: Sequence[MirroredTopic],
        contents: ProgressContents,
        link: LinkSettings,
        beyond: Sequence[TopicPartition],
    ) -> None:
        known = {
            at: contents.partitions[at]
            for topic in topics
            for number in range(topic.partitions)
            if (at := TopicPartition(topic.source, number)) in contents.partitions
        }
        there = {topic.source for topic in topics if topic.target_id is not None}
        targets = [
            outlet.at for at, one in known.items() for outlet in one.outlets if at.topic in there
        ]
        targets += beyond
        self._starts: Answers = {}
        self._ends: Answers = {}
        self._written: Answers = {}
        self._target_starts: Answers = {}
        self._target_ends: Answers = {}
        if known:
            self._starts = offsets_at(source, known, EARLIEST)
            self._ends, self._written = (
                {at: one.offset if isinstance(one, OffsetAt) else one for at, one in ends.items()}
                for ends in open_transactions.both_ends(
                    source, known, read_committed=link.fetch.read_committed
                )
            )
        if targets:
            self._target_starts = offsets_at(target, targets, EARLIEST)
            self._target_ends = offsets_at(target, targets, LATEST)
        many = [
            (at, start)
            for at, start in self._starts.items()
            if isinstance(start, int) and known[at].position - start > _MANY
        ]
        with ThreadPoolExecutor(_SAMPLED_AT_ONCE) as pool:
            sizes = pool.map(lambda one: bytes_an_offset(source, *one), many)
            self._bytes = {at: size for (at, _), size in zip(many, sizes, strict=True)}

    def readable(self, at: TopicPartition) -> tuple[int, int]:
        """Returns the end of the source log as the link reads it, and with open transactions."""
        return value_of(self._ends[at]), value_of(self._written[at])

    def of(self, at: TopicPartition, target: TopicPartition) -> Logs:
        source_start = value_of(self._starts[at])
        target_start, target_end = self.there(target)
        return Logs(
            source_start=source_start,
            target_start=target_start,
            target_end=target_end,
            offset_bytes=max(1.0, self._bytes.get(at, _USUAL_BYTES)),
        )

    def there(self, target: TopicPartition) -> tuple[int, int]:
        """Start and end of a target log."""
        return value_of(self._target_starts[target]), value_of(self._target_ends[target])
