"""From what is seen of a cutover to its list of steps, and what is done now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from causeway.link_topics import Cut, CutPoint, EndDirective, Scope
from causeway.model import TopicPartition
from causeway.operate.cutover import (
    Act,
    CheckMark,
    CutoverStep,
    FirstMover,
    Look,
    Producer,
    StepState,
    Wishes,
)
from causeway.operate.cutover.plan import plan
from causeway.operate.cutover.values import Check, MovingGroup, Verified
from tests.builders.cutover import AT, END, FENCING, NOW, fence, fenced, look, place

PRODUCERS_FIRST = Wishes(first=FirstMover.PRODUCERS, fence=True)
GOING_ON = Producer(topics=("orders",), producer_id=7, transactional_id="shop-1", last_ms=NOW - 500)


def group(**fields: Any) -> MovingGroup:
    found = MovingGroup(name="billing", busy_here=False, busy_there=False, behind=0, undone=0)
    return replace(found, **fields)


def current(seen: Look, wishes: Wishes = FENCING) -> tuple[str, Act]:
    found = plan(seen, wishes)
    step = found.current
    return ("" if step is None else step.name), found.act


def step_of(seen: Look, name: str, wishes: Wishes = FENCING) -> CutoverStep:
    return next(each for each in plan(seen, wishes).steps if each.name == name)


def test_steps_come_in_the_order_that_was_asked_for() -> None:
    before, after = ["check", "lag", "compare"], ["fence", "drain", "groups", "verify", "promote"]
    names = [step.name for step in plan(look(), FENCING).steps]
    assert names == [*before, "consumers", *after]
    names = [step.name for step in plan(look(), PRODUCERS_FIRST).steps]
    assert names == [*before, *after, "consumers"]


def test_all_that_is_to_come_is_shown() -> None:
    found = plan(look(places=(place(had=150),)), FENCING)
    assert [step.state for step in found.steps[:3]] == [
        StepState.DONE,
        StepState.NOW,
        StepState.NEXT,
    ]
    assert all(step.text for step in found.steps)
    assert "deny WRITE on 1 topic, lifted after 5 min" in found.steps[4].text


def test_nothing_begins_before_what_is_bad_is_mended() -> None:
    bad = Check(name="rights", mark=CheckMark.BAD, text="grant ALTER")
    assert current(look(checks=(bad,))) == ("check", Act.STOP)
    note = bad._replace(mark=CheckMark.NOTE)
    assert current(look(checks=(note,))) == ("fence", Act.FENCE)
    assert step_of(look(checks=(note,)), "check").lines == ("rights: grant ALTER",)


def test_lag_is_waited_for_as_far_as_was_asked_for() -> None:
    behind = look(places=(place(position=40),), per_s=10.0)
    assert current(behind) == ("lag", Act.WAIT)
    assert step_of(behind, "lag").left_s == 6.0
    assert current(behind, replace(FENCING, lag=60)) == ("fence", Act.FENCE)
    assert current(look(places=(place(end=500, readable=500),))) == ("fence", Act.FENCE), (
        "what came meanwhile is no lag"
    )


@pytest.mark.parametrize("state", ["stopped", "failed", "paused"])
def test_what_is_not_mirrored_stops_it(state: str) -> None:
    seen = look(places=(place(state=state, reason="full"),))
    assert current(seen) == ("lag", Act.STOP)
    assert "full" in step_of(seen, "lag").lines[0]


def test_a_cutover_without_a_running_driver_waits_for_a_person() -> None:
    assert current(look(driver=None)) == ("lag", Act.PERSON)


def test_consumers_are_stopped_placed_and_may_go_on() -> None:
    assert current(look(groups=(group(busy_here=True),))) == ("consumers", Act.PERSON)
    assert current(look(groups=(group(undone=3),))) == ("consumers", Act.GROUPS)
    assert current(look(groups=(group(reason="gone"),))) == ("consumers", Act.STOP)
    assert current(look(groups=(group(),))) == ("fence", Act.FENCE)
    assert current(look(groups=(group(busy_there=True),))) == ("fence", Act.FENCE)
    left = replace(FENCING, left_groups=frozenset({"billing"}))
    assert current(look(groups=(group(busy_here=True),)), left) == ("fence", Act.FENCE)


def test_a_group_at_work_on_the_target_without_a_place_stops_there_for_a_moment() -> None:
    seen = look(groups=(group(busy_there=True, undone=2),))
    assert current(seen) == ("consumers", Act.PERSON)
    found = step_of(seen, "consumers")
    assert "stop 1 group on the target" in found.text
    assert found.lines == ("billing has members there, and no place in 2 partitions",)


def test_a_group_that_is_ahead_stops_it_until_a_person_has_decided() -> None:
    """It would skip what lies between. Brokers do not tell whether it has read that elsewhere."""
    further = group(ahead=800)
    assert not further.placed
    busy = group(name="audit", busy_here=True)
    assert current(look(groups=(further, busy))) == ("check", Act.STOP)
    assert current(look(groups=(further,)), PRODUCERS_FIRST) == ("check", Act.STOP)
    found = step_of(look(groups=(further,)), "check")
    assert found.text == "1 group is further on the target than on the source"
    assert found.lines == (
        "billing would skip 800 records: --reset-group billing takes it back to its place, "
        "--leave-group billing leaves it where it is",
    )
    ended = fenced(groups=(further,), ended={"orders": END})
    assert current(ended, PRODUCERS_FIRST) == ("consumers", Act.STOP), "it had members before"
    left = replace(FENCING, left_groups=frozenset({"billing"}))
    assert current(look(groups=(further,)), left) == ("fence", Act.FENCE)
    reset = replace(FENCING, reset_groups=frozenset({"billing"}))
    assert current(look(groups=(replace(further, undone=1),)), reset) == ("consumers", Act.GROUPS)
    at_work = look(groups=(replace(further, busy_there=True),))
    assert current(at_work, reset) == ("consumers", Act.PERSON)
    assert "without --reset-group billing" in step_of(at_work, "consumers", reset).lines[0]


def test_a_group_at_work_on_the_target_is_reported_as_ahead() -> None:
    moved = group(busy_there=True, ahead=3)
    assert moved.placed
    assert current(look(groups=(moved,))) == ("fence", Act.FENCE)
    (line,) = step_of(look(groups=(moved,)), "consumers").lines
    assert line.startswith("billing has members there, 3 records beyond its place on the source")
    seen = fenced(groups=(moved, group(name="audit")), verified=Verified(ends={AT: 100}))
    found = step_of(seen, "groups")
    assert found.text == "1 group placed exactly, 1 at work on the target"
    assert len(found.lines) == 1


def test_consumers_that_come_second_hold_nothing_up() -> None:
    busy = group(busy_here=True, behind=7)
    assert current(look(groups=(busy,)), PRODUCERS_FIRST) == ("fence", Act.FENCE)
    after = fenced(groups=(busy,), verified=Verified(ends={AT: 100}))
    assert current(after, PRODUCERS_FIRST) == ("promote", Act.PROMOTE)
    ended = replace(after, ended={"orders": END})
    assert current(ended, PRODUCERS_FIRST) == ("consumers", Act.PERSON)
    idle = replace(ended, groups=(group(undone=1),))
    assert current(idle, PRODUCERS_FIRST) == ("consumers", Act.GROUPS)


def test_a_fence_is_set_and_holds_everywhere_before_anything_counts() -> None:
    assert current(look()) == ("fence", Act.FENCE)
    assert current(fenced(fences={"orders": fence(there=False)})) == ("fence", Act.FENCE)
    assert current(fenced(fences={"orders": fence(everywhere=False)})) == ("fence", Act.WAIT)
    assert current(fenced(still_s=0.5)) == ("fence", Act.WAIT)
    assert current(fenced()) == ("verify", Act.VERIFY)


def test_a_second_call_goes_on_with_a_fence_though_it_does_not_ask_for_one() -> None:
    assert current(fenced(), Wishes()) == ("verify", Act.VERIFY)


def test_who_writes_behind_the_fence_is_named() -> None:
    seen = fenced(still_s=0.1, appended=9, producers=(GOING_ON,))
    found = step_of(seen, "fence")
    assert "1 producer goes on" in found.text
    assert "lifted in 1 min by the driver's clock" in found.text
    far = replace(seen, ahead_ms=-360_000)
    assert "in 7 min by the driver's clock, which is 6 min behind" in step_of(far, "fence").text
    assert "producer id 7, transactional id shop-1" in found.lines[0]
    nameless = replace(GOING_ON, producer_id=None)
    assert "not idempotent" in step_of(replace(seen, producers=(nameless,)), "fence").lines[0]


def test_a_fence_whose_time_is_over_is_lifted_first() -> None:
    over = {"orders": fence(until=NOW)}
    assert current(look(fences=over)) == ("lift", Act.LIFT)
    assert step_of(look(fences=over), "check").text == "both clusters are checked"
    assert current(look(fences=over, driver=None)) == ("lift", Act.LIFT)
    nearly = {"orders": fence(until=NOW + 1_000)}
    assert current(look(fences=nearly)) == ("fence", Act.WAIT), "too late to promote"


def test_without_a_fence_producers_are_waited_for_and_named() -> None:
    seen = look(still_s=0.1, producers=(GOING_ON,))
    assert current(seen, Wishes()) == ("fence", Act.PERSON)
    assert "shop-1" in step_of(seen, "fence", Wishes()).lines[0]
    assert current(look(), Wishes()) == ("verify", Act.VERIFY)


def test_all_is_copied_open_transactions_too() -> None:
    seen = fenced(places=(place(position=90, had=90),))
    assert current(seen) == ("drain", Act.WAIT)
    held = fenced(places=(place(position=90, readable=90, had=90),))
    assert current(held) == ("drain", Act.WAIT)
    assert "open transactions" in step_of(held, "drain").text


def test_most_is_compared_before_anybody_is_kept_from_writing() -> None:
    assert current(look(verified=None)) == ("compare", Act.VERIFY)
    assert current(look(verified=None), replace(FENCING, verify=False)) == ("fence", Act.FENCE)
    bad = Verified(ends={AT: 50}, bad="1 record differs")
    assert current(look(verified=bad)) == ("compare", Act.STOP)
    assert current(fenced(verified=None)) == ("verify", Act.VERIFY), "a second call"


def test_what_was_verified_counts_up_to_where_it_was() -> None:
    assert current(fenced(verified=Verified(ends={AT: 99}))) == ("verify", Act.VERIFY)
    assert current(fenced(verified=Verified(ends={AT: 100}))) == ("promote", Act.PROMOTE)
    bad = Verified(ends={AT: 100}, bad="1 record is missing")
    assert current(fenced(verified=bad)) == ("verify", Act.STOP)
    assert current(fenced(), replace(FENCING, verify=False)) == ("promote", Act.PROMOTE)


def test_records_written_behind_the_cut_are_reported() -> None:
    point = CutPoint(partition=0, source=100, targets=(), exact=True)
    end = EndDirective(
        scope=Scope("orders"),
        who="anna@ops",
        at=NOW,
        cut=Cut(target="A.orders", points=(point,)),
    )
    assert current(look(ended={"orders": end})) == ("", Act.FINISHED)
    late = look(ended={"orders": end}, places=(place(end=103),), late=(GOING_ON,))
    assert "transactional id shop-1" in step_of(late, "promote").lines[-1]
    assert current(late) == ("promote", Act.STOP)
    assert step_of(late, "promote").lines[0] == "orders-0: 3 offsets"


def test_the_way_back_begins_last_and_what_it_brings_is_not_late() -> None:
    wishes = replace(FENCING, back=True)
    shown = look(reverse="B->A")
    assert step_of(shown, "reverse link", wishes).text == "B->A begins at the cut"
    assert step_of(shown, "reverse link", wishes).state is StepState.NEXT
    point = CutPoint(partition=0, source=100, targets=(), exact=True)
    cut = Cut(target="orders", points=(point,))
    end = END.replace(cut=cut)
    ended = fenced(ended={"orders": end}, reverse="B->A")
    assert current(ended, wishes) == ("reverse link", Act.BACK)
    assert "the fence is lifted for it" in step_of(ended, "reverse link", wishes).text
    begun = look(
        ended={"orders": end}, reverse="B->A", back=frozenset({"orders"}), places=(place(end=105),)
    )
    assert current(begun, wishes) == ("", Act.FINISHED)
    assert current(begun) == ("", Act.FINISHED)


def test_a_promotion_that_was_cut_short_is_gone_on_with() -> None:
    ended = {"orders": fence().record}
    seen = fenced(ended=ended, unfinished=frozenset({"orders"}), driver=None)
    assert current(seen) == ("promote", Act.PROMOTE)


def test_a_promoted_topic_is_done_also_if_its_source_grows() -> None:
    seen = fenced(
        ended={"orders": END},
        fences={"orders": replace(fence(until=NOW - 1), over=False)},
        driver=None,
        still_s=0.0,
        groups=(group(busy_here=True),),
    )
    assert current(seen) == ("", Act.FINISHED)


def test_topics_that_ended_before_hold_nothing_of_the_others_up() -> None:
    bills = TopicPartition("bills", 0)
    seen = fenced(
        topics={"orders": "A.orders", "bills": "A.bills"},
        places=(place(), place(at=bills, state="promoted", position=40)),
        fences={"orders": fence(), "bills": replace(fence(until=NOW - 1), over=False)},
        ended={"bills": fence().record},
        verified=Verified(ends={AT: 100}),
    )
    assert current(seen) == ("promote", Act.PROMOTE)
    lacking = replace(seen, fences={"bills": seen.fences["bills"]})
    assert current(lacking) == ("fence", Act.FENCE)
    assert "1 topic" in step_of(lacking, "fence").text


def test_what_followers_have_yet_to_copy_is_waited_for_behind_a_fence() -> None:
    late = fenced(places=(place(log_end=103),))
    step = plan(late, FENCING).current
    assert step is not None
    assert (step.name, step.lines) == ("fence", ("orders-0 from offset 100 to 103",))
    assert "followers" in step.text
    assert current(fenced(places=(place(log_end=100),))) != ("fence", Act.WAIT)
