"""What the source has deleted before it was mirrored: passed over, or a person's to decide."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from causeway.control import claim_checks
from causeway.daemon.lanes.tracked import ReportedPartition
from causeway.daemon.partitions.decisions import (
    Begin,
    GoOn,
    PassOver,
    Stop,
)
from causeway.daemon.partitions.registry import Registry
from causeway.link_topics import Outlet, PartitionProgress, decode_entry, encode_entry
from causeway.model import Loss, Pair, State
from tests.builders.daemon import row, says
from tests.builders.decisions import claim, decide
from tests.builders.records import ADOPT, BEGUN, FROM, NO_WISH, TOPIC, progress
from tests.builders.settings import LINK, link

LOSS = Loss(90, 130, "deleted")
DAMAGED = Loss(90, 95, "damaged")
CONTINUE = link(on_data_loss="continue")


def claimed(*, sequence: int = 0, first_copy_end: int = 500, **changes: Any) -> PartitionProgress:
    """Of a partition whose claim begins at 90, and which stopped by LOSS."""
    outlets = progress().outlets
    pair = Pair(source=90, target=60, sequence=sequence)
    stopped: dict[str, Any] = {
        "leader_epoch": 0 if sequence else -1,
        "position": 90,
        "outlets": tuple(outlet.replace(pair=pair) for outlet in outlets),
        "state": State.STOPPED,
        "reason": "the source deleted offsets 90 to 129 before they were mirrored",
        "loss": LOSS,
        "first_copy_end": first_copy_end,
    }
    return progress(**{**stopped, **changes})


@pytest.mark.parametrize(
    ("before", "passes"),
    [
        (claimed(), True),
        (claimed(first_copy_end=100), True),  # nothing was relayed, however much is gone
        (claimed(first_copy_end=89), False),  # by another version of a transform
        (claimed(first_copy_end=-1), False),  # of a claim that no first copy is known of
        (claimed(sequence=7), True),
        (claimed(sequence=7, first_copy_end=130), True),
        (claimed(sequence=7, first_copy_end=129), False),  # a record that came after the claim
        (claimed(sequence=7, first_copy_end=-1), False),
        (claimed(loss=None), False),
    ],
)
def test_what_is_lost_in_the_first_copy_is_passed_over(
    before: PartitionProgress, passes: bool
) -> None:
    assert claim_checks.passes(before, "stop") is passes
    assert claim_checks.passes(before, "continue") is (before.loss is not None)


def test_the_pairs_behind_a_loss_have_the_same_sequences() -> None:
    """An outlet that has come further stays where it is."""
    ahead = Outlet(
        topic="A.orders",
        partition=1,
        topic_id="bb" * 16,
        producer_id=6,
        producer_epoch=0,
        pair=Pair(source=200, target=10, sequence=3),
    )
    before = claimed(sequence=7, first_copy_end=-1, lost=5)
    before = before.replace(outlets=(*before.outlets, ahead))

    after = claim_checks.passed(before, 130)

    assert [outlet.pair for outlet in after.outlets] == [(130, 60, 7), (200, 10, 3)]
    assert [outlet.producer_id for outlet in after.outlets] == [5, 6]
    assert (after.position, after.state, after.reason) == (130, State.WAITING, None)
    assert (after.loss, after.lost, after.acknowledged) == (None, 45, 0)
    adopted = claim_checks.passed(before, 130, adopted_end=300)
    assert (adopted.lost, adopted.acknowledged, adopted.first_copy_end) == (45, 45, 300)
    assert claim_checks.passed(claimed(), 130).lost == 0, "a first copy begins later"


def test_a_first_copy_that_was_passed_over_may_lose_more_before_it_begins() -> None:
    after = claim_checks.passed(claimed(first_copy_end=100), 130)
    assert claim_checks.passes(after.replace(loss=Loss(130, 150, "deleted")), "stop")


@pytest.mark.parametrize(("first_copy_end", "acknowledged"), [(100, 2), (None, 7)])
def test_a_claim_keeps_what_was_lost_before(first_copy_end: int | None, acknowledged: int) -> None:
    """A person has chosen it, unless it goes on behind another version of a transform."""
    begin = Begin(start=110, targets=(0,), first_copy_end=first_copy_end)
    before = claimed(lost=7, acknowledged=2)

    after = claim(TOPIC, 0, begin, BEGUN, {0: (9, 0)}, LINK, before=before)

    assert (after.lost, after.acknowledged) == (7, acknowledged)


def test_a_loss_stops_until_a_person_or_the_file_says_otherwise() -> None:
    before = claimed(sequence=7, first_copy_end=-1)
    assert decide(TOPIC, 0, before, BEGUN, LINK, NO_WISH) == Stop(
        reason=before.reason or "", loss=LOSS
    ), "another driver must still know what is lost"
    over = decide(TOPIC, 0, before, BEGUN, CONTINUE, NO_WISH)
    assert isinstance(over, PassOver)
    assert (over.to, over.adopted) == (130, False)
    later = replace(BEGUN, log_start=180)
    over = decide(TOPIC, 0, before, later, LINK, ADOPT)
    assert isinstance(over, PassOver)
    assert (over.to, over.adopted) == (180, True), "more is gone by now"
    assert not isinstance(decide(TOPIC, 0, before, BEGUN, CONTINUE, FROM), PassOver)


@pytest.mark.parametrize(("source", "noticed"), [(90, True), (130, False)])
def test_a_restart_alone_does_not_pass_over_a_loss(source: int, noticed: bool) -> None:
    """The pairs of a transform's outlets may lie behind the loss: no lane would see it by these."""
    before = claimed(sequence=7, first_copy_end=-1)
    outlets = tuple(o.replace(pair=o.pair._replace(source=source)) for o in before.outlets)
    again = before.replace(state=State.WAITING, reason=None, outlets=outlets)

    found = decide(TOPIC, 0, again, BEGUN, LINK, NO_WISH)

    if noticed:
        assert isinstance(found, GoOn)
    else:
        assert isinstance(found, Stop)
        assert (found.loss, "offsets 90 to 129" in found.reason) == (LOSS, True)
        assert isinstance(decide(TOPIC, 0, again, BEGUN, LINK, ADOPT), PassOver)
    stopped = claim_checks.stopped(before, "as before", LOSS)
    assert (stopped.loss, stopped.state) == (LOSS, State.STOPPED)


def test_damage_stops_until_a_person_says_otherwise() -> None:
    """Nothing tells that no other replica has the records."""
    for before in (claimed(loss=DAMAGED), claimed(sequence=7, loss=DAMAGED)):
        assert not claim_checks.passes(before, "continue")
        over = decide(TOPIC, 0, before, BEGUN, CONTINUE, ADOPT)
        assert isinstance(over, PassOver)
        assert (over.to, over.adopted) == (95, True)
        after = claim_checks.passed(before, over.to, adopted_end=300)
        assert (after.lost, after.acknowledged, after.first_copy_end) == (5, 5, 500)
        assert after.outlets[0].pair.source == 95
        assert after.leader_epoch == -1, "the records before may be of an earlier leader epoch"


def test_another_topic_is_not_passed_into() -> None:
    before = claimed()
    anew = replace(TOPIC, target_id="cc" * 16)
    for wish in (NO_WISH, ADOPT):
        assert not isinstance(decide(anew, 0, before, BEGUN, LINK, wish), PassOver | GoOn)


def test_a_partition_whose_loss_may_be_passed_over_waits_for_that() -> None:
    reported = says(State.STOPPED, 90, reason="the source deleted offsets 90 to 129")
    for settings, first_copy_end, state in (
        (LINK, 500, State.RECOVERING),
        (LINK, -1, State.STOPPED),
        (CONTINUE, -1, State.RECOVERING),
    ):
        registry = Registry("A->B", settings.on_data_loss)
        mirrored = row()
        mirrored.progress = mirrored.progress.replace(first_copy_end=first_copy_end)
        registry.add([mirrored])
        registry.take_reports([_lacking(reported)])
        (found,) = registry.status()
        assert found.state is state
        assert registry.passing.is_set() is (state is State.RECOVERING)
        assert registry.is_settled(0.0) is (state is State.STOPPED), "a bounded run waits"


def test_a_loss_is_acknowledged_once() -> None:
    registry = Registry("A->B")
    mirrored = row()
    mirrored.progress = mirrored.progress.replace(lost=40)
    registry.add([mirrored])
    registry.acknowledge(lambda _: True)
    (entry,) = registry.take_dirty()[1]
    assert isinstance(entry, PartitionProgress)
    assert (entry.lost, entry.acknowledged) == (40, 40)
    registry.acknowledge(lambda _: True)
    assert registry.take_dirty()[1] == []


def test_progress_of_an_earlier_version_has_lost_nothing() -> None:
    written = claimed(lost=3, acknowledged=2)
    key, value = encode_entry(written, 7)
    assert value is not None
    assert decode_entry(key, value) == written.replace(written_at=7)
    fields = json.loads(value)
    for name in ("loss", "lost", "acknowledged", "first_copy_end"):
        del fields[name]
    found = decode_entry(key, json.dumps(fields).encode())
    assert isinstance(found, PartitionProgress)
    assert (found.loss, found.lost, found.acknowledged, found.first_copy_end) == (None, 0, 0, -1)


def _lacking(reported: ReportedPartition) -> ReportedPartition:
    return reported.replace(report=reported.report.replace(loss=LOSS))
