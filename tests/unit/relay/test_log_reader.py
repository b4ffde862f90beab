"""Walking a log."""

from __future__ import annotations

from typing import cast

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from causeway.cluster import Cluster, raw_batches, relayed
from causeway.errors import BrokerError, ProtocolError
from causeway.records import HEADER
from tests.harness.raw_batches import Rec
from tests.harness.world import SOURCE, SOURCE_ID, FakeCluster, Log


@pytest.mark.parametrize(
    ("position", "end", "bases"),
    [(0, 9, [0, 3, 6]), (4, 9, [3, 6]), (0, 6, [0, 3]), (0, 7, [0, 3, 6]), (9, 9, [])],
)
def test_raw_batches_from_a_position_to_an_end(position: int, end: int, bases: list[int]) -> None:
    """What is appended while it reads is not looked at, though it comes with the same answer."""
    log = Log()
    for _ in range(4):
        log.append([Rec(offset=log.end + i) for i in range(3)])
    cluster = FakeCluster("t", SOURCE_ID, {0: log}, compacted=False)
    found = raw_batches(cast(Cluster, cluster), SOURCE, position, end)
    assert [HEADER.unpack_from(raw)[0] for raw in found] == bases


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_passed_by_and_no_batch_with_them(magic: int) -> None:
    """What lies where a batch has its last offset is of another meaning there."""
    log = Log()
    for number in range(6):
        builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
        builder.append(number, timestamp=1_480_000_000_000, key=None, value=b"old" * 30)
        log.batches.append((number, number, bytes(builder.build())))
    log.end = 6
    log.append([Rec(offset=6 + i) for i in range(3)])
    cluster = cast(Cluster, FakeCluster("t", SOURCE_ID, {0: log}, compacted=False))
    (found,) = raw_batches(cluster, SOURCE, 2, 9)
    assert HEADER.unpack_from(found)[0] == 6


def test_a_batch_that_says_that_it_is_too_short_is_refused() -> None:
    log = Log()
    log.append([Rec(offset=i) for i in range(3)])
    ((first, last, raw),) = log.batches
    log.batches[0] = first, last, raw[:8] + (5).to_bytes(4) + raw[12:]
    cluster = cast(Cluster, FakeCluster("t", SOURCE_ID, {0: log}, compacted=False))
    with pytest.raises(ProtocolError, match="offset 0 says that it has 17 bytes"):
        list(raw_batches(cluster, SOURCE, 0, 3))


def test_a_short_message_of_an_old_format_at_the_end_is_read() -> None:
    log = Log()
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(0, timestamp=1_480_000_000_000, key=None, value=b"")
    log.batches.append((0, 0, bytes(builder.build())))
    log.end = 1
    cluster = cast(Cluster, FakeCluster("t", SOURCE_ID, {0: log}, compacted=False))
    assert len(list(raw_batches(cluster, SOURCE, 0, 1, every_format=True))) == 1


def test_a_leader_that_shows_less_than_there_was_is_asked_again() -> None:
    """Elected a moment ago, it does not know yet how far its log is committed."""
    log = Log()
    for _ in range(2):
        log.append([Rec(offset=log.end + i) for i in range(3)])
    cluster = cast(Cluster, FakeCluster("t", SOURCE_ID, {0: log}, compacted=False))
    for walked in (
        raw_batches(cluster, SOURCE, 0, 7),
        relayed(cluster, SOURCE, 0, end=7),
    ):
        with pytest.raises(BrokerError, match="up to offset 6 only") as behind:
            list(walked)
        assert behind.value.retriable
    assert list(relayed(cluster, SOURCE, 0, end=6))[-1].next == 6
