"""Recovery where an unclean election cost the target records that it had acknowledged, and its new
leader does not know our producer: then it takes any sequence.

    ──[ours, to q0 − 1] ┊ lost      then      ──[ours, to q0 − 1]──[ours, q …]

With q > q0 there is a hole, and the partition must stop. Otherwise it must go on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.errors import DivergedError
from causeway.model import Pair
from causeway.records import advance
from causeway.relay.recovery import survey
from tests.harness.examples import examples
from tests.harness.raw_batches import Rec
from tests.harness.world import FOREIGN, OURS, World, compact, plain_world, refused, resumed, worlds


@pytest.fixture(autouse=True)
def settles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SETTLE_S", 0.0)


def _lose(world: World, batches: int) -> int:
    """Keep so many batches; how many records of ours those hold."""
    log = world.targets[0]
    log.batches = log.batches[:batches]
    log.end = log.batches[-1][1] + 1 if log.batches else 0
    return sum(place < log.end for place in world.places[0])


def _send(world: World, first: int, count: int) -> None:
    """Records `first` to `first` + `count` - 1 of our series arrive in one batch."""
    log = world.targets[0]
    sent = world.shares[0][first : first + count]
    records = [replace(record, offset=log.end + i) for i, record in enumerate(sent)]
    sequence = advance(world.first_sequence, first)
    log.append(records, producer_id=OURS, epoch=0, sequence=sequence)


def _others(world: World, count: int) -> None:
    log = world.targets[0]
    for _ in range(count):
        log.append([Rec(offset=log.end)], producer_id=FOREIGN, epoch=0, sequence=log.end)


def _true_pair(data: st.DataObject, world: World, foreign: bool) -> tuple[int, Pair]:
    """Any that was ever true, and how many records of ours lie before it."""
    log, places = world.targets[0], world.places[0]
    ends = [places.index(last) + 1 for _, last, _ in log.batches if last in places]
    index = data.draw(st.sampled_from([0, *ends]))
    pair = world.pair(0, index, data.draw(st.integers(0, 3)))
    if foreign:  # it was moved up while there was nothing to send
        most = places[index] if index < len(places) else log.end
        pair = pair._replace(target=data.draw(st.integers(pair.target, most)))
    return index, pair


@pytest.mark.parametrize("foreign", [False, True], ids=["alone", "among others"])
@settings(max_examples=examples(600), deadline=None)
@given(data=st.data())
def test_it_goes_on_or_stops_where_records_are_missing(foreign: bool, data: st.DataObject) -> None:
    world = data.draw(worlds(foreign=foreign).filter(lambda one: not one.first_sequence))
    index, pair = _true_pair(data, world, foreign)
    kept = _lose(world, data.draw(st.integers(0, len(world.targets[0].batches))))
    if foreign:
        _others(world, data.draw(st.integers(0, 9)))
    # A lane goes on where it had come to, never before its pair; or its place was found.
    first = data.draw(st.sampled_from(sorted({kept, max(kept, index), world.copied[0]})))
    arrived = data.draw(st.integers(0, len(world.shares[0]) - first))
    until = first + arrived
    for at in range(first, until, 3):
        _send(world, at, min(3, until - at))
        if foreign and data.draw(st.booleans()):
            _others(world, 1)
    has_hole = arrived > 0 and first > kept
    world.copied[0] = until if arrived else kept
    if world.copied[0] and data.draw(st.booleans()):
        world.remembered = {0: {OURS: world.copied[0] - 1}}

    answer = world.recover({0: pair}, unsettled=True)

    if has_hole:
        assert isinstance(answer, DivergedError), answer
    else:
        world.check(0, resumed(answer).outlets[0])


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_so_it_does_where_the_target_was_compacted(data: st.DataObject) -> None:
    """Offsets tell a hole from what was compacted away, where nobody else writes."""
    world = data.draw(worlds(keys=3).filter(lambda one: not one.first_sequence))
    world.compacted = True
    index, pair = _true_pair(data, world, foreign=False)
    log = world.targets[0]
    kept = _lose(world, data.draw(st.integers(0, len(log.batches))))
    first = data.draw(st.sampled_from(sorted({kept, max(kept, index), world.copied[0]})))
    arrived = data.draw(st.integers(0, len(world.shares[0]) - first))
    newest = log.end
    if arrived:
        _send(world, first, arrived)
    elif log.batches:
        newest = log.batches[-1][0]
    compact(log, data.draw(st.integers(0, newest)), [])
    world.copied[0] = first + arrived if arrived else kept

    answer = world.recover({0: pair}, unsettled=True)

    if arrived and first > kept:
        assert isinstance(answer, DivergedError), answer
    else:
        world.check(0, resumed(answer).outlets[0])


@pytest.mark.parametrize("others", [False, True], ids=["alone", "among others"])
@pytest.mark.parametrize("remembered", [False, True])
def test_a_pair_is_not_lowered_over_records_of_ours(others: bool, remembered: bool) -> None:
    """100 were acknowledged, 60 of them are lost. Then the next ones arrived."""
    world = plain_world(200, 40)
    world.exclusive = not others
    if others:
        _others(world, 5)
    _send(world, 100, 5)
    if remembered:
        world.remembered = {0: {OURS: 104}}
    pairs = {0: Pair(source=100, target=100, sequence=100)}

    assert "sequence 100 is in the place of sequence 40" in refused(world, pairs, unsettled=True)


@pytest.mark.parametrize("remembered", [False, True])
def test_first_records_that_took_the_offsets_of_lost_ones_are_found(remembered: bool) -> None:
    """A pair before all records of ours was moved up behind three of others. The target lost these,
    and five of ours took their offsets."""
    world = plain_world(9, 0)
    world.exclusive = False
    _send(world, 0, 5)
    world.copied[0] = 5
    if remembered:
        world.remembered = {0: {OURS: 4}}
    pairs = {0: Pair(source=0, target=3, sequence=0)}

    world.check(0, resumed(world.recover(pairs, unsettled=True)).outlets[0])


@pytest.mark.parametrize("remembered", [False, True])
def test_nor_where_the_log_ends_at_the_pair_again(remembered: bool) -> None:
    world = plain_world(200, 40)
    _send(world, 100, 60)
    assert world.targets[0].end == 100
    if remembered:
        world.remembered = {0: {OURS: 159}}
    pairs = {0: Pair(source=100, target=100, sequence=100)}

    assert "sequence 100 is in the place of sequence 40" in refused(world, pairs, unsettled=True)


def test_a_hole_below_the_pair_is_not_filled_up_behind_it() -> None:
    """A request of a lane before arrived late, in a log that had lost what came before that."""
    world = plain_world(200, 40)
    _send(world, 60, 20)
    pairs = {0: Pair(source=100, target=100, sequence=100)}

    assert "sequence 60 is in the place of sequence 40" in refused(world, pairs, unsettled=True)


@pytest.mark.parametrize("sent", [3, 8, 20], ids=["below the claim", "up to it", "past it"])
def test_a_claim_above_what_is_left_of_older_records(sent: int) -> None:
    """Others wrote 12 records before the claim, and the target lost the last 8 of those."""
    world = plain_world(50, 0)
    _others(world, 4)
    _send(world, 0, sent)

    (found,) = resumed(
        world.recover({0: Pair(source=0, target=12, sequence=0)}, unsettled=True)
    ).outlets

    assert found.pair == Pair(source=sent, target=4 + sent, sequence=sent)


@pytest.mark.parametrize("pair_at", [2, 6, 8, 20])
@pytest.mark.parametrize("sent", [3, 8, 20])
def test_so_does_a_later_pair(sent: int, pair_at: int) -> None:
    """All of ours was lost as well, and sent again."""
    world = plain_world(50, 0)
    _others(world, 4)
    _send(world, 0, sent)
    pair = Pair(source=pair_at, target=12 + pair_at, sequence=pair_at)

    (found,) = resumed(world.recover({0: pair}, unsettled=True)).outlets

    assert found.pair == Pair(source=sent, target=4 + sent, sequence=sent)


def test_records_of_others_after_a_loss_are_not_counted_as_ours() -> None:
    world = plain_world(200, 40)
    _others(world, 5)
    pairs = {0: Pair(source=100, target=100, sequence=100)}

    assert "foreign" in refused(world, pairs, unsettled=True)


@pytest.mark.parametrize("sent", [0, 4], ids=["all of ours", "the rest of ours was lost"])
def test_records_before_the_claim_are_the_last_that_compaction_left(sent: int) -> None:
    """Of ours, all up to `end` were tombstones."""
    world = plain_world(50, 10)
    log = world.targets[0]
    log.batches, log.end = [], 0
    _others(world, 12)
    log.end = 12 + 10 - sent
    world.compacted = True

    (found,) = resumed(
        world.recover({0: Pair(source=10, target=22, sequence=10)}, unsettled=True)
    ).outlets

    assert found.pair == Pair(source=10 - sent, target=log.end, sequence=10 - sent)
