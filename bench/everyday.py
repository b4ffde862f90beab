"""The everyday load: many partitions that trickle. What it costs the mirror and the brokers, and
how old a record is when a reader of the target gets it.

The reader of the target has some of the partitions. A reader of all of them would cost the brokers
more than the mirror does, because librdkafka names each partition in each fetch.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from bench.latency import Spread, await_records, spread
from bench.stage import Run, Stage, create_topics, delete_topics
from bench.stream import Bursts, Listener, Sender, places
from bench.systems import System, system
from bench.target import Target
from bench.usage import Meter, Usage
from causeway.cluster import Cluster, Committed
from causeway.config import ClientSettings
from causeway.errors import CausewayError
from causeway.model import TopicPartition

SIZE = 300
TUNED = {"linger.ms": "20"}
COMMIT_S = 5.0
_GROUP_KEYS = {
    "groups": "everyday-.*",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "5",
    "emit.checkpoints.interval.seconds": "5",
}
_READ_EACH = 25  # one of so many partitions has a reader
_START_TIMEOUT_S = 240.0
_FIRST_PER_S = 500
_MEMORY_S = 15.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`per_s` records a second, in turn over `topics` topics of `each` partitions. `groups`: how
    many groups commit every COMMIT_S seconds, each for all partitions of a topic."""

    per_s: int
    topics: int
    each: int
    groups: int = 0
    bursts: Bursts | None = None

    @property
    def title(self) -> str:
        more = f", {self.groups:,} groups commit every {COMMIT_S:g} s" if self.groups else ""
        if self.bursts is not None:
            more += f", {self.bursts}"
        partitions = self.topics * self.each
        return f"{self.per_s:,} records/s of {SIZE} B over {partitions:,} partitions{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Everyday:
    """`records` in `usage.seconds`, over all partitions; `age`: of the records of some of them when
    a read_committed reader of the target gets them, outside of bursts; `burst`: of those of a
    burst's last second."""

    partitions: int
    records: int
    age: Spread
    usage: Usage
    burst: Spread | None = None


def measure(
    load: Load, stage: Stage, name: str, say: Say, *, warm_up_s: float, measured_s: float
) -> Everyday:
    with stage.run("everyday", 1) as run, ExitStack() as stack:
        names = [f"{run.topic}-{number}" for number in range(load.topics)]
        create_topics(stage.source.internal_bootstrap, names, load.each)
        stack.callback(_delete, stage, run, names)
        flow = {f"{run.alias}->target.topics": f"{re.escape(run.topic)}-.*"}
        if load.groups:
            flow |= _GROUP_KEYS
        mirror = stack.enter_context(system(name, stage, run, TUNED, flow=flow))
        meter = stack.enter_context(Meter(mirror.roots, stage.broker_pids, interval_s=_MEMORY_S))
        say(f"starting, and warming up with {load.per_s:,} records/s")
        written = places(names, load.each)
        mirrored = [f"{run.alias}.{topic}" for topic in names]
        bootstrap = stage.source.internal_bootstrap
        # The first record of a partition costs a broker much more than the others do.
        with Sender(bootstrap, written, per_s=min(load.per_s, _FIRST_PER_S), size=SIZE) as first:
            _await(stage, mirrored, load.each, 1, mirror)
        before = first.sent // len(written)
        sender = stack.enter_context(
            Sender(bootstrap, written, per_s=load.per_s, size=SIZE, bursts=load.bursts)
        )
        if load.groups:
            stack.enter_context(Committer(bootstrap, names, load.each, load.groups))
        time.sleep(warm_up_s)
        # All records of the start have arrived.
        _await(stage, mirrored, load.each, before + sender.sent // len(written), mirror)
        read = places(mirrored, load.each)[::_READ_EACH]
        listener = stack.enter_context(
            Listener(stage.target.internal_bootstrap, read, read_committed=True)
        )
        time.sleep(2.0)  # its first answers are late
        say(f"measuring for {measured_s:g} s")
        begin = sender.sent
        meter.start()
        time.sleep(measured_s)
        last = sender.sent
        usage = meter.stop(seconds=measured_s)
        numbers = {
            number for number in range(begin, last) if not number % len(written) % _READ_EACH
        }
        await_records([listener], numbers)
        mirror.check()
        last_of_bursts = {n for each in sender.bursts for n in each[-load.per_s :]} & numbers
        calm = numbers.difference(*sender.bursts)
        age = spread(listener, calm, name)
        burst = spread(listener, last_of_bursts, name) if last_of_bursts else None
    parts = ", ".join(f"{part} {cpu_s / measured_s:.1%}" for part, cpu_s in usage.parts.items())
    say(
        f"{usage.cpu_s / measured_s:.1%} of a core ({parts}), "
        f"brokers {usage.brokers_cpu_s / measured_s:.1%}; {age}"
        + (f"; end of a burst: {burst}" if burst else "")
    )
    return Everyday(
        partitions=len(written), records=last - begin, age=age, usage=usage, burst=burst
    )


class Committer:
    """Commits offsets of `groups` consumer groups, spread over COMMIT_S seconds, until closed. Each
    reads the `each` partitions of one of `topics`, and has read all that was there a while ago."""

    def __init__(self, bootstrap: str, topics: list[str], each: int, groups: int) -> None:
        host, _, port = bootstrap.partition(":")
        self._cluster = Cluster(ClientSettings(alias="bench", bootstrap=((host, int(port)),)))
        self._topics, self._each, self._groups = topics, each, groups
        self._closed = threading.Event()
        self._failure: CausewayError | None = None
        self._thread = threading.Thread(target=self._commit, name="committer", daemon=True)

    def __enter__(self) -> Committer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        self._cluster.close()
        if self._failure is not None:
            raise self._failure

    def _commit(self) -> None:
        turns = 10
        number = 0
        due = time.monotonic()
        while not self._closed.is_set():
            try:
                self._commit_some(range(number % turns, self._groups, turns))
            except CausewayError as error:
                self._failure = error
                return
            number += 1
            due += COMMIT_S / turns
            self._closed.wait(max(0.0, due - time.monotonic()))

    def _commit_some(self, groups: range) -> None:
        places = [TopicPartition(t, p) for t in self._topics for p in range(self._each)]
        ends = self._cluster.log_ends(places)
        commits = {}
        for group in groups:
            topic = self._topics[group % len(self._topics)]
            commits[f"everyday-{group}"] = {
                place: Committed(offset=end)
                for place, end in ends.items()
                if place.topic == topic and not isinstance(end, CausewayError)
            }
        for answer in self._cluster.commit_offsets(commits).values():
            if isinstance(answer, CausewayError):
                raise answer


def _await(stage: Stage, topics: list[str], each: int, least: int, mirror: System) -> None:
    wanted = dict.fromkeys(range(each), least)
    for topic in topics:
        target = Target(stage.target.internal_bootstrap, topic, each)
        target.await_ends(wanted, alive=mirror.check, timeout_s=_START_TIMEOUT_S)


def _delete(stage: Stage, run: Run, topics: list[str]) -> None:
    delete_topics(stage.source.internal_bootstrap, topics)
    delete_topics(stage.target.internal_bootstrap, [f"{run.alias}.{topic}" for topic in topics])
