"""The status of each chosen topic on each destination, from the clusters alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from causeway.cluster import Connect, clusters
from causeway.config import LinkSettings, Settings
from causeway.control import geo_topics
from causeway.errors import CausewayError
from causeway.geo import claims
from causeway.geo.topics import target_of
from causeway.link_topics import Directive, LinkDirectives, Scope, directive_as_json
from causeway.model import State
from causeway.status import UNKNOWN, DriverStatus, LinkStatus, TopicStatus, status_of, topics_of

MISSING: Final = "missing"  # the origin has no such topic
_AT_ONCE: Final = 8  # destinations


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTopicStatus:
    """A chosen topic. `by`: who chose it. `paused`: who paused it. `mirror`: all its partitions,
    None if nothing is mirrored. `state`: the state of `mirror`, or PAUSED, MISSING or UNKNOWN.
    `reasons`: why it has this state."""

    topic: str
    target: str
    by: Directive
    paused: Directive | None
    state: str
    reasons: tuple[str, ...]
    mirror: TopicStatus | None

    @property
    def partitions(self) -> int:
        return 0 if self.mirror is None else self.mirror.partitions

    @property
    def lag_records(self) -> int | None:
        return None if self.mirror is None else self.mirror.lag_records

    @property
    def lag_ms(self) -> int | None:
        return None if self.mirror is None else self.mirror.lag_ms

    def as_json(self) -> dict[str, Any]:
        """For `--json` and the API: stable keys."""
        paused = self.paused
        return {
            "topic": self.topic,
            "target_topic": self.target,
            "state": self.state,
            "reasons": list(self.reasons),
            "partitions": self.partitions,
            "lag_records": self.lag_records,
            "lag_ms": self.lag_ms,
            "who": self.by.who,
            "why": self.by.why,
            "at_ms": self.by.at,
            "paused": None if paused is None else directive_as_json(paused),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """`by`: the directive that added it; None if it was never added, or was removed. `error`: why
    nothing else is known. `reason`: why its driver does not act on the chosen topics."""

    name: str
    link: LinkSettings
    cluster: str | None = None
    by: Directive | None = None
    driver: DriverStatus | None = None
    topics: tuple[ChosenTopicStatus, ...] = ()
    reason: str | None = None
    status: LinkStatus | None = None
    error: CausewayError | None = None

    def as_json(self) -> dict[str, Any]:
        """For `--json`: stable keys."""
        link, driver, by = self.link, self.driver, self.by
        return {
            "destination": self.name,
            "link": link.name,
            "bootstrap": [f"{host}:{port}" for host, port in link.target.bootstrap],
            "cluster_id": self.cluster,
            "added": None if by is None else directive_as_json(by),
            "driver": None
            if driver is None
            else {
                "owner": driver.owner,
                "running": driver.running,
                "last_seen_ms": driver.last_seen_ms,
            },
            "error": None if self.error is None else str(self.error),
            "reason": self.reason,
            "topics": [each.as_json() for each in self.topics],
        }


def look_at(settings: Settings) -> tuple[Destination, ...]:
    """Looks at all destinations in parallel. A destination that does not answer has the reason in
    `error`, and does not delay the others."""
    if not settings.links:
        return ()
    with clusters() as connect, ThreadPoolExecutor(min(_AT_ONCE, len(settings.links))) as pool:
        return tuple(pool.map(lambda link: _look(link, connect), settings.links))


def _look(link: LinkSettings, connect: Connect) -> Destination:
    name = link.target.alias
    try:
        target = connect(link.target_admin)
        cluster = claims.cluster_id(target)
        directives = geo_topics.learn(target, link)
        shown = geo_topics.choosing(link, directives)
        status = status_of(shown, connect, None, only=geo_topics.chosen(directives).keys())
    except CausewayError as error:
        return Destination(name=name, link=link, error=error)
    return Destination(
        name=name,
        link=link,
        cluster=cluster,
        by=geo_topics.origin(directives),
        driver=status.driver,
        topics=chosen_topics(link, directives, status),
        reason=status.directives_reason,
        status=status,
    )


def chosen_topics(
    link: LinkSettings, directives: LinkDirectives, status: LinkStatus
) -> tuple[ChosenTopicStatus, ...]:
    """Returns the status of the topics that `directives` has, by name."""
    mirrored = {each.topic: each for each in topics_of(status)}
    return tuple(
        _topic(link, name, by, directives, mirrored.get(name), status)
        for name, by in sorted(geo_topics.chosen(directives).items())
    )


def _topic(
    link: LinkSettings,
    name: str,
    by: Directive,
    directives: LinkDirectives,
    mirror: TopicStatus | None,
    status: LinkStatus,
) -> ChosenTopicStatus:
    paused = directives.pause_of(Scope(name))
    reasons = list(mirror.reasons if mirror is not None else ())
    problems = [each.reason for each in status.problems if each.topic == name][-1:]
    if mirror is None and not problems and status.unavailable is not None:
        problems = [status.unavailable]
    reasons += problems
    if mirror is None:
        state = UNKNOWN if reasons else MISSING
    elif paused is not None and State.STOPPED not in mirror.states:
        state = State.PAUSED  # even if no driver runs that reports it
    else:
        state = mirror.state
    return ChosenTopicStatus(
        topic=name,
        target=target_of(link, name),
        by=by,
        paused=paused,
        state=state,
        reasons=tuple(dict.fromkeys(reasons)),
        mirror=mirror,
    )
