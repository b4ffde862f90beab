"""Carries out a cutover: looks, decides, does one thing, looks again. Keeps no state."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from causeway.cluster import clusters
from causeway.config import Settings, reverse_of
from causeway.control import fences
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError
from causeway.link_topics import FenceDirective, LinkDirectives, Scope
from causeway.operate.cutover import checks as checking
from causeway.operate.cutover.lock import LOCK_S, CutoverLock, persist
from causeway.operate.cutover.observe import Observer
from causeway.operate.cutover.plan import BEFORE_THE_END, plan
from causeway.operate.cutover.report import memory, under_way, verified
from causeway.operate.cutover.values import (
    Act,
    Checklist,
    CutoverEnd,
    CutoverResult,
    CutoverStep,
    Look,
    StepState,
    Wishes,
)
from causeway.operate.cutover.watch import AGO_S
from causeway.operate.directives import choose_one, current_user
from causeway.operate.failover import FailbackStep, failback, promote, refuse_mingled
from causeway.operate.verify import Progress, verify

_POLL_S: Final = 0.25
_REST: Final = 0.5  # times the duration of a look: waiting must cost the brokers little
_PROMOTE_S: Final = 30.0
_PROMOTING_S: Final = 3 * _PROMOTE_S + LOCK_S  # for the lag, the driver and the groups
_WHY: Final = "cutover"
OnLook = Callable[[Checklist, Look], None]


def cutover(
    settings: Settings,
    wishes: Wishes,
    *,
    link: str | None = None,
    topics: Collection[str] = (),
    act: bool = False,
    who: str | None = None,
    wait_s: float = 600.0,
    on_look: OnLook = lambda _checklist, _look: None,
) -> CutoverResult:
    """Continues the cutover of `topics` (names on the source; all of the link if there are none)
    from the state that the clusters show. Without `act` only shows that state. `on_look` is called
    with each look.

    Waits up to `wait_s` for things that take time, or for a person. Raises ConfigError for unknown
    names, with similar names, and for wishes that are not possible; ConflictError if another
    command cuts over the link; CausewayError.
    """
    wishes.check()
    who = who or current_user()
    with ExitStack() as stack:
        connect = stack.enter_context(clusters())
        chosen, names = choose_one(settings, link, topics, connect)
        refuse_mingled(chosen)
        checking.refuse_unfit(names, chosen)
        source, target = connect(chosen.source_admin), connect(chosen.target_admin)
        planned = checking.chosen(chosen, source, target)
        mirrors = checking.mirrors_of(chosen, planned)
        if names:
            mirrors = {name: mirror for name, mirror in mirrors.items() if name in names}
        if lacking := sorted(set(names) - mirrors.keys()):
            raise ConfigError("cut over", f"topic {lacking[0]}", "it is not mirrored")
        if not mirrors:
            raise ConfigError("cut over", chosen.name, "it mirrors no topics")
        observer = Observer(settings, chosen, mirrors, connect, wishes.reset_groups)
        look = observer.look()
        reverse = reverse_of(settings, chosen)
        checked = checking.checks(
            chosen, source, target, planned, mirrors, wishes, look.fences, reverse
        )
        lock = CutoverLock(target, chosen, who)
        time.sleep(max(0.0, AGO_S - look.still_s))  # shows who writes
        look = observer.look(checked)
        if not act:
            shown = plan(look, wishes)
            on_look(shown, look)
            end = CutoverEnd.SHOWN
            return CutoverResult(link=chosen, wishes=wishes, end=end, checklist=shown, look=look)
        stack.enter_context(lock)
        compared = stack.enter_context(memory(chosen, mirrors))
        run = CutoverRun(settings, observer, lock, wishes, who, on_look, not names, compared)
        result = run.to_end(look, time.monotonic() + wait_s)
        if result.end is CutoverEnd.DONE:
            compared.unlink(missing_ok=True)
        return result


@dataclass
class CutoverRun:
    """One call that acts. `whole`: it is about the link and not about single topics. `compared`:
    the file of `memory`."""

    settings: Settings
    observer: Observer
    lock: CutoverLock
    wishes: Wishes
    who: str
    on_look: OnLook
    whole: bool
    compared: Path
    _seen: dict[str, CutoverStep] = field(default_factory=dict)
    _fenced: set[str] = field(default_factory=set)  # topics, by this call
    _held: set[str] = field(default_factory=set)  # topics whose fence was seen to hold everywhere
    _promoted_ms: int | None = None  # by this call
    _looked: float = 0.0
    _in_vain = False  # the last look changed nothing

    def to_end(self, look: Look, deadline: float) -> CutoverResult:
        self._looked = time.monotonic()
        while True:
            self.lock.check()
            checklist = self._with_what_was(plan(look, self.wishes))
            self.on_look(checklist, look)
            end = CutoverEnd.LIFTED if self._is_lifted(look) else self._step(checklist, look)
            if end is None and time.monotonic() > deadline and self._in_vain:
                end = CutoverEnd.TIMEOUT
            if end is not None:
                pause_ms = None
                if (
                    self._promoted_ms is not None
                ):  # without writers, from the fence on if there is one
                    fenced = [fence.record.at for fence in look.fences.values()]
                    since = min(fenced, default=look.at_ms - round(look.still_s * 1000))
                    pause_ms = max(0, self._promoted_ms - since)
                return CutoverResult(
                    link=self.observer.link,
                    wishes=self.wishes,
                    end=end,
                    checklist=checklist,
                    look=look,
                    pause_ms=pause_ms,
                    through=self.observer.through_the_fence(),
                )
            self._looked = time.monotonic()
            look = self.observer.look(look.checks)

    def _with_what_was(self, checklist: Checklist) -> Checklist:
        """Adds the earlier texts of steps whose state the clusters no longer show."""
        for step in checklist.steps:
            if step.state is StepState.DONE and step.text != BEFORE_THE_END:
                self._seen.setdefault(step.name, step)
        steps = (
            self._seen.get(step.name, step) if step.text == BEFORE_THE_END else step
            for step in checklist.steps
        )
        return replace(checklist, steps=tuple(steps))

    def _step(self, checklist: Checklist, look: Look) -> CutoverEnd | None:
        """Returns how the call ends; None if it goes on."""
        self._in_vain = False
        match checklist.act:
            case Act.FINISHED:
                return CutoverEnd.DONE
            case Act.STOP:
                return CutoverEnd.BLOCKED
            case Act.WAIT | Act.PERSON:
                self._rest()
            case Act.LIFT:
                with self.lock.writing():
                    self._lift(fence.record for fence in look.fences.values() if fence.over)
            case Act.FENCE:
                self._fence(look)
            case Act.GROUPS:
                self._commit()
            case Act.PROMOTE:
                self._promote(look)
            case Act.BACK:
                self._begin_back(look)
            case Act.VERIFY:
                self._verify(checklist, look)
        return None

    def _rest(self) -> None:
        self._in_vain = True
        time.sleep(max(_POLL_S, _REST * (time.monotonic() - self._looked)))

    def _is_lifted(self, look: Look) -> bool:
        """Returns whether a fence of this call is gone, or its rule on the source. Then this call
        does not set it again."""
        self._held |= {topic for topic, fence in look.fences.items() if fence.everywhere}
        away = {topic for topic in self._held if topic in look.fences and look.fences[topic].gone}
        return bool(self._fenced - (look.fences.keys() - away) - look.ended.keys())

    def _fence(self, look: Look) -> None:
        """Sets a fence for each topic without one."""
        observer, wishes = self.observer, self.wishes
        lacking = [t for t in look.topics if t not in look.ended and not look.is_fenced(t)]
        # If all of these were fenced, brokers apply the rule late, or a person removed it by hand.
        # Setting it again would postpone its end each time. The driver's clock is known within a
        # third of the lease.
        if self._fenced.issuperset(lacking) or not observer.knows_clock:
            self._rest()
            return
        planned = checking.plan_fence(observer.source, lacking)
        for error in planned.problems.values():
            raise error
        now_ms = int(time.time() * 1000)
        until_ms = observer.driver_ms() + round(wishes.fence_for_s * 1000)
        found = [
            FenceDirective(
                scope=Scope(topic),
                who=self.who,
                at=now_ms,
                until=until_ms,
                acls=planned.acls[topic],
            )
            for topic in lacking
        ]
        with self.lock.writing():
            persist(
                lambda: fences.set_up(
                    observer.source, observer.target, observer.link, found, observer.sharers
                )
            )
        self._fenced.update(lacking)

    def _promote(self, look: Look) -> None:
        """Promotes each of the topics, or the link. The next look sees changes that happen
        meanwhile."""
        observer = self.observer
        left = look.topics.keys() - look.ended.keys() | look.unfinished
        if self.whole:
            # The end of a link ends all of its topics, and no fence kept the others from growing.
            planned = checking.chosen(observer.link, observer.source, observer.target)
            mirrors = checking.mirrors_of(observer.link, planned)
            if new := sorted(mirrors.keys() - look.topics.keys()):
                cause = f"topics were created since this call began, such as {new[0]}"
                remedy = "call it again: it includes them"
                raise PartitionsFailedError("cut over", observer.link.name, cause, remedy=remedy)
        scopes: list[str | None] = [None] if self.whole else [*sorted(left)]
        fenced = look.fences.keys() - look.ended.keys()
        try:
            for topic in scopes:
                with self.lock.writing(_PROMOTING_S):
                    self._promote_one(topic, fenced if topic is None else fenced & {topic})
        except PartitionsFailedError as error:
            if not error.retriable:
                raise
            self._rest()
        else:
            self._promoted_ms = int(time.time() * 1000)
        observer.groups_changed()

    def _promote_one(self, topic: str | None, fenced: Collection[str]) -> None:
        """Promotes if the lock is ours and these topics are `fenced`, by the directives at the time
        when the end is written."""

        def guard(directives: LinkDirectives) -> None:
            self.lock.refuse_others(directives)
            fences.refuse_lifted(directives, fenced, self.observer.driver_ms())

        promote(
            self.settings,
            link=self.observer.link.name,
            topic=topic,
            reason=_WHY,
            who=self.who,
            wait_s=_PROMOTE_S,
            guard=guard,
        )

    def _begin_back(self, look: Look) -> None:
        """Has the reverse link begin at the cut. It writes to the source, so the fence there
        ends."""
        observer = self.observer
        scopes: list[str | None] = [None] if self.whole else [*(look.topics.keys() - look.back)]
        with self.lock.writing(_PROMOTE_S * len(scopes) + LOCK_S):
            for topic in scopes:
                found = failback(
                    self.settings,
                    link=observer.link.name,
                    topic=topic,
                    reason=_WHY,
                    who=self.who,
                    wait_s=0,
                )
                if found.step is not FailbackStep.BACK:
                    raise PartitionsFailedError(
                        "begin the reverse link of",
                        f"{topic or 'all topics'} of {observer.link.name}",
                        str(found.step),
                        remedy="`causeway failback` shows more",
                    )
            self._lift(fence.record for fence in look.fences.values())

    def _verify(self, checklist: Checklist, look: Look) -> None:
        """Compares records that are mirrored by now and were not compared before. Stops when the
        fence ends."""
        going = [fence for topic, fence in look.fences.items() if topic not in look.ended]
        until = min((fence.record.until for fence in going), default=None)

        def tell(progress: Progress) -> None:
            self.lock.check()
            if until is not None and self.observer.driver_ms() > until:
                raise _OverError
            self.on_look(under_way(checklist, progress), look)

        try:
            report = verify(
                self.settings,
                link=self.observer.link.name,
                topics=[topic for topic in look.topics if topic not in look.ended],
                state=self.compared,
                on_progress=tell,
            )
        except _OverError:
            return
        ends = {place.at: place.position for place in look.places if place.position is not None}
        self.observer.verified = verified(report, ends)

    def _lift(self, found: Iterable[FenceDirective]) -> None:
        observer, records = self.observer, list(found)
        errors = persist(
            lambda: fences.lift(
                observer.source, observer.target, observer.link, records, observer.sharers
            )
        )
        for error in errors.values():
            if error is not None:
                raise error

    def _commit(self) -> None:
        observer = self.observer
        self.lock.check()
        for group, answer in observer.target.commit_offsets(observer.groups.commits).items():
            errors = [answer] if isinstance(answer, CausewayError) else answer.values()
            for error in errors:
                error.add_note(f"group {group}")
                raise error
        observer.groups_changed()


class _OverError(Exception):
    """The fence's time is over."""
