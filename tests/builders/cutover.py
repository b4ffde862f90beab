"""What a cutover sees, step by step, without clusters."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from causeway.control import DENY_WRITE, FencePlan, fences
from causeway.link_topics import EndDirective, FenceDirective, Scope
from causeway.model import State, TopicPartition
from causeway.operate.cutover import (
    CheckMark,
    CutoverResult,
    Look,
    Producer,
    Wishes,
    checks,
)
from causeway.operate.cutover.run import CutoverRun
from causeway.operate.cutover.values import Check, Fence, MovingPartition, Verified
from tests.harness.daemon import link

AT = TopicPartition("orders", 0)
NOW = 1_000_000
FENCING = Wishes(fence=True)
END = EndDirective(scope=Scope("orders"), who="anna@ops", at=1)


def fence(*, until: int = NOW + 60_000, there: bool = True, everywhere: bool = True) -> Fence:
    record = FenceDirective(
        scope=Scope("orders"),
        who="anna@ops",
        at=NOW - 1_000,
        until=until,
        acls=(DENY_WRITE,),
    )
    return Fence(record=record, there=there, everywhere=everywhere, over=until <= NOW)


def look(**fields: Any) -> Look:
    """All is copied, nobody has written for a while, nothing is fenced."""
    found = Look(
        at_ms=NOW,
        topics={"orders": "A.orders"},
        checks=(Check(name="topics", mark=CheckMark.GOOD, text="1 topic"),),
        places=(place(),),
        driver="me@here",
        still_s=10.0,
        verified=Verified(ends={AT: 50}, records=50),
    )
    return replace(found, **fields)


def fenced(**fields: Any) -> Look:
    return look(**{"fences": {"orders": fence()}, **fields})


class Clusters:
    """The observer of a cutover: shows `looks` one after the other, and the last one for good."""

    def __init__(self, *looks: Look, ahead_ms: int = 0) -> None:
        self.link = link("127.0.0.1:1", "127.0.0.1:2", ".*")
        self.source = self.target = None
        self.sharers = ()
        self.knows_clock = True
        self.shown = 1
        self._looks = looks
        self._ahead_ms = ahead_ms

    def look(self, _: object) -> Look:
        self.shown += 1
        return self._looks[min(self.shown, len(self._looks)) - 1]

    def driver_ms(self) -> int:
        return int(time.time() * 1000) + self._ahead_ms

    def groups_changed(self) -> None:
        pass

    def through_the_fence(self) -> tuple[Producer, ...]:
        return ()


def run_to_end(
    clusters: Clusters, first: Look, *, whole: bool = False, wait_s: float = -1
) -> CutoverResult:
    """Without time to wait, it ends after a look that has changed nothing."""
    run = CutoverRun(
        cast(Any, None),
        cast(Any, clusters),
        cast(Any, Lock()),
        replace(FENCING, verify=False),
        "me",
        lambda _checklist, _look: None,
        whole=whole,
        compared=Path("/nowhere"),
    )
    return run.to_end(first, time.monotonic() + wait_s)


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[FenceDirective]:
    """The fences that were set up. Nothing sleeps."""
    found: list[FenceDirective] = []
    plan = FencePlan(acls={"orders": (DENY_WRITE,)}, problems={})
    monkeypatch.setattr(checks, "plan_fence", lambda *_: plan)
    monkeypatch.setattr(fences, "set_up", lambda *given: found.extend(given[3]))
    monkeypatch.setattr("causeway.operate.cutover.run._POLL_S", 0.0)
    return found


def place(**fields: Any) -> MovingPartition:
    found = MovingPartition(at=AT, state="running", readable=100, end=100, had=100, position=100)
    return replace(found, **fields)


class Lock:
    """Ours for as long as the test runs."""

    def check(self) -> None:
        pass

    def refuse_others(self, _: object) -> None:
        pass

    def writing(self, for_s: float = 0.0) -> Any:
        return nullcontext()


ENDED = look(ended={"orders": END.replace(how=State.PROMOTED, done=True)})
