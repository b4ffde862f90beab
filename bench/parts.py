"""Which part of a system takes how much CPU time: by processes, and by the JVM's own threads.

A lane talks to brokers, a stage's workers to their lane alone; of the two the source worker is the
older one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import psutil

LANE, SOURCE, SINK = "lane", "source worker", "sink worker"
DRIVER, JVM, COMPILERS, COLLECTOR = "driver", "JVM", "JVM's compilers", "JVM's collector"
ORDER = (LANE, SOURCE, JVM, COMPILERS, COLLECTOR, SINK, DRIVER)
# How threads are called that compile, and that collect garbage.
_THREADS = {
    COMPILERS: ("C1 Compiler", "C2 Compiler"),
    COLLECTOR: ("GC Thread", "G1 ", "VM Thread"),
}


def cpu_by_part(roots: Iterable[int], brokers: Iterable[int]) -> dict[str, float]:
    """CPU seconds of the trees' living processes, by part. `brokers`: processes' ids."""
    ports = {
        connection.laddr.port
        for pid in brokers
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    found: dict[str, float] = defaultdict(float)
    for pid in roots:
        try:
            _add(found, psutil.Process(pid), ports)
        except psutil.Error:
            continue
    return found


def _add(found: dict[str, float], root: psutil.Process, ports: set[int]) -> None:
    workers = []
    for process in [root, *root.children(recursive=True)]:
        try:
            if process.name() == "java":
                _add_threads(found, process)
            elif process == root:
                found[DRIVER] += _own(process)
            elif _talks_to(process, ports):
                found[LANE] += _own(process)
            elif "causeway.transform.stage.direct_worker" in process.cmdline():
                found[SOURCE] += _own(process)  # what that does, for all of a lane's transforms
            elif (parent := process.parent()) is not None and parent.name() != "java":
                workers.append(process)
        except psutil.Error:  # it has ended just now
            continue
    for number, process in enumerate(sorted(workers, key=psutil.Process.create_time)):
        found[(SOURCE, SINK)[number % 2]] += _own(process)


def _own(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _talks_to(process: psutil.Process, ports: set[int]) -> bool:
    return any(
        connection.raddr and connection.raddr.port in ports
        for connection in process.net_connections("tcp")
    )


def _add_threads(found: dict[str, float], process: psutil.Process) -> None:
    rest = _own(process)
    for thread in process.threads():
        try:
            name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text()
        except OSError:  # not Linux, or the thread has ended
            continue
        for part, starts in _THREADS.items():
            if name.startswith(starts):
                found[part] += thread.user_time + thread.system_time
                rest -= thread.user_time + thread.system_time
    found[JVM] += rest
