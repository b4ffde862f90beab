"""Two logs compared: each flaw is found, named, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.cluster import Cluster
from causeway.link_topics import Outlet
from causeway.model import Pair, TopicPartition
from causeway.operate.verify import Difference, DifferenceKind
from causeway.operate.verify.compare import compare
from causeway.operate.verify.outcome import PartitionFeed, Range, RangeOutcome
from causeway.relay import Assignment, TreatmentStep, partition_of
from tests.harness.raw_batches import ABORT, COMMIT, Rec, damaged, marker
from tests.harness.world import (
    FOREIGN,
    OURS,
    SOURCE,
    SOURCE_ID,
    TARGET,
    TARGET_ID,
    FakeCluster,
    Log,
)

Flaw = Callable[[list[Rec]], list[Rec]]
COUNT = 60


def _source(sizes: Sequence[int], count: int = COUNT) -> Log:
    """Batches of these sizes, again and again; larger than what lanes merge."""
    log = Log()
    place = 0
    while log.end < count:
        size = min(sizes[place % len(sizes)], count - log.end)
        log.append([_record(log.end + i) for i in range(size)])
        place += 1
    return log


def _record(offset: int) -> Rec:
    return Rec(
        offset=offset,
        timestamp=1_600_000_000_000 + offset,
        key=b"k%d" % (offset % 7),
        value=b"value %d" % offset + bytes(700),
    )


def _target(records: Sequence[Rec], sizes: Sequence[int], *, sequence: int = 0) -> Log:
    log, place, at = Log(), 0, 0
    while at < len(records):
        some = records[at : at + sizes[place % len(sizes)]]
        log.append(
            [replace(one, offset=log.end + i) for i, one in enumerate(some)],
            producer_id=OURS,
            epoch=0,
            sequence=sequence + at,
        )
        at, place = at + len(some), place + 1
    return log


def _range(source: Log, target: Log, **more: Any) -> Range:
    feed = PartitionFeed(
        link="A->B",
        source=SOURCE,
        target=TopicPartition(TARGET, 0),
        source_id=SOURCE_ID,
        target_id=TARGET_ID,
        producer_id=OURS,
    )
    given: dict[str, Any] = {
        "feed": feed,
        "start": Pair(0, 0, 0),
        "end": Pair(source.end, target.end, target.end),
        "source_from": source.start,
        "target_from": target.start,
        "target_to": target.end,
    }
    return Range(**{**given, **more})


def _compare(source: Log, target: Log, *, look_into: bool = True, **more: Any) -> RangeOutcome:
    one = FakeCluster("t", SOURCE_ID, {0: source}, compacted=False)
    other = FakeCluster(TARGET, TARGET_ID, {0: target}, compacted=False)
    return compare(
        _range(source, target, **more),
        cast(Cluster, one),
        cast(Cluster, other),
        look_into=look_into,
    )


def _flawed(flaw: Flaw, sizes: Sequence[int] = (5,), cut: Sequence[int] = (5,)) -> RangeOutcome:
    source = _source(sizes)
    return _compare(source, _target(flaw([_record(i) for i in range(COUNT)]), cut))


def test_records_from_before_the_mirror_are_counted() -> None:
    """Where no map of offsets says where it began."""
    source = _source([5])
    target = _target([_record(i) for i in range(20, COUNT)], [5])
    end = Pair(source.end, target.end, target.end)
    found = _compare(source, target, start=None, end=end)
    assert (found.differs, found.records, found.skipped) == (False, COUNT - 20, 20)


def _kinds(found: RangeOutcome) -> list[tuple[DifferenceKind, int | None, int]]:
    return [(one.kind, one.source, one.target) for one in found.differences]


PROVENANCE = TreatmentStep(kind="provenance", settings={"source": "A", "target": "B"})


@pytest.mark.parametrize("flaw", [None, 17])
def test_what_is_marked_on_the_way_is_compared_as_it_should_be(flaw: int | None) -> None:
    """Every third came from the target, and is not there."""
    source, copied = Log(), []
    for place in range(0, COUNT, 5):
        records = [_record(place + i) for i in range(5)]
        for at in range(0, 5, 3):
            records[at] = replace(records[at], headers=[("causeway.origin", b"B/t")])
        source.append(records)
        copied += [
            replace(one, headers=[("causeway.origin", f"A/{TARGET}".encode())])
            for one in records
            if not one.headers
        ]
    if flaw is not None:
        copied[flaw] = replace(copied[flaw], headers=[])
    target = _target(copied, [4])
    feed = replace(_range(source, target).feed, steps=(PROVENANCE,))
    found = _compare(source, target, feed=feed)
    assert found.differs == (flaw is not None)
    if flaw is None:
        assert (found.records, found.differences) == (len(copied), ())
    else:
        assert [one.kind for one in found.differences] == [DifferenceKind.CHANGED]


@pytest.mark.parametrize(("sizes", "cut"), [((5,), (5,)), ((1, 5, 3), (4,)), ((1,), (60,))])
def test_what_is_the_same_agrees(sizes: Sequence[int], cut: Sequence[int]) -> None:
    found = _flawed(lambda records: records, sizes, cut)
    assert (found.differs, found.differences, found.records) == (False, (), COUNT)
    assert found.as_they_are == (COUNT if sizes == cut else 0)


def _flip(at: int) -> Flaw:
    def flaw(records: list[Rec]) -> list[Rec]:
        value = bytearray(records[at].value or b"")
        value[3] ^= 1
        return [*records[:at], replace(records[at], value=bytes(value)), *records[at + 1 :]]

    return flaw


def _drop(at: int, count: int = 1) -> Flaw:
    return lambda records: records[:at] + records[at + count :]


def _double(at: int, count: int = 1, later: int = 0) -> Flaw:
    stop = at + count
    return lambda records: records[: stop + later] + records[at:stop] + records[stop + later :]


def _swap(one: int, other: int) -> Flaw:
    def flaw(records: list[Rec]) -> list[Rec]:
        records = list(records)
        records[one], records[other] = records[other], records[one]
        return records

    return flaw


@pytest.mark.parametrize("cut", [(5,), (7, 2)])
@pytest.mark.parametrize(
    ("flaw", "wanted"),
    [
        (_flip(23), [(DifferenceKind.CHANGED, 23, 23)]),
        (_drop(23), [(DifferenceKind.MISSING, 23, 23)]),
        (_drop(0), [(DifferenceKind.MISSING, 0, 0)]),
        (_drop(59), [(DifferenceKind.MISSING, 59, 59)]),
        (_double(23), [(DifferenceKind.DOUBLED, 23, 24)]),
        (_double(59), [(DifferenceKind.DOUBLED, 59, 60)]),
        (_double(20, 5, later=10), [(DifferenceKind.DOUBLED, 20, 35)]),
        (_swap(23, 24), [(DifferenceKind.SWAPPED, 23, 23)]),
        (_swap(23, 25), [(DifferenceKind.SWAPPED, 23, 23)]),
        (_swap(3, 50), [(DifferenceKind.SWAPPED, 3, 3)]),
        (_drop(40, 20), [(DifferenceKind.MISSING, 40, 40)]),
    ],
)
def test_a_flaw_is_found_and_named(
    flaw: Flaw, wanted: list[tuple[DifferenceKind, int, int]], cut: Sequence[int]
) -> None:
    found = _flawed(flaw, cut=cut)
    assert found.differs
    assert _kinds(found) == wanted


def test_each_of_several_differences_is_reported() -> None:
    def flaws(records: list[Rec]) -> list[Rec]:
        for flaw in (_swap(50, 51), _double(30), _drop(20), _flip(5)):
            records = flaw(records)
        return records

    found = _flawed(flaws)
    assert _kinds(found) == [
        (DifferenceKind.CHANGED, 5, 5),
        (DifferenceKind.MISSING, 20, 20),
        (DifferenceKind.DOUBLED, 30, 30),
        (DifferenceKind.SWAPPED, 50, 50),
    ]
    assert found.different == 5
    assert found.differences[0].detail == "1 of 707 bytes of the value, the first at 3"
    assert found.differences[2].other == (30, 29)
    assert found.differences[3].other == (51, 51)


def test_a_record_without_a_source_record_is_unknown() -> None:
    extra = Rec(offset=0, value=b"x" * 700)
    found = _flawed(lambda records: [*records[:10], extra, *records[10:]])
    assert _kinds(found) == [(DifferenceKind.UNKNOWN, 10, 10)]


def test_only_a_look_tells_where() -> None:
    source = _source((5,))
    target = _target(_drop(23)([_record(i) for i in range(COUNT)]), (5,))
    found = _compare(source, target, look_into=False)
    assert (found.differs, found.differences) == (True, ())
    assert found.records == 23


@given(
    flaws=st.lists(
        st.tuples(st.sampled_from([_flip, _drop, _double]), st.integers(0, COUNT - 2)),
        min_size=1,
        max_size=4,
    ),
    cut=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_nothing_that_differs_is_said_to_agree(
    flaws: list[tuple[Callable[[int], Flaw], int]], cut: list[int]
) -> None:
    records = [_record(i) for i in range(COUNT)]
    for flaw, at in flaws:
        records = flaw(min(at, len(records) - 1))(records)
    source, target = _source((5, 2)), _target(records, cut)
    same = [r.content for r in records] == [_record(i).content for i in range(COUNT)]
    for look_into in (False, True):
        assert _compare(source, target, look_into=look_into).differs is not same
    # All that it tells explains what is there.
    told = _compare(source, target).differences
    gone = sum(one.records for one in told if one.kind is DifferenceKind.MISSING)
    more = sum(
        one.records for one in told if one.kind in (DifferenceKind.DOUBLED, DifferenceKind.UNKNOWN)
    )
    assert COUNT - gone + more == target.end


def test_aborted_data_and_markers_are_not_compared() -> None:
    source = Log()
    kept: list[Rec] = []
    for producer, kind in ((1, COMMIT), (2, ABORT), (1, COMMIT)):
        first = source.end
        some = [_record(first + i) for i in range(4)]
        source.append(some, producer_id=producer, epoch=0, sequence=0, transactional=True)
        source.batches.append((source.end, source.end, marker(source.end, producer, kind)))
        source.end += 1
        if kind == ABORT:
            source.aborted.append((producer, first, source.end - 1))
        else:
            kept += some
    target = _target(kept, (4,))
    assert _compare(source, target).differs is False
    flawed = _compare(source, _target(_flip(5)(kept), (4,)))
    assert _kinds(flawed) == [(DifferenceKind.CHANGED, 11, 5)]


def test_what_others_wrote_is_counted_and_passed_over() -> None:
    source = _source((5,))
    target = Log()
    for first in range(0, COUNT, 5):
        target.append(
            [replace(_record(first + i), offset=target.end + i) for i in range(5)],
            producer_id=OURS,
            epoch=0,
            sequence=first,
        )
        target.append([Rec(offset=target.end)], producer_id=FOREIGN, epoch=0, sequence=first)
    found = _compare(source, target, end=Pair(COUNT, target.end, COUNT))
    assert (found.differs, found.records) == (False, COUNT)
    assert (found.others, found.others_at) == (COUNT // 5, 5)


def test_what_others_wrote_behind_it_is_looked_for() -> None:
    source = _source((5,))
    target = _target([_record(i) for i in range(COUNT)], (5,))
    end = Pair(COUNT, COUNT, COUNT)
    target.append([Rec(offset=target.end)], producer_id=FOREIGN, epoch=0, sequence=0)
    target.append([_record(target.end)], producer_id=OURS, epoch=0, sequence=COUNT)
    found = _compare(source, target, end=end, target_to=COUNT, others_to=target.end)
    assert (found.differs, found.others, found.others_at) == (False, 1, COUNT)


def test_gaps_that_compaction_left_at_the_end_of_a_range_hold_nothing_up() -> None:
    source, target = _source((5,)), _target([_record(i) for i in range(COUNT)], (5,))
    for log in (source, target):
        log.batches = [each for each in log.batches if each[0] not in (25, 30)]
    cut: dict[str, Any] = {"end": Pair(33, 33, 33), "target_to": 33}
    found = _compare(source, target, **cut)
    assert (found.differs, found.records) == (False, 25)


def test_times_that_the_target_gives_are_not_compared() -> None:
    source = _source((5,))
    target = Log()
    for first in range(0, COUNT, 4):
        some = [replace(_record(first + i), offset=first + i) for i in range(4)]
        target.append(
            some, producer_id=OURS, epoch=0, sequence=first, append_time=1_700_000_000_000
        )
    found = _compare(source, target)
    assert (found.differs, found.timeless, found.records) == (False, True, COUNT)


def test_where_the_source_has_deleted_its_beginning_records_are_counted_from_the_end() -> None:
    source = _source((5,))
    target = _target([_record(i) for i in range(COUNT)], (5,))
    source.batches, source.start = source.batches[3:], 15
    found = _compare(source, target, start=None)
    assert (found.differs, found.begun, found.records) == (False, 15, COUNT - 15)
    flawed = _target(_flip(30)([_record(i) for i in range(COUNT)]), (5,))
    assert _kinds(_compare(source, flawed, start=None)) == [(DifferenceKind.CHANGED, 30, 30)]


def test_where_the_target_has_deleted_its_beginning_sequences_tell_where_to_begin() -> None:
    source = _source((5,))
    target = _target([_record(i) for i in range(COUNT)], (4,))
    target.batches, target.start = target.batches[5:], 20
    for start in (Pair(0, 0, 0), None):
        found = _compare(source, target, start=start, cut=True)
        assert (found.differs, found.begun, found.records) == (False, 20, COUNT - 20)


def test_a_range_ends_in_the_midst_of_batches() -> None:
    source = _source((7,))
    target = _target([_record(i) for i in range(COUNT)], (7,))
    found = _compare(
        source,
        target,
        start=Pair(10, 10, 10),
        end=Pair(33, 33, 33),
        source_from=10,
        target_from=10,
        target_to=33,
    )
    assert (found.differs, found.records, found.begun) == (False, 23, 10)
    assert found.as_they_are == 14


def test_a_target_that_ends_too_early_lacks_the_rest() -> None:
    source = _source((5,))
    target = _target([_record(i) for i in range(40)], (5,))
    found = _compare(source, target, end=Pair(COUNT, COUNT, COUNT))
    assert [(one.kind, one.source, one.records) for one in found.differences] == [
        (DifferenceKind.MISSING, 40, 20)
    ]


def test_a_batch_that_consumers_refuse_is_reported() -> None:
    source = _source((5,))
    target = _target([_record(i) for i in range(COUNT)], (5,))
    base, last, raw = target.batches[4]
    target.batches[4] = base, last, damaged(raw, 17)  # the CRC itself
    found = _compare(source, target)
    assert found.differs
    assert _kinds(found) == [(DifferenceKind.CORRUPT, None, 20)]
    target.batches[4] = base, last, damaged(raw)
    assert {one.kind for one in _compare(source, target).differences} >= {DifferenceKind.CORRUPT}


def test_the_content_of_a_record_is_never_reported() -> None:
    found: Sequence[Difference] = _flawed(_flip(23)).differences
    assert "value 23" not in repr(found)


@pytest.mark.parametrize("keys_from", [0, 30])
def test_where_keys_decide_each_target_partition_has_its_share(keys_from: int) -> None:
    """Without a map of offsets: counted from the end."""
    source = _source((5,))
    parts: list[list[Rec]] = [[], []]
    for offset in range(COUNT):
        record = _record(offset)
        by_key = partition_of(record.key, offset, 2)
        parts[by_key if offset >= keys_from else 1].append(record)
    outlets = tuple(
        Outlet(
            topic=TARGET,
            partition=number,
            topic_id=TARGET_ID,
            producer_id=OURS,
            producer_epoch=0,
            pair=Pair(COUNT, len(parts[number]), len(parts[number])),
        )
        for number in range(2)
    )
    split = Assignment(
        link="A->B",
        source="a",
        target="b",
        topic="t",
        partition=1,
        topic_id=SOURCE_ID,
        leader_epoch=-1,
        outlets=outlets,
        keys_from=keys_from,
    )
    for number, flaw in ((0, _flip(4)), (1, _drop(7))):
        target = _target(parts[number], (4,))
        feed = replace(_range(source, target).feed, split=split, outlet=number)
        more: dict[str, Any] = {"feed": feed, "start": None, "end": outlets[number].pair}
        found = _compare(source, target, **more)
        assert (found.differs, found.records) == (False, len(parts[number]))
        flawed = _compare(source, _target(flaw(parts[number]), (4,)), **more)
        at = parts[number][4 if number == 0 else 7].offset
        assert [one.source for one in flawed.differences] == [at]


def test_other_times_of_a_whole_batch_are_a_difference() -> None:
    """Its payload holds them as differences to the header's, and is the same."""
    late = [
        replace(one, timestamp=one.timestamp + 5) if 20 <= one.offset < 25 else one
        for one in map(_record, range(COUNT))
    ]
    found = _compare(_source((5,)), _target(late, (5,)))
    (told,) = found.differences
    assert (told.kind, told.source, told.records) == (DifferenceKind.CHANGED, 20, 5)
    assert told.detail == "timestamp"


def test_where_the_target_has_deleted_all_of_it_nothing_is_said_to_be_missing() -> None:
    source, target = _source((5,)), Log(start=COUNT, end=COUNT)
    found = _compare(source, target, end=Pair(COUNT, COUNT, COUNT), cut=True)
    assert (found.differs, found.records) == (False, 0)
