"""Open transactions: how much they hold back, and why a last stable offset does not move on.

Readers of committed data, such as a mirror, see no record behind an open transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from causeway.cluster import LATEST, ActiveProducer, Cluster, OffsetAt, open_transactions
from causeway.errors import CausewayError
from causeway.model import TopicPartition

Ends = dict[TopicPartition, OffsetAt | CausewayError]
HELD_MS: Final = 60_000  # a transaction that takes longer is reported


class Held(NamedTuple):
    """`stable`: the last stable offset. `since_ms`: for how long it has not moved. If `dated`, the
    age of the record there by its own timestamp, which may be the time of any event."""

    stable: int
    high_watermark: int
    since_ms: float
    dated: bool = False


def both_ends(
    source: Cluster,
    places: Collection[TopicPartition],
    *,
    read_committed: bool,
    patience_s: float | None = None,
) -> tuple[Ends, Ends]:
    """Returns the ends of partitions for the link's readers (with `read_committed` the last stable
    offset), and their high watermarks, which are never below. An open transaction holds back all
    records between the two. The high watermark is asked for first: records that arrive between the
    two requests must not look held back. `patience_s`: see Cluster.list_offsets. Raises
    CausewayError."""
    tops = source.list_offsets(list(places), LATEST, patience_s=patience_s)
    if not read_committed:
        return tops, tops
    stable = source.list_offsets(list(places), LATEST, read_committed=True, patience_s=patience_s)
    for at, end in stable.items():
        if isinstance(end, OffsetAt) and isinstance(top := tops[at], OffsetAt):
            tops[at] = max(top, end, key=lambda each: each.offset)
    return stable, tops


def known_ends(
    source: Cluster,
    places: Collection[TopicPartition],
    *,
    read_committed: bool,
    patience_s: float | None = None,
) -> dict[TopicPartition, tuple[int, int]]:
    """Like `both_ends`, but returns end and high watermark only of partitions whose brokers
    answered both requests."""
    ends, tops = both_ends(source, places, read_committed=read_committed, patience_s=patience_s)
    return {
        at: (end.offset, top.offset)
        for at, end in ends.items()
        if isinstance(end, OffsetAt) and isinstance(top := tops[at], OffsetAt)
    }


def explain(source: Cluster, held: Mapping[TopicPartition, Held]) -> dict[TopicPartition, str]:
    """Returns the reason for each partition: the transaction that it waits for, if we may ask."""
    if not held:
        return {}
    transactions = open_transactions(source, list(held))
    return {at: reason(one, transactions[at]) for at, one in held.items()}


def reason(held: Held, transactions: tuple[ActiveProducer, ...] | CausewayError) -> str:
    who = "an open transaction"
    if isinstance(transactions, CausewayError):
        who += f" (of which producer is not known: {transactions})"
    elif transactions:
        first = transactions[0]
        who += f" of producer {first.producer_id}, epoch {first.producer_epoch},"
    minutes, hours = held.since_ms / 60_000, held.since_ms / 3_600_000
    ago = f"{minutes:.0f} min" if hours < 2 else f"{hours:.0f} h"
    if held.dated:
        what, advice = f"holds offset {held.stable}, a record dated {ago} ago", ""
    else:
        what = f"has held offset {held.stable} for {ago}"
        advice = " (end its producer, or abort it with kafka-transactions.sh)"
    behind = held.high_watermark - held.stable
    return f"{who} {what}: {behind:,} offsets from there on are mirrored once it ends{advice}"
