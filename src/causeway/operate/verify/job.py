"""Runs comparisons of ranges: a few in this process; many as Spark jobs of one task each, and as
many at once as there are lanes."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from cryptography.fernet import Fernet

from causeway.cluster import Cluster, Connect
from causeway.config import ClientSettings, LinkSettings, Settings, from_wire, is_local, to_wire
from causeway.errors import BrokerError, CausewayError
from causeway.operate.verify.compare import compare
from causeway.operate.verify.outcome import Range, RangeOutcome
from causeway.relay import SECRET_VARIABLE

if TYPE_CHECKING:
    from causeway.daemon.spark import Spark

HERE_BYTES = 64 * 1024 * 1024  # of the source; this takes less time than a start of Spark
_TASK_BYTES = 192 * 1024 * 1024
_TASK_RANGES = 500
_ATTEMPTS = 3
_PAUSE_S = 2.0
_TELL_S = 0.5

Answer = RangeOutcome | CausewayError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A range to compare. `owner` and `place`: indexes of the caller."""

    owner: int
    place: int
    link: LinkSettings
    range: Range


# Called with the answer for each part, from the caller's thread.
OnAnswer = Callable[[Part, Answer], None]
Tick = Callable[[], None]


@dataclass(slots=True)
class _TaskGroup:
    parts: list[Part]
    attempts: int = 0
    size: int = 0


class Runner:
    """Compares ranges. Without `spark`, in this process, in which the clusters are `connect`ed.
    Otherwise on `spark`, which was started with `secret`."""

    def __init__(
        self,
        connect: Connect,
        bytes_per_s: float | None,
        tick: Tick,
        spark: Spark | None = None,
        secret: str = "",
    ) -> None:
        self._connect, self._bytes_per_s, self._tick = connect, bytes_per_s, tick
        self._spark, self._secret = spark, secret
        self._pace = Pace(bytes_per_s)  # of this process
        self._sealed: dict[str, bytes] = {}
        self._worked = False  # whether a task has completed

    def run(self, parts: Sequence[Part], *, look_into: bool, on_answer: OnAnswer) -> None:
        """Calls `on_answer` as answers arrive. Raises CausewayError if Spark cannot run the
        tasks."""
        # A throttled task has one range, otherwise progress would be reported every few minutes.
        alone = self._spark is None or self._bytes_per_s is not None
        waiting = deque(_groups(parts, 1 if alone else _TASK_BYTES))
        lanes = 1 if self._spark is None else self._spark.lanes
        under_way: dict[Future[list[Answer]], _TaskGroup] = {}
        pool = ThreadPoolExecutor(lanes, thread_name_prefix="verify")
        try:
            while waiting or under_way:
                while waiting and len(under_way) < lanes:
                    group = waiting.popleft()
                    under_way[self._begin(pool, group, look_into, lanes)] = group
                ended, _ = wait(under_way, _TELL_S, FIRST_COMPLETED)
                for each in ended:
                    waiting += self._take(under_way.pop(each), each, on_answer)
                self._tick()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin(
        self, pool: ThreadPoolExecutor, group: _TaskGroup, look_into: bool, lanes: int
    ) -> Future[list[Answer]]:
        link, ranges = group.parts[0].link, [part.range for part in group.parts]
        pause_s = _PAUSE_S * group.attempts
        if self._spark is None:  # in this thread, which Ctrl-C ends
            time.sleep(pause_s)
            source, target = self._connect(link.source), self._connect(link.target)
            here: Future[list[Answer]] = Future()
            here.set_result(
                [answer(each, source, target, look_into, self._pace) for each in ranges]
            )
            return here
        if link.name not in self._sealed:
            self._sealed[link.name] = seal(self._secret, link.source, link.target)
        rate = None if self._bytes_per_s is None else self._bytes_per_s / lanes
        task = CompareTask(self._sealed[link.name], ranges, look_into, rate)
        return pool.submit(self._compute, self._spark, task, pause_s)

    def _compute(self, spark: Spark, task: CompareTask, pause_s: float) -> list[Answer]:
        time.sleep(pause_s)
        return spark.compute(task, "verify")[0]

    def _take(
        self, group: _TaskGroup, ended: Future[list[Answer]], on_answer: OnAnswer
    ) -> list[_TaskGroup]:
        """Reports the answers. Returns the groups to try again."""
        last = group.attempts + 1 >= _ATTEMPTS
        error = ended.exception()
        if error is not None:
            if not isinstance(error, CausewayError) or not error.retriable:
                raise error
            if not last:
                return [_TaskGroup(group.parts, group.attempts + 1)]
            if not self._worked:
                raise error
            if len(group.parts) > 1:  # one range may crash its worker: run each alone
                return [_TaskGroup([part], group.attempts) for part in group.parts]
            on_answer(group.parts[0], error)
            return []
        self._worked = True
        # In this process, the client has already waited for a broker that does not answer.
        passing = CausewayError if self._spark is not None else BrokerError
        again = []
        for part, found in zip(group.parts, ended.result(), strict=True):
            if isinstance(found, passing) and found.retriable and not last:
                again.append(part)
            else:
                on_answer(part, found)
        return [_TaskGroup(again, group.attempts + 1)] if again else []


def _groups(parts: Sequence[Part], most_bytes: int) -> Iterator[_TaskGroup]:
    """Yields groups of one link each, large enough that the overhead of a Spark task is small."""
    group = _TaskGroup([])
    for part in parts:
        full = group.size >= most_bytes or len(group.parts) >= _TASK_RANGES
        if group.parts and (full or part.link.name != group.parts[0].link.name):
            yield group
            group = _TaskGroup([])
        group.parts.append(part)
        group.size += part.range.size
    if group.parts:
        yield group


@contextmanager
def runner(
    settings: Settings,
    connect: Connect,
    size: int,
    bytes_per_s: float | None,
    tick: Tick,
) -> Iterator[Runner]:
    """Yields a runner for about `size` bytes of the source. Raises PrerequisiteError."""
    from causeway.daemon.spark import Spark, cores_of
    from causeway.relay import new_secret

    if size <= HERE_BYTES and is_local(settings.spark):
        yield Runner(connect, bytes_per_s, tick)
        return
    secret = new_secret()
    spark = Spark(
        settings.spark,
        settings.run.lanes or cores_of(settings.spark),
        secret,
        on_lane_ended=lambda *_: None,
    )
    spark.start()
    try:
        spark.rehearse()  # starts workers that have loaded the modules of the first tasks
        yield Runner(connect, bytes_per_s, tick, spark, secret)
    finally:
        spark.stop()


@dataclass(frozen=True, slots=True)
class CompareTask:
    """Runs on an executor: compares a few ranges of one link, one after the other. `clusters`: the
    encrypted settings of both clusters. The key is in the executor's environment, never in data
    that Spark sends or shows. `bytes_per_s`: None for no limit."""

    clusters: bytes
    ranges: Sequence[Range]
    look_into: bool
    bytes_per_s: float | None

    def __call__(self, _: Iterator[int]) -> Iterator[list[Answer]]:
        source, target = _opened(self.clusters)
        pace = Pace(self.bytes_per_s)
        yield [answer(each, source, target, self.look_into, pace) for each in self.ranges]


def answer(part: Range, source: Cluster, target: Cluster, look_into: bool, pace: Pace) -> Answer:
    """Compares one range. An error is also an answer: it must not stop the other ranges."""
    try:
        return compare(part, source, target, look_into=look_into, spent=pace.spent)
    except CausewayError as error:
        return error


class Pace:
    """Limits the average number of bytes read per second by pauses of the reader."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self._rate = bytes_per_s
        self._due = time.monotonic()

    def spent(self, size: int) -> None:
        if self._rate is None:
            return
        now = time.monotonic()
        # Unused time is not saved for later.
        self._due = max(self._due, now - 1.0) + size / self._rate
        if self._due > now:
            time.sleep(self._due - now)


def seal(secret: str, source: ClientSettings, target: ClientSettings) -> bytes:
    return Fernet(secret).encrypt(json.dumps([to_wire(source), to_wire(target)]).encode())


@lru_cache(maxsize=1)
def _opened(clusters: bytes) -> tuple[Cluster, Cluster]:
    """Returns the clusters of a task. Connections stay open for the worker's next task."""
    key = os.environ[SECRET_VARIABLE]
    source, target = json.loads(Fernet(key).decrypt(clusters))
    return Cluster(from_wire(source)), Cluster(from_wire(target))
