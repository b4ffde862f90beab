"""How fast a backlog is mirrored, by a system that is warm.

    warm-up written ─► system starts, mirrors it, idles ─► backlog written, uncommitted
      ─► commit: the clock starts ─► … ─► a read_committed reader can read the last record: it stops

Each system has a topic of its own with the same records; only one runs at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.source import Backlog, Shape
from bench.stage import Run, Stage
from bench.systems import system
from bench.usage import Meter, Usage
from causeway.errors import CausewayError

_START_TIMEOUT_S = 240.0
_TIMEOUT_S = 900.0
_SETTLE_S = 5.0  # idle: compilers, write-back and rebalances come to rest

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """`size`: bytes of keys and values, before compression; `wire`: of the batches, as they lie in
    the source's log, where that was looked at; `stored`: likewise in the target's log."""

    records: int
    size: int
    usage: Usage
    wire: int = 0
    stored: int = 0

    @property
    def records_per_s(self) -> float:
        return self.records / self.usage.seconds

    @property
    def cpu_s_per_gb(self) -> float:
        return self.usage.cpu_s / self.size * 1e9

    @property
    def brokers_cpu_s_per_gb(self) -> float:
        return self.usage.brokers_cpu_s / self.size * 1e9


def measure(
    stage: Stage,
    name: str,
    shape: Shape,
    say: Say,
    *,
    settle_s: float = _SETTLE_S,
    keys: Callable[[Run], Mapping[str, str]] | None = None,
    ready: Callable[[Run, Callable[[], None]], object] | None = None,
) -> Throughput:
    """`keys`: more of the system's file; `ready`: waits for more than that the topic is mirrored,
    and calls what it is given to see whether the system is alive."""
    with stage.run(shape.name, shape.partitions) as run:
        target = stage.watch(run)
        backlog = Backlog(stage.source.internal_bootstrap, run.topic, shape)
        say(f"writing {shape.warm_up:,} records to warm up with")
        warm = backlog.write(shape.warm_up)
        backlog.commit()
        mirror = system(name, stage, run, shape.mirror, flow=keys(run) if keys else None)
        with mirror, Meter(mirror.roots, stage.broker_pids) as meter:
            say("starting and warming up")
            seen = target.await_ends(warm.counts, alive=mirror.check, timeout_s=_START_TIMEOUT_S)
            if ready is not None:
                ready(run, mirror.check)
            say(f"writing {shape.backlog:,} records, uncommitted")
            before = stage.log_bytes(run)
            written = backlog.write(shape.backlog)
            wire = stage.log_bytes(run) - before
            os.sync()  # or the source's write-back would fall on the clock
            time.sleep(settle_s)
            seen = target.await_ends(seen.ends, alive=mirror.check, timeout_s=_TIMEOUT_S)
            wanted = {p: seen.ends[p] + count for p, count in written.counts.items()}
            say("mirroring")
            had = stage.stored_bytes(run)
            meter.start()
            begun = backlog.commit()
            seen = target.await_ends(wanted, alive=mirror.check, timeout_s=_TIMEOUT_S)
            usage = meter.stop(seconds=seen.at - begun)
            if not written.ends(target.last_values(seen.ends)):
                raise CausewayError(
                    "measure", name, "the target does not end with the backlog's last records"
                )
            stored = stage.stored_bytes(run) - had
        result = Throughput(
            records=shape.backlog, size=written.size, wire=wire, stored=stored, usage=usage
        )
        speed = f"{result.records_per_s:,.0f} records/s"
        say(f"{speed}, {usage.seconds:.2f} s, {usage.cpu_s:.1f} s of CPU, {usage.pss_mb:,.0f} MB")
        return result
