"""The operating system of a simulation: processes, their threads, and time.

    ready threads ──► one, by chance, runs until it waits ──► the clock moves to the next timer

A thread is a greenlet, so that one thread at a time runs, and it gives way only if it waits for
something, or by chance at a lock or a socket. A run therefore follows from its seed.
"""

from __future__ import annotations

import heapq
import random
import weakref
import zlib
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from tests.simulation.network import SimulatedSocket
    from tests.simulation.threads import SimulatedLock

BEGIN_S: Final = 1_760_000_000.0  # the world's time at the start, since 1970
_SLICE_S: Final = 2e-5  # the time that a thread takes between two waits
_GIVES_WAY: Final = 0.03  # how often a thread is interrupted at a lock or a socket
# In a long run threads wake up late, in a time in which nothing goes wrong.
_BUSY_S: Final = 60.0  # it begins so long after the last event
_BRIEF_S: Final = 0.04  # shorter waits are a part of some work, and end on time
_OFTEN_S: Final = 3.0  # shorter waits belong to looks and leases, others to tasks
_LATE_S: Final = 1_000.0  # when looks and leases wake up: three times in a lease of an hour
_LATER_S: Final = 18_000.0  # when tasks wake up


class DeadlockError(Exception):
    """All threads wait, and no timer will wake one."""


class SimulatedTask:
    """A thread of a process. `held`: the locks that it has, by their ids."""

    def __init__(
        self, process: SimulatedProcess, run: Callable[[], object], name: str, ident: int
    ) -> None:
        self.process = process
        self.ident = ident
        self.name = name
        self.held: dict[int, weakref.ref[SimulatedLock]] = {}
        self.locals: dict[object, dict[str, Any]] = {}
        self.ended = False
        self.thread: object = None
        self._run = run
        self.greenlet = greenlet(self._body, process.kernel.loop)
        self.ticket = 0  # of its current wait
        self.woken = False

    def _body(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.process.kernel.failed(self, error)
        self.ended = True


class SimulatedProcess:
    """`host`: the machine's name."""

    def __init__(self, kernel: Kernel, name: str, host: str, pid: int) -> None:
        self.kernel = kernel
        self.name = name
        self.host = host
        self.pid = pid
        self.alive = True
        self.frozen = False
        self.tasks: list[SimulatedTask] = []
        self.sockets: dict[int, SimulatedSocket] = {}
        self.alarm_at: float | None = None  # SIGALRM then, by `Kernel.elapsed`
        self._held: list[SimulatedTask] = []  # ready, while the process is frozen
        self.on_end: list[Callable[[], object]] = []

    def start(self, run: Callable[[], object], name: str = "main") -> SimulatedTask:
        """A new thread."""
        return self.kernel.spawn(self, run, name)

    @property
    def skew_s(self) -> float:
        """How far the machine's clock is ahead of the world's."""
        return self.kernel.skews.get(self.host, 0.0)

    def kill(self, why: str, *, silently: bool = False) -> None:
        """As SIGKILL does. Its threads never run again; the kernel closes its sockets. `silently`:
        the machine has lost its power, so that no peer hears of the end."""
        if not self.alive:
            return
        self.kernel.trace(f"{self.name} ends: {why}")
        self.alive = False
        for task in self.tasks:
            for held in list(task.held.values()):
                if (lock := held()) is not None:
                    lock.owner_died()
        for sock in list(self.sockets.values()):
            sock.vanish() if silently else sock.close()
        for act in self.on_end:
            act()

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        if not (self.frozen and self.alive):
            return
        self.frozen = False
        if self.alarm_at is not None and self.kernel.elapsed >= self.alarm_at:
            self.kill("SIGALRM, its lease ended while it was stopped")
            return
        held, self._held = self._held, []
        for task in held:
            self.kernel.make_ready(task)

    def set_alarm(self, at: float | None) -> None:
        """SIGALRM ends the process at `at`, unless it is set again before."""
        self.alarm_at = at
        if at is not None:
            self.kernel.later(max(0.0, at - self.kernel.elapsed), self._on_alarm)

    def _on_alarm(self) -> None:
        due = self.alarm_at is not None and self.kernel.elapsed >= self.alarm_at
        if due and not self.frozen:
            self.kill("SIGALRM, its lease ended while it was sending")

    def hold(self, task: SimulatedTask) -> None:
        self._held.append(task)


class Kernel:
    """All that happens in one run. Implements `World`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.elapsed = 0.0  # seconds since the start
        self.loop = getcurrent()
        self.current: SimulatedTask | None = None
        self.processes: list[SimulatedProcess] = []
        self.failure: BaseException | None = None
        self.lines: list[str] = []
        self.steps = 0
        self.digest = 0  # of all events
        self.events: list[str] | None = None  # a list keeps them
        self.disturb: Callable[[], object] | None = None  # called at each event
        self.skews: dict[str, float] = {}  # of the machines' clocks, in seconds, by host
        self.long = False  # nothing goes wrong for hours or days, again and again
        self.hurried_at = 0.0
        self._late: dict[int, tuple[SimulatedTask, int, float]] = {}  # a wait's ticket, its end
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count(1)
        self._pids = count(1000)
        self._idents = count(1)
        self._ready: list[SimulatedTask] = []

    # -- the world --------------------------------------------------------------------------------

    def now(self) -> float:
        return BEGIN_S + self.elapsed

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._timers, (self.elapsed + delay_s, next(self._numbers), act))

    def trace(self, text: str) -> None:
        self.lines.append(f"{self.elapsed:12.6f} {text}")
        self.note(text)

    def note(self, event: str) -> None:
        """Something that the same seed must repeat: a thread that goes on, bytes that are sent."""
        line = f"{self.elapsed!r} {event}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        if self.events is not None:
            self.events.append(line)
        if self.disturb is not None:
            self.disturb()

    # -- processes --------------------------------------------------------------------------------

    def process(self, name: str, host: str) -> SimulatedProcess:
        made = SimulatedProcess(self, name, host, next(self._pids))
        self.processes.append(made)
        return made

    def spawn(
        self, process: SimulatedProcess, run: Callable[[], object], name: str
    ) -> SimulatedTask:
        task = SimulatedTask(process, run, name, next(self._idents))
        process.tasks.append(task)
        self.make_ready(task)
        return task

    def make_ready(self, task: SimulatedTask) -> None:
        self._ready.append(task)

    def failed(self, task: SimulatedTask, error: BaseException) -> None:
        """A thread of a live process ended by `error`."""
        if task.process.alive and self.failure is None:
            self.failure = error
            self.trace(f"{task.process.name} {task.name}: {type(error).__name__}: {error}")

    def fail(self, error: BaseException) -> None:
        """The run ends by `error`."""
        if self.failure is None:
            self.failure = error

    # -- called by threads ------------------------------------------------------------------------

    def here(self) -> SimulatedTask:
        """The thread that runs."""
        assert self.current is not None, "a simulated cluster must not wait"
        return self.current

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until another part calls `wake` for this thread; False if time ran out before."""
        task = self.here()
        task.ticket += 1
        task.woken = False
        if timeout_s is not None:
            self._wake_later(task, max(0.0, timeout_s))
        self.loop.switch()
        return task.woken

    def _wake_later(self, task: SimulatedTask, seconds: float) -> None:
        ticket = task.ticket
        if seconds >= _BRIEF_S and self.is_calm:
            self._late[task.ident] = task, ticket, self.elapsed + seconds
            seconds = max(seconds, _LATE_S if seconds < _OFTEN_S else _LATER_S)
        self.later(seconds, lambda: self._wake(task, ticket, False))

    @property
    def is_calm(self) -> bool:
        return self.long and self.elapsed - self.hurried_at > _BUSY_S

    def hurry(self) -> None:
        """Something happens: threads are on time for a while."""
        self.hurried_at = self.elapsed
        late, self._late = self._late, {}
        for task, ticket, end in late.values():
            if task.ticket == ticket:
                self._wake_later(task, max(0.0, end - self.elapsed))

    def wake(self, task: SimulatedTask) -> None:
        self._wake(task, task.ticket, True)

    def _wake(self, task: SimulatedTask, ticket: int, woken: bool) -> None:
        if task.ticket == ticket and not task.ended:
            task.ticket += 1
            task.woken = woken
            self._ready.append(task)

    def give_way(self) -> None:
        """Lets other threads run first."""
        task = self.here()
        task.ticket += 1
        self._ready.append(task)
        self.loop.switch()

    def may_give_way(self) -> None:
        """Another thread may interrupt this one here."""
        if self.current is not None and self.random.random() < _GIVES_WAY:
            self.give_way()

    # -- the loop ---------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool]) -> None:
        """Raises the failure of a thread, and DeadlockError."""
        while not until():
            self.step()
            if self.failure is not None:
                raise self.failure

    def run_for(self, seconds: float) -> None:
        end = self.elapsed + seconds
        self.later(seconds, lambda: None)
        self.run(lambda: self.elapsed >= end)

    def step(self) -> None:
        self.steps += 1
        ready, timers = self._ready, self._timers
        if timers and timers[0][0] <= self.elapsed:
            heapq.heappop(timers)[2]()
        elif ready:
            at = int(self.random.random() * len(ready)) if len(ready) > 1 else 0
            ready[at], ready[-1] = ready[-1], ready[at]
            self._let_run(ready.pop())
        elif timers:
            due, _, act = heapq.heappop(timers)
            self.elapsed = max(self.elapsed, due)
            act()
        else:
            raise DeadlockError("no thread is ready, and no timer is set")

    def _let_run(self, task: SimulatedTask) -> None:
        process = task.process
        if not process.alive or task.ended:
            return
        if process.frozen:
            process.hold(task)
            return
        self.elapsed += _SLICE_S
        self.note(f"{process.name} {task.name}")
        self.current = task
        task.greenlet.switch()
        self.current = None
