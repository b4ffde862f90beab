"""Topics of the file's links, each with its partitions taken together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from causeway.cluster import clusters
from causeway.config import Settings, links_of
from causeway.operate.listing.list_filter import Listed, fits, listed, refuse_unknown
from causeway.status import RANKING, LinkStatus, TopicStatus, status_of, topics_of

_PROBLEM: Final = "problem"  # the state of a topic that cannot be mirrored
_STATES: Final = frozenset({*RANKING, _PROBLEM})


def topics(
    settings: Settings,
    *,
    link: str | None = None,
    match: str = "",
    states: Collection[str] = (),
) -> Listed[TopicStatus]:
    """By link and name, from the clusters alone. `match`: part of the name, in any case; `states`:
    with a partition in one of these. Raises ConfigError for a link or state that is unknown;
    CausewayError if no link can be asked."""
    refuse_unknown("list topics", "state", states, _STATES)
    chosen = links_of(settings, link, "list topics")
    retention_s = settings.run.deleted_topics_retention_s
    with clusters() as connect:
        return listed(
            chosen,
            lambda link: (
                one
                for one in lines(status_of(link, connect, retention_s))
                if fits(one.topic, match)
                and (not states or not one.states.keys().isdisjoint(states))
            ),
        )


def lines(link: LinkStatus) -> Iterable[TopicStatus]:
    """The topics of one link by name, with those that cannot be mirrored."""
    found = topics_of(link)
    there = {one.topic for one in found}
    found += [
        TopicStatus(
            link=link.name,
            topic=problem.topic,
            target_topic="",
            transform=None,
            partitions=0,
            state=_PROBLEM,
            states={_PROBLEM: 1},
            reasons=(problem.reason,),
        )
        for problem in link.problems
        if problem.topic not in there
    ]
    return sorted(found, key=lambda one: one.topic)


def as_json(one: TopicStatus) -> dict[str, Any]:
    """For `--json`: stable keys."""
    return {
        "link": one.link,
        "topic": one.topic,
        "target_topic": one.target_topic or None,
        "transform": one.transform,
        "partitions": one.partitions,
        "states": one.states,
        "lag_records": one.lag_records,
        "lag_ms": one.lag_ms,
        "reason": next(iter(one.reasons), None),
    }
