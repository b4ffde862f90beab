"""Pairs of flows that rest follow the target's end, and stay true: what is not sent yet lies there
or later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from causeway.cluster import Cluster, OffsetAt
from causeway.errors import CausewayError, UnreachableError
from causeway.link_topics import Outlet
from causeway.model import Pair, State, TopicPartition
from causeway.records import as_is
from causeway.relay import Assignment
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.watches import LOOK_S, IdlePairs
from tests.harness.raw_batches import Rec, raw_batch


def _flow(
    *,
    exclusive: bool = False,
    sole_writer: bool = False,
    producer_id: int = 3,
    partitions: int = 1,
) -> Flow:
    flow = Flow.of(
        Assignment(
            link="A->B",
            source="a",
            target="b",
            topic="t",
            partition=0,
            topic_id="a" * 32,
            leader_epoch=1,
            sole_writer=sole_writer,
            outlets=tuple(
                Outlet(
                    topic="t",
                    partition=partition,
                    topic_id="b" * 32,
                    producer_id=producer_id,
                    producer_epoch=0,
                    pair=Pair(source=10, target=500, sequence=7),
                    exclusive=exclusive,
                )
                for partition in range(partitions)
            ),
        )
    )
    flow.state, flow.unsettled = State.RUNNING, False
    flow.source_end = flow.end_before = 10
    return flow


class World:
    """The target's end, the lane's helpers (who answer when told to) and its clock."""

    def __init__(self) -> None:
        self.end: int | CausewayError = 900
        self.asked: list[list[TopicPartition]] = []
        self.now = 1000.0
        self.answers: list[Callable[[], None]] = []
        self.pairs = IdlePairs(cast(Helpers, self))

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        found = work()
        self.answers.append(lambda: then(found))

    def list_offsets(self, places: Sequence[TopicPartition], *_: object, **__: object) -> object:
        self.asked.append(list(places))
        at = (
            OffsetAt(offset=self.end, timestamp=-1, leader_epoch=-1)
            if isinstance(self.end, int)
            else self.end
        )
        return dict.fromkeys(places, at)

    def look(self, *flows: Flow, answer: bool = True) -> None:
        self.pairs.look(flows, lambda _: cast(Cluster, self), self.now)
        self.now += LOOK_S
        if answer:
            self.hear()

    def hear(self) -> None:
        while self.answers:
            self.answers.pop()()


def test_a_pair_follows_the_end_that_was_seen_a_look_ago() -> None:
    world, flow = World(), _flow()
    world.look(flow)
    assert flow.outlets[0].pair.target == 500
    world.end = 1200
    flow.changed = False

    world.look(flow)
    assert flow.outlets[0].pair == Pair(source=10, target=900, sequence=7)
    assert flow.changed

    world.look(flow)
    assert flow.outlets[0].pair == Pair(source=10, target=1200, sequence=7)


def test_it_is_asked_once_a_while() -> None:
    world, flow = World(), _flow()
    world.look(flow)
    world.now -= LOOK_S / 2
    world.look(flow)
    assert world.asked == [[TopicPartition("t", 0)]]


def test_an_end_below_the_pair_is_recoverys_business() -> None:
    world, flow = World(), _flow()
    world.end = 400
    world.look(flow)
    world.look(flow)
    assert flow.outlets[0].pair.target == 500


def test_a_flow_without_a_known_target_end_keeps_its_pair() -> None:
    world, flow = World(), _flow()
    world.end = UnreachableError("ask", "B")
    world.look(flow)
    world.look(flow)
    assert flow.outlets[0].pair.target == 500


def _behind(flow: Flow) -> None:
    """What the lane before may have read, and sent."""
    flow.position = flow.through = 9


def _pending(flow: Flow) -> None:
    flow.outlets[0].put(as_is(raw_batch([Rec(offset=10)])))


def _unanswered(flow: Flow) -> None:
    flow.outlets[0].sent(as_is(raw_batch([Rec(offset=10)])))


def _doubtful(flow: Flow) -> None:
    flow.state = State.RECOVERING


def _leaving(flow: Flow) -> None:
    flow.leaving = True


@pytest.mark.parametrize("busy", [_behind, _pending, _unanswered, _doubtful, _leaving])
@pytest.mark.parametrize("when", [0, 1])
def test_a_flow_that_does_not_rest_keeps_its_pair(busy: Callable[[Flow], None], when: int) -> None:
    """Before the end is asked for, or after: the next record may lie below it."""
    world, flow = World(), _flow()
    if when == 1:
        world.look(flow)
    busy(flow)
    world.look(flow)
    assert flow.outlets[0].pair.target == 500
    assert len(world.asked) == when


@pytest.mark.parametrize("late", [False, True])
def test_what_was_sent_meanwhile_lies_below_the_end(late: bool) -> None:
    """The end was asked for, then a record was relayed and acknowledged, and the flow rests again.
    The answer may even come after that."""
    world, flow = World(), _flow()
    world.look(flow, answer=not late)
    batch = as_is(raw_batch([Rec(offset=10)]))
    sent = flow.outlets[0].sent(batch)
    flow.outlets[0].unanswered = 0
    flow.outlets[0].acknowledged(sent, 890)
    flow.position = flow.through = flow.source_end = 11
    world.hear()

    world.look(flow)

    assert flow.outlets[0].pair == Pair(source=11, target=891, sequence=8)


def test_the_pair_of_a_partition_that_gets_nothing_follows_amid_a_busy_flow() -> None:
    """As where keys decide. The flow is never at the source's end; but beyond what any lane before
    it can have read."""
    world, flow = World(), _flow(partitions=2)
    busy, quiet = flow.outlets
    flow.source_end = flow.end_before = 15

    def relay_one() -> None:
        sent = busy.sent(as_is(raw_batch([Rec(offset=flow.position)])))
        busy.unanswered = 0
        busy.acknowledged(sent, 600 + flow.position)
        flow.position = flow.through = flow.position + 1
        flow.source_end = flow.position + 9

    for _ in range(5):
        world.look(flow)
        relay_one()
    assert flow.position == 15
    assert quiet.pair.target == 500

    world.look(flow)
    relay_one()
    world.look(flow)

    assert quiet.pair == Pair(source=16, target=900, sequence=7)
    assert busy.pair.target == 615 + 1
    busy.put(as_is(raw_batch([Rec(offset=16)])))
    world.end = 1200
    world.look(flow)
    world.look(flow)
    assert (busy.pair.target, quiet.pair.target) == (616, 1200)


def test_a_recovery_between_makes_the_end_worthless() -> None:
    world, flow = World(), _flow()
    world.look(flow)
    flow.recoveries += 1
    world.look(flow)
    assert flow.outlets[0].pair.target == 500


def test_partitions_that_are_ours_alone_are_not_asked_about() -> None:
    world = World()
    world.look(_flow(exclusive=True, sole_writer=True), _flow(producer_id=-1))
    assert not world.asked


def test_what_others_wrote_where_they_may_is_learnt_by_it() -> None:
    world, flow = World(), _flow(exclusive=True)
    world.look(flow)
    assert flow.outlets[0].exclusive
    world.look(flow)
    assert not flow.outlets[0].exclusive


def test_what_was_dropped_at_the_sources_end_counts_as_read() -> None:
    world, flow = World(), _flow()
    flow.position = flow.through = flow.source_end = 15
    world.look(flow)
    world.look(flow)
    assert flow.outlets[0].pair == Pair(source=15, target=900, sequence=7)
