"""Claims of what goes through a transform: whose they are, and what a change of it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from causeway.config import Secret, TransformSettings
from causeway.control import Transforms
from causeway.control.claim_checks import why_another
from causeway.daemon import Sides
from causeway.daemon.partitions import claiming, discovery
from causeway.daemon.partitions.claiming import Claimer, Taken
from causeway.daemon.partitions.claims import Behind, places_behind
from causeway.daemon.partitions.deciding import transform_change
from causeway.daemon.partitions.decisions import (
    Begin,
    BeginBehind,
    GoOn,
    Offsets,
    Stop,
    Wish,
)
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.routing import among_others, is_other, led_to
from causeway.errors import BrokerError, CausewayError, DivergedError
from causeway.filters import compile_patterns
from causeway.link_topics import (
    ClaimStart,
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    ProgressContents,
)
from causeway.model import Loss, Pair, State, TopicPartition
from causeway.relay.recovery import (
    LossError,
    PartitionLeader,
    RecoveryRequest,
    ResumedOutlet,
    Resumption,
)
from causeway.wire import codes
from tests.builders.decisions import decide
from tests.builders.records import ADOPT, BEGUN, EMPTY, FROM, NO_WISH, TOPIC, progress
from tests.builders.settings import LINK

AT = TopicPartition("orders", 0)
PII = TransformSettings(
    name="pii", topics=compile_patterns("orders"), secrets={"k": Secret("hidden-value")}
)
TRANSFORMING = replace(LINK, transforms=(PII,))


def routed(source: int = 90, topic: str = "paid", partition: int = 0) -> Outlet:
    return Outlet(
        topic=f"A.{topic}",
        partition=partition,
        topic_id="cc" * 16,
        producer_id=8,
        producer_epoch=0,
        pair=Pair(source=source, target=3, sequence=3),
        exclusive=False,
        routed=topic,
    )


def transformed(*more: Outlet, by: str | None = "old", **changes: Any) -> PartitionProgress:
    known = progress(transform=by, **changes)
    return known.replace(outlets=(*known.outlets, *more))


def test_the_same_transform_goes_on_and_leads_where_it_did() -> None:
    """What it has led to is neither another number of partitions nor the mirror recreated."""
    known = transformed(routed())
    assert decide(TOPIC, 0, known, BEGUN, LINK, NO_WISH, transform="old") == GoOn(progress=known)
    assert not is_other(TOPIC, known)
    assert why_another(known, TOPIC) is None
    anew = why_another(known, replace(TOPIC, target_id="dd" * 16))
    assert "recreated on the target" in (anew or "")


@pytest.mark.parametrize(("before", "now"), [("old", "new"), (None, "new"), ("old", None)])
def test_another_transform_begins_behind_or_stops(before: str | None, now: str | None) -> None:
    known = transformed(by=before)
    found = decide(TOPIC, 0, known, BEGUN, LINK, NO_WISH, transform=now)
    assert isinstance(found, BeginBehind)
    assert found.progress == known
    assert isinstance(found.otherwise, Stop)
    assert "run once with the earlier one and --finish-in-flight" in found.otherwise.reason
    assert "--from" in found.otherwise.reason
    assert "--adopt" in found.otherwise.reason


def test_what_stopped_for_another_version_goes_on_by_the_earlier_one() -> None:
    found = decide(TOPIC, 0, transformed(), BEGUN, LINK, NO_WISH, transform="new")
    assert isinstance(found, BeginBehind)
    assert isinstance(found.otherwise, Stop)
    stopped = transformed(state=State.STOPPED, reason=found.otherwise.reason)
    again = decide(TOPIC, 0, stopped, BEGUN, LINK, NO_WISH, transform="old")
    assert again == GoOn(progress=stopped)


def test_a_person_says_how_to_go_on_where_the_place_is_not_known() -> None:
    by_time = decide(TOPIC, 0, transformed(), replace(BEGUN, start=7), LINK, FROM, transform="new")
    adopting = decide(TOPIC, 0, transformed(), BEGUN, LINK, ADOPT, transform="new")
    assert isinstance(by_time, BeginBehind)
    assert by_time.otherwise == Begin(start=7, targets=(0,))
    assert isinstance(adopting, BeginBehind)
    assert adopting.otherwise == Begin(start=100, targets=(0,))


def test_a_refused_record_is_answered_by_another_transform() -> None:
    refused = transformed(state=State.STOPPED, reason="offset 100: no JSON")
    same = decide(TOPIC, 0, refused, BEGUN, LINK, NO_WISH, transform="old")
    other = decide(TOPIC, 0, refused, BEGUN, LINK, NO_WISH, transform="new")
    assert same == Stop(reason="offset 100: no JSON")
    assert isinstance(other, BeginBehind)


def test_a_stopped_partition_begins_at_the_time_that_a_person_says() -> None:
    refused = transformed(state=State.STOPPED, reason="offset 100: no JSON")
    found = decide(TOPIC, 0, refused, replace(BEGUN, start=7), LINK, FROM, transform="new")
    assert found == Begin(start=7, targets=(0,))


def test_what_a_transform_made_is_not_looked_for_in_the_source() -> None:
    stopped = transformed(state=State.STOPPED, reason="diverged")
    assert decide(TOPIC, 0, stopped, BEGUN, LINK, ADOPT, transform="old") == Begin(
        start=100, targets=(0,)
    )
    unknown = decide(TOPIC, 0, None, BEGUN, LINK, ADOPT, transform="old")
    assert isinstance(unknown, Stop)
    assert "--from" in unknown.reason


def test_a_mirror_that_a_transform_has_led_to_is_no_riddle() -> None:
    """Its topic came into being later at the source, and its target has data: a transform's."""
    assert isinstance(decide(TOPIC, 0, None, BEGUN, LINK, NO_WISH), Stop)
    found = decide(TOPIC, 0, None, BEGUN, LINK, NO_WISH, shared=True)
    assert found == Begin(start=0, targets=(0,))


def test_plan_says_what_a_change_means() -> None:
    assert transform_change(transformed(), "old") is None
    assert transform_change(progress(), None) is None
    assert transform_change(transformed().replace(outlets=()), "new") is None
    assert "from offset 100 on" in (transform_change(progress(), "new") or "")
    assert "ended in order" in (transform_change(transformed(), "new") or "")
    assert "no transform or treatment any more" in (transform_change(transformed(), None) or "")
    torn = transformed(routed(source=95))
    assert "it stops" in (transform_change(torn, "new") or "")


def test_a_topic_that_a_transform_routes_to_is_never_exclusive() -> None:
    mirror = progress()
    led = led_to([transformed(routed(topic="orders", partition=0))])
    assert led == {TopicPartition("A.orders", 0)}
    shared = among_others(mirror, led)
    assert [outlet.exclusive for outlet in shared.outlets] == [False]
    assert among_others(mirror, led_to([mirror, transformed()])) is mirror


def test_a_topics_transform_has_a_key_of_its_own_and_keeps_its_secrets() -> None:
    known = Transforms(TRANSFORMING, {}, lambda *_: "0123456789abcdef" * 4)
    found = known.of("orders")
    assert known.of("customers") is None
    assert found is not None
    assert found.key == "A->B/pii@0123456789abcdef"
    assert "hidden-value" not in repr(found)
    stage = found.stage()
    assert stage.secrets == {"k": "hidden-value"}
    assert "hidden-value" not in repr(stage)


class Leading:
    progress_lost = False

    def __init__(self, alone_in_s: float = 0.0) -> None:
        self.alone_in_s = self.alone_at = alone_in_s


class Target:
    timeout_s = 10.0

    def __init__(self) -> None:
        self.next = 500

    def init_producer_ids(self, count: int) -> list[tuple[int, int]]:
        self.next += count
        return [(self.next - count + each, 0) for each in range(count)]


def resumed(*sources: int) -> Resumption:
    return Resumption(
        outlets=tuple(
            ResumedOutlet(
                pair=Pair(source=source, target=75, sequence=1),
                end=75 + number,
                exclusive=True,
                append_times=False,
                node=1,
            )
            for number, source in enumerate(sources)
        ),
        leader_epoch=0,
        source_leader=PartitionLeader(1, 0),
        source_end=500,
    )


def take_up(
    monkeypatch: pytest.MonkeyPatch,
    known: PartitionProgress | None,
    answer: Resumption | CausewayError,
    *,
    place: Offsets = BEGUN,
    alone_in_s: float = 0.0,
    wish: Wish = NO_WISH,
    now: str = "new",
    start: ClaimStart | None = None,
) -> tuple[Taken, Found]:
    """`answer`: of the recovery of the earlier outlets."""
    monkeypatch.setattr(discovery, "find_places", lambda *_: {AT: place})
    monkeypatch.setattr(
        "causeway.relay.recovery.recover",
        lambda requests, *_: {each.assignment.source_partition: answer for each in requests},
    )
    both = cast(Any, Target())
    link = replace(TRANSFORMING, control=replace(LINK.control, mm2_offsets=False))
    claimer = Claimer(
        Sides(source=both, target=both, source_admin=both, target_admin=both),
        link,
        wish,
        cast(Any, Leading(alone_in_s)),
        Transforms(link, {}, lambda *_: now),
        lambda _: start,
    )
    found = Found(mirrored={"orders": TOPIC}, counts={"orders": 4})
    left = ProgressContents(partitions={AT: known} if known else {})
    return claimer.take_up([(TOPIC, 0)], found, left, frozenset()), found


def test_the_new_claim_lies_right_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    known = transformed(routed())
    taken, found = take_up(monkeypatch, known, resumed(93, 93))
    claim, offset_map = taken.claims
    assert isinstance(claim, PartitionProgress)
    assert isinstance(offset_map, OffsetMapRecord)
    assert offset_map.producer_id == 500
    assert claim.transform == "new"
    assert claim.position == 93
    (outlet,) = claim.outlets
    assert outlet.pair == Pair(source=93, target=75, sequence=0), "behind what recovery has seen"
    assert outlet.producer_id == 500
    assert outlet.routed is None, "where it leads, it has to ask for again"
    assert not found.problems
    assert taken.rows[0].transform is not None


def test_what_was_turned_round_before_does_not_begin_at_that_cut_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its directive stands for good: by a claim that knew nothing of it, the next restart would
    mirror all since that cut again."""
    start = ClaimStart(offset=40, by=5_000)
    known = transformed(routed()).replace(begun=5_000)
    taken, _ = take_up(monkeypatch, known, resumed(93, 93), start=start)
    (claim,) = [each for each in taken.claims if isinstance(each, PartitionProgress)]
    assert (claim.position, claim.transform, claim.begun) == (93, "new", 5_000)
    again, _ = take_up(monkeypatch, claim, resumed(93), start=start)
    assert not again.claims
    assert [row.progress.position for row in again.rows] == [93]


@pytest.mark.parametrize(
    "answer", [resumed(93, 95), DivergedError("resume", "A.orders-0", "records came since")]
)
def test_what_is_torn_stops(
    monkeypatch: pytest.MonkeyPatch, answer: Resumption | CausewayError
) -> None:
    taken, _ = take_up(monkeypatch, transformed(routed()), answer)
    (row,) = taken.rows
    assert row.progress.state is State.STOPPED
    assert "changed while records of the earlier version" in (row.progress.reason or "")
    assert row.progress.transform == "old", "it can still be ended by the earlier one"
    assert row.progress.outlets == transformed(routed()).outlets
    assert not taken.claims


def test_a_claim_waits_for_records_that_may_still_be_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon, found = take_up(monkeypatch, transformed(), resumed(93), alone_in_s=7.0)
    assert not soon.rows
    assert "7 s" in found.problems[0].reason
    error = BrokerError("resume", "A.orders-0", "", code=5, name="NO_LEADER", retriable=True)
    later, found = take_up(monkeypatch, transformed(), error)
    assert not later.rows
    assert found.unfinished


def test_a_person_can_go_on_where_what_the_earlier_one_led_to_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = BrokerError(
        "resume",
        "A.paid-0",
        "the target topic does not exist",
        code=codes.UNKNOWN_TOPIC_OR_PARTITION,
        name="",
        retriable=True,
    )
    waits, found = take_up(monkeypatch, transformed(), gone)
    assert not waits.rows
    assert "does not exist" in found.problems[0].reason
    goes_on, found = take_up(monkeypatch, transformed(), gone, wish=ADOPT)
    assert [row.progress.position for row in goes_on.rows] == [100]
    assert not found.problems


def test_a_claim_names_its_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "places_behind", lambda *_: pytest.fail("nothing changed"))
    taken, _ = take_up(monkeypatch, transformed(), resumed(90), now="old")
    assert taken.rows[0].progress.transform == "old"
    assert not taken.claims
    taken, _ = take_up(monkeypatch, None, resumed(), place=EMPTY)
    assert [each.transform for each in taken.claims if isinstance(each, PartitionProgress)] == [
        "new"
    ]


def test_the_earlier_series_is_recovered_as_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transformed one is not compared with the source's records."""
    seen: list[str | None] = []

    def recover(
        requests: Sequence[RecoveryRequest], *_: object
    ) -> dict[TopicPartition, Resumption]:
        seen.extend(each.assignment.transform for each in requests)
        assert all(each.unsettled for each in requests)
        return {each.assignment.source_partition: resumed(93) for each in requests}

    monkeypatch.setattr("causeway.relay.recovery.recover", recover)
    both = cast(Any, None)
    sides = Sides(source=both, target=both, source_admin=both, target_admin=both)
    for known in (transformed(), progress()):
        answers = places_behind([(TOPIC, known)], sides, LINK)
        assert answers == {AT: Behind(start=93, ends={TopicPartition("A.orders", 0): 75})}
    assert seen == ["old", None]


def test_a_claim_begins_at_what_is_lost_and_not_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a lane finds the loss, and it is passed over by a person's word, or the file's."""

    def recover(
        requests: Sequence[RecoveryRequest], *_: object
    ) -> dict[TopicPartition, CausewayError]:
        return {
            each.assignment.source_partition: LossError(
                each.assignment, Loss(93, 120, "deleted"), resumed(120).outlets
            )
            for each in requests
        }

    monkeypatch.setattr("causeway.relay.recovery.recover", recover)
    both = cast(Any, None)
    sides = Sides(source=both, target=both, source_admin=both, target_admin=both)

    (behind,) = places_behind([(TOPIC, progress())], sides, LINK).values()

    assert isinstance(behind, Behind)
    assert behind.start == 93
