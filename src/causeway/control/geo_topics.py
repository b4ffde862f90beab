"""Topics that people have a link mirror while it runs, besides those of its file. Pure but for
`learn`.

    mirror  a topic is chosen; taken back, it is mirrored no more, and its mirror stays
    origin  the source's name stands for the cluster with this id; for another, nothing is chosen

They stand among the link's directives: whoever leads it finds them where he finds its pauses. A
link acts on them where its settings say so (`geo`): who may write to the target alone must not
decide what leaves the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.errors import CausewayError
from causeway.link_topics import (
    Directive,
    DirectiveChange,
    DirectiveKind,
    DirectiveLog,
    DirectivePlan,
    LinkDirectives,
    OriginDirective,
)

KINDS = frozenset({DirectiveKind.MIRROR, DirectiveKind.ORIGIN})
_WITH_IT = frozenset({DirectiveKind.MIRROR, DirectiveKind.PAUSE, DirectiveKind.THROTTLE})
_SHOWN = 3
_WHY_NOT = "topics were chosen"  # how each reason begins that a driver gives for not doing so


def chosen(standing: LinkDirectives) -> dict[str, Directive]:
    """Who chose each topic, by its name on the source."""
    return {
        each.scope.topic: each
        for each in standing.by_key.values()
        if each.kind is DirectiveKind.MIRROR and each.scope.topic is not None
    }


def begun(standing: LinkDirectives) -> frozenset[str]:
    """The topics that a way back was told to begin with."""
    return frozenset(
        scope.topic
        for kind, scope in standing.by_key
        if kind is DirectiveKind.BEGIN and scope.topic is not None
    )


def origin(standing: LinkDirectives) -> OriginDirective | None:
    """Whose cluster the source's name stands for, once somebody has said so."""
    return standing.get(OriginDirective)


def asked(directives: Iterable[Directive]) -> tuple[Directive, ...]:
    """Without what is chosen: pauses, limits and the like."""
    return tuple(each for each in directives if each.kind not in KINDS)


def why_not(standing: LinkDirectives, link: LinkSettings, cluster: str | None) -> str | None:
    """Why `link` does not act on what is chosen; None where it does, or nothing is. `cluster`: the
    id of its source."""
    names = sorted(chosen(standing))
    if not names:
        return None
    if not link.geo:
        more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return (
            f"{_WHY_NOT} with `causeway geo` ({', '.join(names[:_SHOWN])}{more}), and the "
            f"driver's file lets nobody choose: set {link.name}.causeway.geo = true"
        )
    own = origin(standing)
    if own is not None and own.cluster != cluster:
        return (
            f"{_WHY_NOT} for the cluster {own.cluster} {own.by}, and {link.source.alias} "
            f"is the cluster {cluster}: give one of them another name"
        )
    return None


def not_known(error: CausewayError) -> str:
    """Why a link does not act on what is chosen while it cannot ask its source who it is."""
    return f"{_WHY_NOT}, and it is not known for which cluster: {error}"


def is_why_not(reason: str | None) -> bool:
    """Whether what a driver says of its directives is one of these."""
    return reason is not None and reason.startswith(_WHY_NOT)


def plan_mirror(standing: LinkDirectives, wishes: Iterable[Directive]) -> DirectivePlan:
    """To have topics mirrored, each by a wish of kind MIRROR or ORIGIN. What stands already stays
    as it is: who came first, and when."""
    return DirectivePlan(
        changes=tuple((wish.key, wish) for wish in wishes if wish.key not in standing.by_key)
    )


def plan_leave(standing: LinkDirectives, topics: Collection[str]) -> DirectivePlan:
    """To have `topics` mirrored no more. Their pauses and limits go with them: they are not to
    surprise who chooses the topic again."""
    leaving = chosen(standing).keys() & set(topics)
    changes: list[DirectiveChange] = [
        (key, None) for key in standing.by_key if key[0] in _WITH_IT and key[1].topic in leaving
    ]
    return DirectivePlan(changes=tuple(changes))


def plan_forget(standing: LinkDirectives) -> DirectivePlan:
    """To have nothing chosen any more, and the source's name free for another cluster."""
    leave = plan_leave(standing, chosen(standing)).changes
    named = origin(standing)
    return DirectivePlan(changes=(*leave, *(() if named is None else ((named.key, None),))))


def names(standing: LinkDirectives, link: LinkSettings) -> frozenset[str]:
    """The topics that `link` mirrors as people want it so."""
    if link.geo:
        return frozenset(chosen(standing))
    return begun(standing) if link.way_back else frozenset()


def learn(target: Cluster, link: LinkSettings) -> LinkDirectives:
    """What stands among the directives of `link`. Its `chosen` stay as they are: a driver that
    shares them sees by them what it has yet to do. Raises CausewayError."""
    log = DirectiveLog(target, link.directives_topic)
    log.look()
    return log.directives
