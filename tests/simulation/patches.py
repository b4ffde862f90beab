"""Puts a simulation in place of the operating system, for all code of this process.

Call `install` before the first import of causeway, in a process of its own: modules take locks and
threads from here from then on.
"""

from __future__ import annotations

import _thread
import logging  # noqa: F401  its locks stay real
import os
import queue
import random
import resource
import select
import selectors
import signal
import socket
import ssl  # noqa: F401  it derives a class from the real socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

from tests.simulation import network, threads
from tests.simulation.kernel import Kernel, SimulatedProcess

_kernel: Kernel
_futures = count()
_real_pid = os.getpid
_real_start = _thread.start_new_thread
real_usage = resource.getrusage
_FIXED = frozenset({"causeway", "kafka", "tests", "concurrent"})
_REAL = frozenset(
    {
        *("_thread.start_new_thread", "time.sleep", "os.fork", "os.exec", "os.posix_spawn"),
        *("os.system", "subprocess.Popen", "socket.__new__", "socket.getaddrinfo"),
        *("socket.gethostname",),
    }
)
_replaced: list[object] = []  # the real ones


def install() -> None:
    """Replaces threads, locks, queues, sockets, clocks and chance."""
    kernel = Kernel(0)  # for modules that look at the clock while they are imported
    use(kernel, network.Network(kernel))
    module: Any
    for module, name, value in (
        (threading, "Lock", threads.SimulatedLock),
        (threading, "_allocate_lock", threads.SimulatedLock),
        (threading, "RLock", threads.recursive_lock),
        (threading, "Thread", threads.SimulatedThread),
        (threading, "Timer", threads.SimulatedTimer),
        (threading, "current_thread", threads.current_thread),
        (threading, "local", threads.Local),
        (threading, "get_ident", threads.get_ident),
        (threading, "_time", _monotonic),
        (threading, "_start_new_thread", _start_thread),
        (_thread, "start_new_thread", _start_thread),
        (queue, "SimpleQueue", threads.SimpleQueue),
        (queue, "time", _monotonic),
        (socket, "socket", network.SimulatedSocket),
        (socket, "socketpair", network.socketpair),
        (socket, "getaddrinfo", network.getaddrinfo),
        (socket, "gethostname", network.gethostname),
        (select, "poll", network.SimulatedPoll),
        (select, "select", network.select),
        (selectors, "DefaultSelector", network.SimulatedSelector),
        (time, "monotonic", _monotonic),
        (time, "perf_counter", _monotonic),
        (time, "process_time", _monotonic),
        (time, "thread_time", _monotonic),
        (time, "perf_counter_ns", lambda: int(_monotonic() * 1e9)),
        (time, "process_time_ns", lambda: int(_monotonic() * 1e9)),
        (time, "thread_time_ns", lambda: int(_monotonic() * 1e9)),
        (time, "monotonic_ns", lambda: int(_monotonic() * 1e9)),
        (time, "time", _time),
        (time, "time_ns", lambda: int(_time() * 1e9)),
        (time, "clock_gettime", lambda _: _monotonic()),
        (time, "clock_gettime_ns", lambda _: int(_monotonic() * 1e9)),
        (time, "sleep", _sleep),
        (os, "urandom", _urandom),
        (os, "getpid", _pid),
        (resource, "getrusage", _usage),
        (random, "_urandom", _urandom),
        (signal, "signal", lambda *_: None),
    ):
        _replaced.append(getattr(module, name))
        setattr(module, name, value)
    sys.addaudithook(_audit)
    from concurrent.futures import _base  # its locks are simulated from here on

    # A wait for several futures goes through them in the order of their hashes and ids.
    module = _base
    module.id = module.Future.__hash__ = _number_of_future


def use(kernel: Kernel, net: network.Network) -> None:
    """All that was replaced belongs to this run from now on."""
    global _kernel, _futures
    _futures = count()
    _kernel = kernel
    threads.use(kernel)
    network.use(net)
    random.seed(kernel.random.random())


def _start_thread(*given: Any) -> int:
    _audit("_thread.start_new_thread", given)  # Python 3.11 does not
    return _real_start(*given)


def _audit(event: str, _: object) -> None:
    """The operating system itself must not hear of a simulated process."""
    if event in _REAL and _process() is not None:
        raise RuntimeError(f"a simulated process asks the real operating system for {event}")


def find_leaks() -> list[str]:
    """Modules that still have a real function that `install` has replaced elsewhere."""
    return [
        f"{module.__name__}.{name} is real"
        for module in list(sys.modules.values())
        if module.__name__.partition(".")[0] in _FIXED - {"tests"}
        for name, value in vars(module).items()
        if any(value is each for each in _replaced)
    ]


def fix_hashes() -> None:
    """Sets of objects have an order that does not follow from addresses: all objects of a class
    have one hash. Call it when the modules of the mirror are loaded."""
    waiting = type.__subclasses__(object)
    while waiting:
        found = waiting.pop()
        waiting += type.__subclasses__(found)
        root = str(found.__module__).partition(".")[0]
        if root in _FIXED and found.__hash__ is object.__hash__:
            type.__setattr__(found, "__hash__", _one_hash(zlib.crc32(found.__qualname__.encode())))


def _one_hash(number: int) -> Callable[[object], int]:
    return lambda _: number


def _number_of_future(future: Any) -> int:
    if "_number" not in future.__dict__:
        future._number = next(_futures)
    return int(future._number)


def _process() -> SimulatedProcess | None:
    return None if _kernel.current is None else _kernel.current.process


def _monotonic() -> float:
    _kernel.elapsed += 1e-7  # a loop that only looks at the clock must come to its end
    return _kernel.elapsed


def _time() -> float:
    process = _process()
    return _kernel.now() + (0.0 if process is None else process.skew_s)


def _sleep(seconds: float) -> None:
    _kernel.wait(seconds)


def _urandom(size: int) -> bytes:
    return _kernel.random.randbytes(size)


def _usage(of: int) -> Any:
    """Lanes report their CPU time, which must not depend on the real machine."""
    if of != resource.RUSAGE_SELF:
        return real_usage(of)
    return SimpleNamespace(ru_utime=_kernel.elapsed / 10, ru_stime=0.0, ru_maxrss=1 << 16)


def _pid() -> int:
    process = _process()
    return _real_pid() if process is None else process.pid
