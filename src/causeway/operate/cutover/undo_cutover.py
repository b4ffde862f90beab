"""Back to before a cutover: its fences are lifted, and what is held for its end goes on."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from causeway.cluster import clusters
from causeway.config import LinkSettings, Settings
from causeway.control import fences
from causeway.errors import CausewayError
from causeway.link_topics import (
    CutoverDirective,
    DirectiveLog,
    DirectivePlan,
    EndDirective,
    FenceDirective,
    LinkDirectives,
    Scope,
    write_directives,
)
from causeway.model import State
from causeway.operate.cutover.lock import CutoverLock, persist
from causeway.operate.directives import choose_one, current_user, sharers_of
from causeway.status import picked


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """By topic of the source: the error of a fence that stays, else None. `ended`: of those, the
    ones whose mirror has ended. `held`: what was held for a promotion that did not come to its end,
    a topic or the link, and is mirrored again; `stopped`: who was at a cutover of the link
    meanwhile, and ends."""

    link: LinkSettings
    topics: dict[str, CausewayError | None]
    ended: frozenset[str]
    held: tuple[str, ...]
    stopped: str | None
    changed: bool


def undo(
    settings: Settings,
    *,
    link: str | None = None,
    topics: Collection[str] = (),
    act: bool = False,
    who: str | None = None,
) -> Lifted:
    """Lifts the fences of `topics`, or all of the link, so that producers continue on the source.

    Without `act` it only shows which. Mirrors that an interrupted promotion holds continue;
    promoted ones stay promoted. A cutover of the link that runs meanwhile gets an error, and ends.
    Raises as `cutover`.
    """
    with clusters() as connect:
        chosen, names = choose_one(settings, link, topics, connect)
        source, target = connect(chosen.source_admin), connect(chosen.target_admin)
        log = DirectiveLog(target, chosen.directives_topic)
        found, held = _look(log, names)
        at_it = under_way(log.directives, int(time.time() * 1000))
        errors: dict[str, CausewayError | None] = dict.fromkeys(found)
        changes = act and bool(found or held or at_it)
        if changes:
            with (
                CutoverLock(target, chosen, who or current_user(), takes=True) as lock,
                lock.writing(),
            ):
                # The other command may have changed directives until now.
                found, held = _look(log, names)
                if held:
                    go_on = partial(_go_on, names)
                    persist(lambda: write_directives(target, chosen, go_on))
                sharers = sharers_of(settings, chosen, connect)
                lift = partial(fences.lift, source, target, chosen, list(found.values()), sharers)
                errors = persist(lift)
        return Lifted(
            link=chosen,
            topics=errors,
            ended=frozenset(topic for topic in found if log.directives.has_ended(Scope(topic))),
            held=tuple(str(each.scope) for each in held),
            stopped=at_it.by if at_it is not None else None,
            changed=changes,
        )


def _look(
    log: DirectiveLog, names: Collection[str]
) -> tuple[dict[str, FenceDirective], list[EndDirective]]:
    """The fences of the topics `names`, or of all the link without, and what is held there."""
    log.look()
    return fences.fences(log.directives, names or None), _held(log.directives, names)


def under_way(standing: LinkDirectives, now_ms: int) -> CutoverDirective | None:
    """The lock of a command that cuts the link over at this time."""
    found = standing.get(CutoverDirective)
    return found if found is not None and found.until > now_ms else None


def _held(standing: LinkDirectives, names: Collection[str]) -> list[EndDirective]:
    """Ends that are only about to be: of the topics `names`, or of all the link without."""
    return [
        each
        for each in standing.all(EndDirective)
        if each.how is State.PROMOTING and (not names or each.scope.topic in names)
    ]


def _go_on(names: Collection[str], standing: LinkDirectives) -> DirectivePlan:
    return DirectivePlan(changes=tuple((each.key, None) for each in _held(standing, names)))


def undo_json(lifted: Lifted) -> dict[str, Any]:
    return picked(
        lifted,
        "changed held stopped",
        link=lifted.link.name,
        fences=[
            {"topic": topic, "ended": topic in lifted.ended, "error": error and str(error)}
            for topic, error in sorted(lifted.topics.items())
        ],
    )
