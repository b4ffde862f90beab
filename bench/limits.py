"""What a batch costs: Causeway, an older commit of it, and a relay that only relays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from bench import throughput
from bench.source import Backlog, Shape
from bench.stage import Stage, create_topic
from bench.systems import BARE
from bench.throughput import Throughput
from bench.usage import Meter
from causeway.errors import CausewayError

CPU, TLS = "cpu-", "-tls"  # how such workloads' names begin, and end
_TIMEOUT_S = 600

Say = Callable[[str], None]


def measure(shape: Shape, settle_s: float, stage: Stage, name: str, say: Say) -> Throughput:
    if name == BARE:
        return _bare(shape, settle_s, stage, say)
    return throughput.measure(stage, name, shape, say, settle_s=settle_s)


def _bare(shape: Shape, settle_s: float, stage: Stage, say: Say) -> Throughput:
    """It numbers nothing, so it cannot take up a transaction's batches: its topic has none."""
    with stage.run(shape.name, shape.partitions) as run:
        create_topic(stage.target.internal_bootstrap, run.mirrored, run.partitions, {})
        backlog = Backlog(stage.source.internal_bootstrap, run.topic, shape, transactional=False)
        say(f"writing {shape.backlog:,} records")
        written = backlog.write(shape.backlog)
        os.sync()
        time.sleep(settle_s)
        ends = [str(written.counts[partition]) for partition in range(run.partitions)]
        say("relaying")
        with Meter(lambda: [os.getpid()], stage.broker_pids) as meter:
            meter.start()
            told = subprocess.run(
                [
                    *(sys.executable, "-m", "bench.bare"),
                    *(stage.source.internal_bootstrap, stage.target.internal_bootstrap),
                    *(run.topic, run.mirrored, *ends),
                ],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            if told.returncode:
                raise CausewayError("measure", BARE, (told.stderr.strip().splitlines() or [""])[-1])
            took = json.loads(told.stdout)
            usage = meter.stop(seconds=took["seconds"])
        say(f"{shape.backlog / took['seconds']:,.0f} records/s, {took['cpu_s']:.1f} s of CPU")
        return Throughput(
            records=shape.backlog,
            size=written.size,
            wire=stage.log_bytes(run),
            usage=replace(usage, cpu_s=took["cpu_s"], parts={}),
        )
