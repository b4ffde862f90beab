"""A cutover that acts: what it does look by look, and what it refuses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from causeway.control import MirroredTopic, TopicPlan
from causeway.errors import PartitionsFailedError
from causeway.link_topics import FenceDirective, LinkDirectives
from causeway.operate.cutover import CutoverEnd, checks
from tests.builders.cutover import (
    ENDED,
    Clusters,
    fence,
    fenced,
    look,
    made,
    run_to_end,
)

__all__ = ["made"]  # a fixture that each test has


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
    directives = LinkDirectives({} if lifted else {record.key: record})
    asked = []

    def promoted(*_: Any, topic: str | None, guard: Any, **__: Any) -> None:
        guard(directives)
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
