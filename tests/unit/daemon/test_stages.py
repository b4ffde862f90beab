"""Stages are launched again until they are stopped, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from causeway.config import TransformSettings
from causeway.daemon.spark import engine as stages
from causeway.daemon.spark import environment as conf
from causeway.errors import CausewayError
from causeway.relay import StageEnded
from causeway.transform import CONTEXT, stage
from tests.harness.waiting import await_until

TRANSFORM = TransformSettings(name="pii", topics=(), sql="SELECT 1")


class Jobs:
    """In the place of Spark: each job ends as it is told, or waits to be cancelled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *ends: Exception | None) -> None:
        self._ends = list(ends)
        self.attempts: list[str] = []
        self.groups: list[str] = []
        self.freed: list[str] = []
        self.waiting = threading.Event()
        self._cancelled = threading.Event()
        self.session = SimpleNamespace(sparkContext=self)
        self.said: list[StageEnded] = []
        monkeypatch.setattr(stage, "run_stage", self._run)
        monkeypatch.setattr(stages, "_STAGE_BACKOFF_S", (0.0, 0.0))
        self.stages = stages.Stages(cast(Any, self), self.said.append, _prepare)

    def setJobGroup(self, group: str, _: str, interrupts: bool) -> None:  # noqa: N802  Spark's
        assert interrupts
        self.groups.append(group)

    def cancel(self, group: str) -> None:
        assert group == self.groups[-1]
        self._cancelled.set()

    def free(self, group: str) -> None:
        self.freed.append(group)

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
    assert [(ended.key, ended.reason) for ended in jobs.said] == [("k", each) for each in reasons]
    assert [ended.attempt for ended in jobs.said] == jobs.attempts[:3]
    assert [ended.threw for ended in jobs.said] == [False, True, False]
    assert len(set(jobs.attempts)) == len(jobs.attempts) == 4
    assert len(set(jobs.groups)) == 4, "one can be cancelled without the next"
    jobs.stages.stop("k")


def test_an_attempt_that_gives_no_answer_is_ended_once_and_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = Jobs(monkeypatch)
    jobs.stages.launch("k", TRANSFORM, "@lane")
    assert jobs.waiting.wait(30)
    (hung,) = jobs.attempts
    jobs.stages.give_up("k", "another")
    jobs.stages.give_up("other", hung)
    jobs.stages.give_up("k", hung)
    jobs.stages.give_up("k", hung)
    await_until(lambda: len(jobs.attempts) > 1, 30, "the next attempt")
    await_until(lambda: jobs.freed, 30, "its threads are looked for")
    assert jobs.freed == [jobs.groups[0]]
    assert jobs.said[0] == StageEnded(
        key="k", attempt=hung, reason=stages.GAVE_NO_ANSWER, threw=False
    )
    assert jobs.groups[0].endswith(hung)
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
    assert "spark.buffer.size" not in conf.complete({}, 2, "s")
    assert conf.complete({}, 2, "s")["spark.master"] == "local[2]"
    staged = conf.complete({"spark.buffer.size": "9", "spark.driver.memory": "3g"}, 2, "s", 3)
    assert staged["spark.master"] == "local[8]", "each stage may have a second one"
    assert staged["spark.buffer.size"] == CONTEXT["spark.buffer.size"]
    assert staged["spark.executor.killOnFatalError.depth"] == "0"
    assert staged["spark.task.maxFailures"] == "1"
    again = {"spark.master": "local[2,4]", "spark.task.maxFailures": "4"}
    assert conf.complete(again, 2, "s")["spark.master"] == "local[2,4]"
    assert conf.complete(again, 2, "s", 1)["spark.master"] == "local[4]"
    assert conf.complete(again, 2, "s", 1)["spark.task.maxFailures"] == "1"
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
def test_a_failed_job_is_reported_by_the_kind_of_its_error(text: str, said: str) -> None:
    assert stage.explain(RuntimeError(text)) == said


_JOB = "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
_TASK = f"{_JOB}Lost task 0.0 in stage 3.0 (TID 3) (127.0.0.1 executor 0): "


@pytest.mark.parametrize(
    ("error", "said", "threw"),
    [
        (PySparkException("[DIVIDE_BY_ZERO] Division by zero."), "DIVIDE_BY_ZERO", True),
        (PySparkException("Traceback …\nValueError: OutOfMemoryError"), "ValueError", True),
        (PySparkException("Traceback …\nMemoryError"), "MemoryError", False),
        (f"{_TASK}java.lang.StackOverflowError\n\tat java.io.X", "StackOverflowError", True),
        (f"{_TASK}java.lang.OutOfMemoryError: Java heap space", "OutOfMemoryError", False),
        (
            f"{_TASK}ExecutorLostFailure (executor 0 exited) Reason: 137",
            "an executor was lost",
            False,
        ),
        (
            f"{_TASK}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "a Python worker ended unexpectedly",
            False,
        ),
        (f"{_TASK}java.io.EOFException\n\tat X", "EOFException", False),
        (": SparkException: [SPARK_JOB_CANCELLED] Job 7 cancelled", "SPARK_JOB_CANCELLED", False),
    ],
)
def test_a_job_that_raised_differs_from_one_whose_process_died(
    error: Exception | str, said: str, threw: bool
) -> None:
    error = RuntimeError(error) if isinstance(error, str) else error
    assert stage.explain(error) == said
    assert stage.threw(error) is threw
