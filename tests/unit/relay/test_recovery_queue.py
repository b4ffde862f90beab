"""How recoveries share a lane's threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from causeway.errors import CausewayError, DivergedError
from causeway.link_topics import Outlet
from causeway.model import Loss, Pair, State, TopicPartition
from causeway.relay import Assignment
from causeway.relay.lane import recovery_queue
from causeway.relay.lane.flow import Diverging, Flow, OnTheWay
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.loop import HELPER_THREADS
from causeway.relay.lane.recovery_queue import RecoveryQueue
from causeway.relay.lane.responses import NeedsRecovery, account, take, take_in
from causeway.relay.recovery import (
    Damage,
    LossError,
    PartitionLeader,
    RecoveryRequest,
    ResumedOutlet,
    Resumption,
    TooEarlyError,
)
from causeway.wire import Fetched, Produced, codes
from tests.harness.raw_batches import Rec, raw_batch


class _Connections:
    def cluster(self, key: str) -> str:
        return key

    def detach(self, flow: Flow) -> None:
        pass

    def attach(self, flow: Flow) -> None:
        pass


class _Stage:
    def __init__(self) -> None:
        self.ready = True
        self.why: str | None = None

    def trouble(self, now: float) -> str | None:
        return self.why

    def cancel(self, owner: object) -> None:
        pass


def _flow(topic: str, stage: str | None, outlets: int = 1, *, finish: bool = False) -> Flow:
    assignment = Assignment(
        link="A->B",
        source="a",
        target="b",
        topic=topic,
        partition=0,
        topic_id="a" * 32,
        leader_epoch=-1,
        outlets=tuple(
            Outlet(
                topic=f"A.{topic}",
                partition=number,
                topic_id="b" * 32,
                producer_id=1,
                producer_epoch=0,
                pair=Pair(0, 0, 0),
            )
            for number in range(outlets)
        ),
        transform=stage,
        finish=finish,
    )
    flow = Flow.of(assignment)
    if stage is not None:
        flow.on_the_way = OnTheWay(cast(Any, _Stage()))
    return flow


@pytest.fixture
def helpers() -> Iterator[Helpers]:
    helpers = Helpers(HELPER_THREADS)
    yield helpers
    helpers.close()


def _until(helpers: Helpers, done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60.0
    while not done():
        assert time.monotonic() < deadline
        helpers.finish()
        time.sleep(0.005)


def test_stages_that_are_stuck_hold_up_no_flow_without_a_transform(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, over = [], threading.Event()

    def recover(requests: Any, *_: Any) -> Any:
        (request,) = requests
        if request.assignment.transform is not None:
            stuck.append(request)
            over.wait(60)
        raise CausewayError("recover", request.assignment.topic, "it was asked")

    monkeypatch.setattr(recovery_queue, "recover", recover)
    monkeypatch.setattr(recovery_queue, "RECOVERED_TOGETHER", 1)
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: None)
    staged = [_flow(f"t{n}", f"stage {n % HELPER_THREADS}") for n in range(3 * HELPER_THREADS)]
    plain = _flow("plain", None)
    for flow in (*staged, plain):
        finding.lost(flow)
    try:
        finding.find(staged, time.monotonic())
        _until(helpers, lambda: plain.failures)
        _until(helpers, lambda: len(stuck) == recovery_queue.RECOVERIES * HELPER_THREADS)
        assert "it was asked" in str(plain.reason)
    finally:
        over.set()


def test_a_missing_treatment_is_found_first_and_delays_no_other_flow(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    trouble: list[CausewayError] = [CausewayError("ask", "registry", "it is down")]

    @dataclass
    class Lacks:
        prepared: int = 0

        def treat(self, topics: Any, records: Any) -> Any:
            raise AssertionError

        def prepare(self) -> None:
            self.prepared += 1
            if trouble:
                raise trouble[0]

    def recover(requests: Any, *_: Any) -> Any:
        asked.extend(request.assignment.topic for request in requests)
        raise CausewayError("recover", "", "it was asked")

    monkeypatch.setattr(recovery_queue, "recover", recover)
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: None)
    waiting, other = _flow("waiting", None), _flow("other", None)
    waiting.treatment = other.treatment = lacks = Lacks()
    waiting.unprepared = True
    for flow in (waiting, other):
        finding.lost(flow)
    finding.find((), time.monotonic())
    _until(helpers, lambda: waiting.failures and other.failures)
    assert asked == ["other"]
    assert "it is down" in str(waiting.reason)
    trouble.clear()
    finding.find((), time.monotonic() + 60)
    _until(helpers, lambda: "waiting" in asked)
    assert lacks.prepared == 2


def test_a_flow_whose_stage_does_not_come_is_failed_until_it_does(helpers: Helpers) -> None:
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: None)
    flow = _flow("t", "stage")
    flow.state = State.RUNNING
    assert flow.on_the_way is not None
    stage = cast(_Stage, flow.on_the_way.stage)
    stage.ready = False
    finding.find([flow], 0.0)
    assert flow.state is State.RUNNING
    stage.why = "its stage ends again and again: ImportError"
    for _ in range(3):
        finding.find([flow], 0.0)
        assert (flow.state, flow.reason) == (State.FAILED, stage.why)
    assert flow.recoveries == 1
    assert not flow.recovering
    stage.ready, stage.why = True, None
    finding.find([flow], time.monotonic())
    assert flow.recovering


def test_once_its_place_is_found_a_flow_is_not_looked_at_again(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that stopped or leaves: a turn with ten thousand idle flows costs nothing."""
    asked: list[str] = []

    def recover(requests: Any, *_: Any) -> Any:
        asked.extend(request.assignment.topic for request in requests)
        raise DivergedError("recover", "it", "it was asked")

    monkeypatch.setattr(recovery_queue, "recover", recover)
    touched: dict[Flow, None] = {}
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, touched, lambda: None)
    flows = [_flow(topic, None) for topic in ("found", "leaves", "diverged")]
    for flow in flows:
        finding.lost(flow)
    flows[0].state, flows[1].leaving = State.RUNNING, True
    touched.clear()
    finding.find((), time.monotonic())
    _until(helpers, lambda: flows[2].state is State.STOPPED)
    assert asked == ["diverged"]
    assert list(touched) == [flows[2]]
    finding.find((), time.monotonic())
    assert not finding._lost
    flows[0].state = State.RUNNING
    finding.start_recovery(flows[0], NeedsRecovery("a new leader", failure=False))
    assert list(finding._lost) == [flows[0]]
    assert flows[0] in touched


@pytest.mark.parametrize(("starts", "state"), [((7, 7), State.DONE), ((3, 7), State.RUNNING)])
def test_what_only_finishes_is_done_once_all_outlets_are_at_one_place(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch, starts: Sequence[int], state: State
) -> None:
    """Else it goes on up to the outlet that is furthest, and no further."""
    outlets = tuple(
        ResumedOutlet(pair=Pair(at, at, at), end=at, exclusive=True, append_times=False, node=0)
        for at in starts
    )
    found = Resumption(
        outlets=outlets, leader_epoch=0, source_leader=PartitionLeader(0, 0), source_end=9999
    )
    monkeypatch.setattr(
        recovery_queue,
        "recover",
        lambda asked, *_: {a.assignment.source_partition: found for a in asked},
    )
    done: list[str] = []
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: done.append("done"))
    flow = _flow("t", "stage", 2, finish=True)
    finding.lost(flow)
    finding.find([flow], time.monotonic())
    _until(helpers, lambda: flow.state is not State.RECOVERING)
    assert flow.state is state
    assert bool(done) == (state is State.DONE)
    assert (flow.position, flow.assignment.stop_at) == (min(starts), 7)
    if state is State.RUNNING:
        flow.position = flow.through = 7
        assert finding.done(flow)
    assert {outlet.pair.source for outlet in flow.outlets} == {7}


def test_the_first_batch_of_each_new_try_is_read(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So damage at rest, which the target refuses again and again, is told of with its offset."""
    outlet = ResumedOutlet(pair=Pair(1, 1, 1), end=1, exclusive=True, append_times=False, node=0)
    found = Resumption(
        outlets=(outlet,), leader_epoch=0, source_leader=PartitionLeader(0, 0), source_end=3
    )
    monkeypatch.setattr(
        recovery_queue,
        "recover",
        lambda asked, *_: {a.assignment.source_partition: found for a in asked},
    )
    now = int(time.time() * 1000)
    raws = [raw_batch([Rec(offset=at, value=b"x" * 3000, timestamp=now)]) for at in range(3)]

    def unread(flow: Flow, *offsets: int) -> list[bool]:
        records = memoryview(bytearray(b"".join(raws[at] for at in offsets)))
        kept, _ = take(flow, Fetched(b"t", 0, 0, 3, 3, 0, [], records, None))
        flow.position = kept.position
        return [batch.unread is not None for batch in kept.batches]

    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: None)
    flow = _flow("t", None)
    flow.state = State.RUNNING
    assert unread(flow, 0, 1) == [False, True]
    finding.start_recovery(flow, NeedsRecovery("the target says that it came damaged"))
    finding.find((), time.monotonic() + 60.0)
    _until(helpers, lambda: flow.state is State.RUNNING)
    assert unread(flow, 1, 2) == [False, True]


@pytest.mark.parametrize(("found", "epoch"), [(3, 2), (4, 4)])
def test_the_source_is_asked_for_an_epoch_that_it_has_an_entry_for(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch, found: int, epoch: int
) -> None:
    """Unless recovery found a later place. Another leader may have an entry for the true epoch, and
    would take the earlier one for a truncation. So the true one is reported, and asked for first.
    """
    outlet = ResumedOutlet(pair=Pair(1, 1, 1), end=1, exclusive=True, append_times=False, node=0)
    leaders = [PartitionLeader(0, 7), PartitionLeader(0, 7), PartitionLeader(1, 8)]
    asked: list[bool] = []

    def recover(requests: Any, *_: Any) -> Any:
        asked.extend(request.diverging for request in requests)
        place = Resumption(
            outlets=(outlet,),
            leader_epoch=found,
            source_leader=leaders[len(asked) - 1],
            source_end=3,
        )
        return {request.assignment.source_partition: place for request in requests}

    monkeypatch.setattr(recovery_queue, "recover", recover)
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: None)
    flow = _flow("t", None)

    def place_found() -> int:
        finding.start_recovery(flow, NeedsRecovery("it leads no more", failure=False))
        finding.find((), time.monotonic())
        _until(helpers, lambda: flow.state is State.RUNNING)
        assert flow.report().leader_epoch == found
        return flow.compared_epoch

    assert place_found() == found
    flow.diverging = Diverging(3, 2)
    assert place_found() == epoch
    assert place_found() == found  # of another leader
    flow.diverging = Diverging(3, 2)  # of the one before
    leaders.append(PartitionLeader(2, 9))
    assert place_found() == found
    assert asked == [False, True, False, True]


def test_a_target_that_may_still_append_is_waited_for(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as no failure, and the place is looked for as soon as that time is over."""
    not_before = time.monotonic() + 3600
    asked: list[float] = []

    def recover(
        requests: Sequence[RecoveryRequest], *_: object
    ) -> dict[TopicPartition, CausewayError]:
        asked.extend(request.late_by for request in requests)
        error = TooEarlyError(TopicPartition("A.t", 0), not_before)
        return {request.assignment.source_partition: error for request in requests}

    monkeypatch.setattr(recovery_queue, "recover", recover)
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: None)
    flow = _flow("t", None)
    flow.late_by = 7.0
    finding.lost(flow)
    finding.find([], time.monotonic())
    _until(helpers, lambda: flow.retry_at)

    assert asked == [7.0]
    assert (flow.state, flow.failures, flow.retry_at) == (State.RECOVERING, 0, not_before)
    assert flow.unsettled
    finding.find([], not_before - 1)
    assert not flow.recovering
    finding.find([], not_before)
    assert flow.recovering


def test_what_the_target_refuses_as_damaged_is_not_passed_over() -> None:
    """Nothing else of it is under way, as of an idle flow."""
    raw = raw_batch([Rec(offset=at) for at in range(3)])
    records = memoryview(bytearray(raw))
    finding = RecoveryQueue(cast(Any, _Connections()), cast(Any, None), {}, lambda: None)
    flow = _flow("t", None)
    flow.state, flow.unsettled = State.RUNNING, False
    take_in(flow, Fetched(b"t", 0, 0, 3, 3, 0, [], records, None))
    (outlet,) = flow.outlets
    sent = outlet.sent(outlet.take())
    outlet.unanswered -= 1

    with pytest.raises(NeedsRecovery) as doubt:
        account(flow, outlet, sent, Produced(codes.INVALID_RECORD, -1, -1, "it has no key"), 0)
    finding.start_recovery(flow, doubt.value)

    assert flow.damage == Damage(0, str(doubt.value), 3)
    assert outlet.pair == Pair(0, 0, 0)


def test_a_flow_stops_at_what_comes_damaged_again_and_again(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each damage is counted for itself. At the end recovery looks where it ends."""
    asked: list[int | None] = []
    outlet = ResumedOutlet(pair=Pair(5, 5, 5), end=5, exclusive=True, append_times=False, node=0)
    resumption = Resumption(
        outlets=(outlet,), leader_epoch=0, source_leader=PartitionLeader(0, 0), source_end=30
    )
    mended = True

    def recover(requests: Any, *_: Any) -> Any:
        (request,) = requests
        asked.append(request.damage and request.damage.start)
        answer: Any = resumption
        if request.damage is not None and not mended:
            loss = Loss(request.damage.start, 20, "damaged")
            answer = LossError(request.assignment, loss, (outlet,), request.damage.why)
        return {request.assignment.source_partition: answer}

    monkeypatch.setattr(recovery_queue, "recover", recover)
    finding = RecoveryQueue(cast(Any, _Connections()), helpers, {}, lambda: None)
    flow = _flow("t", None)

    def meets(start: int) -> None:
        flow.state = State.RUNNING
        before = len(asked)
        finding.start_recovery(flow, NeedsRecovery("damaged", damage=Damage(start, "damaged")))
        finding.find((), time.monotonic() + 60.0)
        _until(helpers, lambda: len(asked) > before and not flow.recovering)

    for _ in range(recovery_queue.DAMAGED_TIMES - 1):
        meets(3)
    for _ in range(recovery_queue.DAMAGED_TIMES):
        meets(5)
    assert asked == [None] * (2 * recovery_queue.DAMAGED_TIMES - 2) + [5]
    assert flow.reason is None  # it goes on
    mended = False
    for _ in range(recovery_queue.DAMAGED_TIMES):
        assert flow.reason is None
        meets(5)
    assert flow.state is State.STOPPED
    assert flow.loss == Loss(5, 20, "damaged")
    assert "offsets 5 to 19 cannot be mirrored: damaged" in str(flow.reason)
    assert "causeway restart --adopt" in str(flow.reason)
