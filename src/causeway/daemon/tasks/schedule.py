"""Runs the tasks of one link's control plane, each on its own schedule and in its own thread.

A task that fails is retried with a growing pause, and the status shows its reason. No other task
and no lane waits for it.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from causeway.errors import CausewayError
from causeway.link_topics import TaskRecord

_log = logging.getLogger("causeway.control")
_BACKOFF_S = (1.0, 60.0)
_MOST_ITEMS = 100  # that a task's record contains
_READY_S = 10.0  # the longest time for which a first run waits until it is useful
_TICK_S = 0.1
_RECORD_S = 60.0
FILE = "file"  # the record of the settings' file; no task has this name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run. `items`: facts that a person should know, each with its reason.
    `figures`: counts by name. `unfinished`: another attempt may do more. `dated`: False if the
    record keeps the time of an earlier run."""

    items: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, int] = field(default_factory=dict)
    unfinished: bool = False
    dated: bool = True


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """A task and its schedule.

    `work`      does all that is due; raises CausewayError if it could not do anything; returns
                None if there is nothing to report
    `begin`     is called before the first run of each term: another driver may have written since
    `ready`     whether the first run is useful already; the task waits for this for a while
    `at_end`    the task runs once more when the link ends in order
    `name`      is shown to people
    `record_s`  seconds after which an unchanged result is recorded again
    """

    name: str
    interval_s: float
    work: Callable[[], Outcome | None]
    begin: Callable[[], None] = lambda: None
    ready: Callable[[], bool] = lambda: True
    at_end: bool = field(default=False, kw_only=True)
    record_s: float = field(default=_RECORD_S, kw_only=True)
    _running: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def start_over(self) -> None:
        """Begins a term, once a run of an earlier term has ended."""
        with self._running:
            self.begin()

    def run(self) -> Outcome:
        """Runs the task. Only one run happens at a time: `work` need not be thread-safe."""
        with self._running:
            return self.work() or Outcome()


class Tasks:
    """The tasks of one link, from `start` to `stop`. They may be started again. No run begins while
    `may_run` returns False."""

    def __init__(
        self, link: str, tasks: Sequence[ScheduledTask], may_run: Callable[[], bool] = lambda: True
    ) -> None:
        self.link = link
        self._may_run = may_run
        self._tasks = tasks
        self._lock = threading.Lock()
        self._records = {task.name: TaskRecord(name=task.name) for task in tasks}
        # The items of the last run, even if they were not recorded.
        self._items: dict[str, frozenset[str]] = {}
        self._dirty: set[str] = set()
        self._recorded_at: dict[str, float] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def follow(self, before: Tasks) -> None:
        """Takes over the records of `before`, which was stopped."""
        with before._lock:
            names = before._records.keys() & {*self._records, FILE}
            self._records |= {name: before._records[name] for name in names}
            self._items = {name: i for name, i in before._items.items() if name in names}
            self._dirty = before._dirty & names

    def note_file(self, reason: str | None, known: TaskRecord | None = None) -> None:
        """Records, like the failure of a task, why the changed file of the settings is not in
        force. None: it is in force; this is recorded if it was not in force before. `known`: the
        record of an earlier leader."""
        with self._lock:
            before = self._records.get(FILE, known)
            if before is None:
                before = TaskRecord(name=FILE)
            if before.reason != reason:
                done_at = int(time.time() * 1000) if reason is None else before.done_at
                self._records[FILE] = before.replace(reason=reason, done_at=done_at, written_at=-1)
                self._dirty.add(FILE)

    @property
    def running(self) -> bool:
        return bool(self._threads) and not self._stop.is_set()

    def start(self) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(task, self._stop),
                name=f"{task.name} {self.link}",
                daemon=True,
            )
            for task in self._tasks
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Prevents further runs. A run that has begun ends by itself."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def status(self) -> tuple[TaskRecord, ...]:
        with self._lock:
            return tuple(self._records.values())

    def take_dirty(self) -> list[TaskRecord]:
        """Returns the records that have to be written to the progress topic."""
        with self._lock:
            dirty = [self._records[name] for name in self._dirty]
            self._dirty.clear()
            return dirty

    def give_back(self, records: Sequence[TaskRecord]) -> None:
        with self._lock:
            self._dirty |= {record.name for record in records}

    def _run(self, task: ScheduledTask, stop: threading.Event) -> None:
        pause = _BACKOFF_S[0]
        task.start_over()
        until = time.monotonic() + _READY_S
        while not (stop.is_set() or task.ready() or time.monotonic() > until):
            stop.wait(_TICK_S)
        while not stop.is_set():
            if not self._may_run():
                stop.wait(_BACKOFF_S[0])
                continue
            begun = time.monotonic()
            outcome: Outcome | str
            try:
                outcome = task.run()
            except CausewayError as error:
                outcome = str(error)
            except Exception as error:
                _log.error("internal error", exc_info=error, extra=self._extra(task))
                outcome = f"internal error: {error!r}"
            self._note(task, outcome)
            if isinstance(outcome, str) or outcome.unfinished:
                stop.wait(min(pause, max(task.interval_s, _BACKOFF_S[0])))
                pause = min(2 * pause, _BACKOFF_S[1])
            else:
                pause = _BACKOFF_S[0]
                stop.wait(max(0.0, begun + task.interval_s - time.monotonic()))

    def _note(self, task: ScheduledTask, outcome: Outcome | str) -> None:
        """`outcome` is a text if the task failed."""
        now = time.time()
        with self._lock:
            before = self._records[task.name]
            if isinstance(outcome, str):
                items: Mapping[str, str] = {}
                reason, dated, after = outcome, True, before.replace(reason=outcome, items={})
            else:
                items, reason, dated = outcome.items, None, outcome.dated
                after = before.replace(
                    reason=None,
                    items=_shortened(items),
                    figures=outcome.figures,
                    done_at=int(now * 1000) if dated else before.done_at,
                )
            self._records[task.name] = after
            known = self._items.get(task.name, frozenset(before.items))
            self._items[task.name] = frozenset(items)
            changed = before.replace(done_at=0) != after.replace(done_at=0)
            if changed or (dated and now - self._recorded_at.get(task.name, 0.0) > task.record_s):
                self._dirty.add(task.name)
                self._recorded_at[task.name] = now
        if reason is not None and reason != before.reason:
            _log.warning("task failed", extra={**self._extra(task), "reason": reason})
        for item, why in items.items():
            if item not in known:
                _log.warning("not done", extra={**self._extra(task), "item": item, "reason": why})

    def _extra(self, task: ScheduledTask) -> dict[str, str]:
        return {"link": self.link, "task": task.name}


def _shortened(items: Mapping[str, str]) -> dict[str, str]:
    """Returns the items that fit into a record."""
    shown = dict(itertools.islice(items.items(), _MOST_ITEMS))
    if len(items) > len(shown):
        shown["others"] = f"{len(items) - len(shown)} more, named in the log"
    return shown
