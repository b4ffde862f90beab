"""Where the mirror of a target partition ends, by what its log holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from causeway.cluster import log_reader
from causeway.errors import AuthorizationError
from causeway.model import Pair, TopicPartition
from causeway.operate.failover import ending
from causeway.records import HEADER
from tests.builders.records import progress

OURS, OTHERS = 5, 77
AT = TopicPartition("A.orders", 0)


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """What the target holds, as (producer id, first offset, records)."""
    held: list[tuple[int, int, int]] = []

    def batches(_: object, at: TopicPartition, position: int, end: int) -> Iterator[bytes]:
        for producer, first, records in held:
            if position <= first < end:
                fields = (first, 0, 0, 2, 0, 0, records - 1, 0, 0, producer, 0, 0, records)
                yield HEADER.pack(*fields)

    def ends(_: object, places: set[TopicPartition], __: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, max((first + n for _, first, n in held), default=0))

    monkeypatch.setattr(log_reader, "raw_batches", batches)
    monkeypatch.setattr(ending, "offsets_at", ends)
    return held


def cut_of(*partitions: Any) -> Any:
    return ending.cuts_at_end(cast(Any, None), partitions, lambda _: None)["orders"].points


def test_where_the_progress_knows_of_the_last_record_it_is_exact(log: list[Any]) -> None:
    log += [(OURS, 0, 60)]
    (point,) = cut_of(progress())
    assert (point.source, point.targets, point.exact) == (100, ((AT, 60),), True)


def test_what_others_wrote_behind_it_is_none_of_the_mirror(log: list[Any]) -> None:
    """Or a mirror the other way, which begins there, would leave it out."""
    log += [(OURS, 0, 60), (OTHERS, 60, 9)]
    (point,) = cut_of(progress())
    assert (point.targets, point.exact) == (((AT, 60),), True)


def test_what_the_driver_did_not_tell_of_is_found(log: list[Any]) -> None:
    log += [(OURS, 0, 60), (OURS, 60, 20), (OTHERS, 80, 9)]
    (point,) = cut_of(progress())
    assert (point.targets, point.exact) == (((AT, 80),), False)


def test_a_target_that_has_lost_records_is_not_what_the_progress_says(log: list[Any]) -> None:
    log += [(OURS, 0, 50)]
    (point,) = cut_of(progress())
    assert (point.targets, point.exact) == (((AT, 50),), False)


def test_of_several_that_feed_one_the_last_counts(log: list[Any]) -> None:
    log += [(OURS, 0, 60), (6, 60, 10)]
    one = progress()
    (outlet,) = one.outlets
    two = one.replace(
        partition=1,
        outlets=(outlet.replace(producer_id=6, pair=Pair(source=10, target=70, sequence=10)),),
    )
    first, second = cut_of(one, two)
    assert first.targets == second.targets == ((AT, 70),)
    assert first.exact
    assert second.exact


def test_without_a_right_to_read_nothing_is_called_exact(
    log: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Iterator[bytes]:
        raise AuthorizationError("read", str(AT), "refused")

    monkeypatch.setattr(log_reader, "raw_batches", refused)
    log += [(OURS, 0, 60), (OTHERS, 60, 9)]
    (point,) = cut_of(progress())
    assert (point.targets, point.exact) == (((AT, 69),), False)
