from __future__ import annotations

import logging

import pytest

from causeway.control.held import Held
from causeway.daemon.partitions import rows
from causeway.daemon.partitions.registry import Registry
from causeway.model import TopicPartition
from tests.unit.daemon.test_rows import holds, row

AT = TopicPartition("orders", 0)


def test_what_is_held_gets_its_reason_while_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rows, "HELD_MS", 0)
    registry = Registry("A->B")
    registry.add([row()])
    registry.hear([holds(140)])

    held = registry.held()

    assert held[AT][:2] == (100, 140)
    with caplog.at_level(logging.WARNING, "causeway.link"):
        registry.explain(held, {AT: "whose it is"})
        registry.explain(held, {AT: "whose it is, a minute later"})
    assert [record.message for record in caplog.records] == ["partition held"], "said once"
    registry.hear([holds(150, 120)])
    registry.explain({AT: Held(100, 140, 0)}, {AT: "late news"})
    assert [each.reason for each in registry.status()] == [None]
