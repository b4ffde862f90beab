"""Summaries of partitions: of a topic, and of a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from causeway.link_topics import Value
from causeway.model import State
from causeway.status.states import worst
from causeway.status.values import LinkStatus, PartitionStatus, Role


class TopicStatus(Value):
    """All partitions of one topic. A figure is None if it is unknown for one of them.

    `link`: the link's name. `first`: the index of the topic's first partition among the link's.
    `states`: the number of partitions in each, the most frequent first. `reasons`: without
    repetition. `lag_ms`: that of the partition that lags most. Counts are of this run.
    """

    link: str
    topic: str
    target_topic: str
    transform: str | None
    partitions: int
    state: str  # the worst one
    states: Mapping[str, int]
    reasons: tuple[str, ...]
    lag_records: int | None = None
    lag_ms: int | None = None
    first: int = 0
    records: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0


class Totals(Value):
    """All topics of one link. A lag is None if that of a topic is unknown, and in a process that
    does not lead the link, because it knows nothing about the partitions."""

    records: int
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_ms: int | None


def topics_of(link: LinkStatus) -> list[TopicStatus]:
    """Returns the topics by name, in the order of the partitions."""
    found: list[TopicStatus] = []
    first = 0
    for _, members in groupby(link.partitions, key=lambda each: each.topic):
        found.append(topic_of(link.name, list(members), first))
        first += found[-1].partitions
    return found


def topic_of(link: str, members: Sequence[PartitionStatus], first: int = 0) -> TopicStatus:
    """`members`: at least one partition."""
    states = [each.state for each in members]
    one = members[0]
    return TopicStatus(
        link=link,
        topic=one.topic,
        target_topic=one.target_topic,
        transform=one.transform,
        first=first,
        partitions=len(members),
        state=worst(states) or State.WAITING,
        states=dict(Counter(states).most_common()),
        reasons=tuple(dict.fromkeys(each.reason for each in members if each.reason)),
        lag_records=_sum(map(_lag, members)),
        lag_ms=_most(each.lag_ms for each in members),
        records=sum(each.records for each in members),
        records_per_s=sum(each.records_per_s for each in members),
        bytes_per_s=sum(each.bytes_per_s for each in members),
    )


def totals(link: LinkStatus, topics: Sequence[TopicStatus]) -> Totals:
    known = bool(topics) or link.role is Role.LEADING
    return Totals(
        records=sum(each.records for each in topics),
        records_per_s=sum((each.records_per_s for each in topics), 0.0),
        bytes_per_s=sum((each.bytes_per_s for each in topics), 0.0),
        lag_records=_sum(each.lag_records for each in topics) if known else None,
        lag_ms=_most(each.lag_ms for each in topics) if known else None,
    )


def _lag(partition: PartitionStatus) -> int | None:
    """A bounded run that had nothing to copy has never asked for the source's end."""
    if partition.state == State.DONE and partition.lag_records is None:
        return 0
    return partition.lag_records


def _sum(figures: Iterable[int | None]) -> int | None:
    known = list(figures)
    return None if None in known else sum(filter(None, known))


def _most(figures: Iterable[int | None]) -> int | None:
    known = list(figures)
    most = [figure for figure in known if figure is not None]
    return max(most, default=0) if len(most) == len(known) else None
