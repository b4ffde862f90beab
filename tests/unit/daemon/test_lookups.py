"""Look-ups that lanes carry out: each answer reaches who asked, and nobody waits for ever."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from causeway.daemon.lanes import LaneLookups
from causeway.errors import CausewayError
from causeway.link_topics import Span
from causeway.model import Pair, TopicPartition
from causeway.relay import LaneConnection, LookedUp, Lookup, Sought
from causeway.relay.messages import decode, encode
from tests.harness.waiting import await_until

KEY = ("A->B", "orders", 0)
SOUGHT = Sought(
    source=TopicPartition("orders", 0),
    target=TopicPartition("A.orders", 0),
    producer_id=9,
    read_committed=True,
    span=Span(Pair(0, 0, 0), Pair(10, 5, 5)),
    offsets=[3, 7],
    floor=2,
)


class FakeLane:
    """Answers with what `answers` gives, from a thread of its own; None: not at all."""

    def __init__(self, *answers: LookedUp | None) -> None:
        self.answers = list(answers)
        self.asked: list[Lookup] = []
        self.lookups: LaneLookups | None = None

    def send(self, message: Lookup) -> None:
        over_the_wire = decode(encode(message))
        assert isinstance(over_the_wire, Lookup)
        self.asked.append(over_the_wire)
        answer = self.answers.pop(0)
        if answer is not None:
            assert self.lookups is not None
            answer = answer.replace(id=message.id)
            threading.Thread(target=self.lookups.take, args=(answer,)).start()


def asked_of(lane: FakeLane | None) -> LaneLookups:
    connection = cast(LaneConnection | None, cast(Any, lane))
    lookups = LaneLookups(lambda _: connection)
    if lane is not None:
        lane.lookups = lookups
    return lookups


def test_a_lane_that_ends_right_before_a_request_delays_no_caller() -> None:
    lane = FakeLane(None)
    lanes = [cast(LaneConnection, cast(Any, lane)), None]
    with pytest.raises(CausewayError, match="its lane has ended"):
        LaneLookups(lambda _: lanes.pop(0)).find(KEY, SOUGHT)


def test_an_answer_reaches_who_asked() -> None:
    lane = FakeLane(LookedUp(id=0, places=((3, 1), (7, 4))))
    assert asked_of(lane).find(KEY, SOUGHT) == {3: 1, 7: 4}
    (asked,) = lane.asked
    assert (asked.key, asked.producer_id, asked.offsets, asked.floor) == (KEY, 9, (3, 7), 2)
    assert (asked.start, asked.end) == SOUGHT.span


def test_the_reason_why_a_lane_cannot_answer_is_reported_and_may_change() -> None:
    starting = asked_of(FakeLane(LookedUp(id=0, reason="its stage starts")))
    for lookups, patience_s, reason in (
        (starting, 60.0, "its stage starts"),
        (asked_of(FakeLane(None)), 0.01, "did not answer in time"),
        (asked_of(None), 60.0, "no lane has the partition"),
    ):
        with pytest.raises(CausewayError, match=reason) as refused:
            lookups.find(KEY, SOUGHT, patience_s)
        assert refused.value.retriable


def test_a_lane_that_ends_delays_no_caller() -> None:
    lane = FakeLane(None)
    lookups = asked_of(lane)
    failures: list[CausewayError] = []

    def ask() -> None:
        try:
            lookups.find(KEY, SOUGHT)
        except CausewayError as error:
            failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    await_until(lambda: bool(lane.asked), what="the question")
    while not lane.asked:
        pass
    lookups.lost(cast(LaneConnection, cast(Any, FakeLane())))
    lookups.lost(cast(LaneConnection, cast(Any, lane)))
    asking.join(60)
    assert [error.retriable for error in failures] == [True]
    lookups.take(LookedUp(id=lane.asked[0].id, places=((3, 1),)))  # too late: nobody waits
