"""Decides the list of steps, and the next act, from the state of the clusters. Pure.

    consumers first   check lag compare consumers fence drain groups verify promote           (back)
    producers first   check lag compare           fence drain groups verify promote consumers (back)

Nothing is remembered: a step is done if the clusters show it. A step that is undone (a producer
writes again) becomes the current one again. Without a fence, step `fence` waits until producers
have stopped. Most records are compared while producers still write, so during the fence only the
rest is left. If a topic is promoted, its steps before the promotion count as done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from causeway.operate.cutover.groups import further, placing, undecided
from causeway.operate.cutover.report import count, duration, producer_lines, shortened
from causeway.operate.cutover.values import (
    Act,
    Checklist,
    CheckMark,
    CutoverStep,
    FirstMover,
    Look,
    MovingGroup,
    StepState,
    Verified,
    Wishes,
)

BEFORE_THE_END: Final = "before the end"
_LEFT_OUT: Final = "left out as asked"
_COMPARE: Final = "compare both sides record by record, as far as they are"
_VERIFY: Final = "compare what has come since"
_CLOCKS_MS = 5_000  # a smaller difference of clocks is not shown
_MARGIN_S = 5.0  # if a fence has less time left, nothing is promoted any more
_BROKEN = ("stopped", "failed", "paused")


def plan(look: Look, wishes: Wishes) -> Checklist:
    """Returns the checklist. It depends on nothing but the look and the wishes."""
    steps: list[CutoverStep] = []
    act: Act | None = None
    for name, found in _steps(look, wishes):
        if act is not None:
            step = CutoverStep(_to_come(name, look, wishes), state=StepState.NEXT)
        elif (act := found.act) is None:
            step = found
        else:
            is_blocked = act in (Act.STOP, Act.PERSON)
            step = found._replace(state=StepState.BLOCKED if is_blocked else StepState.NOW)
        steps.append(step._replace(name=name))
    return Checklist(steps=tuple(steps), act=act or Act.FINISHED)


def _steps(look: Look, wishes: Wishes) -> Iterator[tuple[str, CutoverStep]]:
    """A generator, because later steps may not make sense before they are reached."""
    promoted = set(look.topics) <= look.ended.keys()
    if over := [topic for topic, fence in look.fences.items() if fence.over]:
        text = f"the time of the fence is over: it is lifted from {', '.join(over)}"
        yield "lift", CutoverStep(text, Act.LIFT)
    going = _going(look)
    before = {
        "check": _check,
        "lag": _lag,
        "compare": _compare,
        "consumers": _consumers,
        "fence": _fence,
        "drain": _drain,
        "groups": _groups,
        "verify": _verify,
    }
    if wishes.first is FirstMover.PRODUCERS:
        del before["consumers"]
    for name, step in before.items():
        if promoted and name == "fence" and look.fences:
            yield name, CutoverStep("the fence on the source stays; `--undo` lifts it")
        elif promoted:
            yield name, CutoverStep(BEFORE_THE_END)
        else:
            yield name, step(going, wishes)
    yield "promote", _promote(look)
    if wishes.first is FirstMover.PRODUCERS:
        yield "consumers", _consumers(look, wishes)
    if wishes.back or look.back:
        yield "reverse link", _back(look)


def _going(look: Look) -> Look:
    """Returns `look` without the topics whose mirrors have ended: their records on the source and
    the time of their fences do not matter for the others."""
    ended = look.ended
    return replace(
        look,
        topics={name: mirror for name, mirror in look.topics.items() if name not in ended},
        places=tuple(place for place in look.places if place.at.topic not in ended),
        fences={name: each for name, each in look.fences.items() if name not in ended},
    )


def _check(look: Look, wishes: Wishes) -> CutoverStep:
    bad = [each for each in look.checks if each.mark is CheckMark.BAD]
    lines = tuple(
        f"{each.name}: {each.text}" for each in look.checks if each.mark is not CheckMark.GOOD
    )
    if bad:
        return CutoverStep(f"{count(len(bad), 'problem')} to solve first", Act.STOP, lines)
    # A person decides before the fence keeps producers from writing.
    if (found := undecided(_moving(look, wishes), wishes)) is not None:
        return found._replace(lines=(*found.lines, *lines))
    good = "; ".join(each.text for each in look.checks if each.mark is CheckMark.GOOD)
    return CutoverStep(good, lines=lines)


def _lag(look: Look, wishes: Wishes) -> CutoverStep:
    if (found := _not_mirrored(look)) is not None:
        return found
    lag = sum(place.lag or 0 for place in look.places)
    most = f"{count(lag, 'record')} behind"
    if lag > wishes.lag and not look.fences:
        text = f"{most}, waiting for {wishes.lag:,}"
        return CutoverStep(text, Act.WAIT, left_s=_time_for(lag - wishes.lag, look))
    return CutoverStep(most)


def _time_for(records: int, look: Look) -> float | None:
    return records / look.per_s if look.per_s and look.per_s > 0 else None


def _not_mirrored(look: Look) -> CutoverStep | None:
    broken = [place for place in look.places if place.state in _BROKEN]
    if broken:
        lines = shortened(f"{place.at} is {place.state}: {place.reason or '?'}" for place in broken)
        return CutoverStep(f"{count(len(broken), 'partition')} not mirrored", Act.STOP, lines)
    if look.driver is None:
        return CutoverStep("no driver mirrors the topics now: start `causeway run`", Act.PERSON)
    unknown = [place for place in look.places if place.lag is None]
    if unknown:
        lines = shortened(f"{place.at}: {place.reason or place.state}" for place in unknown)
        return CutoverStep(f"{count(len(unknown), 'partition')} not begun yet", Act.WAIT, lines)
    return None


def _consumers(look: Look, wishes: Wishes) -> CutoverStep:
    groups = _moving(look, wishes)
    if not groups:
        return CutoverStep("no group reads these topics")
    busy = [group for group in groups if group.busy_here]
    if busy:
        lines = shortened(
            f"{group.name} has members"
            + ("" if group.behind is None else f", {count(group.behind, 'record')} behind")
            for group in busy
        )
        what = f"stop {count(len(busy), 'group')} on the source"
        return CutoverStep(f"{what}; their places are taken along", Act.PERSON, lines)
    if (found := placing(groups, wishes)) is not None:
        return found
    there = sum(group.busy_there for group in groups)
    idle = len(groups) - there
    text = [f"{count(there, 'group')} at work on the target"] if there else []
    if idle:
        text.append(f"{count(idle, 'group')} may be started on the target")
    return CutoverStep(", ".join(text), lines=further(groups))


def _moving(look: Look, wishes: Wishes) -> list[MovingGroup]:
    return [group for group in look.groups if group.name not in wishes.left_groups]


def _fence(look: Look, wishes: Wishes) -> CutoverStep:
    who = producer_lines(look.producers, look.at_ms)
    going_on = f"{count(len(look.producers), 'producer')} goes on" if look.producers else ""
    if not (wishes.fence or look.fences):
        if look.still_s < wishes.settle_s:
            return CutoverStep(going_on or "no producer may write any more", Act.PERSON, who)
        return CutoverStep(f"nothing was written for {look.still_s:.0f} s")
    lacking = [topic for topic in look.topics if not look.is_fenced(topic)]
    if lacking:
        text = f"deny WRITE on {count(len(lacking), 'topic')} for {duration(wishes.fence_for_s)}"
        return CutoverStep(text, Act.FENCE)
    left = min(look.left_ms(fence.record) for fence in look.fences.values()) / 1000
    lifted = f"lifted in {duration(left)} by the driver's clock"
    if abs(look.ahead_ms) >= _CLOCKS_MS:  # a person would notice the difference
        way = "ahead of" if look.ahead_ms > 0 else "behind"
        lifted += f", which is {duration(abs(look.ahead_ms) / 1000)} {way} this machine's"
    if not all(fence.everywhere for fence in look.fences.values()):
        return CutoverStep("brokers take it up", Act.WAIT, left_s=None)
    if hidden := [place for place in look.places if _is_beyond(place.log_end, place.end)]:
        lines = shortened(
            f"{place.at} from offset {place.end} to {place.log_end}" for place in hidden
        )
        text = f"followers have yet to copy records of {count(len(hidden), 'partition')}"
        return CutoverStep(f"{text}; the fence is {lifted}", Act.WAIT, lines)
    if look.still_s < wishes.settle_s:
        text = going_on or "a producer goes on"
        text = text if look.appended else "waiting for the last records"
        return CutoverStep(f"{text}; the fence is {lifted}", Act.WAIT, who)
    if left < _MARGIN_S:
        return CutoverStep("its time is nearly over, and then it is lifted", Act.WAIT)
    return CutoverStep(f"no producer writes any more; {lifted}, unless promoted before")


def _drain(look: Look, _: Wishes) -> CutoverStep:
    if (found := _not_mirrored(look)) is not None:
        return found
    open_ = [place for place in look.places if _is_beyond(place.end, place.readable)]
    left = sum(place.left or 0 for place in look.places)
    if open_ and all(place.readable == place.position for place in open_):
        lines = shortened(f"{place.at} from offset {place.readable} on" for place in open_)
        many = count(len(open_), "partition")
        return CutoverStep(f"open transactions hold records of {many} back", Act.WAIT, lines)
    if left:
        text = f"{count(left, 'record')} to be copied"
        return CutoverStep(text, Act.WAIT, left_s=_time_for(left, look))
    return CutoverStep(f"all of {count(len(look.places), 'partition')} is copied")


def _is_beyond(end: int | None, other: int | None) -> bool:
    return end is not None and other is not None and end > other


def _groups(look: Look, wishes: Wishes) -> CutoverStep:
    idle = [group for group in _moving(look, wishes) if not group.busy_here]
    found = placing(idle, wishes)
    if found is not None:
        return found
    busy = [group for group in _moving(look, wishes) if group.busy_here]
    there = sum(group.busy_there for group in idle)
    text = f"{count(len(idle) - there, 'group')} placed exactly"
    if there:
        text += f", {there:,} at work on the target"
    if busy:
        text += f"; {', '.join(group.name for group in busy[:3])} to follow, still at work"
    return CutoverStep(text, lines=further(idle))


def _compare(look: Look, wishes: Wishes) -> CutoverStep:
    if not wishes.verify:
        return CutoverStep(_LEFT_OUT)
    if look.fences:
        return CutoverStep("with the rest, below")
    if look.verified is None:
        return CutoverStep(_COMPARE, Act.VERIFY)
    return _compared(look.verified)


def _compared(found: Verified) -> CutoverStep:
    if found.bad:
        lines = ("`causeway verify` shows each record that differs",)
        return CutoverStep(found.bad, Act.STOP, lines)
    text = f"{count(found.records, 'record')} the same on both sides"
    return CutoverStep(text, lines=(found.unsure,) if found.unsure else ())


def _verify(look: Look, wishes: Wishes) -> CutoverStep:
    if not wishes.verify:
        return CutoverStep(_LEFT_OUT)
    found = look.verified
    if found is None or any(
        place.end is not None and found.ends.get(place.at, -1) < place.end for place in look.places
    ):
        return CutoverStep(_VERIFY, Act.VERIFY)
    return _compared(found)


def _promote(look: Look) -> CutoverStep:
    if not set(look.topics) <= look.ended.keys():
        what = count(len(look.topics), "topic")
        return CutoverStep(f"end the mirror of {what}, and let producers write to it", Act.PROMOTE)
    if look.unfinished:
        what = count(len(look.unfinished), "topic")
        return CutoverStep(f"go on with the end of {what}, which was cut short", Act.PROMOTE)
    if late := look.behind_the_cut:
        many = sum(each.end - each.start for each in late.values())
        lines = shortened(
            f"{at}: {count(each.end - each.start, 'offset')}" for at, each in late.items()
        )
        text = f"{count(many, 'offset')} written to the source after the cut: no mirror copies them"
        return CutoverStep(text, Act.STOP, (*lines, *producer_lines(look.late, look.at_ms)))
    first = min(look.ended.values(), key=lambda each: each.at)
    return CutoverStep(f"{count(len(look.topics), 'topic')} {first.how} {first.by}")


def _back(look: Look) -> CutoverStep:
    if set(look.topics) <= look.back:
        return CutoverStep(f"{look.reverse} mirrors from the cut on, once a driver runs it")
    lifted = "; the fence is lifted for it" if look.fences else ""
    return CutoverStep(f"{look.reverse} begins at the cut{lifted}", Act.BACK)


def _to_come(name: str, look: Look, wishes: Wishes) -> str:
    topics = count(len(look.topics), "topic")
    if name in ("compare", "verify") and not wishes.verify:
        return _LEFT_OUT
    most = f"at most {count(wishes.lag, 'record')} {'is' if wishes.lag == 1 else 'are'}"
    fence = "producers are stopped; wait until nothing is written"
    if wishes.fence:
        fence = f"deny WRITE on {topics}, lifted after {duration(wishes.fence_for_s)}"
    groups = ", ".join(group.name for group in _moving(look, wishes)) or "no group"
    return {
        "check": "both clusters are checked",
        "lag": f"wait until {most if wishes.lag else 'nothing is'} to be copied",
        "compare": _COMPARE,
        "consumers": f"groups move to the target: {groups}",
        "fence": fence,
        "drain": "wait until everything is copied",
        "groups": "idle groups get the exact offsets on the target",
        "verify": _VERIFY,
        "promote": f"the mirror of {topics} ends, producers start on the target",
        "reverse link": f"{look.reverse} begins at the cut",
    }[name]
