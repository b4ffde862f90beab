"""A cutover that acts: what it does look by look, and what it refuses."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from causeway.control import DENY_WRITE, FencePlan, MirroredTopic, TopicPlan, fences
from causeway.errors import PartitionsFailedError
from causeway.link_topics import FenceDirective, LinkDirectives
from causeway.model import State
from causeway.operate.cutover import CutoverEnd, CutoverResult, Look, Producer, checks
from causeway.operate.cutover.run import CutoverRun
from tests.harness.daemon import link
from tests.unit.operate.test_cutover_plan import END, FENCING, fence, fenced, look


def planned(*names: str) -> TopicPlan:
    mirrored = tuple(
        MirroredTopic(
            source=name,
            target=f"A.{name}",
            partitions=1,
            source_id="a" * 32,
            target_id="b" * 32,
            target_partitions=1,
            max_message_bytes=1_000,
        )
        for name in names
    )
    return TopicPlan(mirrored=mirrored, left_out=(), changes=(), problems=())


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


class Lock:
    """Ours for as long as the test runs."""

    def check(self) -> None:
        pass

    def refuse_others(self, _: object) -> None:
        pass

    def writing(self, for_s: float = 0.0) -> Any:
        return nullcontext()


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


ENDED = look(ended={"orders": END.replace(how=State.PROMOTED, done=True)})


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[FenceDirective]:
    """The fences that were set up. Nothing sleeps."""
    found: list[FenceDirective] = []
    plan = FencePlan(acls={"orders": (DENY_WRITE,)}, problems={})
    monkeypatch.setattr(checks, "plan_fence", lambda *_: plan)
    monkeypatch.setattr(fences, "set_up", lambda *given: found.extend(given[3]))
    monkeypatch.setattr("causeway.operate.cutover.run._POLL_S", 0.0)
    return found


def test_a_link_does_not_end_with_topics_that_have_come_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    promoted: list[str | None] = []
    monkeypatch.setattr(
        "causeway.operate.cutover.run.promote", lambda *_, topic, **__: promoted.append(topic)
    )
    monkeypatch.setattr(checks, "chosen", lambda *_: planned("orders", "heartbeats"))
    first = fenced()
    assert run_to_end(Clusters(first, ENDED), first, whole=True).end is CutoverEnd.DONE
    assert promoted == [None]
    monkeypatch.setattr(checks, "chosen", lambda *_: planned("orders", "bills"))
    with pytest.raises(PartitionsFailedError, match="such as bills"):
        run_to_end(Clusters(first), first, whole=True)
    assert promoted == [None]


def test_a_fence_that_does_not_show_is_not_put_off_again_and_again(
    made: list[FenceDirective],
) -> None:
    first = look()
    hidden = look(fences={"orders": fence(there=False, everywhere=False)})
    result = run_to_end(Clusters(first, hidden), first)
    assert result.end is CutoverEnd.TIMEOUT
    assert len(made) == 1


@pytest.mark.parametrize("lifted", [True, False])
def test_no_mirror_ends_whose_fence_was_lifted_meanwhile(
    monkeypatch: pytest.MonkeyPatch, *, lifted: bool
) -> None:
    now = int(time.time() * 1000)
    first = fenced(at_ms=now, fences={"orders": fence(until=now + 60_000)})
    record = first.fences["orders"].record
    standing = LinkDirectives({} if lifted else {record.key: record})
    asked = []

    def promoted(*_: Any, topic: str | None, guard: Any, **__: Any) -> None:
        guard(standing)
        asked.append(topic)

    monkeypatch.setattr("causeway.operate.cutover.run.promote", promoted)
    result = run_to_end(Clusters(first, first if lifted else ENDED), first)
    assert asked == ([] if lifted else ["orders"])
    assert result.end is (CutoverEnd.TIMEOUT if lifted else CutoverEnd.DONE)
    assert (result.pause_ms is None) is lifted


def test_a_fence_whose_rule_was_taken_away_counts_as_lifted() -> None:
    """But not while brokers have yet to hear of it, nor while a partition has no leader."""
    gone = replace(fence(there=False, everywhere=False), gone=True)
    unknown = replace(gone, gone=False)
    shown = [{}, *({"orders": one} for one in (gone, fence(), unknown, gone))]
    looks = [look(fences=each, still_s=0.0) for each in shown]
    clusters = Clusters(*looks)
    result = run_to_end(clusters, looks[0], wait_s=60)
    assert result.end is CutoverEnd.LIFTED
    assert clusters.shown == len(looks)
