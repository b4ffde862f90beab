"""Explains differences: finds where both sides fit again, and what happened to the records between.

source  … a b c d e …        source  … a b c d …          source  … a b c d …
target  … a x c d e …        target  … a c d …            target  … a b b c d …
          changed                      b missing                    b doubled
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from causeway.cluster import Content
from causeway.operate.verify.logs import UNREADABLE, LogSide
from causeway.operate.verify.outcome import Difference, DifferenceKind

MOST_DIFFERENCES = 1_000  # listed for each range; the others are counted
FIT = 3  # this number of records in a row must be equal for both sides to fit again
_MOST_SORTED_OUT = 2_000  # records that are compared pairwise

# Returns, for a hash, the offsets of a record that agreed.
KnownRecords = Callable[[int], "tuple[int, int] | None"]


class Odd(NamedTuple):
    """A record that does not fit. `source`, `target`: hashes, None if that side has no record.
    `source_at` and `target_at` are offsets, `source_index` and `target_index` count records.
    `copy_of`: the offsets of a record that agreed and equals the target's record."""

    source: int | None
    target: int | None
    source_at: int
    target_at: int
    source_index: int
    target_index: int
    detail: str | None = None
    copy_of: tuple[int, int] | None = None


def realign(
    source: Sequence[Content], target: Sequence[Content], *, whole: bool
) -> tuple[int, int] | None:
    """Returns the number of records of each side before both sides fit again. None if they do not
    fit within the given records. `whole`: no records follow, so both sides may end."""
    ones, others = [hash(one) for one in source], [hash(other) for other in target]
    first: dict[tuple[int, ...], int] = {}
    for place, run in _runs(others, whole):
        first.setdefault(run, place)
    best: tuple[int, int] | None = None
    for place, run in _runs(ones, whole):
        if best is not None and place >= sum(best):
            break
        found = first.get(run)
        if found is not None and (best is None or place + found < sum(best)):
            best = place, found
    return best


def _runs(hashes: list[int], whole: bool) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields each place with the next FIT hashes. If no records follow, the end counts as records
    that are equal on both sides."""
    padded: list[int] = [*hashes, *range(FIT)] if whole else hashes
    for place in range(len(padded) - FIT + 1):
        yield place, tuple(padded[place : place + FIT])


def odd_ones(
    source: LogSide,
    target: LogSide,
    contents: Sequence[Content],
    others: Sequence[Content],
    known: KnownRecords,
) -> list[Odd]:
    """Pairs the records that do not fit, one by one. `contents` and `others` are the next records
    of the source and of the target."""
    digests = [hash(each) for each in contents], [hash(each) for each in others]
    found = []
    for (place, is_here), (there, is_there) in _pairs(*digests):
        one = digests[0][place] if is_here else None
        other = digests[1][there] if is_there else None
        found.append(
            Odd(
                one,
                other,
                source.offset(place),
                target.offset(there),
                source.index + place,
                target.index + there,
                detail(contents[place], others[there]) if is_here and is_there else None,
                known(other) if one is None and other is not None else None,
            )
        )
    return found


_Place = tuple[int, bool]  # an index, and whether the side has a record for it


def _pairs(ones: list[int], others: list[int]) -> list[tuple[_Place, _Place]]:
    """Pairs record with record if that gives fewer differences than insertions and deletions."""
    side_by_side = None
    if len(ones) == len(others):
        side_by_side = [
            ((place, True), (place, True))
            for place, (one, other) in enumerate(zip(ones, others, strict=True))
            if one != other
        ]
    if max(len(ones), len(others)) > _MOST_SORTED_OUT:
        return side_by_side or list(_replaced(0, len(ones), 0, len(others)))
    matched: list[tuple[_Place, _Place]] = []
    for tag, a, b, c, d in SequenceMatcher(None, ones, others, autojunk=False).get_opcodes():
        if tag != "equal":
            matched += _replaced(a, b, c, d)
    return matched if side_by_side is None or len(matched) < len(side_by_side) else side_by_side


def _replaced(a: int, b: int, c: int, d: int) -> Iterator[tuple[_Place, _Place]]:
    both = min(b - a, d - c)
    for place in range(both):
        yield (a + place, True), (c + place, True)
    for place in range(a + both, b):
        yield (place, True), (c + both, False)
    for place in range(c + both, d):
        yield (a + both, False), (place, True)


def detail(one: Content, other: Content) -> str:
    """Returns the parts in which two records differ, without content."""
    if other[3] is UNREADABLE["target"]:
        return "the target's batch cannot be read"
    if one[3] is UNREADABLE["source"]:
        return "the source's batch cannot be unpacked"
    parts = []
    if one[0] != other[0]:
        parts.append("timestamp")
    for name, here, there in (("key", one[1], other[1]), ("value", one[2], other[2])):
        if here != there:
            parts.append(_bytes(name, here, there))
    if one[3] != other[3]:
        parts.append("headers")
    return ", ".join(parts)


def _bytes(name: str, here: bytes | None, there: bytes | None) -> str:
    if here is None or there is None:
        return f"{name} is null on the {'source' if here is None else 'target'} alone"
    if len(here) != len(there):
        return f"{name} has {len(here)} bytes on the source, {len(there)} on the target"
    wrong = [at for at, (a, b) in enumerate(zip(here, there, strict=True)) if a != b]
    return f"{len(wrong)} of {len(here)} bytes of the {name}, the first at {wrong[0]}"


def without_times(contents: Sequence[Content]) -> list[Content]:
    """Returns the same records without timestamps."""
    return [(None, *content[1:]) for content in contents]


def resolve(odd: Sequence[Odd]) -> list[Difference]:
    """Returns differences for all records that do not fit. It recognises swapped, moved and doubled
    records."""
    taken: set[int] = set()
    found: dict[int, Difference] = {}
    changed = {
        (one.source, one.target): place
        for place, one in enumerate(odd)
        if one.source is not None and one.target is not None
    }
    missing: dict[int, list[int]] = {}
    for place, one in enumerate(odd):
        if one.source is not None and one.target is None:
            missing.setdefault(one.source, []).append(place)
    for place, one in enumerate(odd):
        if place in taken or one.target is None:
            continue
        back = changed.get((one.target, one.source)) if one.source is not None else None
        if back is not None and back > place:
            taken |= {place, back}
            found[place] = _swapped(one, odd[back].source_at, odd[back].target_at)
        elif one.source is None and missing.get(one.target):
            gone = missing[one.target].pop(0)
            taken |= {place, gone}
            found[min(place, gone)] = _moved(odd[gone], one)
    found |= {place: _single(one) for place, one in enumerate(odd) if place not in taken}
    joined: list[Difference] = []
    before: int | None = None
    for place, each in sorted(found.items()):
        if before is not None and _follows(odd[before], found[before], odd[place], each):
            joined[-1] = joined[-1].replace(records=joined[-1].records + 1)
        else:
            joined.append(each)
        before = place
    return joined


def _swapped(one: Odd, source: int, target: int) -> Difference:
    return Difference(
        kind=DifferenceKind.SWAPPED,
        source=one.source_at,
        target=one.target_at,
        records=2,
        other=(source, target),
    )


def _moved(gone: Odd, there: Odd) -> Difference:
    late = there.target_index - gone.target_index
    if late == 1:  # neighbours have changed places
        return _swapped(gone, gone.source_at + 1, there.target_at)
    return Difference(
        kind=DifferenceKind.MOVED,
        source=gone.source_at,
        target=there.target_at,
        detail=f"by {abs(late)} records",
    )


def _single(one: Odd) -> Difference:
    source, kind = one.source_at, DifferenceKind.UNKNOWN
    if one.target is None:
        kind = DifferenceKind.MISSING
    elif one.source is not None:
        kind = DifferenceKind.CHANGED
    elif one.copy_of is not None:
        source, kind = one.copy_of[0], DifferenceKind.DOUBLED
    return Difference(
        kind=kind, source=source, target=one.target_at, other=one.copy_of, detail=one.detail
    )


def _follows(a: Odd, one: Difference, b: Odd, other: Difference) -> bool:
    """Returns whether the differences of two neighbours are one run."""
    if one.kind is not other.kind:
        return False
    steps = b.source_index - a.source_index, b.target_index - a.target_index
    match one.kind:
        case DifferenceKind.MISSING:
            return steps == (1, 0)
        case DifferenceKind.CHANGED:
            return steps == (1, 1) and one.detail == other.detail
        case DifferenceKind.UNKNOWN:
            return steps == (0, 1)
        case DifferenceKind.DOUBLED:
            return steps == (0, 1) and (one.source or 0) < (other.source or 0)
    return False
