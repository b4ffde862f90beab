"""What an undo takes back."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from causeway.control import fences
from causeway.link_topics import (
    THE_LINK,
    CutoverDirective,
    Directive,
    EndDirective,
    FenceDirective,
    LinkDirectives,
    Scope,
)
from causeway.model import State
from causeway.operate.cutover import lock as locking
from causeway.operate.cutover.lock import _go_on, _held, under_way
from tests.harness.daemon import link
from tests.harness.directives import replace_writes


def end(scope: Scope, how: State) -> Directive:
    return EndDirective(scope=scope, who="anna@ops", at=1, how=how)


def test_what_is_about_to_end_goes_on_and_what_has_ended_does_not() -> None:
    orders, bills, users = Scope("orders"), Scope("bills"), Scope("users")
    found = [
        end(THE_LINK, State.PROMOTING),
        end(orders, State.PROMOTING),
        end(bills, State.PROMOTED),
        end(users, State.FAILED_OVER),
    ]
    standing = LinkDirectives().with_all((each.key, each) for each in found)
    assert [each.scope for each in _held(standing, ())] == [THE_LINK, orders]
    assert [each.scope for each in _held(standing, ["orders", "bills"])] == [orders]
    left = standing.with_all(_go_on((), standing).changes)
    assert {each.scope for each in left.by_key.values()} == {bills, users}


def test_who_is_at_a_cutover_meanwhile_is_seen_until_his_turn_is_over() -> None:
    lock = CutoverDirective(who="ben@ops", at=1, until=50)
    standing = LinkDirectives().with_all([(lock.key, lock)])
    assert under_way(standing, 49) == lock
    assert under_way(standing, 50) is None
    assert under_way(LinkDirectives(), 0) is None


def test_an_undo_takes_along_what_has_come_until_it_has_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one, who is at it, sets a fence right after the undo has looked."""
    lock = CutoverDirective(who="ben@ops", at=1, until=2**50, run="ben")
    fence = FenceDirective(scope=Scope("orders"), who="ben@ops", at=2, until=2**50)
    log = SimpleNamespace(
        directives=LinkDirectives().with_all([(lock.key, lock)]), look=lambda: None
    )
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*")

    def write(_: Any, __: Any, decide: Any) -> None:
        if not decide(log.directives).changes:
            return
        log.directives = log.directives.with_all(
            [*decide(log.directives).changes, (fence.key, fence)]
        )

    lifted: list[Directive] = []

    def lift(_: Any, __: Any, ___: Any, found: Any, ____: Any) -> dict[str, None]:
        lifted.extend(found)
        return {str(each.scope.topic): None for each in found}

    monkeypatch.setattr(locking, "clusters", lambda: nullcontext(lambda _: None))
    monkeypatch.setattr(locking, "choose_one", lambda *_: (mirror, ()))
    monkeypatch.setattr(locking, "DirectiveLog", lambda *_: log)
    replace_writes(monkeypatch, write)
    monkeypatch.setattr(fences, "lift", lift)
    settings: Any = SimpleNamespace(links=(mirror,))
    found = locking.undo(settings, act=True, who="anna@ops")
    assert lifted == [fence]
    assert found.changed
    assert found.topics == {"orders": None}
    assert found.stopped is not None
    assert found.stopped.startswith("by ben@ops")
