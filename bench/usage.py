"""CPU time and memory of whole process trees."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import psutil

from bench.parts import cpu_by_part

_INTERVAL_S = 0.5
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`cpu_s`: CPU seconds of the measured tree (children that ended included); `brokers_cpu_s`
    of both clusters' brokers. Memory is the highest sum over the tree: `pss_mb` shares pages out
    among the processes that map them, `rss_mb` counts them in each. `parts`: CPU seconds by part
    (`bench.parts`)."""

    seconds: float
    cpu_s: float
    brokers_cpu_s: float
    pss_mb: float
    rss_mb: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    pss_mb: float
    rss_mb: float


class Meter:
    """Samples memory in a thread from construction to `close`; `start` and `stop` read the CPU."""

    def __init__(
        self,
        roots: Callable[[], Iterable[int]],
        brokers: Iterable[int],
        *,
        interval_s: float = _INTERVAL_S,
    ) -> None:
        self._interval_s = interval_s
        self._roots = roots
        self._brokers = list(brokers)
        self._peak = Memory(pss_mb=0, rss_mb=0)
        self._closed = threading.Event()
        self._begun = (0.0, 0.0)
        self._parts: Mapping[str, float] = {}
        self._thread = threading.Thread(target=self._sample, name="meter", daemon=True)
        self._thread.start()

    def start(self) -> None:
        self._parts = self._read_parts()
        self._begun = self._read()

    def stop(self, *, seconds: float) -> Usage:
        """CPU time since `start`, memory since construction; `seconds` is what the clock showed."""
        ours, brokers = self._read()
        parts = self._read_parts()
        return Usage(
            seconds=seconds,
            cpu_s=ours - self._begun[0],
            brokers_cpu_s=brokers - self._begun[1],
            pss_mb=self._peak.pss_mb,
            rss_mb=self._peak.rss_mb,
            parts={name: now - self._parts.get(name, 0) for name, now in parts.items()},
        )

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> tuple[float, float]:
        return cpu_seconds(self._roots()), cpu_seconds(self._brokers)

    def _read_parts(self) -> Mapping[str, float]:
        return cpu_by_part(self._roots(), self._brokers)

    def _sample(self) -> None:
        while not self._closed.wait(self._interval_s):
            now = memory(self._roots())
            self._peak = Memory(
                pss_mb=max(self._peak.pss_mb, now.pss_mb),
                rss_mb=max(self._peak.rss_mb, now.rss_mb),
            )


def cpu_seconds(roots: Iterable[int]) -> float:
    """User and system time of the processes and all their children, ended ones included."""
    total = 0.0
    for process in _tree(roots):
        try:
            total += sum(process.cpu_times()[:4])  # own user, system; ended children's
        except psutil.Error:  # it ended just now: its parent has its time
            continue
    return total


def memory(roots: Iterable[int]) -> Memory:
    pss = rss = 0
    for process in _tree(roots):
        try:
            info = process.memory_full_info()
        except psutil.Error:
            continue
        rss += info.rss
        pss += getattr(info, "pss", info.rss)  # Linux alone tells it
    return Memory(pss_mb=pss / _MB, rss_mb=rss / _MB)


def _tree(roots: Iterable[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in roots:
        try:
            root = psutil.Process(pid)
            found += [root, *root.children(recursive=True)]
        except psutil.Error:
            continue
    return found
