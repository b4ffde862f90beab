"""What a call that acts does not do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from causeway.control.topics import MirroredTopic, TopicPlan
from causeway.errors import PartitionsFailedError
from causeway.operate.cutover import checks
from causeway.operate.cutover.run import _Run
from causeway.operate.cutover.values import Look
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
    run: Any = _Run.__new__(_Run)
    run._eyes = SimpleNamespace(link=mirror, source=None, target=None)
    topics = {"orders": "A.orders"}
    run._refuse_new(Look(at_ms=0, topics=topics, checks=(), places=(), driver=None))


def test_a_link_does_not_end_with_topics_that_have_come_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(monkeypatch, "orders", "heartbeats")
    with pytest.raises(PartitionsFailedError, match="such as bills"):
        refuse(monkeypatch, "orders", "bills")
