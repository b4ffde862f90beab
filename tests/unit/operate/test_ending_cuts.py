"""Where the mirror of a target partition ends, by what its log holds."""

from __future__ import annotations

from typing import Any

from causeway.errors import AuthorizationError
from causeway.model import Pair, TopicPartition
from causeway.operate.failover.ending import cuts_at_end
from tests.builders.cluster import StubCluster
from tests.builders.records import progress
from tests.harness.raw_batches import Rec
from tests.harness.world import Log

OURS, OTHERS = 5, 77
AT = TopicPartition("A.orders", 0)


def target(*batches: tuple[int, int]) -> StubCluster:
    """Its log holds batches: of a producer id, so many records each."""
    log = Log()
    for producer, records in batches:
        log.append([Rec(offset=log.end + n) for n in range(records)], producer_id=producer)
    return StubCluster("B", {AT: log})


def cut_of(cluster: StubCluster, *partitions: Any) -> Any:
    return cuts_at_end(cluster, partitions, lambda _: None)["orders"].points


def test_where_the_progress_knows_of_the_last_record_it_is_exact() -> None:
    (point,) = cut_of(target((OURS, 60)), progress())
    assert (point.source, point.targets, point.exact) == (100, ((AT, 60),), True)


def test_records_of_others_after_the_mirrors_last_one_are_not_part_of_it() -> None:
    """Or a mirror the other way, which begins there, would leave it out."""
    (point,) = cut_of(target((OURS, 60), (OTHERS, 9)), progress())
    assert (point.targets, point.exact) == (((AT, 60),), True)


def test_records_that_the_progress_does_not_count_yet_are_found() -> None:
    (point,) = cut_of(target((OURS, 60), (OURS, 20), (OTHERS, 9)), progress())
    assert (point.targets, point.exact) == (((AT, 80),), False)


def test_a_target_that_has_lost_records_is_not_what_the_progress_says() -> None:
    (point,) = cut_of(target((OURS, 50)), progress())
    assert (point.targets, point.exact) == (((AT, 50),), False)


def test_of_several_that_feed_one_the_last_counts() -> None:
    one = progress()
    (outlet,) = one.outlets
    two = one.replace(
        partition=1,
        outlets=(outlet.replace(producer_id=6, pair=Pair(source=10, target=70, sequence=10)),),
    )
    second, first = cut_of(target((OURS, 60), (6, 10)), two, one)
    assert first.targets == second.targets == ((AT, 70),)
    assert first.exact
    assert second.exact


def test_without_a_right_to_read_nothing_is_called_exact() -> None:
    cluster = target((OURS, 60), (OTHERS, 9))
    cluster.unreadable[AT] = AuthorizationError("read", str(AT), "refused")
    (point,) = cut_of(cluster, progress())
    assert (point.targets, point.exact) == (((AT, 69),), False)


def test_where_offsets_are_preserved_the_cut_is_the_same_offset_on_both_sides() -> None:
    one = progress(position=60, offsets_from=0)
    (outlet,) = one.outlets
    one = one.replace(outlets=(outlet.replace(pair=Pair(source=60, target=60, sequence=3)),))
    for batches, end in (
        (((OURS, 60),), 60),
        (((OURS, 60), (OURS, 20), (OTHERS, 9)), 80),  # the last report is older
        (((OURS, 50),), 50),  # the target has lost records
    ):
        cut = cuts_at_end(target(*batches), [one], lambda _: None)["orders"]
        (point,) = cut.points
        assert (point.source, point.targets, point.exact) == (end, ((AT, end),), True)
        assert cut.preserves
