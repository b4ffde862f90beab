from __future__ import annotations

from causeway.control.held import Held, explain, reason
from causeway.errors import AuthorizationError
from causeway.wire.producers import OpenTransaction

HELD = Held(120, 5_120, 420_000)
OTHER = OpenTransaction(producer_id=9, producer_epoch=0, start=200, last_timestamp=0)
FIRST = OpenTransaction(producer_id=4711, producer_epoch=3, start=120, last_timestamp=0)


def test_the_reason_names_the_transaction_that_began_first() -> None:
    said = reason(HELD, (FIRST, OTHER))
    assert "producer 4711, epoch 3, has held offset 120 for 7 min: 5,000 offsets" in said
    assert "kafka-transactions.sh" in said


def test_nobody_is_told_to_abort_what_is_old_by_its_records_time_only() -> None:
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


def test_nobody_is_asked_where_nothing_is_held() -> None:
    assert explain(None, {}) == {}  # type: ignore[arg-type]
