"""Stages are launched again until they are stopped, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config.settings import TransformSettings
from causeway.daemon.spark import context, stages
from causeway.errors import CausewayError
from causeway.transform import stage

TRANSFORM = TransformSettings(name="pii", topics=(), sql="SELECT 1")


class Jobs:
    """In the place of Spark: each job ends as it is told, or waits to be cancelled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *ends: Exception | None) -> None:
        self._ends = list(ends)
        self.attempts: list[str] = []
        self.groups: list[str] = []
        self.waiting = threading.Event()
        self._cancelled = threading.Event()
        self.session = SimpleNamespace(sparkContext=self)
        self.said: list[tuple[str, str]] = []
        monkeypatch.setattr(stage, "run_stage", self._run)
        monkeypatch.setattr(stages, "_BACKOFF_S", (0.0, 0.0))
        self.stages = stages.Stages(cast(Any, self), lambda *said: self.said.append(said), _prepare)

    def setJobGroup(self, group: str, _: str) -> None:  # noqa: N802  Spark's
        self.groups.append(group)

    def cancel(self, group: str) -> None:
        assert group == self.groups[-1]
        self._cancelled.set()

    def _run(self, *given: Any) -> None:
        self.attempts.append(given[-1])
        if self._ends:
            end = self._ends.pop(0)
            if end is not None:
                raise end
            return
        self.waiting.set()
        assert self._cancelled.wait(30)
        raise RuntimeError("cancelled")


def _prepare(session: Any, transform: TransformSettings) -> Any:
    return transform.name


def test_a_stage_runs_again_however_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    quoting = RuntimeError("[CAST_INVALID_INPUT] The value 'Alice' cannot be cast")
    jobs = Jobs(monkeypatch, None, CausewayError("transform", "k", "it threw"), quoting)
    jobs.stages.launch("k", TRANSFORM, "@lane")
    jobs.stages.launch("k", TRANSFORM, "@lane")  # runs already
    assert jobs.waiting.wait(30)
    reasons = ["", "transform k: it threw", "CAST_INVALID_INPUT"]
    assert jobs.said == [("k", reason) for reason in reasons]
    assert len(set(jobs.attempts)) == len(jobs.attempts) == 4
    assert len(set(jobs.groups)) == 1
    jobs.stages.stop("k")


def test_a_stage_that_is_stopped_says_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch)
    jobs.stages.launch("k", TRANSFORM, "@lane")
    assert jobs.waiting.wait(30)
    jobs.stages.stop_all()
    jobs.stages.stop("k")
    for thread in threading.enumerate():
        if thread.name == "stage-k":
            thread.join(30)
    assert jobs.said == []
    assert len(jobs.attempts) == 1


def test_only_where_there_are_transforms_spark_is_set_for_them() -> None:
    assert "spark.buffer.size" not in context._complete({}, 2, "s")
    assert context._complete({}, 2, "s")["spark.master"] == "local[2]"
    staged = context._complete({"spark.buffer.size": "9", "spark.driver.memory": "3g"}, 2, "s", 3)
    assert staged["spark.master"] == "local[5]"
    assert staged["spark.buffer.size"] == stage.CONTEXT["spark.buffer.size"]
    assert staged["spark.executor.killOnFatalError.depth"] == "0"
    assert staged["spark.driver.memory"] == "3g"
    assert "TieredStopAtLevel" not in staged["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x [CAST_INVALID_INPUT] The value 'Al' of STRING", "CAST_INVALID_INPUT"),
        ("Traceback …\nModuleNotFoundError: No module named 'Al'", "ModuleNotFoundError"),
        (
            "Traceback …\ncauseway.transform.udfs.FunctionError: ValueError\n at x.Y [AL]",
            "ValueError",
        ),
        ("caused by java.io.IOException: 'Al'", "IOException"),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed): 'Al'",
            "a Python worker ended unexpectedly",
        ),
        ("Al", "RuntimeError"),
    ],
)
def test_a_failed_job_is_told_by_the_kind_of_its_error(text: str, said: str) -> None:
    assert stage.explain(RuntimeError(text)) == said
