"""Topics of the origin that people choose, and choose no more, for one destination.

Each is written to the directives of the link on the destination (control/geo_topics.py). The
leading process acts on it. All topics of one call are written, or none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from causeway.cluster import LATEST, Cluster, OffsetAt, clusters
from causeway.config import LinkSettings, RunSettings, Settings, unknown
from causeway.control import geo_topics
from causeway.errors import BrokerError, ConfigError
from causeway.geo import claims
from causeway.link_topics import (
    THE_LINK,
    Directive,
    DirectiveKind,
    DirectivePlan,
    LinkDirectives,
    MirrorDirective,
    ProgressContents,
    Scope,
    directive_as_json,
)
from causeway.model import ENDED, TopicPartition
from causeway.naming import is_legal_name
from causeway.operate.directives import act
from causeway.operate.directives.act import WAIT_S, Asking, Outcome, wish_of
from causeway.wire import codes

MOST: Final = 1000  # topics at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """`changed`: false where it was so already; `before` says since when, and by whom."""

    topic: str
    target: str
    changed: bool
    before: Directive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """`action`: add, remove, pause or resume. `driver`: who leads now, None where nobody does;
    `acted`: whether it has acted, None where nobody waited; `refused`: why it does not."""

    destination: str
    action: str
    topics: tuple[Topic, ...]
    driver: str | None
    acted: bool | None
    refused: str | None = None


def add(
    link: LinkSettings,
    names: Sequence[str],
    *,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Has topics of the origin copied, from the first record that it still has of each; one that
    was copied before goes on where it was. Waits up to `wait_s` for the leading driver; None: not.

    Raises ConfigError where one of them cannot be: unknown, with those like it; internal; one that
    came from the destination; whose mirror has ended; or that has a namesake there whose records
    nobody knows. ConflictError where somebody else acts at the same time; CausewayError.
    """
    names = _checked(names, "add")
    with clusters() as connect:
        source, target = connect(link.source_admin), connect(link.target_admin)
        source_id, target_id = claims.id_of(source), claims.id_of(target)
        standing = geo_topics.learn(target, link)
        claims.check_standing(standing, link, source_id)
        _refuse_ended(standing, names)
        _refuse_unknown(source, link, names)
        targets = _targets(link, names, claims.came_from(source, target_id))
        asking = Asking(link, "add", connect)
        new = [name for name in names if name not in geo_topics.chosen(standing)]
        _refuse_namesakes(target, {n: targets[n] for n in new}, asking.contents)
        wish = wish_of(MirrorDirective, reason, who)
        wishes = [wish.replace(scope=Scope(name)) for name in names]

        def decide(standing: LinkDirectives) -> DirectivePlan:
            # Somebody may have removed the destination, or ended mirrors, since we looked.
            claims.check_standing(standing, link, source_id)
            _refuse_ended(standing, names)
            return geo_topics.plan_mirror(standing, wishes)

        plan = asking.write(wish, decide)
        return done(asking, "add", targets, plan, standing, wait_s)


def remove(
    link: LinkSettings,
    names: Sequence[str],
    *,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Has topics copied no more; what is there stays. Otherwise as `add`."""
    names = _checked(names, "remove")
    with clusters() as connect:
        standing = geo_topics.learn(connect(link.target_admin), link)
        _refuse_unchosen("remove", standing, names)
        targets = {name: target_of(link, name) for name in names}
        asking = Asking(link, "remove", connect)
        wish = wish_of(MirrorDirective, reason, who)
        plan = asking.write(wish, partial(geo_topics.plan_leave, topics=names))
        return done(asking, "remove", targets, plan, standing, wait_s)


def pause(
    link: LinkSettings,
    names: Sequence[str],
    *,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Has chosen topics copied no more until they are resumed. Otherwise as `remove`."""
    return _each(link, names, "pause", partial(act.pause, who=who, reason=reason), wait_s)


def resume(
    link: LinkSettings,
    names: Sequence[str],
    *,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Has paused topics go on where they were. Otherwise as `remove`."""
    return _each(link, names, "resume", partial(act.resume, who=who, reason=reason), wait_s)


def _each(
    link: LinkSettings,
    names: Sequence[str],
    action: str,
    ask: Callable[..., tuple[Outcome, ...]],
    wait_s: float | None,
) -> Done:
    names = _checked(names, action)
    with clusters() as connect:
        _refuse_unchosen(action, geo_topics.learn(connect(link.target_admin), link), names)
    settings = Settings(links=(link,), run=RunSettings(), spark={})
    outcomes = [ask(settings, link=link.name, topic=name, wait_s=wait_s)[0] for name in names]
    waited = [each.acted for each in outcomes if each.acted is not None]
    return Done(
        destination=link.target.alias,
        action=action,
        topics=tuple(
            Topic(
                topic=name,
                target=target_of(link, name),
                changed=outcome.changed,
                before=outcome.before,
            )
            for name, outcome in zip(names, outcomes, strict=True)
        ),
        driver=outcomes[-1].driver,
        acted=all(waited) if waited else None,
        refused=next((each.refused for each in outcomes if each.refused), None),
    )


def available(link: LinkSettings, match: str = "") -> tuple[str, ...]:
    """Topics of the origin that could be chosen and are not, by name. Raises CausewayError."""
    with clusters() as connect:
        source, target = connect(link.source_admin), connect(link.target_admin)
        target_id = claims.id_of(target)
        known = geo_topics.chosen(geo_topics.learn(target, link))
        back = claims.came_from(source, target_id)
        return tuple(
            name
            for name, topic in sorted(source.metadata(None).topics.items())
            if topic.error is None
            and name not in known
            and match.casefold() in name.casefold()
            and why_not(link, name, back) is None
        )


def as_json(done: Done) -> dict[str, Any]:
    """For `--json` and the API: stable keys."""
    return {
        "destination": done.destination,
        "action": done.action,
        "driver": done.driver,
        "acted": done.acted,
        "refused": done.refused,
        "topics": [
            {
                "topic": each.topic,
                "target_topic": each.target,
                "changed": each.changed,
                "before": None if each.before is None else directive_as_json(each.before),
            }
            for each in done.topics
        ],
    }


def why_not(link: LinkSettings, name: str, back: Collection[str]) -> str | None:
    """Why the link cannot mirror a topic of this name, once it is chosen; None where it can.
    `back`: what the destination is called on the origin, see claims.came_from."""
    decision = link.as_chosen(name)
    if decision.target_name is None:
        return decision.reason
    head = name.partition(".")[0]
    if head != name and head in back:
        return (
            f"it came from {link.target.alias}, which is called {head} there: it would go in a"
            " circle"
        )
    return None


def _checked(names: Sequence[str], action: str) -> list[str]:
    found = list(dict.fromkeys(names))
    if not found:
        raise ConfigError(action, cause="which topics?")
    if len(found) > MOST:
        raise ConfigError(action, f"{len(found)} topics", f"at most {MOST} at once")
    for name in found:
        if not is_legal_name(name):
            cause = "topics are named one by one, in letters, digits, '.', '_' and '-'"
            raise ConfigError(action, f"topic {name!r}", cause)
    return found


def _targets(link: LinkSettings, names: Sequence[str], back: Collection[str]) -> dict[str, str]:
    """Raises ConfigError for the first that cannot be mirrored."""
    for name in names:
        if (why := why_not(link, name, back)) is not None:
            raise ConfigError("add", f"topic {name}", why)
    return {name: target_of(link, name) for name in names}


def target_of(link: LinkSettings, name: str) -> str:
    """What a topic is called on the destination; its own name where it could not go there."""
    return link.as_chosen(name).target_name or name


def _refuse_unchosen(action: str, standing: LinkDirectives, names: Sequence[str]) -> None:
    known = geo_topics.chosen(standing)
    for name in names:
        if name not in known:
            raise unknown(action, "chosen topic", name, known.keys())


def _refuse_ended(standing: LinkDirectives, names: Sequence[str]) -> None:
    for name in names:
        end = standing.end_of(Scope(name))
        if end is not None:
            what = "the mirror" if end.scope == THE_LINK else "its mirror"
            remedy = "`causeway failback` takes it up again" if end.how in ENDED else ""
            raise ConfigError(
                "add", f"topic {name}", f"{what} was {end.how} {end.by}", remedy=remedy
            )


def _refuse_unknown(source: Cluster, link: LinkSettings, names: Sequence[str]) -> None:
    found = source.metadata(names).topics
    for name in names:
        error = found[name].error
        if error is None:
            continue
        if not isinstance(error, BrokerError) or error.code != codes.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
        there = [n for n, topic in source.metadata(None).topics.items() if not topic.internal]
        raise unknown("add", "topic", name, there, f"topics are named as on {link.source.alias}")


def _refuse_namesakes(
    target: Cluster, targets: Mapping[str, str], contents: ProgressContents
) -> None:
    """What of the origin they hold is unknown, so nothing could be copied exactly once."""
    known = {at.topic for at in contents.partitions}
    names = {mirror: name for name, mirror in targets.items() if name not in known}
    found = target.metadata(sorted(names)).topics if names else {}
    places = [
        TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions
    ]
    for at, end in (target.list_offsets(places, LATEST) if places else {}).items():
        if isinstance(end, OffsetAt) and end.offset > 0:
            raise ConfigError(
                "add",
                f"topic {names[at.topic]}",
                f"{target} has a topic {at.topic} with records already, and nothing says what of"
                " the origin they hold",
                remedy="delete it there, or take it over with a file: `causeway geo properties`"
                " and `causeway run --adopt`",
            )


def done(
    asking: Asking,
    action: str,
    targets: Mapping[str, str],
    plan: DirectivePlan,
    before: LinkDirectives,
    wait_s: float | None,
) -> Done:
    """What became of what was written; `targets`: of the topics it is about."""
    outcome = asking.outcome(None if wait_s is None else time.monotonic() + wait_s)
    changed = {str(key[1].topic) for key, _ in plan.changes if key[0] is DirectiveKind.MIRROR}
    known = geo_topics.chosen(before)
    return Done(
        destination=asking.link.target.alias,
        action=action,
        topics=tuple(
            Topic(topic=name, target=target, changed=name in changed, before=known.get(name))
            for name, target in targets.items()
        ),
        driver=outcome.driver,
        acted=outcome.acted,
        refused=_refused(asking, outcome),
    )


def _refused(asking: Asking, outcome: Outcome) -> str | None:
    """A driver that was told, and says why it does not do it."""
    told = asking.contents.directives
    if outcome.driver is None or not outcome.acted or told is None:
        return outcome.refused
    if DirectiveKind.MIRROR.value not in told.kinds:
        return f"{outcome.driver} runs an older Causeway, which knows nothing of it"
    return told.reason if geo_topics.is_why_not(told.reason) else None
