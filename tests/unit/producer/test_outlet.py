"""What a partition's batches do where a request is lost or answered by an error."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import YOUNG_S
from causeway.producer.client import Sending
from causeway.producer.encode import Packer, batch_of
from causeway.producer.journal import Record
from causeway.producer.outlet import Outlet, Unsure

NOW = 1000.0


def sending(
    first: int, count: int = 4, *, size: int = 3000, age_s: float = 0, codec: int = 0
) -> Sending:
    at = int((time.time() - age_s) * 1000)
    records: list[Record] = [(first + n, 1, at, b"k", b"v" * size, None) for n in range(count)]
    on = cast(Any, SimpleNamespace())
    batch = batch_of(records, b"shop/1-", Packer(codec))
    return Sending(on, batch, records, len(batch.payload))


def outlet(*waiting: Sending, known: bool = True) -> Outlet:
    made = Outlet("orders", 0)
    made.waiting.extend(waiting)
    if known:
        made.remembered_until = NOW + 60
    return made


def sent(made: Outlet) -> list[tuple[int, int, int]]:
    """First position, sequence and count of all that may be sent now."""
    found = []
    while made.has_more() and made.may_send(NOW):
        one = made.take()
        found.append((one.batch.first, one.sequence, one.batch.records))
    return found


def test_a_broker_that_may_not_know_us_gets_one_batch_at_a_time() -> None:
    made = outlet(sending(1), sending(5), sending(9), known=False)
    assert sent(made) == [(1, 0, 4)]
    made.done(NOW)
    assert sent(made) == [(5, 4, 4), (9, 8, 4)]


def test_old_records_leave_it_unknown() -> None:
    made = outlet(sending(1, age_s=2 * YOUNG_S), sending(5), known=False)
    sent(made)
    made.done(NOW)
    made.waiting.append(sending(9))
    assert sent(made) == [(5, 4, 4)]


def test_what_was_lost_goes_again_in_order_with_its_sequences() -> None:
    made = outlet(sending(1), sending(5), sending(9))
    sent(made)
    made.done(NOW)
    made.lost()
    made.waiting.append(sending(13))
    assert made.settle(NOW) is None
    assert sent(made) == [(5, 4, 4)], "whoever leads now may not know us"
    made.done(NOW)
    assert sent(made) == [(9, 8, 4), (13, 12, 4)]


def test_nothing_is_sent_before_all_is_answered_that_is_on_its_way() -> None:
    """As another broker leads by then, and the first one still answers."""
    made = outlet(sending(1), sending(5), sending(9))
    sent(made)
    made.fail(doubtful=False)
    made.settle(NOW)
    assert sent(made) == []
    made.fail(doubtful=False)
    made.fail(doubtful=False)
    assert made.settle(NOW + 1) is None
    assert sent(made) == [], "after a pause"
    made.not_before = NOW
    assert sent(made) == [(1, 0, 4)]
    made.done(NOW)
    assert sent(made) == [(5, 4, 4), (9, 8, 4)]


def test_behind_old_records_nothing_goes_though_young_ones_went_before() -> None:
    """What a broker knows of a producer is as old as the last that it has of it."""
    made = outlet(sending(1), sending(5, age_s=2 * YOUNG_S), sending(9), sending(13))
    assert sent(made) == [(1, 0, 4), (5, 4, 4)]
    made.done(NOW)
    assert sent(made) == []
    made.done(NOW)
    assert sent(made) == [(9, 8, 4)]
    made.done(NOW)
    assert sent(made) == [(13, 12, 4)]


def test_a_lost_batch_with_old_ones_behind_it_that_may_be_there_is_looked_for() -> None:
    made = outlet(sending(1), sending(5, age_s=2 * YOUNG_S))
    sent(made)
    made.lost()
    made.settle(NOW)
    with pytest.raises(Unsure):
        made.take()


def test_a_lost_batch_of_old_records_is_looked_for() -> None:
    made = outlet(sending(1, age_s=2 * YOUNG_S))
    sent(made)
    made.lost()
    made.settle(NOW)
    with pytest.raises(Unsure):
        made.take()


def test_a_refused_record_is_found_and_its_neighbours_go_on() -> None:
    """Position 7 is refused, alone and in any company."""
    made = outlet(sending(1), sending(5), sending(9))
    there: list[tuple[int, int]] = []
    given_up: list[int] = []
    for _ in range(20):
        sent(made)
        broken = False
        while made.way:
            one = made.way[0]
            positions = list(one.batch.offsets or ())
            if 7 in positions:
                one.refusal, broken = "too large", True
                made.fail(doubtful=False)
            elif broken:
                made.fail(doubtful=False)  # its sequence is missing
            else:
                made.done(NOW)
                there += [(p, one.sequence + i) for i, p in enumerate(positions)]
            if (dropped := made.settle(NOW)) is not None:
                given_up.append(dropped.batch.first)
    assert given_up == [7]
    wanted = [p for p in range(1, 13) if p != 7]
    assert there == list(zip(wanted, range(11), strict=True))


def test_a_record_that_is_refused_before_others_that_may_be_there_is_looked_at() -> None:
    made = outlet(sending(1, 1), sending(5))
    sent(made)
    made.way[0].refusal = "too large"
    made.fail(doubtful=False)
    made.fail(doubtful=True)
    with pytest.raises(Unsure):
        made.settle(NOW)


def test_small_neighbours_go_as_one() -> None:
    made = outlet(*(sending(n, 1, size=10) for n in range(1, 50)))
    assert sent(made) == [(1, 0, 49)]
    one = made.done(NOW)
    assert one.records is not None
    assert [r[0] for r in one.records] == list(one.batch.offsets or ()) == list(range(1, 50))


def test_what_a_client_counts_for_batches_is_what_it_takes_off_again() -> None:
    """Together they pack to less, and halves to more: its queue would fill up with nothing."""
    many = [sending(n, 1, size=1000, codec=3) for n in range(1, 50)]
    whole = sum(each.charged for each in many)
    made = outlet(*many)
    sent(made)
    assert len(made.way[0].batch.payload) < whole
    made.way[0].refusal = "too large"
    made.fail(doubtful=False)
    made.settle(NOW)
    assert len(made.again) == 2
    assert sum(each.charged for each in made.again) == whole
