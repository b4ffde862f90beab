"""What is written of a mirror's end, step by step. Pure; how it gets there: directive_log.py.

begin    the end stands: nothing is mirrored any more, from now on
renew    the command of a promotion is still at work
release  the mirrors of promotions whose commands have died go on
finish   it has ended so: of each topic where (its cut); `done` once nothing is left to do
let_go   it goes on: a promotion that was not clean
back     it goes on, with all that has ended of it: a failback
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from causeway.errors import ConfigError, ConflictError
from causeway.link_topics.cuts import Cut
from causeway.link_topics.directives import Change, Directive, Kind, Plan, Scope, Standing
from causeway.model import ENDED, State

HOLD_S: Final = 30.0  # after so long without a renewal a promotion is released


def begin(standing: Standing, wish: Directive) -> Plan:
    """Writes the end `wish`. Changes nothing if the scope has ended already, in any way. A command
    goes on with a promotion that was killed: from then on only the new command can finish it.
    Raises ConfigError if the scope is part of one that has ended."""
    before = standing.end_of(wish.scope)
    if before is not None and before.scope != wish.scope:
        raise ConfigError(
            "end", str(wish.scope), f"the mirror of {before.scope} was {before.how} {before.by}"
        )
    if before is not None and before.how is wish.how is State.PROMOTING:
        wish = replace(before, until=wish.until, run=wish.run)
    same = before is not None and (before.how in ENDED or before == wish)
    return Plan(changes=() if same else ((wish.key, wish),), before=before)


def renew(standing: Standing, scope: Scope, run: str, until: int) -> Plan:
    """The promotion of the command `run` holds its mirror until `until`. Changes nothing if that
    promotion was taken back."""
    before = standing.by_key.get((Kind.END, scope))
    if before is None or not _is_of(before, run):
        return Plan(before=before)
    after = replace(before, until=until)
    return Plan(changes=((after.key, after),), before=before)


def promotions(standing: Standing) -> tuple[Directive, ...]:
    """The promotions that are under way and whose commands renew them. Commands of earlier versions
    renew nothing: a person has to call these again."""
    return tuple(
        each
        for each in standing.by_key.values()
        if each.kind is Kind.END and each.how is State.PROMOTING and each.until >= 0
    )


def release(standing: Standing, left: Collection[Directive]) -> Plan:
    """The mirrors of the promotions in `left` go on, unless somebody has renewed them since."""
    return Plan(changes=tuple((e.key, None) for e in left if standing.by_key.get(e.key) == e))


def _is_of(end: Directive, run: str) -> bool:
    return end.how is State.PROMOTING and end.run == run


def finish(
    standing: Standing,
    scope: Scope,
    how: State,
    cuts: Mapping[str, Cut],
    *,
    done: bool,
    groups: Collection[str] = (),
    run: str = "",
) -> Plan:
    """What `begin` has begun has ended `how`, with these cuts by topic; of a topic that has one
    already, that counts. `groups`: those that could not be committed; `run`: the command that has
    promoted it. Raises ConflictError if the end was taken back, if another command has taken the
    promotion over, or if the scope has ended otherwise."""
    before = standing.by_key.get((Kind.END, scope))
    if before is None:
        cause = "a person, or the leading driver, has taken it back meanwhile"
        raise ConflictError("end", str(scope), cause, remedy="call it again")
    if before.how is State.PROMOTING and how is State.PROMOTED and before.run != run:
        cause = f"another command goes on with the promotion {before.by}"
        raise ConflictError("end", str(scope), cause, remedy="look at `causeway status`")
    if before.how in ENDED and before.how is not how:
        raise ConflictError("end", str(scope), f"it was {before.how} meanwhile {before.by}")
    changes: list[Change] = []
    for topic, cut in cuts.items():
        at = Scope(topic)
        known = standing.by_key.get((Kind.END, at))
        if known is None or known.cut is None:
            # What is left to do is the link's, where the link ends.
            mine = replace(
                before, scope=at, how=how, cut=cut, done=done or scope != at, until=-1, run=""
            )
            changes.append((mine.key, mine))
    own = before.cut or cuts.get(scope.topic or "")
    after = replace(
        before, how=how, done=done, groups=tuple(sorted(groups)), cut=own, until=-1, run=""
    )
    if after != before:
        changes = [each for each in changes if each[0] != after.key]
        changes.append((after.key, after))
    return Plan(changes=tuple(changes), before=before)


def let_go(standing: Standing, scope: Scope, run: str | None = None) -> Plan:
    """Takes back the promotion of the scope, or only that of the command `run`. Mirrors that have
    ended stay ended, and so do parts that had ended before."""
    before = standing.by_key.get((Kind.END, scope))
    held = before is not None and before.how not in ENDED and run in (None, before.run)
    return Plan(changes=(((Kind.END, scope), None),) if held else (), before=before)


def back(standing: Standing, scope: Scope) -> Plan:
    """It is mirrored again, and all of its parts."""
    ends = [
        each.key
        for each in standing.by_key.values()
        if each.kind is Kind.END and scope.covers(each.scope)
    ]
    before = standing.by_key.get((Kind.END, scope))
    return Plan(changes=tuple((key, None) for key in ends), before=before)


def cuts_of(standing: Standing, scope: Scope) -> dict[str, Directive]:
    """The ends with cuts of the topics of `scope`, by topic."""
    return {
        each.scope.topic: each
        for each in standing.by_key.values()
        if each.kind is Kind.END
        and each.cut is not None
        and each.scope.topic is not None
        and scope.covers(each.scope)
    }
