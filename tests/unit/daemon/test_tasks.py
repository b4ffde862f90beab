"""Tasks of the control plane: one that fails is tried again and disturbs nobody."""

from __future__ import annotations

import threading

from causeway.daemon.tasks import DONE, Outcome, Task, Tasks
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
        return DONE

    tasks = Tasks(
        "A->B",
        [
            Task(name="first", interval_s=0.01, work=fails_twice),
            Task(name="second", interval_s=60, work=works),
        ],
    )
    tasks.start()
    try:
        assert ran.wait(5)
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
        tasks.join(5)
