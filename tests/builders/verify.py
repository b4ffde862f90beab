"""Ranges that verify compares, and its reports."""

from __future__ import annotations

from causeway.model import Pair, TopicPartition
from causeway.operate.verify import (
    Agreement,
    Difference,
    DifferenceKind,
    NotCompared,
    PartitionReport,
    Report,
    Why,
)
from causeway.operate.verify.outcome import PartitionFeed, Range

FEED = PartitionFeed(
    link="A->B",
    source=TopicPartition("t", 0),
    target=TopicPartition("A.t", 0),
    source_id="a",
    target_id="b",
    producer_id=1,
)


ONE, OTHER = (
    Range(
        feed=FEED,
        start=Pair(at, at, at),
        end=Pair(at + 100, at + 100, at + 100),
        source_from=at,
        target_from=at,
        target_to=at + 100,
    )
    for at in (0, 100)
)


GOOD = PartitionReport(
    link="A->B",
    topic="orders",
    partition=0,
    target_topic="A.orders",
    target_partition=0,
    verdict=Agreement.AGREES,
    source_offsets=(0, 1_000),
    target_offsets=(0, 1_000),
    records=1_000,
    as_they_are=1_000,
    size=123_456,
    checksum=f"{7:016x}",
)
BAD = GOOD.replace(
    partition=1,
    verdict=Agreement.DIFFERS,
    different=3,
    differences=(
        Difference(kind=DifferenceKind.MISSING, source=12_345, target=12_340),
        Difference(
            kind=DifferenceKind.SWAPPED,
            source=20_000,
            target=19_999,
            records=2,
            other=(20_001, 20_000),
        ),
    ),
)
LEFT = GOOD.replace(
    topic="<script>alert(1)</script>",
    verdict=Agreement.IN_PART,
    left=(NotCompared(why=Why.SOURCE_DELETED, text="the source has deleted offsets 0 to 9"),),
)


def report(*partitions: PartitionReport) -> Report:
    return Report(partitions=partitions, began=1_700_000_000_000, seconds=12.3)
