"""Adds, removes, pauses and resumes the chosen topics of one destination.

Each change is written to the directives of the link on the destination (control/geo_topics.py). The
leading process acts on it. A call writes all of its topics, or none.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
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
from causeway.operate import directives
from causeway.operate.directives import WAIT_S, DirectiveOutcome, DirectiveRequest, Wanted
from causeway.wire import codes

MOST_TOPICS: Final = 1000  # topics at once


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTopicChange:
    """`changed`: false if nothing had to change. `before`: the earlier directive."""

    topic: str
    target: str
    changed: bool
    before: Directive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """`action`: add, remove, pause or resume. `driver`: the leading driver, None if none leads.
    `acted`: whether it has acted, None if the call did not wait. `refused`: why it does not act."""

    destination: str
    action: str
    topics: tuple[ChosenTopicChange, ...]
    driver: str | None
    acted: bool | None
    refused: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For `--json` and the API: stable keys."""
        return {
            "destination": self.destination,
            "action": self.action,
            "driver": self.driver,
            "acted": self.acted,
            "refused": self.refused,
            "topics": [
                {
                    "topic": each.topic,
                    "target_topic": each.target,
                    "changed": each.changed,
                    "before": None if each.before is None else directive_as_json(each.before),
                }
                for each in self.topics
            ],
        }


def add_topics(
    link: LinkSettings,
    names: Sequence[str],
    *,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Copies topics of the origin, each from its first record on. A topic that was copied before
    goes on at its position. Waits up to `wait_s` for the leading driver; None: does not wait.

    Raises ConfigError for a topic that is unknown (with similar names) or internal, that came from
    the destination, whose mirror has ended, or whose mirror topic has records of unknown origin.
    Raises ConflictError for a concurrent request, and other CausewayErrors.
    """
    names = _checked(names, "add")
    with clusters() as connect:
        source, target = connect(link.source_admin), connect(link.target_admin)
        source_id, target_id = claims.cluster_id(source), claims.cluster_id(target)
        active = geo_topics.learn(target, link)
        claims.check_origin(active, link, source_id)
        _refuse_ended(active, names)
        _refuse_unknown(source, link, names)
        targets = _targets(link, names, claims.came_from(source, target_id))
        asking = DirectiveRequest(link, "add", connect)
        new = [name for name in names if name not in geo_topics.chosen(active)]
        _refuse_namesakes(target, {n: targets[n] for n in new}, asking.contents)
        wish = Wanted(reason=reason, who=who).wish(MirrorDirective)
        wishes = [wish.replace(scope=Scope(name)) for name in names]

        def decide(active: LinkDirectives) -> DirectivePlan:
            # The destination may have been removed, or mirrors ended, since the look above.
            claims.check_origin(active, link, source_id)
            _refuse_ended(active, names)
            return geo_topics.plan_mirror(active, wishes)

        plan = asking.write(wish, decide)
        return done(asking, "add", targets, plan, active, wait_s)


def remove_topics(
    link: LinkSettings,
    names: Sequence[str],
    *,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Stops the copying of topics; the copies stay. Otherwise like `add_topics`."""
    names = _checked(names, "remove")
    with clusters() as connect:
        active = geo_topics.learn(connect(link.target_admin), link)
        _refuse_unchosen("remove", active, names)
        targets = {name: target_of(link, name) for name in names}
        asking = DirectiveRequest(link, "remove", connect)
        wish = Wanted(reason=reason, who=who).wish(MirrorDirective)
        plan = asking.write(wish, partial(geo_topics.plan_leave, topics=names))
        return done(asking, "remove", targets, plan, active, wait_s)


def _each(
    action: str,
    link: LinkSettings,
    names: Sequence[str],
    *,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Pauses topics, or continues them at their positions. Otherwise like `remove_topics`."""
    names = _checked(names, action)
    with clusters() as connect:
        active = geo_topics.learn(connect(link.target_admin), link)
        _refuse_unchosen(action, active, names)
    link = geo_topics.choosing(link, active)
    settings = Settings(links=(link,), run=RunSettings(), spark={})
    ask = partial(getattr(directives, action), settings, link=link.name, who=who, reason=reason)
    outcomes = [ask(topic=name, wait_s=wait_s)[0] for name in names]
    waited = [each.acted for each in outcomes if each.acted is not None]
    return Done(
        destination=link.target.alias,
        action=action,
        topics=tuple(
            ChosenTopicChange(
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


pause_topics, resume_topics = partial(_each, "pause"), partial(_each, "resume")


def available_topics(link: LinkSettings, match: str = "") -> tuple[str, ...]:
    """Returns the topics of the origin that can be chosen and are not, by name. Raises
    CausewayError."""
    with clusters() as connect:
        source, target = connect(link.source_admin), connect(link.target_admin)
        target_id = claims.cluster_id(target)
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


def why_not(link: LinkSettings, name: str, back: Collection[str]) -> str | None:
    """Returns why the link cannot mirror the topic `name`; None if it can. `back`: the names of the
    destination on the origin, see claims.came_from."""
    decision = link.as_chosen(name)
    if decision.target_name is None:
        return decision.reason
    head = name.partition(".")[0]
    if head != name and head in back:
        return (
            f"it came from {link.target.alias}, which is called {head} there: the link would"
            " copy it back"
        )
    return None


def _checked(names: Sequence[str], action: str) -> list[str]:
    found = list(dict.fromkeys(names))
    if not found:
        raise ConfigError(action, cause="no topic is named")
    if len(found) > MOST_TOPICS:
        raise ConfigError(action, f"{len(found)} topics", f"at most {MOST_TOPICS} at once")
    for name in found:
        if not is_legal_name(name):
            cause = "name each topic; a name has letters, digits, '.', '_' and '-'"
            raise ConfigError(action, f"topic {name!r}", cause)
    return found


def _targets(link: LinkSettings, names: Sequence[str], back: Collection[str]) -> dict[str, str]:
    """Returns the names on the destination. Raises ConfigError for the first topic that cannot be
    mirrored."""
    for name in names:
        if (why := why_not(link, name, back)) is not None:
            raise ConfigError("add", f"topic {name}", why)
    return {name: target_of(link, name) for name in names}


def target_of(link: LinkSettings, name: str) -> str:
    """Returns the topic's name on the destination; its own name if it cannot be mirrored."""
    return link.as_chosen(name).target_name or name


def _refuse_unchosen(action: str, active: LinkDirectives, names: Sequence[str]) -> None:
    known = geo_topics.chosen(active)
    for name in names:
        if name not in known:
            raise unknown(action, "chosen topic", name, known.keys())


def _refuse_ended(active: LinkDirectives, names: Sequence[str]) -> None:
    for name in names:
        end = active.end_of(Scope(name))
        if end is not None:
            what = "the mirror" if end.scope == THE_LINK else "its mirror"
            remedy = "`causeway failback` starts it again" if end.how in ENDED else ""
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
    """Refuses topics whose mirror topic has records of unknown origin: these would break exactly
    once."""
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
                f"{target} already has a topic {at.topic} with records, and it is unknown which"
                " records of the origin it holds",
                remedy="delete it there, or adopt it with a file: `causeway geo properties`"
                " and `causeway run --adopt`",
            )


def done(
    asking: DirectiveRequest,
    action: str,
    targets: Mapping[str, str],
    plan: DirectivePlan,
    before: LinkDirectives,
    wait_s: float | None,
) -> Done:
    """Returns the result of the written directives. `targets`: names on the destination."""
    outcome = asking.outcome(None if wait_s is None else time.monotonic() + wait_s)
    changed = {str(key[1].topic) for key, _ in plan.changes if key[0] is DirectiveKind.MIRROR}
    known = geo_topics.chosen(before)
    return Done(
        destination=asking.link.target.alias,
        action=action,
        topics=tuple(
            ChosenTopicChange(
                topic=name, target=target, changed=name in changed, before=known.get(name)
            )
            for name, target in targets.items()
        ),
        driver=outcome.driver,
        acted=outcome.acted,
        refused=_refused(asking, outcome),
    )


def _refused(asking: DirectiveRequest, outcome: DirectiveOutcome) -> str | None:
    """Returns why the driver, which has read the directives, does not act on them."""
    record = asking.contents.directives
    if outcome.driver is None or not outcome.acted or record is None:
        return outcome.refused
    if DirectiveKind.MIRROR.value not in record.kinds:
        return f"{outcome.driver} runs an older Causeway, which does not know this directive"
    return record.reason if geo_topics.is_why_not(record.reason) else None
