"""Threads, locks and queues of a simulation, in place of those of the modules `threading` and
`queue`. The standard library's Condition, Event and Semaphore work with these locks."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from queue import Empty
from typing import Any, Generic, Self, TypeVar

from tests.simulation.kernel import Kernel, SimulatedTask

T = TypeVar("T")
_kernel: Kernel
_numbers = count()  # of threads


def use(kernel: Kernel) -> None:
    """All threads and locks belong to `kernel` from now on."""
    global _kernel, _numbers
    _kernel, _numbers = kernel, count()


def kernel() -> Kernel:
    """Of the run that goes on now."""
    return _kernel


class SimulatedLock:
    """A lock; with `again` the same thread may take it again."""

    def __init__(self, *, again: bool = False) -> None:
        self._again = again
        self._count = 0
        self._owner: SimulatedTask | None = None
        self._waiting: deque[SimulatedTask] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        _kernel.may_give_way()
        task = _kernel.current
        if self._again and self._count and self._owner is task:
            self._count += 1
            return True
        until = None if timeout < 0 else _kernel.elapsed + timeout
        while self._count:
            left = None if until is None else until - _kernel.elapsed
            if not blocking or (left is not None and left <= 0):
                return False
            here = _kernel.here()
            self._waiting.append(here)
            woken = _kernel.wait(left)
            if not woken:
                self._waiting.remove(here)
        self._count = 1
        self._owner = task
        if task is not None:
            task.held[id(self)] = weakref.ref(self)
        return True

    def release(self) -> None:
        if not self._count:
            raise RuntimeError("release unlocked lock")
        self._count -= 1
        if not self._count:
            self._free()
            _kernel.may_give_way()

    def _free(self) -> None:
        self._count = 0
        if self._owner is not None:
            del self._owner.held[id(self)]  # Condition releases locks that another thread took
        self._owner = None
        while self._waiting:
            task = self._waiting.popleft()
            if task.process.alive:
                _kernel.wake(task)
                return

    def __del__(self) -> None:
        # Condition leaves the lock of each wait taken.
        if self._owner is not None:
            del self._owner.held[id(self)]

    def owner_died(self) -> None:
        """A lock of a module belongs to all processes of a simulation: it must not stay taken."""
        self._free()

    def locked(self) -> bool:
        return self._count > 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._free()

    # As Condition uses an RLock.

    def _is_owned(self) -> bool:
        return self._count > 0 and self._owner is _kernel.current

    def _release_save(self) -> int:
        count, self._count = self._count, 0
        self._free()
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        self._count = count


def recursive_lock() -> SimulatedLock:
    return SimulatedLock(again=True)


class SimulatedThread:
    """In place of threading.Thread."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        del group
        self._target, self._args, self._kwargs = target, tuple(args), dict(kwargs or {})
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self._task: SimulatedTask | None = None
        self._joining: list[SimulatedTask] = []
        self._number = next(_numbers)

    def __hash__(self) -> int:
        """Pools keep their threads in sets, and go through them."""
        return self._number

    @classmethod
    def of_task(cls, task: SimulatedTask) -> Self:
        """The thread that a process began with."""
        made = cls(name=task.name)
        made._task = task
        return made

    @property
    def ident(self) -> int | None:
        return None if self._task is None else self._task.ident

    def start(self) -> None:
        self._task = _kernel.spawn(_kernel.here().process, self._body, self.name)
        self._task.thread = self

    def _body(self) -> None:
        self.run()
        for task in self._joining:
            _kernel.wake(task)

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.ended and self._task.process.alive

    def join(self, timeout: float | None = None) -> None:
        until = None if timeout is None else _kernel.elapsed + timeout
        while self.is_alive():
            left = None if until is None else until - _kernel.elapsed
            if left is not None and left <= 0:
                return
            here = _kernel.here()
            self._joining.append(here)
            _kernel.wait(left)
            self._joining.remove(here)


class SimulatedTimer(SimulatedThread):
    """In place of threading.Timer."""

    def __init__(self, interval: float, function: Callable[[], object]) -> None:
        super().__init__(name="timer")
        self._interval, self._function = interval, function
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            _kernel.wake(self._task)

    def run(self) -> None:
        _kernel.wait(self._interval)
        if not self._is_cancelled:
            self._function()


class Local:
    """In place of threading.local: other attributes in each thread. `__init__` runs in each."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        made = object.__new__(cls)
        object.__setattr__(made, "_given", (given, named))
        return made

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        try:
            return self._mine()[name]
        except KeyError:
            return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._mine()[name] = value

    def _mine(self) -> dict[str, Any]:
        task = _kernel.current
        every = _no_locals if task is None else task.locals
        if (mine := every.get(self)) is None:
            mine = every[self] = {}
            given, named = self._given
            self.__init__(*given, **named)  # type: ignore[misc]
        return mine


_no_locals: dict[object, dict[str, Any]] = {}


class _NoThread:
    """The simulated clusters, which have no threads."""

    name = "clusters"


_no_thread = _NoThread()


def current_thread() -> object:
    task = _kernel.current
    if task is None:
        return _no_thread
    if task.thread is None:
        task.thread = SimulatedThread.of_task(task)
    return task.thread


_real_ident = threading.get_ident


def get_ident() -> int:
    return _real_ident() if _kernel.current is None else _kernel.current.ident


class SimpleQueue(Generic[T]):
    """In place of queue.SimpleQueue."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiting: deque[SimulatedTask] = deque()

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        del block, timeout
        self._items.append(item)
        while self._waiting:
            task = self._waiting.popleft()
            if task.process.alive:
                _kernel.wake(task)
                return

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        until = None if timeout is None else _kernel.elapsed + timeout
        while not self._items:
            left = None if until is None else until - _kernel.elapsed
            if not block or (left is not None and left <= 0):
                raise Empty
            here = _kernel.here()
            self._waiting.append(here)
            if not _kernel.wait(left):
                self._waiting.remove(here)
        return self._items.popleft()

    def get_nowait(self) -> T:
        return self.get(block=False)

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)
