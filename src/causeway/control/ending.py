"""What is written of a mirror's end, step by step. Pure; how it gets there: directive_log.py.

begin    the end stands: nothing is mirrored any more, from now on
finish   it has ended so: of each topic where (its cut); `done` once nothing is left to do
let_go   it goes on: a promotion that was not clean
back     it goes on, with all that has ended of it: a failback
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from causeway.control.cuts import Cut
from causeway.control.directives import Change, Directive, Kind, Plan, Scope, Standing
from causeway.errors import ConfigError, ConflictError
from causeway.model import ENDED, State


def begin(standing: Standing, wish: Directive) -> Plan:
    """To have `wish`, an end, stand. Nothing is changed where it has ended already, however that
    was. Raises ConfigError where what it is part of has."""
    before = standing.end_of(wish.scope)
    if before is not None and before.scope != wish.scope:
        raise ConfigError(
            "end", str(wish.scope), f"the mirror of {before.scope} was {before.how} {before.by}"
        )
    same = before is not None and (before.how in ENDED or before.how is wish.how)
    return Plan(changes=() if same else ((wish.key, wish),), before=before)


def finish(
    standing: Standing,
    scope: Scope,
    how: State,
    cuts: Mapping[str, Cut],
    *,
    done: bool,
    groups: Collection[str] = (),
) -> Plan:
    """What `begin` has begun has ended `how`, with these cuts by topic; of a topic that has one
    already, that counts. `groups`: those that could not be committed. Raises ConflictError where it
    stands no more, or has ended otherwise."""
    before = standing.by_key.get((Kind.END, scope))
    if before is None:
        raise ConflictError("end", str(scope), "somebody has taken it back meanwhile")
    if before.how in ENDED and before.how is not how:
        raise ConflictError("end", str(scope), f"it was {before.how} meanwhile {before.by}")
    changes: list[Change] = []
    for topic, cut in cuts.items():
        at = Scope(topic)
        known = standing.by_key.get((Kind.END, at))
        if known is None or known.cut is None:
            # What is left to do is the link's, where the link ends.
            mine = replace(before, scope=at, how=how, cut=cut, done=done or scope != at)
            changes.append((mine.key, mine))
    own = before.cut or cuts.get(scope.topic or "")
    after = replace(before, how=how, done=done, groups=tuple(sorted(groups)), cut=own)
    if after != before:
        changes = [each for each in changes if each[0] != after.key]
        changes.append((after.key, after))
    return Plan(changes=tuple(changes), before=before)


def let_go(standing: Standing, scope: Scope) -> Plan:
    """A promotion of it is off. What has ended meanwhile stays so, and so do parts that had ended
    before."""
    before = standing.by_key.get((Kind.END, scope))
    held = before is not None and before.how not in ENDED
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
