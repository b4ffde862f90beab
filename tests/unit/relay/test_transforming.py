"""What a lane does with what comes out of a stage: outlets, wants, refused records. The stage and
the connections are this test's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from causeway.errors import CausewayError
from causeway.link_topics import Outlet, Transformed
from causeway.model import Pair, State
from causeway.records import Batch, Kept, PlainRecord, build
from causeway.relay import Assignment, OutletWanted, StageSpec
from causeway.relay.lane import stages
from causeway.relay.lane.chunks import DIES, HANGS, Work, WorkResult
from causeway.relay.lane.flow import SAID_S, Flow, OnTheWay
from causeway.relay.lane.outlet import OutletState, next_batch
from causeway.relay.lane.responses import NeedsRecovery
from causeway.relay.lane.transforming import Transforming
from causeway.transform import ChunkOutcome, OutletBatch, Refusal
from tests.builders.relay import open_relay


def _batch(*offsets: int, size: int = 1) -> Batch:
    records = [PlainRecord(at, 1 << 41, None, b"v" * size, []) for at in range(len(offsets))]
    return build(
        records, codec=0, first=offsets[0], next=offsets[-1] + 1, leader_epoch=0, offsets=offsets
    )


class _Stage:
    """Keeps works until it is told what became of them."""

    def __init__(self, dead_letters: str | None) -> None:
        self.spec = StageSpec(key="k", name="pii", dead_letters=dead_letters)
        self.works: list[Work] = []

    def submit(self, work: Work) -> None:
        self.works.append(work)

    def cancel(self, owner: object) -> None:
        self.works = [work for work in self.works if work.owner is not owner]

    def answer(self, *outputs: OutletBatch, refused: tuple[Refusal, ...] = ()) -> None:
        work = self.works.pop(0)
        counts = (work.records, len(outputs), 0, 0, (1,), (0, 2))
        outcome = ChunkOutcome(0, outputs, refused, *counts)
        assert work.take is not None
        work.take(WorkResult(outcome, work.next, work.batches, work.size, True))


class _Lane:
    """What a flow meets in its lane."""

    def __init__(self, dead_letters: str | None = None, *outlets: Outlet) -> None:
        self.stage = _Stage(dead_letters)
        self.doubts: list[NeedsRecovery] = []
        self.stopped: list[str] = []
        self.settled = 0
        self.offered: list[OutletState] = []
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.flow = Flow.of(
            Assignment(
                link="A->B",
                source="a",
                target="b",
                topic="t",
                partition=3,
                topic_id="a" * 32,
                leader_epoch=-1,
                outlets=outlets or (_outlet("A.t", 3),),
                transform="k",
            )
        )
        self.flow.state, self.flow.unsettled = State.RUNNING, False
        self.on_the_way = self.flow.on_the_way = OnTheWay(cast(Any, self.stage))
        self.transforming = Transforming(
            cast(Any, self), cast(Any, self), cast(Any, self), lambda _: None
        )

    def send(self, *batches: Batch, upto: int) -> None:
        self.flow.position = upto
        self.transforming.send(self.flow, self.on_the_way, Kept(upto, list(batches)))

    def offer(self, _: Flow, outlet: OutletState) -> None:
        self.offered.append(outlet)

    def fetch_no_more(self, _: Flow) -> None:
        pass

    def cluster(self, key: str) -> str:
        return key

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.jobs.append((work, then))

    def start_recovery(self, flow: Flow, doubt: NeedsRecovery) -> None:
        self.doubts.append(doubt)
        flow.recoveries += 1

    def stop(self, flow: Flow, reason: str) -> None:
        self.stopped.append(reason)
        flow.state = State.STOPPED

    def done(self, _: Flow) -> None:
        self.settled += 1


def _outlet(topic: str, partition: int, *, start: int = 0, routed: str | None = None) -> Outlet:
    pair = Pair(source=start, target=0, sequence=0)
    return Outlet(
        topic=topic,
        partition=partition,
        topic_id="b" * 32,
        producer_id=1,
        producer_epoch=0,
        pair=pair,
        routed=routed,
    )


def _sent(outlet: OutletState) -> list[int]:
    return [batch.source_offset(at) for batch in outlet.pending for at in range(batch.records)]


def test_the_pair_follows_what_came_back_not_what_was_fetched() -> None:
    lane = _Lane()
    lane.send(_batch(0, 1, 2), upto=5)
    lane.send(_batch(5, 6), upto=9)
    lane.flow.settle()
    assert lane.flow.outlets[0].pair.source == 0
    assert not lane.flow.idle
    lane.stage.answer()
    lane.flow.settle()
    assert lane.flow.outlets[0].pair.source == 5
    lane.stage.answer(OutletBatch(None, None, _batch(6, 6)))
    assert _sent(lane.flow.outlets[0]) == [6, 6]
    assert lane.flow.through == 9
    assert lane.flow.report().transformed == Transformed(
        records_in=5, records_out=1, seen=1, through_spark=5, found=(2,), missing=(0, 4)
    )


def test_a_fetch_of_nothing_but_dropped_batches_comes_after_what_is_on_the_way() -> None:
    lane = _Lane()
    lane.send(upto=4)
    assert lane.flow.through == 4
    lane.send(_batch(4), upto=5)
    lane.send(upto=8)
    assert lane.flow.through == 4
    lane.stage.answer()
    lane.stage.answer()
    assert lane.flow.through == 8
    assert lane.flow.idle


def test_large_fetches_go_in_several_chunks() -> None:
    lane = _Lane()
    batches = [_batch(at, size=stages.CHUNK_BYTES // 2) for at in range(5)]
    lane.send(*batches, upto=7)
    assert [work.next for work in lane.stage.works] == [1, 2, 3, 4, 7]


def test_a_flow_that_only_finishes_sends_nothing_beyond_its_end_through_the_stage() -> None:
    lane = _Lane()
    lane.flow.assignment = lane.flow.assignment.replace(finish=True, stop_at=5)
    lane.send(_batch(0, 2), _batch(3, 4, 5, 6), _batch(7, 8), upto=9)
    (work,) = lane.stage.works
    sent = [batch.source_offset(at) for batch in work.batches for at in range(batch.records)]
    assert (sent, work.next) == ([0, 2, 3, 4], 5)
    lane.stage.answer(OutletBatch(None, None, _batch(3)))
    assert lane.flow.through == 5


def test_records_go_to_the_outlets_that_their_places_name() -> None:
    """The mirror's own by no name, by its own name, or by both."""
    lane = _Lane(
        None, _outlet("A.t", 3), _outlet("A.eu", 3, routed="eu"), _outlet("A.t", 0, routed="t")
    )
    lane.send(_batch(0, 1, 2, 3), upto=4)
    lane.stage.answer(
        OutletBatch(None, None, _batch(0)),
        OutletBatch("eu", None, _batch(1)),
        OutletBatch("t", 0, _batch(2)),
        OutletBatch("t", 3, _batch(3)),
    )
    assert [_sent(outlet) for outlet in lane.flow.outlets] == [[0, 3], [1], [2]]
    assert lane.offered == lane.flow.outlets


def test_an_outlet_that_is_further_on_gets_nothing_twice() -> None:
    lane = _Lane(None, _outlet("A.t", 3), _outlet("A.eu", 3, routed="eu", start=2))
    lane.send(_batch(0, 1, 2, 3), upto=4)
    lane.stage.answer(OutletBatch("eu", None, _batch(0, 1, 2, 2, 3)))
    assert _sent(lane.flow.outlets[1]) == [2, 2, 3]


def test_what_cannot_be_cut_for_an_outlet_further_on_holds_its_partition_alone() -> None:
    lane = _Lane(None, _outlet("A.t", 3, start=1))
    lane.send(_batch(0, 1), upto=2)
    lane.stage.answer(OutletBatch(None, None, _batch(0, 1)._replace(payload=b"\xff" * 10)))
    assert len(lane.doubts) == 1
    assert lane.flow.through == 1


def test_a_place_without_an_outlet_is_wanted_from_its_first_record_on() -> None:
    lane = _Lane()
    lane.send(_batch(0, 1, 2, 3), upto=4)
    lane.stage.answer(
        OutletBatch(None, None, _batch(0)),
        OutletBatch("eu", None, _batch(2, 3)),
        OutletBatch("us", 1, _batch(1)),
    )
    assert lane.flow.report().wants == (
        OutletWanted(topic="eu", partition=3, offset=2),
        OutletWanted(topic="us", partition=1, offset=1),
    )
    (doubt,) = lane.doubts
    assert "2 more target partitions" in str(doubt)
    assert "eu" not in str(doubt), "a name that a query made may be anything of a record"
    assert not doubt.failure
    assert _sent(lane.flow.outlets[0]) == []


def test_a_refused_record_stops_the_partition_behind_all_before_it() -> None:
    lane = _Lane()
    outlet = lane.flow.outlets[0]
    lane.send(_batch(0, 1, 2, 3), upto=4)
    lane.send(_batch(4), upto=5)
    lane.stage.answer(
        OutletBatch(None, None, _batch(0, 1)),
        OutletBatch(None, None, _batch(3)),
        refused=(Refusal(2, "value is not JSON"),),
    )
    assert _sent(outlet) == [0, 1]
    assert lane.stage.works == []
    assert lane.stopped == []

    sent = outlet.sent(next_batch(outlet, 1_000_000))
    outlet.unanswered -= 1
    outlet.acknowledged(sent, 0)
    lane.transforming.look(lane.flow)

    (reason,) = lane.stopped
    assert "refuses the record at offset 2 of t-3: value is not JSON" in reason
    assert outlet.pair == Pair(source=2, target=2, sequence=2)


def test_dead_letters_are_written_before_anything_behind_them_goes_on() -> None:
    lane = _Lane("letters")
    outlet = lane.flow.outlets[0]
    lane.send(_batch(0, 1, 2), upto=3)
    lane.send(_batch(3), upto=4)
    lane.stage.answer(
        OutletBatch(None, None, _batch(0)),
        OutletBatch(None, None, _batch(2)),
        refused=(Refusal(1, "value is not JSON"),),
    )
    lane.stage.answer(OutletBatch(None, None, _batch(3)))
    assert _sent(outlet) == []
    assert lane.flow.through == 0
    assert not lane.flow.idle
    assert lane.flow.pending_bytes == sum(_batch(*o).size for o in ((0, 1, 2), (3,)))
    ((_, written),) = lane.jobs
    written(None)
    assert _sent(outlet) == [0, 2, 3]
    assert lane.flow.pending_bytes == outlet.pending_bytes
    assert lane.flow.through == 4
    assert lane.stopped == []


def test_a_record_on_which_processes_die_stops_the_partition_and_is_no_dead_letter() -> None:
    lane = _Lane("letters")
    lane.send(_batch(7), upto=8)
    lane.stage.answer(refused=(Refusal(7, DIES),))
    assert lane.jobs == []
    (reason,) = lane.stopped
    assert f"offset 7 of t-3: {DIES}" in reason
    assert lane.flow.through == 7


def test_recovery_takes_no_record_on_which_processes_die_for_refused() -> None:
    lane = _Lane("letters")

    def call(topic: str, partition: int, following: int, batches: list[Batch]) -> list[Any]:
        return [WorkResult(ChunkOutcome(0, (), (Refusal(0, DIES),)), following, batches, 0, True)]

    lane.stage.call = call  # type: ignore[attr-defined]
    series = stages.series_of(lane.flow)
    with pytest.raises(CausewayError) as raised:
        list(series(lane.flow.assignment, iter([_batch(0)])))
    assert raised.value.retriable


def test_a_record_that_gets_no_answer_is_a_dead_letter_like_any_other() -> None:
    lane = _Lane("letters")
    lane.send(_batch(7), upto=8)
    lane.stage.answer(refused=(Refusal(7, HANGS),))
    ((_, written),) = lane.jobs
    written(None)
    assert lane.stopped == []
    assert lane.flow.through == 8


def test_a_partition_says_since_when_it_waits_for_its_transform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    lane = _Lane()

    def said() -> tuple[str | None, bool]:
        lane.flow.changed = False
        lane.flow.look_at_wait()
        changed = lane.flow.changed
        return lane.flow.report().reason, changed

    assert said() == (None, False)
    lane.send(_batch(0), upto=1)
    lane.send(_batch(1), upto=2)
    now += SAID_S - 1
    assert said() == (None, False)
    now += 1
    waits = "waiting for its transform since 2027-01-15T08:00:00Z"
    assert said() == (waits, True)
    assert said() == (waits, False), "it is told once"
    lane.stage.answer(OutletBatch(None, None, _batch(0)))
    assert said() == (None, True)
    now += SAID_S
    assert said() == ("waiting for its transform since 2027-01-15T08:00:05Z", True)
    lane.stage.answer(OutletBatch(None, None, _batch(1)))
    now += SAID_S
    assert said() == (None, True)


def test_letters_that_cannot_be_written_hold_the_partition() -> None:
    lane = _Lane("letters")
    lane.send(_batch(0), upto=1)
    lane.stage.answer(refused=(Refusal(0, "no"),))
    ((_, written),) = lane.jobs
    written(CausewayError("write", "letters", "no"))
    assert lane.flow.through == 0
    (doubt,) = lane.doubts
    assert "dead letters" in str(doubt)
    written(None)  # of a try before: the flow has been recovered since
    assert lane.flow.through == 0


def test_what_one_record_became_is_never_cut() -> None:
    """By size a batch is cut in halves, but only between source records."""
    lane = _Lane()
    outlet = lane.flow.outlets[0]
    outlet.put(_batch(0, 1, 1, 1, 1, 2, size=1000))
    found = []
    while outlet.pending:
        batch = next_batch(outlet, 3000)
        found.append([batch.source_offset(at) for at in range(batch.records)])
    assert found == [[0], [1, 1, 1, 1], [2]]


@pytest.mark.parametrize("stops", [True, False])
def test_recovery_sees_what_lanes_send(stops: bool) -> None:
    lane = _Lane(None if stops else "letters", _outlet("A.t", 3), _outlet("A.eu", 3, routed="eu"))

    def call(topic: str, partition: int, following: int, batches: list[Batch]) -> list[Any]:
        assert (topic, partition) == ("t", 3)
        outputs = (
            OutletBatch("eu", None, _batch(0)),
            OutletBatch(None, None, _batch(1)),
            OutletBatch("us", None, _batch(1)),
            OutletBatch(None, None, _batch(3)),
        )
        outcome = ChunkOutcome(0, outputs, (Refusal(2, "no"),))
        return [WorkResult(outcome, following, batches, 0, True)]

    lane.stage.call = call  # type: ignore[attr-defined]
    series = stages.series_of(lane.flow)
    found = [
        [None if part is None else part.first for part in parts]
        for parts in series(lane.flow.assignment, iter([_batch(0, 1, 2, 3)]))
    ]
    assert found == [[None, 0], [1, None], *([] if stops else [[3, None]])]


def test_a_flow_that_leaves_sends_what_it_was_led_to_and_ends_at_one_place() -> None:
    """There another version of its transform can begin, whatever came back for which outlet."""
    lane = _Lane(None, _outlet("A.t", 3), _outlet("A.eu", 3, routed="eu"))
    lane.send(_batch(0, 1), upto=2)
    lane.send(_batch(2, 3), upto=4)
    lane.stage.answer(OutletBatch(None, None, _batch(0)), OutletBatch("eu", None, _batch(1)))
    lane.flow.leave()
    with open_relay() as relay:
        relay.let_go(lane.flow)
    assert lane.stage.works == []
    for number, outlet in enumerate(lane.flow.outlets):
        assert lane.flow.report().position < 2
        sent = outlet.sent(next_batch(outlet, 1_000_000))
        outlet.unanswered -= 1
        outlet.acknowledged(sent, 40 + number)
    report = lane.flow.report(final=True)
    assert [outlet.pair for outlet in report.outlets] == [Pair(2, 41, 1), Pair(2, 42, 1)]
