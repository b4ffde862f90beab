"""The everyday load: many partitions that trickle. What it costs the mirror and the brokers, and
how old a record is when a reader of the target gets it.

The reader of the target has some of the partitions. A reader of all of them would cost the brokers
more than the mirror does, because librdkafka names each partition in each fetch.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from bench.latency import Spread, await_records, spread
from bench.stage import Run, Stage, create_topics, delete_topics
from bench.stream import Listener, Sender, places
from bench.systems import System, system
from bench.target import Target
from bench.usage import Meter, Usage

SIZE = 300
TUNED = {"linger.ms": "20"}
_READ_EACH = 25  # one of so many partitions has a reader
_START_TIMEOUT_S = 240.0
_MEMORY_S = 15.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`per_s` records a second, in turn over `topics` topics of `each` partitions."""

    per_s: int
    topics: int
    each: int

    @property
    def title(self) -> str:
        return f"{self.per_s:,} records/s of {SIZE} B over {self.topics * self.each:,} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Everyday:
    """`records` in `usage.seconds`, over all partitions; `age`: of the records of some of them when
    a read_committed reader of the target gets them."""

    partitions: int
    records: int
    age: Spread
    usage: Usage


def measure(
    load: Load, stage: Stage, name: str, say: Say, *, warm_up_s: float, measured_s: float
) -> Everyday:
    with stage.run("everyday", 1) as run, ExitStack() as stack:
        names = [f"{run.topic}-{number}" for number in range(load.topics)]
        create_topics(stage.source.internal_bootstrap, names, load.each)
        stack.callback(_delete, stage, run, names)
        flow = {f"{run.alias}->target.topics": f"{re.escape(run.topic)}-.*"}
        mirror = stack.enter_context(system(name, stage, run, TUNED, flow=flow))
        meter = stack.enter_context(Meter(mirror.roots, stage.broker_pids, interval_s=_MEMORY_S))
        say(f"starting, and warming up with {load.per_s:,} records/s")
        written = places(names, load.each)
        sender = stack.enter_context(
            Sender(stage.source.internal_bootstrap, written, per_s=load.per_s, size=SIZE)
        )
        mirrored = [f"{run.alias}.{topic}" for topic in names]
        _await(stage, mirrored, load.each, 1, mirror)
        time.sleep(warm_up_s)
        # All records of the start have arrived.
        _await(stage, mirrored, load.each, sender.sent // len(written), mirror)
        read = places(mirrored, load.each)[::_READ_EACH]
        listener = stack.enter_context(
            Listener(stage.target.internal_bootstrap, read, read_committed=True)
        )
        time.sleep(2.0)  # its first answers are late
        say(f"measuring for {measured_s:g} s")
        first = sender.sent
        meter.start()
        time.sleep(measured_s)
        last = sender.sent
        usage = meter.stop(seconds=measured_s)
        numbers = {
            number for number in range(first, last) if not number % len(written) % _READ_EACH
        }
        await_records([listener], numbers)
        mirror.check()
        age = spread(listener, numbers, name)
    parts = ", ".join(f"{part} {cpu_s / measured_s:.1%}" for part, cpu_s in usage.parts.items())
    say(
        f"{usage.cpu_s / measured_s:.1%} of a core ({parts}), "
        f"brokers {usage.brokers_cpu_s / measured_s:.1%}; {age}"
    )
    return Everyday(partitions=len(written), records=last - first, age=age, usage=usage)


def _await(stage: Stage, topics: list[str], each: int, least: int, mirror: System) -> None:
    wanted = dict.fromkeys(range(each), least)
    for topic in topics:
        target = Target(stage.target.internal_bootstrap, topic, each)
        target.await_ends(wanted, alive=mirror.check, timeout_s=_START_TIMEOUT_S)


def _delete(stage: Stage, run: Run, topics: list[str]) -> None:
    delete_topics(stage.source.internal_bootstrap, topics)
    delete_topics(stage.target.internal_bootstrap, [f"{run.alias}.{topic}" for topic in topics])
