"""Compares one range of a partition that preserves offsets: each record must have the same offset
on both sides.

    source  10 11 .. 13      whole batches with the same offsets and bytes are not unpacked
    target  10 11 .. 13      otherwise records are compared, offset by offset

The target is read as a read_committed consumer reads it, with the records of all writers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from causeway.cluster import LATEST, Cluster, Content, offsets_at, value_of
from causeway.errors import ProtocolError
from causeway.operate.verify import differ
from causeway.operate.verify.differ import MOST_DIFFERENCES, without_times
from causeway.operate.verify.logs import LogSide, Piece, Spent, of_source, of_visible
from causeway.operate.verify.outcome import Difference, DifferenceKind, RangeOutcome

_MOST_ODD = 20_000  # differing records after which the search ends
_AT_ONCE_BYTES = 32 * 1024 * 1024
_NO_RECORD = "the source has no record at this offset"
_ANOTHER = "the source has another record at this offset"
_FILLER = "a filler record, which no read_committed consumer should see"


class _Odd(NamedTuple):
    """A difference at one offset: the hashes of both records; None if there is no record.
    `detail`: which parts differ, or what kind of record it is."""

    source: int | None
    target: int | None
    detail: str | None


class _OffsetWalk:
    def __init__(self, found: RangeOutcome, *, look_into: bool) -> None:
        self._found, self._look_into = found, look_into
        self._at: dict[int, _Odd] = {}  # by offset
        self._not_looked_into: int | None = None  # from this offset on

    def run(self, ones: Iterator[Piece], others: Iterator[Piece]) -> None:
        end = self._found.range.end.source
        source, target = self._source, self._target = (
            LogSide(ones, "source", end),
            LogSide(others, "target", end),
        )
        while True:
            if not source.contents and not target.contents:
                one, other = source.piece(), target.piece()
                if one is None and other is None:
                    return
                if self._found.begun < 0:
                    self._found.begun = min(each.offsets[0] for each in (one, other) if each)
                if (
                    one is not None
                    and other is not None
                    and one.offsets == other.offsets
                    and one.same_bytes(other)
                ):
                    self._found.add_batch(one.payload or b"", one.count)
                    continue
                source.back(one)
                target.back(other)
            for side in (source, target):
                if not side.contents:
                    side.more(1, _AT_ONCE_BYTES)
            self._some()
            if self._at and not self._look_into and self._is_certain():
                self._found.differs = True
                return
            if len(self._at) > _MOST_ODD:
                differences, one_sided = self._resolved()
                if differences:
                    self._not_looked_into = max(self._at) + 1
                    return
                self._found.one_sided += one_sided
                self._at.clear()

    def _some(self) -> None:
        """Compares up to the last offset that is unpacked on both sides."""
        source, target = self._source, self._target
        last = min(side.offsets[-1] for side in (source, target) if side.contents)
        ours, theirs = (bisect_right(side.offsets, last) for side in (source, target))
        ones, others = source.contents[:ours], target.contents[:theirs]
        if self._found.timeless:
            ones, others = without_times(ones), without_times(others)
        if ones == others and source.offsets[:ours] == target.offsets[:theirs]:
            self._found.add_records(source.contents[:ours])
        else:
            there = dict(zip(target.offsets, others, strict=False))
            here = dict(zip(source.offsets, ones, strict=False))
            self._found.add_records(
                [
                    whole
                    for whole, offset in zip(source.contents[:ours], here, strict=True)
                    if there.get(offset) == here[offset]
                ]
            )
            for offset in sorted(here.keys() | there.keys()):
                if here.get(offset) != there.get(offset):
                    self._at[offset] = _odd(here.get(offset), there.get(offset))
        source.drop(ours)
        target.drop(theirs)

    def _is_certain(self) -> bool:
        """Returns whether the differences are certain: compaction may have removed a record on one
        side."""
        return not self._found.range.feed.compacted or any(
            None not in (one.source, one.target) for one in self._at.values()
        )

    def _resolved(self) -> tuple[list[Difference], int]:
        return _resolve(self._at, compacted=self._found.range.feed.compacted)

    def finish(self) -> None:
        """Completes the outcome: sorts the differences, and counts them."""
        found = self._found
        differences, one_sided = self._resolved()
        if self._not_looked_into is not None:
            place = self._not_looked_into
            detail = f"more than {_MOST_ODD} records differ; the rest was not looked into"
            kind = DifferenceKind.DIFFERENT
            differences.append(Difference(kind=kind, source=place, target=place, detail=detail))
        differences += found.differences
        found.one_sided += one_sided
        found.differs |= bool(differences)
        if self._look_into:
            found.differences = tuple(differences[:MOST_DIFFERENCES])
            found.different = sum(one.records for one in differences)


class _CorruptTargetError(Exception):
    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.detail)
        self.difference = difference


def compare_by_offset(
    found: RangeOutcome, source: Cluster, target: Cluster, *, look_into: bool, spent: Spent
) -> None:
    """See compare.compare."""
    part = found.range
    walk = _OffsetWalk(found, look_into=look_into)
    try:
        walk.run(of_source(source, part, spent), _readable(target, found, spent))
    except _CorruptTargetError as error:
        found.differences += (error.difference,)
    finally:
        walk.finish()
    if part.others_to > part.end.target:
        # A driver may have mirrored more since the range was planned.
        at = part.feed.source
        here = max(part.end.source, value_of(offsets_at(source, [at], LATEST)[at]))
        for piece in of_visible(target, found, here, part.others_to, spent):
            found.foreign(piece.count, piece.offsets[0])


def _readable(target: Cluster, found: RangeOutcome, spent: Spent) -> Iterator[Piece]:
    part = found.range
    following = part.target_from
    try:
        for piece in of_visible(target, found, part.target_from, part.target_to, spent):
            yield piece
            following = piece.offsets[-1] + 1
    except ProtocolError as error:
        detail = f"{error}; nothing behind it was compared"
        kind = DifferenceKind.CORRUPT
        raise _CorruptTargetError(
            Difference(kind=kind, source=None, target=following, detail=detail)
        ) from error


def _odd(one: Content | None, other: Content | None) -> _Odd:
    detail = None
    if one is not None and other is not None:
        detail = differ.detail(one, other)
    elif other is not None:
        _, _, value, headers = other
        detail = _FILLER if value is None and not headers else _NO_RECORD
    return _Odd(None if one is None else hash(one), None if other is None else hash(other), detail)


def _resolve(odd: Mapping[int, _Odd], *, compacted: bool) -> tuple[list[Difference], int]:
    """Returns the differences in the order of their offsets, neighbours of one kind together. Also
    returns the number of records that only one side has, perhaps because of compaction."""
    places = {one.source: offset for offset, one in odd.items() if one.source is not None}
    moved = {
        offset: places[one.target]
        for offset, one in odd.items()
        if one.target is not None and one.target in places and places[one.target] != offset
    }
    elsewhere = set(moved.values())
    found: list[Difference] = []
    one_sided = 0
    last = -1
    for offset, one in sorted(odd.items()):
        each: Difference | None = None
        if offset in moved:
            by = offset - moved[offset]
            many = f"{abs(by)} offset{'s' if abs(by) > 1 else ''}"
            detail = f"the source has this record {many} {'earlier' if by > 0 else 'later'}"
            each = Difference(
                kind=DifferenceKind.MOVED, source=moved[offset], target=offset, detail=detail
            )
        elif one.source is not None and offset not in elsewhere and one.target is not None:
            kind = DifferenceKind.CHANGED
            each = Difference(kind=kind, source=offset, target=offset, detail=one.detail)
        elif one.target is not None:
            one_sided += compacted
            kind = DifferenceKind.UNKNOWN
            why = one.detail if one.source is None else _ANOTHER
            each = Difference(kind=kind, source=None, target=offset, detail=why)
        elif offset not in elsewhere:
            one_sided += compacted
            each = Difference(kind=DifferenceKind.MISSING, source=offset, target=offset)
        if each is None or (compacted and each.kind in _ONE_SIDED):
            continue
        before = found[-1] if found else None
        if (
            before is not None
            and offset == last + 1
            and (before.kind, before.detail) == (each.kind, each.detail)
        ):
            found[-1] = before.replace(records=before.records + 1)
        else:
            found.append(each)
        last = offset
    return found, one_sided


_ONE_SIDED = frozenset({DifferenceKind.MISSING, DifferenceKind.UNKNOWN})
