"""What an undo takes back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from kafka.protocol.producer import InitProducerIdRequest

from causeway.control import DENY_WRITE
from causeway.control.fences import bindings
from causeway.link_topics import (
    THE_LINK,
    CutoverDirective,
    Directive,
    EndDirective,
    FenceDirective,
    LinkDirectives,
    Scope,
)
from causeway.model import State, TopicPartition
from causeway.operate.cutover import lock as locking
from causeway.operate.cutover import undo
from causeway.operate.cutover.lock import under_way
from causeway.wire import Deadline
from tests.builders.cluster import StubCluster
from tests.builders.settings import LINK, settings_of
from tests.harness.world import Log

ORDERS, BILLS, USERS = Scope("orders"), Scope("bills"), Scope("users")
LOCK = CutoverDirective(who="ben@ops", at=1, until=2**50, run="ben")
FENCE = FenceDirective(scope=ORDERS, who="ben@ops", at=2, until=2**50, acls=(DENY_WRITE,))


class Both(StubCluster):
    """Both clusters of the link. `meanwhile` is called once, when the first write begins."""

    def __init__(self) -> None:
        topics = [str(scope.topic) for scope in (ORDERS, BILLS, USERS)]
        super().__init__("B", {TopicPartition(topic, 0): Log() for topic in topics})
        self.meanwhile: Callable[[], None] | None = None

    def once(self, request: Any, node_id: int | None, deadline: Deadline) -> Any:
        if isinstance(request, InitProducerIdRequest) and self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        return super().once(request, node_id, deadline)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    found = Both()
    monkeypatch.setattr(locking, "clusters", lambda: nullcontext(found))
    return found


def end(scope: Scope, how: State) -> Directive:
    return EndDirective(scope=scope, who="anna@ops", at=1, how=how)


@pytest.mark.parametrize(
    ("topics", "held"), [((), [THE_LINK, ORDERS]), (("orders", "bills"), [ORDERS])]
)
def test_an_undo_releases_interrupted_promotions_and_leaves_mirrors_that_have_ended(
    both: Both, topics: tuple[str, ...], held: list[Scope]
) -> None:
    found = [
        end(THE_LINK, State.PROMOTING),
        end(ORDERS, State.PROMOTING),
        end(BILLS, State.PROMOTED),
        end(USERS, State.FAILED_OVER),
    ]
    both.write(LINK, *found)
    lifted = undo(settings_of(LINK), topics=topics, act=True)
    assert lifted.held == tuple(map(str, held))
    left = {each.scope for each in both.directives(LINK).all(EndDirective)}
    assert left == {each.scope for each in found} - set(held)


def test_an_undo_without_a_yes_changes_nothing(both: Both) -> None:
    both.write(LINK, end(ORDERS, State.PROMOTING), FENCE)
    found = undo(settings_of(LINK), act=False)
    assert (found.changed, found.held, found.topics) == (False, ("orders",), {"orders": None})
    assert len(both.directives(LINK).by_key) == 2


def test_a_cutover_is_under_way_until_the_time_of_its_lock_is_over() -> None:
    lock = LOCK.replace(until=50)
    directives = LinkDirectives().with_all([(lock.key, lock)])
    assert under_way(directives, 49) == lock
    assert under_way(directives, 50) is None
    assert under_way(LinkDirectives(), 0) is None


def test_an_undo_lifts_a_fence_that_was_set_before_the_undo_had_the_lock(both: Both) -> None:
    """The other command sets a fence right after the undo has looked."""

    def set_fence() -> None:
        both.acls |= set(bindings(FENCE))
        both.write(LINK, FENCE)

    both.write(LINK, LOCK)
    both.meanwhile = set_fence
    found = undo(settings_of(LINK), act=True, who="anna@ops")
    assert both.acls == set()
    assert not both.directives(LINK).by_key
    assert found.changed
    assert found.topics == {"orders": None}
    assert found.stopped is not None
    assert found.stopped.startswith("by ben@ops")
