"""Back to before a cutover: its fences are lifted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from causeway.config.settings import LinkSettings, Settings
from causeway.control import fences
from causeway.control.directive_log import DirectiveLog
from causeway.control.directives import Scope
from causeway.errors import CausewayError
from causeway.operate.clusters import clusters
from causeway.operate.cutover.chosen import the_one
from causeway.operate.cutover.turn import Turn
from causeway.operate.directives import whoever


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """By topic of the source: the error of a fence that stays, else None. `ended`: of those, the
    ones whose mirror has ended."""

    link: LinkSettings
    topics: dict[str, CausewayError | None]
    ended: frozenset[str]
    changed: bool


def undo(
    settings: Settings,
    *,
    link: str | None = None,
    topics: Collection[str] = (),
    act: bool = False,
    who: str | None = None,
) -> Lifted:
    """Lifts the fences of `topics`, or all of the link, so that producers go on where they were;
    without `act` only tells which. That is all that has to be undone before a promotion; what is
    promoted stays so. Whoever is at the cutover meanwhile is told, and ends. Raises as `cutover`.
    """
    with clusters() as connect:
        chosen, names = the_one(settings, link, topics, connect)
        source, target = connect(chosen.source_admin), connect(chosen.target_admin)
        log = DirectiveLog(target, chosen.directives_topic)
        log.look()
        found = fences.fences(log.standing, names or None)
        errors: dict[str, CausewayError | None] = dict.fromkeys(found)
        if act and found:
            with Turn(target, chosen, who or whoever(), takes=True) as turn, turn.writing():
                errors = fences.lift(source, target, chosen, list(found.values()))
        ended = {topic for topic in found if log.standing.has_ended(Scope(topic))}
        return Lifted(
            link=chosen, topics=errors, ended=frozenset(ended), changed=act and bool(found)
        )
