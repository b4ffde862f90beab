"""A link's partitions, topic by topic, as people look at them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from causeway.model import State
from causeway.status.snapshot import LinkStatus, PartitionStatus
from causeway.status.states import worst


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic's partitions taken together; None where unknown. `first`: where they begin among
    the link's."""

    topic: str
    target_topic: str
    transform: str | None
    first: int
    partitions: int
    records: int  # since the start of this run
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_ms: int | None  # of the partition furthest behind
    state: State


def topic_rows(link: LinkStatus, now_ms: int) -> list[TopicRow]:
    """In the order of their names."""
    rows: list[TopicRow] = []
    first = 0
    silent_since = link.silent_since
    for _, group in groupby(link.partitions, key=lambda partition: partition.topic):
        rows.append(_row(list(group), first, now_ms, silent_since))
        first += rows[-1].partitions
    return rows


def renewed(
    rows: Sequence[TopicRow], link: LinkStatus, changed: Sequence[int], now_ms: int
) -> list[TopicRow]:
    """`rows` renewed for the same partitions of the link. The partitions at the places `changed`
    have moved since. A lag grows older by itself, and if the source does not answer, that of each
    partition does."""
    if link.silent_since is not None:
        return topic_rows(link, now_ms)
    found = list(rows)
    places = {bisect_right(rows, at, key=lambda row: row.first) - 1 for at in changed}
    places |= {place for place, row in enumerate(rows) if row.lag_ms}
    for place in places:
        row = rows[place]
        members = link.partitions[row.first : row.first + row.partitions]
        found[place] = _row(members, row.first, now_ms, None)
    return found


def _row(
    members: Sequence[PartitionStatus], first: int, now_ms: int, silent_since: int | None
) -> TopicRow:
    lags = [_lag(partition) for partition in members]
    ages = [one.lag_ms(now_ms, silent_since) for one in members]
    return TopicRow(
        topic=members[0].topic,
        target_topic=members[0].target_topic,
        transform=members[0].transform,
        first=first,
        partitions=len(members),
        records=sum(partition.records for partition in members),
        records_per_s=sum(partition.records_per_s for partition in members),
        bytes_per_s=sum(partition.bytes_per_s for partition in members),
        lag_records=None if None in lags else sum(lag or 0 for lag in lags),
        lag_ms=None if None in ages else max(age or 0 for age in ages),
        state=worst(partition.state for partition in members) or State.WAITING,
    )


def _lag(partition: PartitionStatus) -> int | None:
    """A bounded run that had nothing to copy never asked for an end: it is behind by nothing."""
    return 0 if partition.state is State.DONE and partition.lag is None else partition.lag
