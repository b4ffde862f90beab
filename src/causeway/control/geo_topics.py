"""Chosen topics: topics that a link mirrors by request while it runs, besides those of its file.

    mirror  a topic is chosen; after `remove` it is no longer mirrored, and its mirror stays
    origin  the source's name means the cluster with this id; nothing is chosen for another cluster

They are directives of the link, like its pauses. A link acts on them only if its settings allow it
(`geo`): a user with access to the target alone must not decide which records leave the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from causeway.cluster import Cluster, clusters
from causeway.config import LinkSettings, Settings
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
_WHY_NOT = "topics were chosen"  # the start of each reason why a driver does not mirror them


def chosen(directives: LinkDirectives) -> dict[str, Directive]:
    """Returns the directive that chose each topic, by its name on the source."""
    return {
        each.scope.topic: each
        for each in directives.by_key.values()
        if each.kind is DirectiveKind.MIRROR and each.scope.topic is not None
    }


def begun(directives: LinkDirectives) -> frozenset[str]:
    """Returns the topics with which a reverse link begins."""
    return frozenset(
        scope.topic
        for kind, scope in directives.by_key
        if kind is DirectiveKind.BEGIN and scope.topic is not None
    )


def origin(directives: LinkDirectives) -> OriginDirective | None:
    """Returns the directive that says which cluster the source's name means, if there is one."""
    return directives.get(OriginDirective)


def without_chosen(directives: Iterable[Directive]) -> tuple[Directive, ...]:
    """Returns the directives except those about chosen topics: pauses, limits and similar."""
    return tuple(each for each in directives if each.kind not in KINDS)


def why_not(directives: LinkDirectives, link: LinkSettings, cluster: str | None) -> str | None:
    """Returns why `link` does not mirror the chosen topics. None if it does, or if there are none.
    `cluster`: the id of its source."""
    names = sorted(chosen(directives))
    if not names:
        return None
    if not link.geo:
        more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return (
            f"{_WHY_NOT} with `causeway geo` ({', '.join(names[:_SHOWN])}{more}), and the "
            f"driver's file does not allow chosen topics: set {link.name}.causeway.geo = true"
        )
    own = origin(directives)
    if own is not None and own.cluster != cluster:
        return (
            f"{_WHY_NOT} for the cluster {own.cluster} {own.by}, and {link.source.alias} "
            f"is the cluster {cluster}: give one of them another name"
        )
    return None


def not_known(error: CausewayError) -> str:
    """Returns why a link does not mirror the chosen topics while its source's id is not known."""
    return f"{_WHY_NOT}, and it is not known for which cluster: {error}"


def is_why_not(reason: str | None) -> bool:
    """Returns whether a driver's note on its directives is one of these reasons."""
    return reason is not None and reason.startswith(_WHY_NOT)


def plan_mirror(directives: LinkDirectives, wishes: Iterable[Directive]) -> DirectivePlan:
    """Returns the plan that chooses topics, each by a directive of kind MIRROR or ORIGIN. An
    existing directive stays, with its author and time."""
    return DirectivePlan(
        changes=tuple((wish.key, wish) for wish in wishes if wish.key not in directives.by_key)
    )


def plan_leave(directives: LinkDirectives, topics: Collection[str]) -> DirectivePlan:
    """Returns the plan that ends the mirroring of `topics`. It also deletes their pauses and
    limits, which would surprise a user who chooses the topic again."""
    leaving = chosen(directives).keys() & set(topics)
    changes: list[DirectiveChange] = [
        (key, None) for key in directives.by_key if key[0] in _WITH_IT and key[1].topic in leaving
    ]
    return DirectivePlan(changes=tuple(changes))


def plan_forget(directives: LinkDirectives) -> DirectivePlan:
    """Returns the plan that removes all chosen topics, and frees the source's name for another
    cluster."""
    leave = plan_leave(directives, chosen(directives)).changes
    named = origin(directives)
    return DirectivePlan(changes=(*leave, *(() if named is None else ((named.key, None),))))


def choosing(link: LinkSettings, directives: LinkDirectives) -> LinkSettings:
    """Returns `link` with the topics that it mirrors by request."""
    names = begun(directives) if link.way_back else frozenset[str]()
    return replace(link, chosen=frozenset(chosen(directives)) if link.geo else names)


def with_chosen(settings: Settings, name: str | None = None) -> Settings:
    """Returns `settings` with the topics that people have chosen so far, for the link `name` or for
    all links. Asks the targets of links that have such topics. If a target does not answer, or
    refuses to show the topics, the error is raised later, when a command needs the target."""
    links = []
    with clusters() as connect:
        for link in settings.links:
            known = link
            if (link.geo or link.way_back) and name in (None, link.name):
                with suppress(CausewayError):
                    known = choosing(link, learn(connect(link.target_admin), link))
            links.append(known)
    return replace(settings, links=tuple(links))


def learn(target: Cluster, link: LinkSettings) -> LinkDirectives:
    """Returns the directives of `link`. Raises CausewayError."""
    log = DirectiveLog(target, link.directives_topic)
    log.look()
    return log.directives
