"""Who wrote through a fence, or behind a cut, by the log itself: also long after, and by another
call than the one that set the fence."""

from __future__ import annotations

from typing import Any

from causeway.errors import UnreachableError
from causeway.model import TopicPartition
from causeway.operate.cutover import Producer
from causeway.operate.cutover.values import OffsetRange
from causeway.operate.cutover.watch import writers
from tests.builders.cluster import StubCluster
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.world import Log

AT, OTHER, DARK = (TopicPartition(name, 0) for name in ("orders", "bills", "dark"))
T = 1_700_000_000_000


def rec(offset: int) -> Rec:
    return Rec(offset=offset, timestamp=T + offset)


def batch(offset: int, **more: Any) -> bytes:
    return raw_batch([rec(offset)], epoch=0, sequence=0, **more)


LOG = Log(
    [
        (10, 10, batch(10, producer_id=5)),  # before the fence
        (11, 12, raw_batch([rec(11), rec(12)], producer_id=7, epoch=0, sequence=0)),
        (13, 13, batch(13, producer_id=7)),
        (14, 14, batch(14, producer_id=8, transactional=True, control=True)),
        (15, 15, raw_batch([rec(15)])),
        (16, 16, batch(16, producer_id=6)),  # behind the stretch
    ],
    start=10,
    end=17,
)


def source() -> StubCluster:
    found = StubCluster("A", dict.fromkeys((AT, OTHER, DARK), LOG))
    found.unreadable[DARK] = UnreachableError("reach", "A")
    found.transactional_ids = {7: "shop-1"}
    return found


def test_each_producer_is_named_with_the_records_that_it_wrote() -> None:
    found = writers(source(), {AT: OffsetRange(11, 16)})

    assert found == (
        Producer(
            topics=("orders",), producer_id=None, transactional_id=None, last_ms=T + 15, records=1
        ),
        Producer(
            topics=("orders",), producer_id=7, transactional_id="shop-1", last_ms=T + 13, records=3
        ),
    )


def test_a_producer_of_several_topics_is_one_and_an_unreadable_partition_hides_no_other() -> None:
    stretches = dict.fromkeys((AT, DARK, OTHER), OffsetRange(11, 14))

    (one,) = writers(source(), stretches)

    assert (one.topics, one.producer_id, one.records) == (("bills", "orders"), 7, 6)


def test_a_producer_is_named_by_its_id_if_the_broker_refuses_to_list_transactions() -> None:
    refusing = source()
    refusing.transactional_ids = None

    (one,) = writers(refusing, {AT: OffsetRange(11, 14)})

    assert (one.producer_id, one.transactional_id) == (7, None)


def test_without_offsets_no_writer_is_named() -> None:
    assert writers(source(), {}) == ()
