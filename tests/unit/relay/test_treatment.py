from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from causeway.errors import CausewayError, DivergedError
from causeway.link_topics import Outlet
from causeway.model import Pair
from causeway.records import Batch, Kept, Record, as_is, keep, records_of
from causeway.relay import Assignment, Topics, TreatmentStep, as_relayed, treat_batch, treatment_of
from causeway.relay import treatment as treatments
from causeway.relay.lane.flow import Flow, OnTheWay
from causeway.relay.lane.responses import NeedsRecovery, StopPartition, take, take_in
from causeway.relay.treatment import (
    Changed,
    Records,
    TreatmentNotReadyError,
    Treatments,
    treat_kept,
    treated,
)
from causeway.wire import Fetched
from tests.harness.raw_batches import Rec, raw_batch

T = Topics("t", "t")


@dataclass
class OnEven:
    """Leaves out records with an odd number, and changes every fourth; what is in `unknown` has to
    be found out first."""

    unknown: set[bytes] = field(default_factory=set)
    trouble: CausewayError | None = None
    prepared: int = 0

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        return [self._one(record) for record in records]

    def _one(self, record: Record) -> Record | None:
        value = record.value or b""
        if value in self.unknown:
            raise TreatmentNotReadyError("treat", value.decode(), "not known", retriable=True)
        if int(value) % 2:
            return None
        if int(value) % 4:
            return record
        return Changed(record.offset, record.timestamp, b"new", value, record.headers)

    def prepare(self) -> None:
        self.prepared += 1
        if self.trouble is not None:
            raise self.trouble
        self.unknown.clear()


def _batch(*numbers: int, first: int = 100) -> Batch:
    return as_is(_raw(*numbers, first=first))


def _raw(*numbers: int, first: int = 100) -> bytes:
    return raw_batch(
        [Rec(offset=first + at, value=b"%d" % number) for at, number in enumerate(numbers)]
    )


def _flow(**more: object) -> Flow:
    outlet = Outlet(
        topic="A.t",
        partition=0,
        topic_id="0" * 32,
        producer_id=1,
        producer_epoch=0,
        pair=Pair(source=100, target=0, sequence=0),
    )
    flow = Flow.of(
        Assignment(
            link="A->B",
            source="a",
            target="b",
            topic="t",
            partition=0,
            topic_id="0" * 32,
            leader_epoch=-1,
            outlets=(outlet,),
            treated=True,
        )
    )
    flow.treatment = OnEven(**more)  # type: ignore[arg-type]
    return flow


def _fetched(*raws: bytes) -> Fetched:
    return Fetched(
        topic=b"t",
        partition=0,
        error=0,
        high_watermark=200,
        last_stable=200,
        log_start=0,
        aborted=[],
        diverging=None,
        records=memoryview(b"".join(raws)),
    )


def test_a_batch_of_which_nothing_changes_stays_the_one_it_is() -> None:
    batch = _batch(2, 6)
    assert treat_batch(batch, OnEven(), T) is batch


def test_records_keep_their_source_offsets_where_others_are_left_out() -> None:
    batch = treat_batch(_batch(1, 2, 3, 4, 5), OnEven(), T)
    assert batch is not None
    assert [(batch.source_offset(i), r.key, r.value) for i, r in enumerate(records_of(batch))] == [
        (101, None, b"2"),
        (103, b"new", b"4"),
    ]
    assert (batch.first, batch.next) == (101, 105)  # all below `next` is in it, or was left out
    assert treat_batch(_batch(1, 3), OnEven(), T) is None


def test_gaps_of_the_source_stay_gaps() -> None:
    raw = raw_batch([Rec(offset=100, value=b"4"), Rec(offset=107, value=b"8")], base=100, last=109)
    (whole,) = keep(memoryview(raw), 100, ()).batches
    batch = treat_batch(whole, OnEven(), T)
    assert batch is not None
    assert [batch.source_offset(0), batch.source_offset(1), batch.next] == [100, 107, 110]


def test_what_was_kept_counts_as_seen_where_all_of_it_is_left_out() -> None:
    kept = treat_kept(Kept(103, [_batch(1), _batch(3, 5, first=101)], 7), OnEven(), T)
    assert kept == Kept(103, [], 7)


def test_what_cannot_be_treated_waits_for_what_comes_before_it() -> None:
    kept = Kept(102, [_batch(1, first=100), _batch(2, first=101)], 7)
    before = treat_kept(kept, OnEven(unknown={b"2"}), T)
    assert (before.position, before.batches) == (101, [])
    with pytest.raises(TreatmentNotReadyError):
        treat_kept(Kept(102, [_batch(2, first=101)], 7), OnEven(unknown={b"2"}), T)


def test_much_that_has_to_be_unpacked_is_left_to_the_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(treatments, "UNPACKED_BYTES", 1)
    kept = Kept(102, [_batch(2, first=100), _batch(4, first=101)], 7)
    left = treat_kept(kept, OnEven(), T)
    assert left.position == 101
    assert len(left.batches) == 1


def test_steps_come_one_after_the_other() -> None:
    steps = [
        TreatmentStep(kind="skip-header", settings={"name": "x"}),
        TreatmentStep(kind="provenance", settings={"source": "A", "target": "B"}),
    ]
    raw = raw_batch(
        [
            Rec(offset=0, value=b"1", headers=[("x", b"")]),
            Rec(offset=1, value=b"2"),
            Rec(offset=2, value=b"3", headers=[("x", None)]),
            Rec(offset=3, value=b"4", headers=[("causeway.origin", b"B/t")]),
            Rec(offset=4, value=b"5"),
        ]
    )
    batch = treat_batch(as_is(raw), treatment_of(steps), T)
    assert batch is not None
    assert [(batch.source_offset(i), r.headers) for i, r in enumerate(records_of(batch))] == [
        (1, [("causeway.origin", b"A/t")]),
        (4, [("causeway.origin", b"A/t")]),
    ]


def test_a_step_of_a_later_version_stops_the_partition() -> None:
    lane = Treatments({"A->B": (TreatmentStep(kind="later", settings={"secret": "s3cret"}),)})
    with pytest.raises(CausewayError, match="treat records by later") as refused:
        lane.get("A->B")
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(TreatmentStep(kind="later", settings={"secret": "s3cret"}))


def test_a_treatment_that_the_lane_does_not_know_stops_the_partition() -> None:
    """Untreated records would go round in a circle."""
    lane = Treatments({"A->B": (TreatmentStep(kind="skip-header", settings={"name": "old"}),)})
    lane.get("A->B")
    lane.renew({})
    with pytest.raises(CausewayError, match="treat the records of A->B"):
        lane.get("A->B")


def test_a_record_that_cannot_be_treated_yet_puts_its_flow_in_doubt_until_it_can() -> None:
    flow = _flow(unknown={b"2"})
    with pytest.raises(NeedsRecovery, match="not known"):
        take_in(flow, _fetched(_raw(2, 4)))
    assert flow.unprepared
    assert flow.position == 100
    assert flow.treatment is not None
    flow.treatment.prepare()
    kept, _ = take_in(flow, _fetched(_raw(2, 4)))
    assert kept.position == flow.position == 102


def test_a_record_that_a_person_has_to_decide_on_stops_its_flow() -> None:
    class Refuses(OnEven):
        def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
            raise DivergedError("treat", "t-0", "schema 7 is nowhere")

    flow = _flow()
    flow.treatment = Refuses()
    with pytest.raises(StopPartition, match="schema 7 is nowhere"):
        take_in(flow, _fetched(_raw(2)))


def test_a_transform_gets_what_the_treatment_has_left() -> None:
    flow = _flow()
    flow.on_the_way = OnTheWay(cast(Any, None))
    kept, touched = take(flow, _fetched(_raw(1, 2, 3, 4)))
    assert [batch.records for batch in kept.batches] == [2]
    assert (kept.position, touched) == (104, [])


def test_recovery_finds_out_what_it_lacks() -> None:
    series = treated(OnEven(unknown={b"2"}), as_relayed)
    flow = _flow()
    batches = [_batch(1, 3), _batch(2, 4, first=102)]
    (parts,) = series(flow.assignment, iter(batches))
    assert [None if p is None else p.records for p in parts] == [2]


def test_recovery_says_what_cannot_be_had_now() -> None:
    trouble = CausewayError("ask", "registry", "it is down", retriable=True)
    series = treated(OnEven(unknown={b"2"}, trouble=trouble), as_relayed)
    with pytest.raises(CausewayError, match="it is down"):
        list(series(_flow().assignment, iter([_batch(2)])))
