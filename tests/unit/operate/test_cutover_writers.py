"""Who wrote through a fence, or behind a cut, by the log itself: also long after, and by another
call than the one that set the fence."""

from __future__ import annotations

from typing import Any

import pytest

from causeway.cluster import OffsetAt
from causeway.errors import AuthorizationError, UnreachableError
from causeway.model import TopicPartition
from causeway.operate.cutover import Producer
from causeway.operate.cutover import watch as module
from causeway.operate.cutover.values import OffsetRange
from causeway.operate.cutover.watch import writers
from tests.harness.raw_batches import Rec, raw_batch

AT, OTHER, DARK = (TopicPartition(name, 0) for name in ("orders", "bills", "dark"))
T = 1_700_000_000_000


def rec(offset: int) -> Rec:
    return Rec(offset=offset, timestamp=T + offset)


def batch(offset: int, **more: Any) -> bytes:
    return raw_batch([rec(offset)], epoch=0, sequence=0, **more)


class Source:
    """Each partition has offsets 10 to 17, by several producers."""

    log = b"".join(
        (
            batch(10, producer_id=5),  # before the fence
            raw_batch([rec(11), rec(12)], producer_id=7, epoch=0, sequence=0),
            batch(13, producer_id=7),
            batch(14, producer_id=8, transactional=True, control=True),
            raw_batch([rec(15)]),
            batch(16, producer_id=6),  # behind the stretch
        )
    )

    def list_offsets(self, places: list[TopicPartition], _: int) -> dict[Any, Any]:
        return {at: OffsetAt(offset=10, timestamp=-1, leader_epoch=0) for at in places}

    def fetch(self, at: TopicPartition, position: int, *_: object, **__: object) -> Any:
        if at == DARK:
            raise UnreachableError("reach", "A")

        class Fetched:
            records = Source.log if position <= 16 else b""
            high_watermark = 17

        return Fetched


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "transactional_ids", lambda *_: {7: "shop-1"})


def test_each_producer_is_named_with_what_it_wrote() -> None:
    found = writers(Source(), {AT: OffsetRange(11, 16)})  # type: ignore[arg-type]

    assert found == (
        Producer(
            topics=("orders",), producer_id=None, transactional_id=None, last_ms=T + 15, records=1
        ),
        Producer(
            topics=("orders",), producer_id=7, transactional_id="shop-1", last_ms=T + 13, records=3
        ),
    )


def test_a_producer_of_several_topics_is_one_and_a_dark_partition_hides_nobody_else() -> None:
    stretches = dict.fromkeys((AT, DARK, OTHER), OffsetRange(11, 14))

    (one,) = writers(Source(), stretches)  # type: ignore[arg-type]

    assert (one.topics, one.producer_id, one.records) == (("bills", "orders"), 7, 6)


def test_ids_have_to_do_where_names_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> dict[int, str]:
        raise AuthorizationError("list transactions")

    monkeypatch.setattr(module, "transactional_ids", refuse)

    (one,) = writers(Source(), {AT: OffsetRange(11, 14)})  # type: ignore[arg-type]

    assert (one.producer_id, one.transactional_id) == (7, None)


def test_nobody_wrote_nothing() -> None:
    assert writers(Source(), {}) == ()  # type: ignore[arg-type]
