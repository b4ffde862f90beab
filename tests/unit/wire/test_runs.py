"""How batches are cut at gaps, for targets that keep the source's offsets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from causeway.errors import DivergedError
from causeway.records import Batch, Gap, PlainRecord, build, dense_runs, records_of


def batch(offsets: Sequence[int], *, next: int | None = None, codec: int = 0) -> Batch:
    """Of one record at each of these source offsets, whose value names it."""
    records = [PlainRecord(0, 1000 + at, b"k", b"%d" % at, []) for at in offsets]
    dense = list(offsets) == list(range(offsets[0], offsets[0] + len(offsets)))
    return build(
        records,
        codec=codec,
        first=offsets[0],
        next=offsets[-1] + 1 if next is None else next,
        leader_epoch=3,
        offsets=None if dense else list(offsets),
    )


def shown(runs: Sequence[Batch | Gap]) -> list[Any]:
    """Gaps as tuples, batches as the offsets of their records."""
    return [
        tuple(run) if isinstance(run, Gap) else list(range(run.first, run.first + run.records))
        for run in runs
    ]


def test_a_dense_batch_goes_as_it_is() -> None:
    one = batch([5, 6, 7])
    assert dense_runs([one], 5, 8) == [one]


def test_gaps_before_between_and_behind() -> None:
    runs = dense_runs([batch([5, 6]), batch([9])], 3, 12)
    assert shown(runs) == [(3, 5), [5, 6], (7, 9), [9], (10, 12)]


def test_a_batch_with_gaps_inside_is_cut() -> None:
    runs = dense_runs([batch([5, 6, 8, 20], codec=4)], 5, 21)
    assert shown(runs) == [[5, 6], (7, 8), [8], (9, 20), [20]]
    for run in runs:
        if isinstance(run, Batch):
            assert run.offsets is None
            assert run.next == run.first + run.records
            assert [r.value for r in records_of(run)] == [
                b"%d" % (run.first + at) for at in range(run.records)
            ]


def test_what_was_dropped_at_the_end_of_a_batch_is_a_gap() -> None:
    assert shown(dense_runs([batch([5, 6], next=9)], 5, 9)) == [[5, 6], (7, 9)]


def test_nothing_kept_is_one_gap() -> None:
    assert dense_runs([], 3, 7) == [Gap(3, 7)]
    assert dense_runs([], 7, 7) == []


@pytest.mark.parametrize("offsets", [[5, 5], [5, 6, 6, 7], [6, 5]])
def test_several_records_of_one_are_refused(offsets: list[int]) -> None:
    records = [PlainRecord(0, 0, None, b"v", []) for _ in offsets]
    several = build(
        records, codec=0, first=offsets[0], next=8, leader_epoch=0, offsets=list(offsets)
    )
    with pytest.raises(DivergedError, match="several records"):
        dense_runs([several], 5, 8)


def test_a_batch_below_the_start_is_refused() -> None:
    with pytest.raises(DivergedError):
        dense_runs([batch([5, 6])], 6, 7)


def test_each_offset_is_covered_once_whatever_comes() -> None:
    chance = random.Random(7)
    for _ in range(200):
        start = at = chance.randint(0, 5)
        batches, kept = [], []
        for _ in range(chance.randint(0, 4)):
            at += chance.randint(0, 3)
            offsets = [at]
            for _ in range(chance.randint(0, 5)):
                offsets.append(offsets[-1] + chance.choice((1, 1, 1, 2, 5)))
            kept += offsets
            at = offsets[-1] + 1 + chance.randint(0, 2)
            batches.append(batch(offsets, next=at))
        stop = at + chance.randint(0, 3)
        runs = dense_runs(batches, start, stop)
        covered = [
            offset
            for run in runs
            for offset in (
                range(*run) if isinstance(run, Gap) else range(run.first, run.first + run.records)
            )
        ]
        assert covered == list(range(start, stop))
        records = [shown([run])[0] for run in runs if isinstance(run, Batch)]
        assert [offset for run in records for offset in run] == kept
