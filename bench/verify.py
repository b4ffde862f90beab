"""How fast `causeway verify` compares a mirror with its source, byte by byte."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.source import Backlog, Shape
from bench.stage import Stage
from bench.systems import properties, system
from bench.usage import Meter, Usage
from causeway.errors import CausewayError
from causeway.formats import load
from causeway.operate.verify import Progress, verify
from tests.harness.kafka.mirror_maker import write_properties

_TIMEOUT_S = 900.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`compared`: bytes of batches on the source, without their headers; as many were read from the
    target. `usage` is from when Spark was up; `seconds`: its start included."""

    records: int
    compared: int
    seconds: float
    usage: Usage

    @property
    def mb_per_s(self) -> float:
        return self.compared / self.usage.seconds / 1e6


def measure(stage: Stage, name: str, shape: Shape, say: Say) -> Verified:
    """Mirrors a backlog of `shape`, then verifies it with no driver running."""
    with stage.run("verify", shape.partitions) as run:
        backlog = Backlog(stage.source.internal_bootstrap, run.topic, shape)
        say(f"writing {shape.backlog:,} records")
        written = backlog.write(shape.backlog)
        backlog.commit()
        say("mirroring")
        with system(name, stage, run, shape.mirror) as mirror:
            stage.watch(run).await_ends(written.counts, alive=mirror.check, timeout_s=_TIMEOUT_S)
            time.sleep(3)  # until progress knows of the last of them
        os.sync()
        file = stage.directory / f"{run.alias}-verify.properties"
        write_properties(file, properties(stage, run, {}))
        say("verifying")
        with Meter(lambda: [os.getpid()], stage.broker_pids) as meter:
            usage: list[Usage] = []
            started = False

            def look(progress: Progress) -> None:
                nonlocal started
                if not started:
                    started = True
                    meter.start()
                elif progress.done >= progress.size and not usage:
                    usage.append(meter.stop(seconds=progress.seconds))

            report = verify(load(file), topics=[run.topic], on_progress=look)
        if not report.agrees or report.records != shape.backlog:
            raise CausewayError("measure", "verify", f"of {report.records:,} records not all agree")
        result = Verified(
            records=report.records,
            compared=report.size,
            seconds=report.seconds,
            usage=usage[0],
        )
        say(f"{result.mb_per_s:,.0f} MB/s, {report.seconds:.2f} s in all")
        return result
