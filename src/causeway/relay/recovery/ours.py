"""Finds our last record in a target's log: after a pair, or before it if records are lost.

target  ──T────────[ours]──[others']──[ours]──end►      T, q: the pair
          │ sequence q                     ▲
          └ before T lies q − 1, or          our last batch: count records since q
            acknowledged records are lost

The sequences of our batches in a log must follow one another. A target that lost acknowledged
records may also have forgotten our producer. Then it accepts the next batch that arrives, with any
sequence, and the records between are missing in the middle of the log:

    ──[ours, to q0 − 1] ┊ lost: q0 to q − 1      ──[ours, to q0 − 1]──[ours, q …]──

These records cannot be inserted any more, so a partition with such a hole stops. Compaction also
leaves gaps in the sequences. If we are the only writer, offsets show whether there is a hole: all
our batches in a log have the same difference of offset and sequence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import (
    EARLIEST,
    Cluster,
    Content,
    content_of,
    log_reader,
    offsets_at,
    value_of,
)
from causeway.errors import CausewayError, DivergedError, ProtocolError
from causeway.link_topics import Outlet
from causeway.model import Pair
from causeway.records import (
    CONTROL,
    LOG_APPEND_TIME,
    SEQUENCE_SPACE,
    BatchHeader,
    Record,
    advance,
    decode,
    distance,
)
from causeway.relay.recovery.survey import ResumedOutlet, is_compacted

# If others write and the broker has forgotten our producer, this much of the log is searched for
# our last batch. An unclean election loses only the newest records, and the search must be cheap.
LOOKED_BACK_BYTES = 64 * 1024 * 1024
_HALF = SEQUENCE_SPACE // 2


def comparable(content: Content, append_times: bool) -> Content:
    """`content` without the fields that the target changes."""
    return (None, *content[1:]) if append_times else content


@dataclass(frozen=True, slots=True)
class LastOfOurs:
    """Our last record that the target still has after the pair. `count`: the number of our records
    from the pair to the last sequence. `content`: our last record; None if compaction left no
    record of ours, or it is too large to unpack. `index`: the number of that record (from 0).
    `following`: set if `count` is 0 but the log has batches of ours from the pair's target offset
    on: the sequence after the last batch. Then the target had lost records before the pair, and
    they were sent again."""

    count: int
    index: int
    content: Content | None
    foreign: bool
    append_times: bool = False
    following: int | None = None

    def comparable(self, content: Content) -> Content:
        return comparable(content, self.append_times)

    def is_copy_of(self, content: Content) -> bool:
        """Returns whether this record is the source's record `content`."""
        return self.content is not None and (
            self.comparable(self.content) == self.comparable(content)
        )


class PairTooHighError(Exception):
    """Our records after a pair may lie below the pair's target offset: see `lowered`. `otherwise`:
    the error to raise if they do not."""

    def __init__(self, otherwise: CausewayError) -> None:
        super().__init__(str(otherwise))
        self.otherwise = otherwise


class Before(NamedTuple):
    """Our last batch below a target offset. `following`: the sequence after it. `end`: the target
    offset after it. `content`: its last record, None if compaction removed that record."""

    following: int
    end: int
    content: Content | None
    append_times: bool

    @classmethod
    def of(cls, batch: BatchHeader, raw: memoryview) -> Before:
        found = decoded(raw)
        content = content_of(found[-1]) if found and found[-1].offset == batch.last else None
        times = bool(batch.attributes & LOG_APPEND_TIME)
        return cls(batch.following, batch.last + 1, content, times)

    def can_be(self, content: Content) -> bool:
        """Returns whether the source's record `content` may be its last record."""
        return self.content is None or (
            comparable(self.content, self.append_times) == comparable(content, self.append_times)
        )


@dataclass(frozen=True, slots=True)
class TargetLog:
    """The log of a target partition. `node`: its leader. `alone`: no other client may write to it.
    `remembered`: our last sequence in the broker's memory, which it has from its log. None if the
    broker has forgotten our producer, or was not asked."""

    cluster: Cluster
    outlet: Outlet
    node: int
    end: int
    alone: bool
    remembered: int | None

    def resumed(self, pair: Pair, epoch: int) -> ResumedOutlet:
        return ResumedOutlet(
            pair=pair, end=self.end, exclusive=self.alone, node=self.node, epoch=epoch
        )

    @property
    def start(self) -> int:
        return value_of(offsets_at(self.cluster, [self.outlet.at], EARLIEST)[self.outlet.at])

    @property
    def is_compacted(self) -> bool:
        return is_compacted(self.cluster, self.outlet.topic)

    @property
    def has_all(self) -> bool:
        """Whether the log never deleted a record."""
        return not self.start and not self.is_compacted

    def batches(self, start: int, stop: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yields the batches of all producers from target offset `start` to `stop` - 1."""
        for raw in log_reader.raw_batches(self.cluster, self.outlet.at, start, stop):
            yield BatchHeader.of(raw), raw

    def ours(self, start: int, stop: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        return (each for each in self.batches(start, stop) if self._is_ours(each[0]))

    def _is_ours(self, batch: BatchHeader) -> bool:
        return batch.producer_id == self.outlet.producer_id and not batch.attributes & CONTROL

    def last_of_ours(self) -> LastOfOurs:
        """Raises CausewayError and PairTooHighError."""
        pair = self.outlet.pair
        count, index, newest, foreign = 0, -1, None, False
        # If each offset is a record of ours, the sequence of a batch gives its offset. `moved`: a
        # batch has another offset. It may be an old one that arrived late, in the place of another.
        moved = False
        following: int | None = None
        first: BatchHeader | None = None  # of ours
        lacking: DivergedError | None = None
        for batch, raw in self.batches(pair.target, self.end):
            if not self._is_ours(batch):
                foreign = True
                continue
            first = first or batch
            expected = pair.sequence if following is None else following
            ahead = distance(expected, batch.sequence)
            if ahead > _HALF:
                if following is not None:
                    raise self.misplaced(batch.sequence, expected)
            elif ahead and lacking is None:
                lacking = self.misplaced(batch.sequence, expected)
            following = batch.following
            at = distance(pair.sequence, batch.sequence)
            moved |= (batch.base - pair.target) % SEQUENCE_SPACE != at
            reached = distance(pair.sequence, following)
            if reached > _HALF or reached <= count:
                continue  # the batch comes before the pair
            count = reached
            if batch.records:
                newest, index = (batch, raw), reached
        if self.alone and foreign:
            raise DivergedError(
                "resume",
                str(self.outlet.at),
                f"another client wrote to it after offset {pair.target}",
                remedy="end the other writer and start with --adopt, or allow it with "
                "causeway.sole.writer=false",
            )
        if self.alone:
            grown = self.end - pair.target
            if moved or 0 < count != grown:
                cause = f"it grew by {grown}, {count} records were sent"
                raise PairTooHighError(self.not_as_sent(cause))
            if count == 0:
                # Retention at the target may have deleted all records after the pair. No other
                # client wrote, so each offset was one record of ours.
                return LastOfOurs(grown, -1, None, foreign)
        elif lacking and self.start <= pair.target and not self.is_compacted:
            raise PairTooHighError(lacking)
        elif first is not None:
            self._check_follows(first)
        if newest is None:
            return LastOfOurs(count, -1, None, foreign, following=following)
        batch, raw = newest
        append_times = bool(batch.attributes & LOG_APPEND_TIME)
        found = decoded(raw)
        if not found:
            return LastOfOurs(count, -1, None, foreign, append_times)
        missing = batch.last - found[-1].offset  # compacted away at the batch's end
        return LastOfOurs(count, index - 1 - missing, content_of(found[-1]), foreign, append_times)

    def moved_since(self) -> int | None:
        """Returns how many records of ours came after the pair, if others write and the log has
        none of ours behind the pair. 0 if there were none. More if the target has deleted them
        since. Less than 0 if the target lost records of ours before the pair, and others' records
        took their offsets. None if the log does not show it.

        If the broker has forgotten our producer, the log itself is searched.
        """
        pair = self.outlet.pair
        if self.remembered is not None:
            following = advance(self.remembered, 1)
        elif not pair.target:
            return None  # nothing lies before the pair
        else:
            found, whole = self.last_before(pair.target, most_bytes=LOOKED_BACK_BYTES)
            if found is not None:
                following = found.following
            elif whole and self.has_all:
                return -pair.sequence  # the log has no record of ours: all are lost
            else:
                return None
        ahead = distance(pair.sequence, following)
        return ahead if ahead <= _HALF else ahead - SEQUENCE_SPACE

    def _check_follows(self, batch: BatchHeader) -> None:
        """Raises DivergedError if our `batch` does not follow our batch before it in the log."""
        before, whole = self.last_before(batch.base, most_bytes=LOOKED_BACK_BYTES)
        if before is None:
            pair = self.outlet.pair
            counted = pair.sequence <= pair.target  # then sequences did not wrap
            if not whole or not counted or self.start:
                return
        following = before.following if before else 0
        if following != batch.sequence and not self.is_compacted:
            raise self.misplaced(batch.sequence, following)

    def lowered(self) -> Outlet | None:
        """Lowers the pair to the record that has its sequence. Returns the outlet with that pair,
        or None if that record does not lie below the pair.

        The target lost others' newest records up to the pair. Our later records took their offsets,
        and the lane that sent them died before it could report that:

            ──[ours, to q − 1]──[others' ┊ lost]──T   ──[ours, to q − 1]──[others']──[ours, q …]──T

        Raises DivergedError if the batch before that record does not end with sequence q − 1. Then
        the target lost records of ours as well, and accepted later ones in their place.
        """
        pair = self.outlet.pair
        stop = min(self.end, pair.target)
        newest, _ = self.last_before(stop)
        if newest is None or not is_past(pair.sequence, newest.following):
            return None
        before, _ = self.last_before(stop, upto=pair.sequence)
        start, following = (before.end, before.following) if before else (0, 0)
        for batch, _ in self.ours(start, stop):
            if batch.sequence != following:
                raise self.misplaced(batch.sequence, following)
            lower = pair._replace(target=batch.base + distance(batch.sequence, pair.sequence))
            return self.outlet.replace(pair=lower) if lower.target < pair.target else None
        return None

    def last_alone(self) -> tuple[Before | None, int | None]:
        """For a target without other writers, whose log ends at the pair or below it. Returns the
        last batch if it is ours, and the next sequence, None if the log does not show it.

        Raises DivergedError if the log has a hole, or a batch of another writer.
        """
        pair = self.outlet.pair
        stretches = backwards(self.end)
        newest = (each for at in stretches for each in deque(self.batches(*at), maxlen=1))
        batch, raw = next(newest, (None, None))
        if batch is None or raw is None:
            return None, None
        if not self._is_ours(batch):
            if batch.last >= pair.target - pair.sequence:  # not before all of ours
                raise self.not_as_sent(f"a foreign batch is at offset {batch.base}")
            # Compaction removed the rest.
            return None, max(0, pair.sequence - (pair.target - self.end))
        if _shift(batch) != (pair.target - pair.sequence) % SEQUENCE_SPACE:
            self._check_unbroken(batch)
        before = Before.of(batch, raw)
        return before, advance(before.following, self.end - before.end)  # compaction, as above

    def is_at_pair(self) -> bool:
        """Returns whether the record before the pair is our last record, for a target without other
        writers, whose log ends at the pair. Raises DivergedError as `last_alone` does."""
        sequence = self.outlet.pair.sequence
        if self.remembered is not None and advance(self.remembered, 1) == sequence:
            return True
        _, following = self.last_alone()
        return following is None or following == sequence

    def _check_unbroken(self, newest: BatchHeader) -> None:
        """Checks that all our batches up to `newest` have the same difference of offset and
        sequence. They have it if the target lost all our records, and records of others before
        them."""
        begun = not newest.sequence
        for start, stop in backwards(newest.base):
            if begun:
                return
            for batch, _ in self.ours(start, stop):
                if _shift(batch) != _shift(newest):
                    following = (newest.base - _shift(batch)) % SEQUENCE_SPACE
                    raise self.misplaced(newest.sequence, following)
                begun |= not batch.sequence

    def last_before(
        self, end: int, *, upto: int | None = None, most_bytes: int | None = None
    ) -> tuple[Before | None, bool]:
        """Our last batch below target offset `end`, and below sequence `upto` if given. If there is
        none in `most_bytes`: None, and whether the whole log was searched."""
        read = 0
        for start, stop in backwards(end):
            found = None
            for batch, raw in self.batches(start, stop):
                read += len(raw)
                if self._is_ours(batch) and (upto is None or not is_past(upto, batch.following)):
                    found = batch, raw
                if most_bytes is not None and read > most_bytes:
                    return None, False
            if found is not None:
                return Before.of(*found), False
        return None, True

    def fingerprints(self, last: LastOfOurs) -> dict[int, int]:
        """Our records from the pair on: the number of each (from 0), and a hash of the fields that
        the target did not change."""
        pair = self.outlet.pair
        found: dict[int, int] = {}
        for batch, raw in self.ours(pair.target, self.end):
            first = distance(pair.sequence, batch.sequence)
            for record in decoded(raw):
                index = (first + record.offset - batch.base) % SEQUENCE_SPACE
                if index < last.count:
                    found[index] = hash(last.comparable(content_of(record)))
        return found

    def misplaced(self, sequence: int, expected: int) -> DivergedError:
        return self.not_as_sent(f"sequence {sequence} is in the place of sequence {expected}")

    def not_as_sent(self, cause: str) -> DivergedError:
        return DivergedError(
            "resume",
            str(self.outlet.at),
            f"the target's records since offset {self.outlet.pair.target} are not the records that "
            f"were sent, in their order ({cause}): some are there twice, or are missing, or are of "
            "other clients",
            remedy="compare both topics, then start with --adopt or --from",
        )


def backwards(end: int) -> Iterator[tuple[int, int]]:
    """Ranges of target offsets below `end`, the last range first. Their lengths grow."""
    window = 1
    while end > 0:
        start = max(0, end - window)
        yield start, end
        end, window = start, window * 16


def is_past(sequence: int, following: int) -> bool:
    """Returns whether `sequence` comes before sequence `following`."""
    return 0 < distance(sequence, following) <= _HALF


def _shift(batch: BatchHeader) -> int:
    """Returns the difference of a batch's offset and its sequence."""
    return (batch.base - batch.sequence) % SEQUENCE_SPACE


def decoded(raw: memoryview) -> list[Record]:
    """Returns the records of a batch; an empty list if the batch is too large to be unpacked. Lanes
    relay such batches as they are."""
    try:
        return decode(raw)
    except ProtocolError:
        return []
