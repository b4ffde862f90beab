"""Tasks of the control plane: one that fails is tried again and disturbs nobody."""

from __future__ import annotations

import threading
import time

import pytest

from causeway.daemon.tasks import ScheduledTask, Tasks
from causeway.daemon.tasks.schedule import Outcome
from causeway.errors import CausewayError
from tests.harness.waiting import await_until


def test_a_failing_task_is_seen_tried_again_and_holds_up_nothing() -> None:
    ran = threading.Event()
    failures = [CausewayError("sync", "x", "refused"), ValueError("odd")]

    def fails_twice() -> Outcome:
        if failures:
            raise failures.pop(0)
        return Outcome(items={"orders": "in use"})

    def works() -> Outcome:
        ran.set()
        return Outcome()

    tasks = Tasks(
        "A->B",
        [
            ScheduledTask(name="first", interval_s=0.01, work=fails_twice),
            ScheduledTask(name="second", interval_s=60, work=works),
        ],
    )
    tasks.start()
    try:
        assert ran.wait(60)
        first = await_until(
            lambda: next((r for r in tasks.take_dirty() if r.name == "first"), None),
            what="a record",
        )
        assert first is not None
        assert first.reason == "sync x: refused"
        odd = await_until(lambda: tasks.status()[0].reason != first.reason or None, what="the next")
        assert odd
        await_until(lambda: tasks.status()[0].done_at > 0, what="a good run")
        assert tasks.status()[0].reason is None
        assert tasks.status()[0].items == {"orders": "in use"}
        assert tasks.status()[1].done_at > 0
    finally:
        tasks.stop()
        tasks.join(60)


def test_a_term_waits_for_what_the_last_one_has_under_way() -> None:
    """A driver that loses the lead in the middle of a run, and gets it back."""
    entered, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def work() -> Outcome:
        seen.append("in")
        entered.set()
        assert go_on.wait(60)
        seen.append("out")
        return Outcome()

    tasks = Tasks(
        "A->B",
        [ScheduledTask(name="slow", interval_s=60, work=work, begin=lambda: seen.append("begin"))],
    )
    tasks.start()
    assert entered.wait(60)
    tasks.stop()
    tasks.start()
    go_on.set()
    await_until(lambda: len(seen) == 6, what="both runs")
    tasks.stop()
    tasks.join(60)
    assert seen == ["begin", "in", "out"] * 2


def test_a_task_that_is_not_ready_holds_up_no_end() -> None:
    """Nor does it run before it is."""
    ready, ran = threading.Event(), threading.Event()

    def work() -> Outcome:
        ran.set()
        return Outcome()

    task = ScheduledTask(name="groups", interval_s=60, work=work, ready=ready.is_set)
    tasks = Tasks("A->B", [task])
    tasks.start()
    tasks.stop()
    begun = time.monotonic()
    task.run()  # as at an orderly end
    tasks.join(60)
    assert time.monotonic() - begun < 9
    ran.clear()
    tasks.start()
    assert not ran.wait(0.3)
    ready.set()
    assert ran.wait(60)
    tasks.stop()
    tasks.join(60)


def test_a_task_that_fares_as_before_is_recorded_as_often_as_it_wants() -> None:
    """Its record may be all that tells when it last went well."""
    runs = {"often": 0, "seldom": 0}

    def work(name: str) -> Outcome:
        runs[name] += 1
        return Outcome()

    tasks = Tasks(
        "A->B",
        [
            ScheduledTask(name="often", interval_s=0.01, work=lambda: work("often"), record_s=0.0),
            ScheduledTask(name="seldom", interval_s=0.01, work=lambda: work("seldom")),
        ],
    )
    tasks.start()
    try:
        for name in runs:
            await_until(lambda name=name: runs[name] > 1, 60, "a run")  # type: ignore[misc]
        tasks.take_dirty()
        so_far = dict(runs)
        for name in runs:
            await_until(
                lambda name=name: runs[name] > so_far[name] + 1,  # type: ignore[misc]
                60,
                "another run",
            )
        assert {record.name for record in tasks.take_dirty()} == {"often"}
    finally:
        tasks.stop()
        tasks.join(60)


def test_of_many_items_the_first_are_recorded_and_each_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = []

    def work() -> Outcome:
        runs.append(1)
        return Outcome(items={f"group-{n}": "it has members" for n in range(150)})

    tasks = Tasks("A->B", [ScheduledTask(name="groups", interval_s=0.01, work=work)])
    tasks.start()
    await_until(lambda: len(runs) > 3, what="several runs")
    tasks.stop()
    tasks.join(60)
    items = tasks.status()[0].items
    assert len(items) == 101
    assert items["others"] == "50 more, named in the log"
    assert len([record for record in caplog.records if record.message == "not done"]) == 150


def test_a_run_that_tells_nothing_keeps_the_time_of_the_one_before() -> None:
    told, runs = [True], list[int]()

    def work() -> Outcome:
        runs.append(1)
        return Outcome(dated=told[0])

    tasks = Tasks("A->B", [ScheduledTask(name="source", interval_s=0.01, record_s=0.0, work=work)])
    tasks.start()
    try:
        await_until(lambda: tasks.status()[0].done_at > 0, what="a run that tells")
        told[0] = False
        many = len(runs) + 2
        await_until(lambda: len(runs) > many, what="a run that tells nothing")
        before = tasks.status()[0].done_at
        tasks.take_dirty()
        many = len(runs) + 2
        await_until(lambda: len(runs) > many, what="more of them")
        assert tasks.status()[0].done_at == before
        assert not tasks.take_dirty()
    finally:
        tasks.stop()
        tasks.join(60)
