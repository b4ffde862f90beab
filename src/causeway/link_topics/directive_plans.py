"""Plans the changes to a link's directives after which a wish holds. To end a mirror takes several:

plan_end            the mirror ends: no record is mirrored from now on
renew_promotion     the command of a promotion is still running
release_promotions  mirrors whose promoting commands have died go on
finish_end          the mirror has ended, each topic at its cut; `done` when nothing is left to do
withdraw_promotion  the mirror goes on: the promotion was not clean
plan_failback       the mirror goes on, with all parts that had ended
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from causeway.errors import ConfigError, ConflictError, RefusedError
from causeway.link_topics.directives import (
    Cut,
    Directive,
    DirectiveChange,
    DirectiveKind,
    DirectivePlan,
    EndDirective,
    LinkDirectives,
    PauseDirective,
    RestartDirective,
    Scope,
    ThrottleDirective,
)
from causeway.model import ENDED, State

PROMOTION_HOLD_S: Final = 30.0  # a promotion that is not renewed within this time is released


def plan_directive(current: LinkDirectives, wish: Directive) -> DirectivePlan:
    """Returns the changes after which `wish` holds. A pause pauses all parts of its scope. A resume
    (`paused` false) does not resume parts that have their own pause. Raises RefusedError for a
    pause, a resume or a restart of a mirror that has ended."""
    if isinstance(wish, PauseDirective | RestartDirective) and (end := current.end_of(wish.scope)):
        raise _has_ended(wish, end)
    if isinstance(wish, PauseDirective):
        return _plan_pause(current, wish)
    before = current.by_key.get(wish.key)
    if isinstance(before, ThrottleDirective) and isinstance(wish, ThrottleDirective):
        same = before.bytes_per_s == wish.bytes_per_s
        return DirectivePlan(changes=() if same else ((wish.key, wish),), before=before)
    return DirectivePlan(changes=((wish.key, wish),), before=before)


def plan_removal(current: LinkDirectives, kind: DirectiveKind, scope: Scope) -> DirectivePlan:
    """Returns the changes that take a throttle back: the settings count again."""
    before = current.by_key.get((kind, scope))
    changes = () if before is None else (((kind, scope), None),)
    return DirectivePlan(changes=changes, before=before)


def _has_ended(wish: Directive, end: EndDirective) -> RefusedError:
    ended = end.how in ENDED
    resumes = isinstance(wish, PauseDirective) and not wish.paused
    return RefusedError(
        "resume" if resumes else str(wish.kind),
        str(wish.scope),
        f"its mirror was {end.how} {end.by}" if ended else f"{end.how} {end.by}",
        remedy="`causeway failback` takes it up again" if ended else "`causeway promote` goes on",
    )


def _plan_pause(current: LinkDirectives, wish: PauseDirective) -> DirectivePlan:
    scope, now = wish.scope, current.pause_of(wish.scope)
    parts = [
        each
        for each in current.all(PauseDirective)
        if each.scope != scope and scope.covers(each.scope)
    ]
    moot: tuple[DirectiveChange, ...] = tuple((e.key, None) for e in parts if not e.paused)
    if wish.paused:
        # If a pause of a wider scope is taken back first, this pause still holds.
        same = now is not None and now.scope == scope
        return DirectivePlan(changes=moot if same else (*moot, (wish.key, wish)), before=now)
    paused = tuple(each for each in parts if each.paused)
    if now is None:
        return DirectivePlan(parts=paused)
    above = None if scope.wider is None else current.pause_of(scope.wider)
    change: DirectiveChange = (wish.key, None if above is None else wish)
    return DirectivePlan(changes=(*moot, change), before=now, parts=paused)


def plan_end(current: LinkDirectives, wish: EndDirective) -> DirectivePlan:
    """Returns the changes that write the end `wish`. There are none if the scope has already ended,
    in any way. A command continues a promotion whose command was killed: from then on only the new
    command can finish it. Raises ConfigError if the scope is part of a scope that has ended."""
    before = current.end_of(wish.scope)
    if before is not None and before.scope != wish.scope:
        raise ConfigError(
            "end", str(wish.scope), f"the mirror of {before.scope} was {before.how} {before.by}"
        )
    if before is not None and before.how is wish.how is State.PROMOTING:
        wish = before.replace(until=wish.until, run=wish.run)
    same = before is not None and (before.how in ENDED or before == wish)
    return DirectivePlan(changes=() if same else ((wish.key, wish),), before=before)


def renew_promotion(current: LinkDirectives, scope: Scope, run: str, until: int) -> DirectivePlan:
    """Returns the changes after which the promotion of the command `run` holds its mirror until
    `until`. There are none if that promotion was taken back."""
    before = current.get(EndDirective, scope)
    if before is None or before.how is not State.PROMOTING or before.run != run:
        return DirectivePlan(before=before)
    after = before.replace(until=until)
    return DirectivePlan(changes=((after.key, after),), before=before)


def promotions_under_way(current: LinkDirectives) -> tuple[EndDirective, ...]:
    """Returns the promotions under way that their commands renew. Commands of earlier versions
    renew nothing: a person has to start them again."""
    return tuple(
        each
        for each in current.all(EndDirective)
        if each.how is State.PROMOTING and each.until >= 0
    )


def release_promotions(current: LinkDirectives, left: Collection[EndDirective]) -> DirectivePlan:
    """Returns the changes after which the mirrors of the promotions in `left` go on, except
    promotions that a command has renewed since."""
    changes = tuple((e.key, None) for e in left if current.by_key.get(e.key) == e)
    return DirectivePlan(changes=changes)


def finish_end(
    current: LinkDirectives,
    scope: Scope,
    how: State,
    cuts: Mapping[str, Cut],
    *,
    done: bool,
    groups: Collection[str] = (),
    run: str = "",
) -> DirectivePlan:
    """Returns the changes after which the mirror of `plan_end` has ended `how`, with these cuts by
    topic. A topic that already has a cut keeps it. `groups`: the groups that could not be
    committed. `run`: the command that has promoted the mirror. Raises ConflictError if the end was
    taken back, if another command has taken over the promotion, or if the scope has ended in
    another way."""
    before = current.get(EndDirective, scope)
    if before is None:
        cause = "a person, or the leading driver, has taken it back meanwhile"
        raise ConflictError("end", str(scope), cause, remedy="call it again")
    if before.how is State.PROMOTING and how is State.PROMOTED and before.run != run:
        cause = f"another command goes on with the promotion {before.by}"
        raise ConflictError("end", str(scope), cause, remedy="look at `causeway status`")
    if before.how in ENDED and before.how is not how:
        raise ConflictError("end", str(scope), f"it was {before.how} meanwhile {before.by}")
    ended = before.replace(how=how, until=-1, run="")
    changes: list[DirectiveChange] = []
    for topic, cut in cuts.items():
        at = Scope(topic)
        known = current.get(EndDirective, at)
        if known is None or known.cut is None:
            # If the link ends, the link's directive shows whether something is left to do.
            topic_end = ended.replace(scope=at, cut=cut, done=done or scope != at)
            changes.append((topic_end.key, topic_end))
    own_cut = before.cut or cuts.get(scope.topic or "")
    after = ended.replace(done=done, groups=tuple(sorted(groups)), cut=own_cut)
    if after != before:
        changes = [each for each in changes if each[0] != after.key]
        changes.append((after.key, after))
    return DirectivePlan(changes=tuple(changes), before=before)


def withdraw_promotion(
    current: LinkDirectives, scope: Scope, run: str | None = None
) -> DirectivePlan:
    """Returns the changes that take back the promotion of the scope; with `run`, only if it is the
    promotion of that command. Mirrors that have ended stay ended, also parts that had ended
    before."""
    before = current.get(EndDirective, scope)
    if before is None or before.how in ENDED or run not in (None, before.run):
        return DirectivePlan(before=before)
    return DirectivePlan(changes=((before.key, None),), before=before)


def plan_failback(current: LinkDirectives, scope: Scope) -> DirectivePlan:
    """Returns the changes after which the scope and all its parts are mirrored again."""
    ends = [each.key for each in current.all(EndDirective) if scope.covers(each.scope)]
    before = current.get(EndDirective, scope)
    return DirectivePlan(changes=tuple((key, None) for key in ends), before=before)


def cuts_of(current: LinkDirectives, scope: Scope) -> dict[str, Cut]:
    """Returns the cuts of the topics of `scope`, by topic."""
    return {
        each.scope.topic: each.cut
        for each in current.all(EndDirective)
        if each.cut is not None and each.scope.topic is not None and scope.covers(each.scope)
    }
