"""Compares one range: reads both sides in step.

    source  [ a ][  b  ][c][d]…        whole batches with the same bytes are not unpacked
    target  [ a ][  b  ][ c d ]…       otherwise records are compared, until both sides are at
                                       the end of a batch again

If a record differs and differences are looked into, `differ` finds where both sides fit again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile

from causeway.cluster import Cluster, Content
from causeway.errors import BrokerError, ProtocolError
from causeway.operate.verify import differ
from causeway.operate.verify.by_offset import compare_by_offset
from causeway.operate.verify.differ import MOST_DIFFERENCES, Odd, without_times
from causeway.operate.verify.logs import LogSide, Piece, Spent, of_source, of_target
from causeway.operate.verify.outcome import Difference, DifferenceKind, Range, RangeOutcome
from causeway.records import SEQUENCE_SPACE, distance
from causeway.wire import codes

_MOST_ODD = 20_000  # differing records after which the search ends
_REMEMBERED_BYTES = 16 * 1024 * 1024  # of the last records that agreed, to recognise copies
_REMEMBERED = 200_000  # records
_WINDOWS = (64, 1_024, 16_384)  # records searched for the place where both sides fit again
_WINDOW_BYTES = 32 * 1024 * 1024


def compare(
    part: Range,
    source: Cluster,
    target: Cluster,
    *,
    look_into: bool,
    spent: Spent = lambda _: None,
) -> RangeOutcome:
    """Compares one range. `look_into`: compares to the end and finds each difference; otherwise
    only whether there is a difference. `spent` is called with the bytes of each answer of either
    side.

    Raises CausewayError if a cluster does not answer. A log that has deleted records of the range
    is a result (`ended`), not an error.
    """
    found = RangeOutcome(range=part, begun=-1)
    try:
        if part.feed.by_offset:
            compare_by_offset(found, source, target, look_into=look_into, spent=spent)
        else:
            walk = _Walk(found, look_into=look_into)
            try:
                walk.run(*_aligned(found, source, target, spent))
            finally:
                walk.finish()
    except BrokerError as error:
        if error.code != codes.OFFSET_OUT_OF_RANGE:
            raise
        found.ended = "a log has deleted these records in the meantime"
    except ProtocolError as error:
        found.ended = str(error)
    return found


def _aligned(
    found: RangeOutcome, source: Cluster, target: Cluster, spent: Spent
) -> tuple[Iterator[Piece], Iterator[Piece]]:
    """Returns both sides, from the first record that both must have."""
    part, end = found.range, found.range.end
    if part.feed.earlier:
        return _from_the_end(found, source, target, spent)
    ours = of_target(target, found, spent)
    if part.start is not None and not part.cut:
        return of_source(source, part, spent), ours
    if part.start is not None:
        first = part.start.sequence
    else:
        counted = sum(piece.count for piece in of_source(source, part, spent))
        first = (end.sequence - counted) % SEQUENCE_SPACE
        if counted > end.sequence and end.target < SEQUENCE_SPACE:
            # More records than were ever relayed: the first ones are from before the mirror.
            found.skipped = counted - end.sequence
            return _without(of_source(source, part, spent), counted - end.sequence), ours
    theirs = of_source(source, part, spent)
    head = next(ours, None)
    if head is None:
        # The target has deleted all records of the range, or lost them.
        return (iter(()) if part.cut else theirs), ours
    ours = chain([head], ours)
    ahead = distance(first, head.sequence)
    if ahead > SEQUENCE_SPACE // 2:
        return theirs, _without(ours, SEQUENCE_SPACE - ahead)
    return (_without(theirs, ahead) if part.cut else theirs), ours


def _from_the_end(
    found: RangeOutcome, source: Cluster, target: Cluster, spent: Spent
) -> tuple[Iterator[Piece], Iterator[Piece]]:
    """Returns the same number of last records of both sides, of any producer."""
    part = found.range
    there = replace(
        part,
        feed=replace(part.feed, source=part.feed.target),
        source_from=part.target_from,
        end=part.end._replace(source=part.target_to),
    )
    one = sum(piece.count for piece in of_source(source, part, spent))
    other = sum(piece.count for piece in of_source(target, there, spent))
    both = min(one, other)
    found.skipped = max(one, other) - both
    return (
        _without(of_source(source, part, spent), one - both),
        _without(of_source(target, there, spent), other - both),
    )


def _without(pieces: Iterator[Piece], count: int) -> Iterator[Piece]:
    """Yields all but the first `count` records."""
    for piece in pieces:
        if count >= piece.count:
            count -= piece.count
        elif count:
            yield piece.part(count, piece.count)
            count = 0
        else:
            yield piece


class _Walk:
    def __init__(self, found: RangeOutcome, *, look_into: bool) -> None:
        self._found, self._look_into = found, look_into
        self._odd: list[Odd] = []
        self._more: list[Difference] = []
        # The last records that agreed: whole batches of both sides, and records by hash.
        self._batches: deque[tuple[Piece, Piece]] = deque()
        self._batch_bytes = 0
        self._known: dict[int, tuple[int, int]] = {}

    def run(self, ones: Iterator[Piece], others: Iterator[Piece]) -> None:
        self._source = LogSide(ones, "source", self._found.range.end.source)
        self._target = LogSide(others, "target", self._found.range.target_to)
        going = True
        while going:
            one, other = self._source.piece(), self._target.piece()
            if self._found.begun < 0 and one is not None:
                self._found.begun = one.offsets[0]
            if one is None and other is None:
                return
            if one is not None and other is not None and one.same_bytes(other):
                self._same_bytes(one, other)
                continue
            self._source.back(one)
            self._target.back(other)
            going = self._by_records()

    def finish(self) -> None:
        """Completes the outcome: sorts the records that do not fit, and counts them."""
        found = self._found
        differences = differ.resolve(self._odd) + self._more + list(found.differences)
        found.differences = tuple(differences[:MOST_DIFFERENCES])
        found.different = sum(one.records for one in differences)

    def _same_bytes(self, one: Piece, other: Piece) -> None:
        payload = one.payload or b""
        self._source.index += one.count
        self._target.index += other.count
        self._found.add_batch(payload, one.count)
        if self._look_into:
            self._batches.append((one, other))
            self._batch_bytes += len(payload)
            while self._batch_bytes > _REMEMBERED_BYTES and len(self._batches) > 1:
                self._batch_bytes -= len(self._batches.popleft()[0].payload or b"")

    def _by_records(self) -> bool:
        """Compares until both sides are at the end of a batch. Returns False if the comparison ends
        here."""
        source, target = self._source, self._target
        while True:
            for side in (source, target):
                if not side.contents:
                    side.more(1, _WINDOW_BYTES)
            both = min(len(source.contents), len(target.contents))
            agree = self._agree(both)
            self._pass(agree)
            if not source.contents and not target.contents:
                return True
            if agree < both or source.ended or target.ended:
                if any(not side.contents and not side.ended for side in (source, target)):
                    continue
                self._found.differs = True
                if not self._look_into or not self._differ():
                    return False

    def _agree(self, both: int) -> int:
        """Returns how many of the first `both` records are equal."""
        ones, others = self._comparable(both)
        if ones == others:
            return both
        equal = zip(ones, others, strict=True)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], equal))

    def _comparable(self, count: int | None = None) -> list[Sequence[Content]]:
        """Returns the first `count` records of both sides, or all that are unpacked."""
        contents = [side.contents[:count] for side in (self._source, self._target)]
        return [without_times(one) if self._found.timeless else one for one in contents]

    def _pass(self, count: int) -> None:
        """Counts `count` records that agree, and drops them."""
        self._found.add_records(self._source.contents[:count])
        if self._look_into and count:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            for place, content in enumerate(self._comparable(count)[0]):
                offsets = self._source.offsets[place], self._target.offsets[place]
                self._known[hash(content)] = offsets
        self._source.drop(count)
        self._target.drop(count)

    def _differ(self) -> bool:
        """Passes the records that do not fit. Returns False if no later records fit."""
        source, target = self._source, self._target
        for side, other, kind in (
            (target, source, DifferenceKind.MISSING),
            (source, target, DifferenceKind.UNKNOWN),
        ):
            if side.ended and not side.contents:
                self._rest(other, kind)
                return True
        fits = None
        for window in _WINDOWS:
            source.more(window, _WINDOW_BYTES)
            target.more(window, _WINDOW_BYTES)
            whole = source.ended and target.ended
            fits = differ.realign(*self._comparable(), whole=whole)
            if fits is not None or whole:
                break
        if fits is None or len(self._odd) > _MOST_ODD:
            detail = "no record fits from here on; the rest was not looked into"
            self._more.append(
                Difference(
                    kind=DifferenceKind.DIFFERENT,
                    source=source.offset(0),
                    target=target.offset(0),
                    detail=detail,
                )
            )
            return False
        self._drop_odd(*fits)
        return True

    def _drop_odd(self, ours: int, theirs: int) -> None:
        """Drops `ours` records of the source and `theirs` of the target that do not fit, and
        remembers them."""
        ones, others = self._comparable()
        self._odd += differ.odd_ones(
            self._source, self._target, ones[:ours], others[:theirs], self._known_as
        )
        self._source.drop(ours)
        self._target.drop(theirs)

    def _rest(self, longer: LogSide, kind: DifferenceKind) -> None:
        """One side has ended, the other has not. The rest may be copies, or moved records."""
        longer.more(_WINDOWS[-1], _WINDOW_BYTES)
        self._drop_odd(len(self._source.contents), len(self._target.contents))
        longer.more(1, _WINDOW_BYTES)
        if longer.contents:
            source, target = self._source.offset(0), self._target.offset(0)
            self._more.append(
                Difference(kind=kind, source=source, target=target, records=longer.rest())
            )

    def _known_as(self, digest: int) -> tuple[int, int] | None:
        """Returns the offsets of a recent record that agreed and has this hash."""
        while self._batches:
            one, other = self._batches.popleft()
            try:
                contents = one.contents()
            except ProtocolError:  # too large to be unpacked
                continue
            if self._found.timeless:
                contents = without_times(contents)
            for place, content in enumerate(contents):
                self._known[hash(content)] = one.offsets[place], other.offsets[place]
        self._batch_bytes = 0
        return self._known.get(digest)
