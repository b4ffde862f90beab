"""Whether memory stays flat: a steady stream for minutes or hours, memory read every 10 s."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.stage import Stage
from bench.stream import Sender, places
from bench.systems import system
from bench.usage import cpu_seconds, memory

PER_S = 2000
_PARTITIONS = 16
_SIZE = 1000
_INTERVAL_S = 10.0
_START_TIMEOUT_S = 240.0
# The disk must not fill: old segments go while the mirror runs, on both sides.
_CONFIG = {"retention.bytes": "67108864", "segment.bytes": "33554432"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """`pss_mb`: one figure each 10 s, of driver and lanes together, from a minute after the
    start (or a tenth of the time, if that is less)."""

    minutes: float
    records: int
    cpu_share: float
    pss_mb: tuple[float, ...]


def measure(stage: Stage, name: str, minutes: float, say: Say) -> Soak:
    with stage.run("soak", _PARTITIONS, _CONFIG) as run, system(name, stage, run) as mirror:
        bootstrap = stage.source.internal_bootstrap
        partitions = places([run.topic], _PARTITIONS)
        with Sender(bootstrap, partitions, per_s=PER_S, size=_SIZE) as sender:
            say(f"mirroring {PER_S:,} records/s for {minutes:g} min")
            one = dict.fromkeys(range(_PARTITIONS), 1)
            target = stage.watch(run)
            target.await_ends(one, alive=mirror.check, timeout_s=_START_TIMEOUT_S)
            time.sleep(min(60.0, minutes * 6))
            samples: list[float] = []
            first, begun, cpu = sender.sent, time.monotonic(), cpu_seconds(mirror.roots())
            while (passed := time.monotonic() - begun) < minutes * 60:
                samples.append(memory(mirror.roots()).pss_mb)
                if len(samples) % 30 == 0:
                    say(f"{passed / 60:.0f} min: {samples[-1]:,.0f} MB")
                mirror.check()
                time.sleep(min(_INTERVAL_S, minutes * 6))
            share = (cpu_seconds(mirror.roots()) - cpu) / (time.monotonic() - begun)
            records = sender.sent - first
        result = Soak(minutes=minutes, records=records, cpu_share=share, pss_mb=tuple(samples))
    say(f"{max(samples):,.0f} MB at most, growth {growth(samples):+.1%}")
    return result


def growth(samples: Sequence[float]) -> float:
    """The last third's median over the first third's, less one."""
    third = max(1, len(samples) // 3)
    return statistics.median(samples[-third:]) / statistics.median(samples[:third]) - 1
