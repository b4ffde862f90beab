"""Which producers go on writing, and for how long none has, from several looks."""

from __future__ import annotations

import time

import pytest

from causeway.cluster import ActiveProducer
from causeway.model import TopicPartition
from causeway.operate.cutover.watch import SourceWatch
from tests.builders.cluster import StubCluster

AT, OTHER = TopicPartition("orders", 0), TopicPartition("bills", 0)


class Source(StubCluster):
    """What its brokers say of producers, and a watch of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("A")
        self.now_s = 100.0
        self.appended(AT, 7, 1)
        self.appended(OTHER, 8, 1)
        self.transactional_ids = {7: "shop-1"}
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        self.watch = SourceWatch(self)

    def appended(
        self, at: TopicPartition, producer: int, sequence: int, transaction_start: int = -1
    ) -> None:
        """`producer` alone is remembered, and its last record had `sequence`."""
        self.producers[at] = [
            ActiveProducer(
                producer_id=producer,
                producer_epoch=0,
                last_sequence=sequence,
                last_timestamp=5,
                transaction_start=transaction_start,
            )
        ]

    def see(
        self,
        orders: int,
        bills: int = 10,
        *,
        after_s: float = 1.0,
        fenced: bool = False,
        tail: int = 0,
    ) -> None:
        """`tail`: records of orders that followers have yet to copy."""
        self.now_s += after_s
        ends = {AT: orders, OTHER: bills}
        self.watch.see(ends, ends, {**ends, AT: orders + tail}, fenced=fenced)

    def who(self) -> list[tuple[tuple[str, ...], int | None, str | None]]:
        found = self.watch.producers()
        return [(one.topics, one.producer_id, one.transactional_id) for one in found]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


def test_a_producer_that_appended_since_the_first_look_is_named_for_a_while(source: Source) -> None:
    source.see(10)
    assert source.who() == [], "what was before is not going on"
    source.appended(AT, 7, 2)
    source.see(11)
    assert source.who() == [(("orders",), 7, "shop-1")]
    source.transactional_ids = None
    source.appended(OTHER, 8, 2)
    source.see(11, 12)
    assert source.who() == [(("orders",), 7, "shop-1"), (("bills",), 8, None)]
    source.see(11, 12, after_s=60)
    assert source.who() == []


def test_a_producer_without_an_id_is_named_and_the_end_of_a_transaction_is_not(
    source: Source,
) -> None:
    source.appended(OTHER, 8, 1, transaction_start=0)
    source.see(10)
    source.see(12)
    assert source.who() == [(("orders",), None, None)]
    source.appended(OTHER, 8, 1)
    source.see(12, 11, after_s=60)
    assert source.who() == [], "the end of a transaction is a record of the broker's"


def test_time_without_writes_and_records_after_the_fence_are_counted(
    source: Source,
) -> None:
    source.see(10)
    source.see(10, after_s=3)
    assert source.watch.still_s == 3
    source.see(11, fenced=True)
    assert (source.watch.still_s, source.watch.appended) == (0, 0)
    source.see(15, fenced=True)
    assert source.watch.appended == 4
    source.see(16, fenced=False)
    assert source.watch.appended == 0
    assert source.watch.through == {AT: (11, 15)}, "the report of the cutover shows it"


def test_lag_is_measured_by_the_ends_of_two_seconds_before(source: Source) -> None:
    for second, end in enumerate([10, 20, 30, 40]):
        source.see(end)
        assert source.watch.had(AT) == [10, 10, 10, 20][second]


def test_the_rate_is_by_how_much_the_lag_has_shrunk(source: Source) -> None:
    assert source.watch.per_s(1_000) is None
    source.now_s += 2
    assert source.watch.per_s(800) == 100
    source.now_s += 2
    assert source.watch.per_s(1_200) == -50


def test_a_source_whose_followers_lack_records_is_not_still(source: Source) -> None:
    source.see(10)
    source.see(10, after_s=5)
    assert source.watch.still_s == 5
    source.see(10, tail=3)
    assert source.watch.still_s == 0, "three more are to come for readers"
    source.see(10, after_s=60, tail=3)
    assert source.watch.still_s == 0
