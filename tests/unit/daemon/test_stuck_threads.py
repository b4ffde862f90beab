"""Threads that compute for a job that was cancelled: stopped where Java can, else counted."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.daemon.spark import context, stuck


class Thread:
    def __init__(self, *, stops: bool) -> None:
        self._stops = stops
        self.stopped = False

    def stop(self) -> None:
        if not self._stops:
            raise RuntimeError("UnsupportedOperationException")
        self.stopped = True


class Jvm:
    """Its threads, by the group of their job."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: dict[str, Thread] = {}
        monkeypatch.setattr(stuck, "threads", self._threads)
        monkeypatch.setattr(stuck, "_PATIENCE_S", 0.01)
        monkeypatch.setattr(stuck, "_LOOK_S", 0.001)

    def _threads(self, jvm: Any, group: str) -> Iterator[Thread]:
        thread = self.threads.get(group)
        if thread is not None and not thread.stopped:
            yield thread


def test_a_thread_that_goes_on_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = Jvm(monkeypatch)
    jvm.threads = {"ours": Thread(stops=True), "other": Thread(stops=True)}
    assert stuck.free(jvm, "none")
    assert stuck.free(jvm, "ours")
    assert [thread.stopped for thread in jvm.threads.values()] == [True, False]


def test_a_jvm_with_too_many_threads_that_cannot_be_stopped_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jvm = Jvm(monkeypatch)
    spark = context.Spark({}, 1, "s", on_lane_ended=lambda *_: None, staged=1)
    killed: list[bool] = []
    monkeypatch.setattr(spark, "_context", SimpleNamespace(_jvm=jvm))
    process = SimpleNamespace(kill=lambda: killed.append(True))
    monkeypatch.setattr(spark, "_process", cast(Any, process))
    for number in range(context._MOST_STUCK):
        jvm.threads[f"{number}"] = Thread(stops=False)
        spark.free(f"{number}")
    del jvm.threads["0"]  # it has come to its end
    jvm.threads["more"] = Thread(stops=False)
    spark.free("more")
    assert not killed
    jvm.threads["too many"] = Thread(stops=False)
    spark.free("too many")
    assert killed
