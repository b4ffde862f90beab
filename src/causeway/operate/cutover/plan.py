"""Decides the list of steps from what the clusters say, and the next act. Pure.

    consumers first   check lag compare consumers fence drain groups verify promote           (back)
    producers first   check lag compare           fence drain groups verify promote consumers (back)

Nothing is remembered: a step is done if the clusters say so. A step that is undone (a producer
writes again) becomes the current one again. Without a fence, step `fence` waits until producers
have stopped. Most records are compared while producers still write, so that only the rest is left
during the fence. The steps before the promotion of a promoted topic count as done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from causeway.operate.cutover.group_steps import further, placing, undecided
from causeway.operate.cutover.report import count, producer_lines, shortened, time
from causeway.operate.cutover.values import (
    Act,
    Check,
    Checklist,
    CheckMark,
    CutoverStep,
    FirstMover,
    Look,
    MovingGroup,
    MovingPartition,
    StepFinding,
    StepState,
    Verified,
    Wishes,
)

BEFORE_THE_END: Final = "before the end"
_CLOCKS_MS = 5_000  # a smaller difference of clocks is not shown
_MARGIN_S = 5.0  # of a fence: with less left, nothing is promoted any more
_BROKEN = ("stopped", "failed", "paused")


def plan(look: Look, wishes: Wishes) -> Checklist:
    """The same for the same look and wishes."""
    steps: list[CutoverStep] = []
    act: Act | None = None
    for name, found in _steps(look, wishes):
        if act is not None:
            steps.append(
                CutoverStep(name=name, state=StepState.NEXT, text=_to_come(name, look, wishes))
            )
            continue
        act = found.act
        state = StepState.DONE if act is None else StepState.NOW
        if act is Act.STOP or act is Act.PERSON:
            state = StepState.BLOCKED
        steps.append(
            CutoverStep(
                name=name,
                state=state,
                text=found.text,
                lines=found.lines,
                left_s=found.left_s,
            )
        )
    return Checklist(steps=tuple(steps), act=act or Act.FINISHED)


def _steps(look: Look, wishes: Wishes) -> Iterator[tuple[str, StepFinding]]:
    """Lazily: what is not reached need not make sense yet."""
    promoted = set(look.topics) <= look.ended.keys()
    if (over := _over(look)) is not None:
        yield "lift", over
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
            yield name, StepFinding("the fence on the source stays; `--undo` lifts it")
        elif promoted:
            yield name, StepFinding(BEFORE_THE_END)
        else:
            yield name, step(going, wishes)
    yield "promote", _promote(look)
    if wishes.first is FirstMover.PRODUCERS:
        yield "consumers", _consumers(look, wishes)
    if wishes.back or look.back:
        yield "way back", _back(look)


def _going(look: Look) -> Look:
    """Without the topics whose mirrors have ended: what is on the source of those, and how long
    their fences were to stand, is no matter to those that go on."""
    return replace(
        look,
        topics={name: mirror for name, mirror in look.topics.items() if name not in look.ended},
        places=tuple(place for place in look.places if place.at.topic not in look.ended),
        fences={name: each for name, each in look.fences.items() if name not in look.ended},
    )


def _check(look: Look, wishes: Wishes) -> StepFinding:
    bad = [each for each in look.checks if each.mark is CheckMark.BAD]
    lines = tuple(
        f"{each.name}: {each.text}" for each in look.checks if each.mark is not CheckMark.GOOD
    )
    if bad:
        return StepFinding(f"{count(len(bad), 'problem')} to solve first", Act.STOP, lines)
    # A person decides before the fence keeps producers from writing.
    if (found := undecided(_moving(look, wishes), wishes)) is not None:
        return found._replace(lines=(*found.lines, *lines))
    return StepFinding("; ".join(_in_short(look.checks)), lines=lines)


def _in_short(checks: Iterable[Check]) -> Iterator[str]:
    return (each.text for each in checks if each.mark is CheckMark.GOOD)


def _lag(look: Look, wishes: Wishes) -> StepFinding:
    if (found := _not_mirrored(look)) is not None:
        return found
    lag = sum(place.lag or 0 for place in look.places)
    most = f"{count(lag, 'record')} behind"
    if lag > wishes.lag and not look.fences:
        left = (lag - wishes.lag) / look.per_s if look.per_s and look.per_s > 0 else None
        return StepFinding(f"{most}, waiting for {wishes.lag:,}", Act.WAIT, left_s=left)
    return StepFinding(most)


def _not_mirrored(look: Look) -> StepFinding | None:
    broken = [place for place in look.places if place.state in _BROKEN]
    if broken:
        lines = shortened(f"{place.at} is {place.state}: {place.reason or '?'}" for place in broken)
        return StepFinding(f"{count(len(broken), 'partition')} not mirrored", Act.STOP, lines)
    if look.driver is None:
        return StepFinding("no driver mirrors the topics now: start `causeway run`", Act.PERSON)
    unknown = [place for place in look.places if place.lag is None]
    if unknown:
        lines = shortened(f"{place.at}: {place.reason or place.state}" for place in unknown)
        return StepFinding(f"{count(len(unknown), 'partition')} not begun yet", Act.WAIT, lines)
    return None


def _consumers(look: Look, wishes: Wishes) -> StepFinding:
    groups = _moving(look, wishes)
    if not groups:
        return StepFinding("no group reads these topics")
    busy = [group for group in groups if group.busy_here]
    if busy:
        lines = shortened(_busy(group) for group in busy)
        what = f"stop {count(len(busy), 'group')} on the source"
        return StepFinding(f"{what}; their places are taken along", Act.PERSON, lines)
    if (found := placing(groups, wishes)) is not None:
        return found
    there = sum(group.busy_there for group in groups)
    idle = len(groups) - there
    text = [f"{count(there, 'group')} at work on the target"] if there else []
    if idle:
        text.append(f"{count(idle, 'group')} may be started on the target")
    return StepFinding(", ".join(text), lines=further(groups))


def _busy(group: MovingGroup) -> str:
    behind = "" if group.behind is None else f", {count(group.behind, 'record')} behind"
    return f"{group.name} has members{behind}"


def _moving(look: Look, wishes: Wishes) -> list[MovingGroup]:
    return [group for group in look.groups if group.name not in wishes.left_groups]


def _fence(look: Look, wishes: Wishes) -> StepFinding:
    who = producer_lines(look.producers, look.at_ms)
    if not (wishes.fence or look.fences):
        if look.still_s < wishes.settle_s:
            return StepFinding(
                _going_on(look) or "no producer may write any more",
                Act.PERSON,
                who,
            )
        return StepFinding(f"nothing was written for {look.still_s:.0f} s")
    lacking = [topic for topic in look.topics if not _is_there(look, topic)]
    if lacking:
        text = f"deny WRITE on {count(len(lacking), 'topic')} for {time(wishes.fence_for_s)}"
        return StepFinding(text, Act.FENCE)
    left = min(look.left_ms(fence.record) for fence in look.fences.values()) / 1000
    lifted = f"lifted in {time(left)} by the driver's clock{_ahead(look)}"
    if not all(fence.everywhere for fence in look.fences.values()):
        return StepFinding("brokers take it up", Act.WAIT, left_s=None)
    if hidden := [place for place in look.places if _is_hidden(place)]:
        lines = shortened(
            f"{place.at} from offset {place.end} to {place.log_end}" for place in hidden
        )
        text = f"followers have yet to copy records of {count(len(hidden), 'partition')}"
        return StepFinding(f"{text}; the fence is {lifted}", Act.WAIT, lines)
    if look.still_s < wishes.settle_s:
        text = _going_on(look) if look.appended else "waiting for the last records"
        ends = f"the fence is {lifted}"
        return StepFinding(f"{text or 'a producer goes on'}; {ends}", Act.WAIT, who)
    if left < _MARGIN_S:
        return StepFinding("its time is nearly over, and then it is lifted", Act.WAIT)
    return StepFinding(f"no producer writes any more; {lifted}, unless promoted before")


def _ahead(look: Look) -> str:
    """The difference between the driver's clock and this machine's, if a person would notice it."""
    if abs(look.ahead_ms) < _CLOCKS_MS:
        return ""
    way = "ahead of" if look.ahead_ms > 0 else "behind"
    return f", which is {time(abs(look.ahead_ms) / 1000)} {way} this machine's"


def _is_hidden(place: MovingPartition) -> bool:
    """Whether its leader holds what no reader sees yet."""
    return place.log_end is not None and place.end is not None and place.log_end > place.end


def _is_there(look: Look, topic: str) -> bool:
    fence = look.fences.get(topic)
    return fence is not None and fence.there


def _over(look: Look) -> StepFinding | None:
    over = [topic for topic, fence in look.fences.items() if fence.over]
    if not over:
        return None
    return StepFinding(
        f"the time of the fence is over: it is lifted from {', '.join(over)}", Act.LIFT
    )


def _going_on(look: Look) -> str:
    return f"{count(len(look.producers), 'producer')} goes on" if look.producers else ""


def _drain(look: Look, _: Wishes) -> StepFinding:
    if (found := _not_mirrored(look)) is not None:
        return found
    open_ = [place for place in look.places if _held(place)]
    left = sum(place.left or 0 for place in look.places)
    if open_ and all(place.readable == place.position for place in open_):
        lines = shortened(f"{place.at} from offset {place.readable} on" for place in open_)
        many = count(len(open_), "partition")
        return StepFinding(f"open transactions hold records of {many} back", Act.WAIT, lines)
    if left:
        seconds = left / look.per_s if look.per_s and look.per_s > 0 else None
        return StepFinding(f"{count(left, 'record')} to be copied", Act.WAIT, left_s=seconds)
    return StepFinding(f"all of {count(len(look.places), 'partition')} is copied")


def _held(place: MovingPartition) -> bool:
    return place.readable is not None and place.end is not None and place.end > place.readable


def _groups(look: Look, wishes: Wishes) -> StepFinding:
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
    return StepFinding(text, lines=further(idle))


def _compare(look: Look, wishes: Wishes) -> StepFinding:
    if not wishes.verify:
        return StepFinding("left out as asked")
    if look.fences:
        return StepFinding("with the rest, below")
    if look.verified is None:
        return StepFinding("compare both sides record by record, as far as they are", Act.VERIFY)
    return _compared(look.verified)


def _compared(found: Verified) -> StepFinding:
    if found.bad:
        lines = ("`causeway verify` tells each record that differs",)
        return StepFinding(found.bad, Act.STOP, lines)
    text = f"{count(found.records, 'record')} the same on both sides"
    return StepFinding(text, lines=(found.unsure,) if found.unsure else ())


def _verify(look: Look, wishes: Wishes) -> StepFinding:
    if not wishes.verify:
        return StepFinding("left out as asked")
    found = look.verified
    if found is None or any(
        place.end is not None and found.ends.get(place.at, -1) < place.end for place in look.places
    ):
        return StepFinding("compare what has come since", Act.VERIFY)
    return _compared(found)


def _promote(look: Look) -> StepFinding:
    if not set(look.topics) <= look.ended.keys():
        what = count(len(look.topics), "topic")
        return StepFinding(f"end the mirror of {what}, and let producers write to it", Act.PROMOTE)
    if look.unfinished:
        what = count(len(look.unfinished), "topic")
        return StepFinding(f"go on with the end of {what}, which was cut short", Act.PROMOTE)
    late = [
        (place.at, each.end - each.start)
        for place in look.places
        if (each := look.behind_the_cut(place)) is not None
    ]
    if late:
        many = sum(more for _, more in late)
        lines = shortened(f"{at}: {count(more, 'offset')}" for at, more in late)
        text = f"{count(many, 'offset')} written to the source after the cut: no mirror copies them"
        return StepFinding(text, Act.STOP, (*lines, *producer_lines(look.late, look.at_ms)))
    first = min(look.ended.values(), key=lambda each: each.at)
    return StepFinding(f"{count(len(look.topics), 'topic')} {first.how} {first.by}")


def _back(look: Look) -> StepFinding:
    if set(look.topics) <= look.back:
        return StepFinding(f"{look.reverse} mirrors from the cut on, once a driver runs it")
    what = f"{look.reverse} begins at the cut; the fence is lifted for it"
    return StepFinding(what if look.fences else f"{look.reverse} begins at the cut", Act.BACK)


def _to_come(name: str, look: Look, wishes: Wishes) -> str:
    topics = count(len(look.topics), "topic")
    match name:
        case "lag":
            return f"wait until {_at_most(wishes.lag)} to be copied"
        case "consumers":
            names = ", ".join(group.name for group in _moving(look, wishes)) or "no group"
            return f"groups move to the target: {names}"
        case "fence" if wishes.fence:
            return f"deny WRITE on {topics}, lifted after {time(wishes.fence_for_s)}"
        case "fence":
            return "producers are stopped; wait until nothing is written"
        case "drain":
            return "wait until everything is copied"
        case "groups":
            return "idle groups get the exact offsets on the target"
        case "compare" | "verify" if not wishes.verify:
            return "left out as asked"
        case "way back":
            return f"{look.reverse} begins at the cut"
        case "compare":
            return "compare both sides record by record, as far as they are"
        case "verify":
            return "compare what has come since"
        case _:
            return f"the mirror of {topics} ends, producers start on the target"


def _at_most(lag: int) -> str:
    if not lag:
        return "nothing is"
    return f"at most {count(lag, 'record')} {'is' if lag == 1 else 'are'}"
