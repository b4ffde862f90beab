"""Who goes on writing, and how long nobody has, from several looks."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pytest

from causeway.cluster import ActiveProducer
from causeway.errors import AuthorizationError
from causeway.model import TopicPartition
from causeway.operate.cutover import watch as watching
from causeway.operate.cutover.watch import SourceWatch

AT, OTHER = TopicPartition("orders", 0), TopicPartition("bills", 0)


class Source:
    """What its brokers say of producers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.sequences: dict[TopicPartition, dict[int, int]] = {AT: {7: 1}, OTHER: {8: 1}}
        self.open: dict[TopicPartition, int] = {}
        self.ids: dict[int, str] | None = {7: "shop-1"}
        monkeypatch.setattr(watching, "active_producers", self.active)
        monkeypatch.setattr(watching, "open_transactions", self.opened)
        monkeypatch.setattr(watching, "transactional_ids", self.named)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        cluster: Any = None
        self.watch = SourceWatch(cluster)

    def active(self, _: Any, places: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        return {
            at: tuple(
                ActiveProducer(
                    producer_id=one, producer_epoch=0, last_sequence=last, last_timestamp=5
                )
                for one, last in self.sequences[at].items()
            )
            for at in places
        }

    def opened(self, _: Any, places: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        one = ActiveProducer(
            producer_id=7,
            producer_epoch=0,
            last_sequence=0,
            last_timestamp=5,
            transaction_start=0,
        )
        return {at: (one,) * self.open.get(at, 0) for at in places}

    def named(self, _: Any, producers: Collection[int]) -> dict[int, str]:
        if self.ids is None:
            raise AuthorizationError("list transactions")
        return {one: self.ids[one] for one in producers if one in self.ids}

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


def test_who_has_appended_since_the_first_look_is_named_for_a_while(source: Source) -> None:
    source.see(10)
    assert source.who() == [], "what was before is not going on"
    source.sequences[AT][7] = 2
    source.see(11)
    assert source.who() == [(("orders",), 7, "shop-1")]
    source.ids = None
    source.sequences[OTHER][8] = 2
    source.see(11, 12)
    assert source.who() == [(("orders",), 7, "shop-1"), (("bills",), 8, None)]
    source.see(11, 12, after_s=60)
    assert source.who() == []


def test_one_without_an_id_is_told_of_and_a_transaction_that_ends_is_nobody(
    source: Source,
) -> None:
    source.open[OTHER] = 1
    source.see(10)
    source.see(12)
    assert source.who() == [(("orders",), None, None)]
    source.open[OTHER] = 0
    source.see(12, 11, after_s=60)
    assert source.who() == [], "the end of a transaction is a record of the broker's"


def test_how_long_nobody_has_written_and_what_came_behind_the_fence(source: Source) -> None:
    source.see(10)
    source.see(10, after_s=3)
    assert source.watch.still_s == 3
    source.see(11, fenced=True)
    assert (source.watch.still_s, source.watch.appended) == (0, 0)
    source.see(15, fenced=True)
    assert source.watch.appended == 4
    source.see(16, fenced=False)
    assert source.watch.appended == 0
    assert source.watch.through == {AT: (11, 15)}, "it is to be on_look at the end"


def test_lag_is_of_what_was_there_two_seconds_before(source: Source) -> None:
    for second, end in enumerate([10, 20, 30, 40]):
        source.see(end)
        assert source.watch.had(AT) == [10, 10, 10, 20][second]


def test_how_fast_lag_shrinks(source: Source) -> None:
    assert source.watch.per_s(1_000) is None
    source.now_s += 2
    assert source.watch.per_s(800) == 100
    source.now_s += 2
    assert source.watch.per_s(1_200) == -50


def test_what_followers_have_yet_to_copy_is_not_still(source: Source) -> None:
    source.see(10)
    source.see(10, after_s=5)
    assert source.watch.still_s == 5
    source.see(10, tail=3)
    assert source.watch.still_s == 0, "three more are to come for readers"
    source.see(10, after_s=60, tail=3)
    assert source.watch.still_s == 0
