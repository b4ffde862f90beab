"""Topics of the file's links, each with its partitions taken together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from causeway.cluster import clusters
from causeway.config import Settings, links_of
from causeway.operate.listing.list_filter import Listed, fits, listed, refuse_unknown
from causeway.status import from_clusters
from causeway.status.from_clusters import LinkStatus, PartitionStatus
from causeway.status.states import RANKING

_PROBLEM: Final = "problem"  # of a topic that cannot be mirrored
_STATES: Final = frozenset({*RANKING, _PROBLEM})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLine:
    """`states`: how many partitions are in each, the most first; `lag_records`, `lag_ms`: None
    where it is not known of all of them; `reason`: the first one there is."""

    link: str
    topic: str
    target: str | None  # None: it cannot be mirrored
    transform: str | None
    partitions: int
    states: tuple[tuple[str, int], ...]
    lag_records: int | None
    lag_ms: int | None
    reason: str | None


def topics(
    settings: Settings,
    *,
    link: str | None = None,
    match: str = "",
    states: Collection[str] = (),
) -> Listed[TopicLine]:
    """By link and name, from the clusters alone. `match`: part of the name, in any case; `states`:
    with a partition in one of these. Raises ConfigError for a link or state that is unknown;
    CausewayError where no link can be asked."""
    refuse_unknown("list topics", "state", states, _STATES)
    chosen = links_of(settings, link, "list topics")
    retention_s = settings.run.deleted_topics_retention_s
    with clusters() as connect:
        return listed(
            chosen,
            lambda link: (
                one
                for one in lines(from_clusters.status_of(link, connect, retention_s))
                if fits(one.topic, match) and _is_in(one, states)
            ),
        )


def lines(each: LinkStatus) -> Iterable[TopicLine]:
    """Of one link, by name."""
    found = [
        _line(each, topic, list(some))
        for topic, some in groupby(each.partitions, key=lambda one: one.topic)
    ]
    there = {one.topic for one in found}
    found += [
        TopicLine(
            link=each.link.name,
            topic=problem.topic,
            target=None,
            transform=None,
            partitions=0,
            states=((_PROBLEM, 1),),
            lag_records=None,
            lag_ms=None,
            reason=str(problem.error),
        )
        for problem in each.problems
        if problem.topic not in there
    ]
    return sorted(found, key=lambda one: one.topic)


def _line(each: LinkStatus, topic: str, some: Sequence[PartitionStatus]) -> TopicLine:
    counts = Counter(str(one.state) for one in some)
    transform = each.link.transform_of(topic)
    return TopicLine(
        link=each.link.name,
        topic=topic,
        target=some[0].target or None,
        transform=None if transform is None else transform.name,
        partitions=len(some),
        states=tuple(counts.most_common()),
        lag_records=_all([one.lag_records for one in some], sum),
        lag_ms=_all([one.lag_ms for one in some], max),
        reason=next((one.reason for one in some if one.reason), None),
    )


def _all(figures: Sequence[int | None], taken: Any) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return int(taken(known)) if len(known) == len(figures) else None


def _is_in(one: TopicLine, states: Collection[str]) -> bool:
    return not states or any(state in states for state, _ in one.states)


def as_json(one: TopicLine) -> dict[str, Any]:
    """For `--json`: stable keys."""
    return {
        "link": one.link,
        "topic": one.topic,
        "target_topic": one.target,
        "transform": one.transform,
        "partitions": one.partitions,
        "states": dict(one.states),
        "lag_records": one.lag_records,
        "lag_ms": one.lag_ms,
        "reason": one.reason,
    }
