"""Logs of a partition that preserves offsets: equal records have equal offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.model import Pair
from causeway.operate.verify import DifferenceKind
from causeway.operate.verify.compare import compare
from causeway.operate.verify.outcome import Range, RangeOutcome
from tests.builders.verify import FEED
from tests.harness.raw_batches import ABORT, COMMIT, Rec, damaged, marker
from tests.harness.world import FOREIGN, OURS, FakeCluster, Log

KEPT = replace(FEED, by_offset=True)
Batches = Sequence[Sequence[Rec]]


def record(offset: int, content: int | None = None) -> Rec:
    """`content`: of the record that the source has at this offset."""
    of = offset if content is None else content
    value = b"value %d" % of + bytes(700)  # too large to be merged with its neighbours
    return Rec(offset=offset, timestamp=1_600_000_000_000 + of, key=b"k%d" % of, value=value)


def log(*offsets: int, start: int = 0, size: int = 4, changed: dict[int, int] | None = None) -> Log:
    """A log with a record at each offset, in batches of up to `size`; `changed`: other contents."""
    it = Log(start=start, end=start)
    for place in range(0, len(offsets), size):
        some = offsets[place : place + size]
        it.end = some[0]
        records = [record(one, (changed or {}).get(one)) for one in some]
        it.append(records, some[-1] + 1 - some[0], producer_id=OURS, epoch=0, sequence=0)
    return it


def compared(source: Log, target: Log, *, look_into: bool = True, **more: Any) -> RangeOutcome:
    feed, end = more.pop("feed", KEPT), more.pop("end", source.end)
    part = Range(
        feed=feed,
        start=Pair(source.start, source.start, 0),
        end=Pair(end, end, end),
        source_from=source.start,
        target_from=source.start,
        target_to=end,
        **more,
    )
    ours = FakeCluster("t", "a", {0: source}, compacted=False)
    theirs = FakeCluster("A.t", "b", {0: target}, compacted=False)
    return compare(part, cast(Cluster, ours), cast(Cluster, theirs), look_into=look_into)


def found_in(outcome: RangeOutcome) -> list[tuple[DifferenceKind, int | None, int, int]]:
    return [(one.kind, one.source, one.target, one.records) for one in outcome.differences]


ALL = tuple(range(100, 140))


def test_logs_agree_however_their_batches_are_cut() -> None:
    whole = compared(log(*ALL, start=100), log(*ALL, start=100))
    assert (whole.differs, whole.records, whole.as_they_are) == (False, 40, 40)
    cut = compared(log(*ALL, start=100), log(*ALL, start=100, size=3))
    assert (cut.differs, cut.records) == (False, 40)


def test_gaps_are_in_the_same_places() -> None:
    """The source has a marker and compacted records there, the target a marker or nothing."""
    offsets = [*range(0, 10), *range(11, 20, 2), *range(20, 30)]
    source, target = log(*offsets, size=5), log(*offsets, size=4)
    outcome = compared(source, target)
    assert (outcome.differs, outcome.records) == (False, len(offsets))


def test_the_same_bytes_at_other_offsets_differ() -> None:
    source = log(0, 1, 2, 4, 6, 8, size=3)
    target = log(0, 1, 2, 4, 5, 8, size=3, changed={5: 6})
    outcome = compared(source, target)
    assert found_in(outcome) == [(DifferenceKind.MOVED, 6, 5, 1)]
    assert outcome.differs


@pytest.mark.parametrize("look_into", [False, True])
def test_a_changed_record_is_named(look_into: bool) -> None:
    outcome = compared(log(*ALL, start=100), log(*ALL, start=100, changed={117: 999}))
    assert outcome.differs
    if look_into:
        assert found_in(outcome) == [(DifferenceKind.CHANGED, 117, 117, 1)]
        assert "of the value" in (outcome.differences[0].detail or "")


def test_a_shift_by_one_is_named_with_its_cause() -> None:
    """Someone else wrote at 110, and all later records are one too far."""
    shifted = {offset: offset - 1 for offset in range(111, 140)} | {110: 999}
    outcome = compared(log(*ALL, start=100), log(*ALL, start=100, changed=shifted))
    assert found_in(outcome) == [
        (DifferenceKind.UNKNOWN, None, 110, 1),
        (DifferenceKind.MOVED, 110, 111, 29),
    ]
    assert outcome.differences[1].detail == "the source has this record 1 offset earlier"


def test_a_missing_record_and_one_too_many_are_named() -> None:
    outcome = compared(log(0, 1, 2, 4, 5, 6), log(0, 1, 2, 3, 4, 6))
    assert found_in(outcome) == [
        (DifferenceKind.UNKNOWN, None, 3, 1),
        (DifferenceKind.MISSING, 5, 5, 1),
    ]


@pytest.mark.parametrize("how", [ABORT, COMMIT])
def test_filler_may_only_be_seen_by_read_uncommitted_readers(how: int) -> None:
    source = log(0, 1, 2, 10, 11, 12, size=3)
    target = log(0, 1, 2, size=3)
    filler = [Rec(offset=3 + at, timestamp=0, key=None, value=None) for at in range(6)]
    first = target.end
    target.append(filler, producer_id=FOREIGN, epoch=0, sequence=0, transactional=True)
    last = target.end
    target.batches.append((last, last, marker(last, FOREIGN, how)))
    target.end = last + 1
    if how == ABORT:
        target.aborted.append((FOREIGN, first, last))
    target.append([record(10 + at) for at in range(3)], producer_id=OURS, epoch=0, sequence=3)

    outcome = compared(source, target)

    if how == ABORT:
        assert (outcome.differs, outcome.records) == (False, 6)
    else:
        assert found_in(outcome) == [(DifferenceKind.UNKNOWN, None, 3, 6)]
        assert "filler" in (outcome.differences[0].detail or "")


def test_what_compaction_removed_on_one_side_is_not_a_difference() -> None:
    compacted = replace(KEPT, compacted=True)
    source, target = log(0, 2, 3, 5, 6), log(0, 1, 2, 3, 6)

    outcome = compared(source, target, feed=compacted)
    assert (outcome.differs, outcome.records, outcome.one_sided) == (False, 4, 2)

    target = log(0, 1, 2, 3, 6, changed={3: 999})
    outcome = compared(source, target, feed=compacted)
    assert found_in(outcome) == [(DifferenceKind.CHANGED, 3, 3, 1)]


def test_records_behind_the_end_of_the_source_are_of_others() -> None:
    source, target = log(0, 1, 2, 3), log(0, 1, 2, 3, 4, 5)
    outcome = compared(source, target, end=3, others_to=6)
    assert (outcome.differs, outcome.others, outcome.others_at) == (False, 2, 4)


def test_a_damaged_batch_of_the_target_is_named() -> None:
    target = log(*range(12))
    base, last, raw = target.batches[1]
    target.batches[1] = base, last, damaged(raw)
    outcome = compared(log(*range(12)), target)
    assert outcome.differences[0].kind is DifferenceKind.CORRUPT
    assert (outcome.differs, outcome.ended, outcome.records) == (True, None, 4)
