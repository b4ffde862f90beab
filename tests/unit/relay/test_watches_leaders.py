"""Whether source brokers lead still: other brokers are asked once in a while."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

import pytest

from causeway.cluster import Cluster, Leader
from causeway.errors import CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.watches import Leaders
from tests.builders.relay import flow

AGE_S = 40.0


def _flow(partition: int = 0, node: int = 1, epoch: int = 5) -> Flow:
    found = flow(partition, topic="t", metadata_max_age_ms=int(1000 * AGE_S))
    found.led_at, found.source_node, found.source_epoch = 1000.0, node, epoch
    return found


class World:
    def __init__(self, leader: Leader | CausewayError) -> None:
        self.leader = leader
        self.asked: list[tuple[set[int], int]] = []
        self.doubted: list[tuple[Flow, str]] = []
        self.answers: list[Callable[[], None]] = []
        self.leaders_of = Leaders(
            cast(Helpers, self), lambda flow, doubt: self.doubted.append((flow, str(doubt)))
        )

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        found = work()
        self.answers.append(lambda: then(found))

    def leaders(
        self, places: Collection[TopicPartition], *, refresh: bool, last: int
    ) -> dict[TopicPartition, Leader | CausewayError]:
        assert refresh
        self.asked.append(({at.partition for at in places}, last))
        return dict.fromkeys(places, self.leader)

    def look(self, now: float, *flows: Flow) -> None:
        self.leaders_of.look(flows, lambda _: cast(Cluster, self), now)

    def hear(self) -> None:
        while self.answers:
            self.answers.pop()()


def _at(node: int, epoch: int) -> Leader:
    return Leader(node, epoch, "h", 1)


def test_another_broker_is_asked_before_the_leader_is_too_old() -> None:
    world = World(_at(1, 5))
    flows = _flow(0), _flow(1), _flow(2, node=2)
    world.look(1000.0, *flows)
    assert not world.asked
    world.look(1000.0 + AGE_S / 2, *flows)
    assert world.asked == [({0, 1}, 1), ({2}, 2)]
    world.look(1001.0 + AGE_S / 2, *flows)
    assert len(world.asked) == 2


@pytest.mark.parametrize(
    ("known", "answer", "moved"),
    [
        ((1, 5), _at(2, 6), True),
        ((1, 5), _at(1, 6), True),
        ((1, 5), _at(1, 5), False),
        ((1, 5), _at(2, 4), False),  # that broker is the one that is out of date
        ((1, -1), _at(2, -1), True),
        ((1, -1), _at(1, 6), False),
        ((1, 5), UnreachableError("ask", "A"), False),
    ],
)
def test_what_is_led_elsewhere_by_now_is_read_elsewhere(
    known: tuple[int, int], answer: Leader | CausewayError, moved: bool
) -> None:
    world, flow = World(answer), _flow(0, *known)
    world.look(1000.0 + AGE_S, flow)
    world.hear()
    reasons = [(flow, f"broker {answer.node_id} leads")] if isinstance(answer, Leader) else []
    assert [(one, reason[:14]) for one, reason in world.doubted] == reasons[: int(moved)]


def test_an_answer_that_comes_too_late_moves_nothing() -> None:
    world, flow, leaving = World(_at(2, 6)), _flow(), _flow(1)
    world.look(1000.0 + AGE_S, flow, leaving)
    flow.recoveries += 1
    leaving.leaving = True
    world.hear()
    assert not world.doubted
