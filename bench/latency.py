"""How old a record is when a reader of the target gets it, at a slow and steady rate.

The time in the record is read just before the producer gets it, on the same machine and clock. A
reader of the source, beside those of the target, shows how much of it is not the mirror's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.stage import Run, Stage
from bench.stream import BYTES, Form, Listener, Sender, places
from bench.systems import system
from bench.usage import Meter, Usage
from causeway.errors import CausewayError

PER_S = 200
_PARTITIONS = 4
_SIZE = 350
_START_TIMEOUT_S = 240.0
_DRAIN_S = 10.0
_MEMORY_S = 15.0  # reading it takes some milliseconds, in which a listener may wait
# MirrorMaker 2 at its quickest: nothing waits to be sent.
_QUICK = {"linger.ms": "0"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Milliseconds."""

    p50: float
    p99: float
    max: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, max {self.max:.1f} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """`source`: of a reader of the source, the others of the target's."""

    records: int
    source: Spread
    read_uncommitted: Spread
    read_committed: Spread
    usage: Usage


def measure(
    stage: Stage,
    name: str,
    say: Say,
    *,
    warm_up_s: float = 20.0,
    measured_s: float = 60.0,
    form: Form = BYTES,
    keys: Callable[[Run], Mapping[str, str]] | None = None,
) -> Latency:
    """`form`: of the records; `keys`: more of the system's file."""
    with stage.run("latency", _PARTITIONS) as run, ExitStack() as stack:
        more = keys(run) if keys else None
        mirror = stack.enter_context(system(name, stage, run, _QUICK, flow=more))
        meter = stack.enter_context(Meter(mirror.roots, stage.broker_pids, interval_s=_MEMORY_S))
        say(f"starting, and warming up with {PER_S} records/s")
        sender = stack.enter_context(
            Sender(
                stage.source.internal_bootstrap,
                places([run.topic], _PARTITIONS),
                per_s=PER_S,
                size=_SIZE,
                form=form,
            )
        )
        one = dict.fromkeys(range(_PARTITIONS), 1)
        stage.watch(run).await_ends(one, alive=mirror.check, timeout_s=_START_TIMEOUT_S)
        time.sleep(warm_up_s)
        # What was sent while it started is through.
        sent = dict.fromkeys(range(_PARTITIONS), sender.sent // _PARTITIONS)
        stage.watch(run).await_ends(sent, alive=mirror.check, timeout_s=_START_TIMEOUT_S)
        read = [
            (stage.source.internal_bootstrap, run.topic, False),
            (stage.target.internal_bootstrap, run.mirrored, False),
            (stage.target.internal_bootstrap, run.mirrored, True),
        ]
        listeners = [
            stack.enter_context(
                Listener(where, places([topic], _PARTITIONS), read_committed=committed, form=form)
            )
            for where, topic, committed in read
        ]
        time.sleep(2.0)  # their first answers are late
        say(f"measuring for {measured_s:g} s")
        first = sender.sent
        meter.start()
        time.sleep(measured_s)
        last = sender.sent
        usage = meter.stop(seconds=measured_s)
        await_records(listeners, range(first, last))
        mirror.check()
        spreads = [spread(listener, range(first, last), name) for listener in listeners]
    say(f"read_uncommitted {spreads[1]}; read_committed {spreads[2]}; at the source {spreads[0]}")
    return Latency(
        records=last - first,
        source=spreads[0],
        read_uncommitted=spreads[1],
        read_committed=spreads[2],
        usage=usage,
    )


def await_records(listeners: Sequence[Listener], numbers: Collection[int]) -> None:
    """Until every listener has them all, or for so long that they must be lost."""
    deadline = time.monotonic() + _DRAIN_S
    while time.monotonic() < deadline:
        if all(set(numbers) <= set(listener.numbers) for listener in listeners):
            return
        time.sleep(0.2)


def spread(listener: Listener, numbers: Collection[int], name: str) -> Spread:
    """Of the records with these numbers. Raises CausewayError if the system `name` lost some."""
    pairs = zip(listener.numbers, listener.latencies_ns, strict=False)
    found = sorted((age / 1e6, number) for number, age in pairs if number in numbers)
    missing = len(numbers) - len({number for _, number in found})
    if missing:
        raise CausewayError("measure", name, f"{missing:,} of {len(numbers):,} records never came")
    ages = [age for age, _ in found]
    return Spread(p50=_quantile(ages, 0.50), p99=_quantile(ages, 0.99), max=ages[-1])


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
