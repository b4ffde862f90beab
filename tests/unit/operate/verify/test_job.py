"""Ranges on executors, some of which die."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, cast

import pytest

from causeway.errors import CausewayError
from causeway.model import Pair
from causeway.operate.verify import job
from causeway.operate.verify.job import Answer, CompareTask, Part, Runner
from causeway.operate.verify.outcome import Range, RangeOutcome
from tests.builders.verify import ONE

RANGES = [replace(ONE, start=Pair(n, n, n), end=Pair(n + 1, n + 1, n + 1)) for n in range(5)]


class _Spark:
    """Loses the worker that compares what is in `deadly`, `times` times."""

    lanes = 2

    def __init__(self, deadly: Range, times: int = 1000, *, retriable: bool = True) -> None:
        self.deadly, self.times, self.retriable = deadly, times, retriable

    def compute(self, task: CompareTask, _: str) -> list[list[Answer]]:
        if self.deadly in task.ranges and self.times:
            self.times -= 1
            raise CausewayError("run", "verify", "the worker has ended", retriable=self.retriable)
        return [[RangeOutcome(range=each, begun=0, records=1) for each in task.ranges]]


def _run(
    monkeypatch: pytest.MonkeyPatch, spark: _Spark, *, ranges_a_task: int = 2
) -> dict[Range, Answer]:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(job, "seal", lambda *_: b"")
    monkeypatch.setattr(job, "_TASK_RANGES", ranges_a_task)
    link = cast(Any, type("Link", (), {"name": "A->B", "source": None, "target": None})())
    parts = [Part(owner=0, place=0, link=link, range=each) for each in RANGES]
    told: dict[Range, Answer] = {}
    Runner(cast(Any, None), None, lambda: None, cast(Any, spark)).run(
        parts, look_into=False, on_answer=lambda part, found: told.update({part.range: found})
    )
    return told


def test_a_worker_that_was_lost_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _run(monkeypatch, _Spark(RANGES[3], times=2))
    assert told.keys() == set(RANGES)
    assert all(isinstance(found, RangeOutcome) for found in told.values())


def test_a_range_that_ends_its_process_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = _run(monkeypatch, _Spark(RANGES[3]))
    assert told.keys() == set(RANGES)
    assert [each for each in RANGES if not isinstance(told[each], RangeOutcome)] == [RANGES[3]]


@pytest.mark.parametrize(
    ("spark", "ranges_a_task"),
    [(_Spark(RANGES[0]), 5), (_Spark(RANGES[3], retriable=False), 2)],
)
def test_where_nothing_can_be_run_that_is_said(
    monkeypatch: pytest.MonkeyPatch, spark: _Spark, ranges_a_task: int
) -> None:
    with pytest.raises(CausewayError, match="the worker has ended"):
        _run(monkeypatch, spark, ranges_a_task=ranges_a_task)
