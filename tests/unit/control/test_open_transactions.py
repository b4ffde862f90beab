from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from causeway.cluster import ActiveProducer, OffsetAt
from causeway.control import Held
from causeway.control.open_transactions import both_ends, explain, reason
from causeway.errors import AuthorizationError
from causeway.model import TopicPartition

AT = TopicPartition("orders", 0)

HELD = Held(120, 5_120, 420_000)


def in_transaction(producer_id: int, producer_epoch: int, start: int) -> ActiveProducer:
    return ActiveProducer(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_sequence=0,
        last_timestamp=0,
        transaction_start=start,
    )


OTHER = in_transaction(9, 0, 200)
FIRST = in_transaction(4711, 3, 120)


def test_the_reason_names_the_transaction_that_began_first() -> None:
    said = reason(HELD, (FIRST, OTHER))
    assert "producer 4711, epoch 3, has held offset 120 for 7 min: 5,000 offsets" in said
    assert "kafka-transactions.sh" in said


def test_a_transaction_with_old_timestamps_alone_gets_no_advice_to_abort() -> None:
    """A replay's or a stream application's records are dated when the event was."""
    said = reason(Held(120, 5_120, 5 * 3_600_000, dated=True), (FIRST, OTHER))
    assert "producer 4711, epoch 3, holds offset 120, a record dated 5 h ago: 5,000 off" in said
    assert "kafka-transactions.sh" not in said


def test_what_may_not_be_asked_is_said() -> None:
    denied = AuthorizationError("ask for the producers of", "t-0 on A", "denied")
    said = reason(HELD, denied)
    assert "which producer is not known: ask for the producers of t-0 on A: denied" in said
    assert "5,000 offsets" in said


def test_one_that_ended_meanwhile_is_not_blamed_on_anybody() -> None:
    assert reason(HELD, ()).startswith("an open transaction has held offset 120 for 7 min")


def test_without_open_transactions_no_broker_is_asked() -> None:
    assert explain(None, {}) == {}  # type: ignore[arg-type]


class Busy:
    """A source to whose topic a record is added between any two questions. `open_from`: where an
    open transaction begins."""

    def __init__(self, open_from: int | None = None) -> None:
        self._end = 100
        self._open_from = open_from

    def list_offsets(
        self, places: Collection[TopicPartition], _: int, read_committed: bool = False, **__: Any
    ) -> dict[TopicPartition, OffsetAt]:
        self._end += 1
        held = read_committed and self._open_from is not None
        end = cast(int, self._open_from) if held else self._end
        return {at: OffsetAt(offset=end, timestamp=-1, leader_epoch=0) for at in places}


def ends_of(source: Any) -> tuple[int, int]:
    readable, tops = both_ends(source, [AT], read_committed=True)
    return cast(OffsetAt, readable[AT]).offset, cast(OffsetAt, tops[AT]).offset


def test_a_busy_topic_without_transactions_holds_nothing_back() -> None:
    assert ends_of(Busy()) == (102, 102)


def test_what_an_open_transaction_holds_back_is_seen() -> None:
    assert ends_of(Busy(open_from=40)) == (40, 101)


def test_readers_of_all_are_asked_about_once() -> None:
    readable, tops = both_ends(cast(Any, Busy()), [AT], read_committed=False)
    assert readable == tops
    assert cast(OffsetAt, tops[AT]).offset == 101
