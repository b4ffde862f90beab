"""From the start of the process to mirrored records: the first one, and 1,000 partitions' worth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Producer

from bench.stage import Run, Stage
from bench.systems import system
from bench.usage import Meter, Usage
from causeway.errors import CausewayError

_TIMEOUT_S = 600.0
_FEW_POLL_S, _MANY_POLL_S = 0.01, 0.2  # asking for 1,000 ends costs the broker something
_VALUE = b"x" * 100

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`usage.seconds`: from just before the process starts until every record can be read."""

    partitions: int
    records: int
    usage: Usage


def measure(
    stage: Stage,
    name: str,
    partitions: int,
    records_each: int,
    say: Say,
    *,
    value: bytes = _VALUE,
    keys: Callable[[Run], Mapping[str, str]] | None = None,
    arrives: Callable[[bytes | None], bool] = lambda found: found == _VALUE,
) -> Start:
    """`value`: of each record; `keys`: more of the system's file; `arrives` tells whether that is
    what must come of it."""
    workload = "first" if partitions == 1 else "partitions"
    with stage.run(workload, partitions) as run:
        total = partitions * records_each
        say(f"writing {total:,} records to {partitions:,} partitions")
        write(stage.source.internal_bootstrap, run.topic, partitions, records_each, value)
        target = stage.watch(run)
        wanted = dict.fromkeys(range(partitions), records_each)
        mirror = system(name, stage, run, flow=keys(run) if keys else None)
        with Meter(mirror.roots, stage.broker_pids) as meter:
            say("starting")
            meter.start()
            begun = time.monotonic()
            with mirror:
                seen = target.await_ends(
                    wanted,
                    alive=mirror.check,
                    timeout_s=_TIMEOUT_S,
                    poll_s=0.01
                    if partitions < 100
                    else 0.2,  # the question itself costs the broker
                )
                usage = meter.stop(seconds=seen.at - begun)
                found = target.last_values({p: seen.ends[p] for p in list(wanted)[:50]})
                if not all(map(arrives, found.values())):
                    raise CausewayError(
                        "measure", name, "the target does not hold what was written"
                    )
        say(f"{usage.seconds:.2f} s, {usage.cpu_s:.1f} s of CPU, {usage.pss_mb:,.0f} MB")
        return Start(partitions=partitions, records=total, usage=usage)


def write(
    bootstrap: str, topic: str, partitions: int, records_each: int, value: bytes = _VALUE
) -> None:
    """So many small records to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    for partition in range(partitions):
        for _ in range(records_each):
            producer.produce(topic, value, partition=partition)
    if producer.flush(_TIMEOUT_S):
        raise CausewayError("write to", topic, "not all records were acknowledged")
