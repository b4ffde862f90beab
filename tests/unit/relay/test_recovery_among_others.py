"""Recovery where others write to the target as well, or may now."""

from __future__ import annotations

import pytest

from causeway.errors import BrokerError
from causeway.model import Pair
from tests.harness.raw_batches import Rec
from tests.harness.world import FOREIGN, OURS, START, plain_world, refused, resumed


@pytest.mark.parametrize("remembered", [True, False], ids=["remembered", "forgotten"])
@pytest.mark.parametrize("left", [4, 0], ids=["some", "all"])
@pytest.mark.parametrize("others", [3, 20], ids=["up to the pair", "past it"])
def test_a_target_that_lost_records_and_was_filled_up_by_others(
    others: int, left: int, remembered: bool
) -> None:
    """7 were acknowledged. The log's end does not tell that some are gone."""
    world = plain_world(9, left)
    world.exclusive = False
    log = world.targets[0]
    for _ in range(others + 4 - left):
        log.append([Rec(offset=log.end)], producer_id=FOREIGN, epoch=0, sequence=log.end)
    if remembered and left:
        world.remembered = {0: {OURS: left - 1}}

    (found,) = resumed(world.recover({0: Pair(source=7, target=7, sequence=7)})).outlets

    assert found.pair == Pair(source=left, target=log.end, sequence=left)


@pytest.mark.parametrize("remembered", [True, False], ids=["remembered", "forgotten"])
@pytest.mark.parametrize("upto", [17, 27], ids=["below the pair", "past it"])
@pytest.mark.parametrize("later", [0, 2], ids=["all below", "some after"])
def test_a_pair_above_what_was_sent_since(later: int, upto: int, remembered: bool) -> None:
    """The target lost others' newest records up to the pair, then got two of ours below it, of
    which nobody told the driver."""
    world = plain_world(60, 10)
    world.exclusive = False
    log = world.targets[0]

    def others(end: int) -> None:
        while log.end < end:
            log.append([Rec(offset=log.end)], producer_id=FOREIGN, epoch=0, sequence=log.end)

    def ours(first: int, count: int) -> None:
        records = [Rec(offset=log.end + i, value=b"%d" % (first + i)) for i in range(count)]
        log.append(records, producer_id=OURS, epoch=0, sequence=first)

    others(15)
    ours(10, 2)
    others(upto)
    if later:
        ours(12, later)
    world.remembered = {0: {OURS: 11 + later}} if remembered else {}

    (found,) = resumed(world.recover({0: Pair(source=10, target=20, sequence=10)})).outlets

    assert found.pair == Pair(source=12 + later, target=log.end, sequence=12 + later)


@pytest.mark.parametrize("target", [8, 30], ids=["before the end", "past it"])
def test_what_the_broker_knows_and_the_log_lacks_is_on_its_way(target: int) -> None:
    """Another lane's, appended since the log's end was asked for."""
    world = plain_world(60, 10)
    world.exclusive = False
    log = world.targets[0]
    log.append([Rec(offset=10 + i) for i in range(5)], producer_id=FOREIGN, epoch=0, sequence=0)
    world.remembered = {0: {OURS: 11}}

    answer = world.recover({0: Pair(source=10, target=target + 5, sequence=10)})

    assert isinstance(answer, BrokerError)
    assert answer.retriable


@pytest.mark.parametrize("others", [7, 12], ids=["up to the pair", "past it"])
def test_others_records_are_not_taken_for_ours_once_others_may_write(others: int) -> None:
    """Only we wrote when the pair was noted. The target has lost it all since."""
    world = plain_world(20, 0)
    world.sole_writer = False
    log = world.targets[0]
    for _ in range(others):
        log.append([Rec(offset=log.end)], producer_id=FOREIGN, epoch=0, sequence=log.end)

    (found,) = resumed(world.recover({0: Pair(source=7, target=7, sequence=7)})).outlets

    assert found.pair == Pair(source=0, target=others, sequence=0)


@pytest.mark.parametrize("remembered", [6, None])
def test_what_retention_left_of_others_counts_for_nothing(remembered: int | None) -> None:
    """Only we wrote when the pair was noted, others since, and the target has deleted it all."""
    world = plain_world(20, 7)
    world.sole_writer = False
    log = world.targets[0]
    log.append([Rec(offset=7 + i) for i in range(5)], producer_id=FOREIGN, epoch=0, sequence=0)
    log.batches, log.start = [], log.end
    world.remembered = {0: {} if remembered is None else {OURS: remembered}}

    answer = world.recover({0: Pair(source=7, target=7, sequence=7)})

    if remembered is None:
        assert "how many of them were ours" in str(answer)
    else:
        assert resumed(answer).outlets[0].pair == Pair(source=7, target=12, sequence=7)


@pytest.mark.parametrize("remembered", [True, False], ids=["remembered", "forgotten"])
def test_what_the_source_deleted_unmirrored_stops_a_target_that_lost_only_others(
    remembered: bool,
) -> None:
    world = plain_world(60, 10)
    world.exclusive = False
    world.source.start = 30
    log = world.targets[0]
    log.append([Rec(offset=10 + i) for i in range(5)], producer_id=FOREIGN, epoch=0, sequence=0)
    world.remembered = {0: {OURS: 9}} if remembered else {}
    assert "deleted offsets 10 to 29" in refused(
        world, {0: Pair(source=10, target=20, sequence=10)}
    )


@pytest.mark.parametrize("remembered", [True, False], ids=["remembered", "forgotten"])
def test_others_records_before_the_pair_are_no_loss(remembered: bool) -> None:
    """It was moved up to the log's end while we had nothing to write."""
    world = plain_world(9, 4)
    world.exclusive = False
    log = world.targets[0]
    for _ in range(40):
        log.append([Rec(offset=log.end)], producer_id=FOREIGN, epoch=0, sequence=log.end)
    world.remembered = {0: {OURS: 3}} if remembered else {}

    (found,) = resumed(world.recover({0: Pair(source=4, target=30, sequence=4)})).outlets

    assert found.pair == Pair(source=4, target=44, sequence=4)


@pytest.mark.parametrize("compacted", [True, False])
def test_recovery_finds_missing_records_among_those_of_others(compacted: bool) -> None:
    """4 and 5 are not there: only compaction takes records out of the middle of a log."""
    world = plain_world(9, 4)
    world.exclusive, world.compacted = False, compacted
    later = [Rec(offset=5 + i, value=b"%d" % (6 + i)) for i in range(3)]
    world.targets[0].append([Rec(offset=4)], producer_id=FOREIGN, epoch=0, sequence=0)
    world.targets[0].append(later, producer_id=OURS, epoch=0, sequence=6)

    if compacted:
        assert resumed(world.recover(START)).outlets[0].pair.source == 9
    else:
        assert "sequence 6 is in the place of sequence 4" in refused(world)


def test_what_the_target_deleted_of_others_is_nothing_of_ours() -> None:
    """The source has had nothing since the pair."""
    world = plain_world(9, 0)
    world.exclusive = False
    log = world.targets[0]
    log.append([Rec(offset=0)], producer_id=FOREIGN, epoch=0, sequence=0)
    log.start = 1

    (found,) = resumed(world.recover({0: Pair(source=9, target=0, sequence=0)})).outlets

    assert found.pair == Pair(source=9, target=1, sequence=0)
