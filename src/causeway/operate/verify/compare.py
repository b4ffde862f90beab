"""Compares one range: reads both sides in step.

    source  [ a ][  b  ][c][d]…        whole batches with the same bytes are not unpacked
    target  [ a ][  b  ][ c d ]…       otherwise records are compared, until both sides are at
                                       the end of a batch again

If a record differs and differences are looked into, `differ` finds where both sides fit again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile

from google_crc32c import value as crc32c

from causeway.cluster import Cluster, Content
from causeway.errors import BrokerError, ProtocolError
from causeway.operate.verify import differ
from causeway.operate.verify.differ import Odd, Stretch
from causeway.operate.verify.logs import Piece, Spent, of_source, of_target
from causeway.operate.verify.outcome import Difference, DifferenceKind, Range, RangeOutcome
from causeway.operate.verify.sides import LogSide, size_of, without_times
from causeway.records import SEQUENCE_SPACE, distance
from causeway.wire import codes

MOST_DIFFERENCES = 1_000  # listed per range; the others are counted
_MOST_ODD = 20_000  # after so many the search ends
_REMEMBERED_BYTES = 16 * 1024 * 1024  # of the last records that agreed, to recognise copies
_REMEMBERED = 200_000  # records
_WINDOWS = (64, 1_024, 16_384)  # records searched for the place where both sides fit again
_WINDOW_BYTES = 32 * 1024 * 1024
_CHECKSUM = 1 << 64


def compare(
    part: Range,
    source: Cluster,
    target: Cluster,
    *,
    look_into: bool,
    spent: Spent = lambda _: None,
) -> RangeOutcome:
    """Compares one range. `look_into`: to the end, with each difference; otherwise only whether
    there is a difference. `spent` is called with the bytes of each answer of either side.

    Raises CausewayError if a cluster does not answer. A log that has deleted records of the range
    is a result (`ended`), not an error.
    """
    found = RangeOutcome(range=part, begun=-1)
    walk = _Walk(part, found, look_into=look_into)
    try:
        walk.run(*_aligned(part, source, target, found, spent))
    except BrokerError as error:
        if error.code != codes.OFFSET_OUT_OF_RANGE:
            raise
        found.ended = "a log has deleted these records in the meantime"
    except ProtocolError as error:
        found.ended = str(error)
    walk.finish()
    return found


def _aligned(
    part: Range, source: Cluster, target: Cluster, found: RangeOutcome, spent: Spent
) -> tuple[Iterator[Piece], Iterator[Piece]]:
    """Both sides, from the first record that both must have."""
    feed, end = part.feed, part.end
    ours = of_target(
        target,
        feed,
        part.target_from,
        part.target_to,
        part.offset_bytes,
        found,
        spent,
        part.others_to,
    )

    def theirs() -> Iterator[Piece]:
        return of_source(source, feed, part.source_from, end.source, part.offset_bytes, spent)

    if feed.earlier:
        return _from_the_end(part, theirs, target, found, spent)
    if part.start is not None and not part.cut:
        return theirs(), ours
    if part.start is not None:
        first = part.start.sequence
    else:
        counted = sum(piece.count for piece in theirs())
        first = (end.sequence - counted) % SEQUENCE_SPACE
        if counted > end.sequence and end.target < SEQUENCE_SPACE:
            # More records than were ever relayed: the first ones are from before the mirror.
            found.skipped = counted - end.sequence
            return _without(theirs(), counted - end.sequence), ours
    head = next(ours, None)
    if head is None:
        # The target has deleted all records of the range, or lost them.
        return (iter(()) if part.cut else theirs()), ours
    ours = chain([head], ours)
    ahead = distance(first, head.sequence)
    if ahead > SEQUENCE_SPACE // 2:
        return theirs(), _without(ours, SEQUENCE_SPACE - ahead)
    return (_without(theirs(), ahead) if part.cut else theirs()), ours


def _from_the_end(
    part: Range,
    theirs: Callable[[], Iterator[Piece]],
    target: Cluster,
    found: RangeOutcome,
    spent: Spent,
) -> tuple[Iterator[Piece], Iterator[Piece]]:
    """The same number of last records of both sides, of any producer."""

    def there() -> Iterator[Piece]:
        as_source = replace(part.feed, source=part.feed.target)
        return of_source(
            target, as_source, part.target_from, part.target_to, part.offset_bytes, spent
        )

    one, other = (sum(piece.count for piece in pieces()) for pieces in (theirs, there))
    both = min(one, other)
    found.skipped = max(one, other) - both
    return _without(theirs(), one - both), _without(there(), other - both)


def _without(pieces: Iterator[Piece], count: int) -> Iterator[Piece]:
    """All but the first `count` records."""
    for piece in pieces:
        if count >= piece.count:
            count -= piece.count
        elif count:
            yield piece.part(count)
            count = 0
        else:
            yield piece


class _Walk:
    def __init__(self, part: Range, found: RangeOutcome, *, look_into: bool) -> None:
        self._part, self._found, self._look_into = part, found, look_into
        self._odd: list[Odd] = []
        self._more: list[Difference] = []
        # The last records that agreed: whole batches of both sides, and records by hash.
        self._batches: deque[tuple[Piece, Piece]] = deque()
        self._batch_bytes = 0
        self._known: dict[int, tuple[int, int]] = {}

    def run(self, ones: Iterator[Piece], others: Iterator[Piece]) -> None:
        source, target = LogSide(ones, "source"), LogSide(others, "target")
        going = True
        while going:
            one, other = source.piece(), target.piece()
            if self._found.begun < 0 and one is not None:
                self._found.begun = one.offsets[0]
            if one is None and other is None:
                return
            if one is not None and other is not None and one.same_bytes(other):
                self._same_bytes(one, other)
                source.passed(one)
                target.passed(other)
                continue
            source.back(one)
            target.back(other)
            going = self._by_records(source, target)

    def finish(self) -> None:
        """Completes the outcome: sorts what does not fit, and counts it."""
        found = self._found
        differences = differ.resolve(self._odd) + self._more + list(found.differences)
        found.differences = tuple(differences[:MOST_DIFFERENCES])
        found.different = sum(one.records for one in differences)

    def _same_bytes(self, one: Piece, other: Piece) -> None:
        payload = one.payload or b""
        self._found.records += one.count
        self._found.as_they_are += one.count
        self._found.size += len(payload)
        self._found.checksum = (self._found.checksum + crc32c(payload)) % _CHECKSUM
        if self._look_into:
            self._batches.append((one, other))
            self._batch_bytes += len(payload)
            while self._batch_bytes > _REMEMBERED_BYTES and len(self._batches) > 1:
                self._batch_bytes -= len(self._batches.popleft()[0].payload or b"")

    def _by_records(self, source: LogSide, target: LogSide) -> bool:
        """Compares until both sides are at the end of a batch; False if the comparison ends
        here."""
        while True:
            if not source.contents:
                source.more(1, _WINDOW_BYTES)
            if not target.contents:
                target.more(1, _WINDOW_BYTES)
            both = min(len(source.contents), len(target.contents))
            agree = self._agree(source, target, both)
            self._pass(source, target, agree)
            if not source.contents and not target.contents:
                return True
            if agree < both or source.ended or target.ended:
                if not source.contents and not source.ended:
                    continue
                if not target.contents and not target.ended:
                    continue
                self._found.differs = True
                if not self._look_into or not self._differ(source, target):
                    return False

    def _agree(self, source: LogSide, target: LogSide, both: int) -> int:
        """How many of the first `both` records are equal."""
        ones, others = self._comparable(source, both), self._comparable(target, both)
        if ones == others:
            return both
        equal = zip(ones, others, strict=True)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], equal))

    def _comparable(self, side: LogSide, count: int) -> Sequence[Content]:
        contents = side.contents if count == len(side.contents) else side.contents[:count]
        return without_times(contents) if self._found.timeless else contents

    def _pass(self, source: LogSide, target: LogSide, count: int) -> None:
        """Counts `count` records that agree, and drops them."""
        self._found.records += count
        for place in range(count):
            content = source.contents[place]
            self._found.size += size_of(content)
            self._found.checksum += crc32c((content[1] or b"") + (content[2] or b""))
        self._found.checksum %= _CHECKSUM
        if self._look_into and count:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            ones = self._comparable(source, count)
            for place, content in enumerate(ones):
                self._known[hash(content)] = source.offsets[place], target.offsets[place]
        source.drop(count)
        target.drop(count)

    def _differ(self, source: LogSide, target: LogSide) -> bool:
        """Passes the records that do not fit; False if no later records fit."""
        for side, other, kind in (
            (target, source, DifferenceKind.MISSING),
            (source, target, DifferenceKind.UNKNOWN),
        ):
            if side.ended and not side.contents:
                self._rest(source, target, other, kind)
                return True
        fits = None
        for window in _WINDOWS:
            source.more(window, _WINDOW_BYTES)
            target.more(window, _WINDOW_BYTES)
            whole = source.ended and target.ended
            ones = self._comparable(source, len(source.contents))
            others = self._comparable(target, len(target.contents))
            fits = differ.realign(ones, others, whole=whole)
            if fits is not None or whole:
                break
        if fits is None or len(self._odd) > _MOST_ODD:
            self._more.append(
                Difference(
                    kind=DifferenceKind.DIFFERENT,
                    source=_offset(source, self._part.end.source),
                    target=_offset(target, self._part.target_to),
                    detail="no record fits from here on; the rest was not looked into",
                )
            )
            return False
        ours, theirs = fits
        self._odd += differ.odd_ones(
            _stretch(source, ones[:ours], self._part.end.source),
            _stretch(target, others[:theirs], self._part.target_to),
            self._known_as,
        )
        source.drop(ours)
        target.drop(theirs)
        return True

    def _rest(
        self, source: LogSide, target: LogSide, longer: LogSide, kind: DifferenceKind
    ) -> None:
        """One side has ended, the other has not. Its last records may be copies, or moved."""
        longer.more(_WINDOWS[-1], _WINDOW_BYTES)
        ones = self._comparable(source, len(source.contents))
        others = self._comparable(target, len(target.contents))
        self._odd += differ.odd_ones(
            _stretch(source, ones, self._part.end.source),
            _stretch(target, others, self._part.target_to),
            self._known_as,
        )
        longer.drop(len(longer.contents))
        longer.more(1, _WINDOW_BYTES)
        if longer.contents:
            at = _offset(source, self._part.end.source), _offset(target, self._part.target_to)
            count = longer.rest()
            self._more.append(Difference(kind=kind, source=at[0], target=at[1], records=count))

    def _known_as(self, digest: int) -> tuple[int, int] | None:
        """The offsets of a recent record that agreed and has this hash."""
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


def _stretch(side: LogSide, contents: Sequence[Content], end: int) -> Stretch:
    count = len(contents)
    following = side.offsets[count] if count < len(side.offsets) else end
    return Stretch(contents, side.offsets[:count], following, side.index)


def _offset(side: LogSide, end: int) -> int:
    return side.offsets[0] if side.offsets else end
