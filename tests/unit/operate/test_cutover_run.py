"""What a call that acts does not do."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from causeway.control import MirroredTopic, TopicPlan
from causeway.errors import PartitionsFailedError
from causeway.link_topics import FenceDirective, LinkDirectives, Scope
from causeway.operate.cutover import Look, checks
from causeway.operate.cutover.run import CutoverRun
from causeway.operate.cutover.values import Fence
from tests.harness.daemon import link


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


def refuse(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(checks, "chosen", lambda *_: planned(*names))
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*")
    run: Any = CutoverRun.__new__(CutoverRun)
    run._observer = SimpleNamespace(link=mirror, source=None, target=None)
    topics = {"orders": "A.orders"}
    run._refuse_new(Look(at_ms=0, topics=topics, checks=(), places=(), driver=None))


def test_a_link_does_not_end_with_topics_that_have_come_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(monkeypatch, "orders", "heartbeats")
    with pytest.raises(PartitionsFailedError, match="such as bills"):
        refuse(monkeypatch, "orders", "bills")


def fence(*, there: bool, until: int = 2**50) -> Fence:
    record = FenceDirective(scope=Scope("orders"), who="me", at=1, until=until)
    return Fence(record=record, there=there, everywhere=there)


def acting(**fields: Any) -> Any:
    run: Any = CutoverRun.__new__(CutoverRun)
    run._looked = 0.0
    run._rest = lambda: setattr(run, "_in_vain", True)
    for name, value in fields.items():
        setattr(run, name, value)
    return run


def test_a_fence_that_does_not_show_is_not_put_off_again_and_again() -> None:
    run = acting(_fenced={"orders"}, _observer=None, _wishes=None, _lock=None)
    topics = {"orders": "A.orders"}
    seen = Look(
        at_ms=0,
        topics=topics,
        checks=(),
        places=(),
        driver=None,
        fences={"orders": fence(there=False)},
    )
    run._fence(seen)
    assert run._in_vain, "so that it ends with --timeout"


@pytest.mark.parametrize("lifted", [True, False])
def test_no_mirror_ends_whose_fence_was_lifted_meanwhile(
    monkeypatch: pytest.MonkeyPatch, *, lifted: bool
) -> None:
    record = fence(there=True).record
    standing = LinkDirectives({} if lifted else {record.key: record})
    asked = []

    def promoted(*_: Any, topic: str | None, guard: Any, **__: Any) -> None:
        guard(standing)
        asked.append(topic)

    monkeypatch.setattr("causeway.operate.cutover.run.promote", promoted)
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*")
    run = acting(
        _observer=SimpleNamespace(
            link=mirror, groups_changed=lambda: None, driver_ms=lambda: int(time.time() * 1000)
        ),
        _lock=SimpleNamespace(writing=lambda _: nullcontext(), refuse_others=lambda _: None),
        _settings=None,
        _who="me",
        _whole=False,
        _promoted_ms=None,
        _in_vain=False,
    )
    run._promote(
        Look(
            at_ms=0,
            topics={"orders": "A.orders"},
            checks=(),
            places=(),
            driver=None,
            fences={"orders": fence(there=True)},
        )
    )
    assert asked == ([] if lifted else ["orders"])
    assert (run._promoted_ms is None) is lifted
    assert run._in_vain is lifted


def test_a_fence_whose_rule_somebody_took_away_counts_as_lifted() -> None:
    run = acting(_fenced={"orders"}, _held=set())

    def lifted(one: Fence) -> bool:
        fences = {"orders": one}
        seen = Look(at_ms=0, topics={}, checks=(), places=(), driver=None, fences=fences)
        return bool(run._is_lifted(seen))

    slow = Fence(record=fence(there=False).record, there=False, everywhere=False, gone=True)
    assert not lifted(slow), "brokers have yet to hear of it"
    assert not lifted(fence(there=True))
    assert not lifted(fence(there=False)), "a partition has no leader, and nobody knows"
    assert lifted(slow)
