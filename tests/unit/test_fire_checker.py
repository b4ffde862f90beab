"""The comparison at the end of a fire names each fault with its place."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from causeway.records import BatchHeader
from tests.fire.checker import (
    Wanted,
    batches_of_doubled,
    compare,
    compare_group,
    is_sent_again,
    wanted_of,
)
from tests.fire.tape import Tape
from tests.fire.topics import FireTopic, Kind
from tests.harness.raw_batches import Rec, raw_batch

# A's records have offsets with gaps, as transactions leave them.
A_OFFSETS = (0, 1, 2, 5, 6, 9)
PLACE = ("fire.t", 1)


def tape(numbers: Sequence[int], offsets: Sequence[int] | None = None, digest: int = 7) -> Tape:
    found = Tape()
    found.numbers.extend(numbers)
    found.offsets.extend(offsets if offsets is not None else range(len(numbers)))
    found.digests.extend(digest * number for number in numbers)
    found.keys.extend(b"%d" % (number % 3) for number in numbers)
    found.next = found.offsets[-1] + 1 if numbers else 0
    return found


def on_a(unmirrored: frozenset[int] = frozenset()) -> Wanted:
    return wanted_of(tape(range(1, 7), A_OFFSETS), unmirrored)


def faults(kind: Kind, wanted: Wanted, found: Tape) -> list[str]:
    return list(compare(FireTopic("fire.t", kind), PLACE, wanted, found))


def test_a_mirror_with_the_same_series_is_exact() -> None:
    assert faults("plain", on_a(), tape(range(1, 7))) == []
    assert faults("preserved", on_a(), tape(range(1, 7), A_OFFSETS)) == []
    assert faults("moves", on_a(frozenset({3, 4})), tape([1, 2, 5, 6])) == []


@pytest.mark.parametrize(
    ("kind", "found", "fault"),
    [
        ("plain", tape([1, 2, 4, 5, 6]), "fire.t-1: 1 records are lost, on A at 2"),
        ("plain", tape([1, 2, 2, 3, 4, 5, 6]), "fire.t-1: 1 records are doubled, on B at 1, 2"),
        ("plain", tape([1, 2, 4, 3, 5, 6]), "fire.t-1: the order differs, first on B at offset 2"),
        ("plain", tape([*range(1, 7), 99]), "fire.t-1: 1 records are not from A, on B at 6"),
        ("plain", tape(range(1, 7), digest=8), "have other content, on B at 0, 1, 2, 3, 4, … 5"),
        ("preserved", tape(range(1, 7)), "record 4 has offset 3 on B, 5 on A"),
        # 6 is the last record of its key.
        ("compacted", tape([1, 2, 3, 4, 5]), "fire.t-1: 1 records are lost, on A at 9"),
    ],
)
def test_each_fault_is_named(kind: Kind, found: Tape, fault: str) -> None:
    (told,) = faults(kind, on_a(), found)
    assert fault in told


def test_a_compacted_mirror_may_lack_earlier_records_of_a_key() -> None:
    assert faults("compacted", on_a(), tape([3, 4, 5, 6])) == []


@pytest.mark.parametrize(
    ("at_a", "at_b", "fault"),
    [
        (3, 3, None),  # in the gap: the next record is the fourth
        (5, 3, None),
        (10, 6, None),
        (0, None, None),
        (5, 4, "skips 1 records: offset 4 on B, 5 on A, which is 3 on B"),
        (5, 2, "repeats 1 records: offset 2 on B, 5 on A, which is 3 on B"),
        (5, None, "repeats 3 records: offset None on B, 5 on A, which is 3 on B"),
    ],
)
def test_a_group_continues_at_its_next_record(
    at_a: int, at_b: int | None, fault: str | None
) -> None:
    logs = on_a(), tape(range(1, 7))
    told = compare_group(FireTopic("fire.t"), "g", at_a, at_b, PLACE, logs)
    assert told == (fault and f"group g: fire.t-1: {fault}")


def test_the_offset_of_a_group_is_preserved() -> None:
    logs = on_a(), tape(range(1, 7), A_OFFSETS)
    told = compare_group(FireTopic("fire.t", "preserved"), "g", 4, 5, PLACE, logs)
    assert told == "group g: fire.t-1: offset 5 on B, 4 on A"


def test_what_is_wanted_keeps_the_order() -> None:
    assert on_a(frozenset({2})).numbers == array("q", [1, 3, 4, 5, 6])


def test_a_record_that_is_twice_on_a_is_reported_with_its_batches(tmp_path: Path) -> None:
    (tmp_path / "plain-0").mkdir()
    batches = [
        raw_batch([Rec(offset=at)], producer_id=7, epoch=epoch, sequence=sequence)
        for at, epoch, sequence in [(10, 0, 4), (11, 0, 5), (12, 1, 0)]
    ]
    (tmp_path / "plain-0" / "00000000000000000010.log").write_bytes(b"".join(batches))
    tapes = {("plain", 0): tape([1, 2, 1], [10, 11, 12]), ("other", 0): tape([1])}
    found = batches_of_doubled("plain", tapes, [tmp_path])
    by = [(batch.producer_id, batch.producer_epoch, batch.sequence) for batch in found[1]]
    assert (list(found), by) == ([1], [(7, 0, 4), (7, 1, 0)])
    assert is_sent_again(found[1])
    assert not batches_of_doubled("other", tapes, [tmp_path])


def test_only_the_application_itself_may_write_a_record_twice() -> None:
    ours, theirs = (
        BatchHeader.of(raw_batch([Rec(offset=1)], producer_id=by, epoch=0, sequence=4))
        for by in (7, 8)
    )
    assert not is_sent_again([ours, theirs]), "the mirror has another producer id"
    assert not is_sent_again([ours, ours._replace(sequence=9)]), "it is of one epoch"
    assert not is_sent_again([])
    assert not is_sent_again([ours])
