"""What many partitions cost while nothing is written: CPU, memory, a scrape, a status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.request import urlopen

import psutil
from confluent_kafka import Producer

from bench.parts import DRIVER, JVM, LANE
from bench.stage import Stage, create_topics, delete_topics
from bench.systems import System, properties, system
from bench.usage import Meter, Usage
from causeway.dev import Ports
from causeway.errors import CausewayError
from tests.harness.kafka.mirror_maker import write_properties

_TIMEOUT_S = 900.0
_STATUSES = 3
_SCRAPES = 5
_MEMORY_S = 10.0
# An index is mapped into memory at its full size, and there are two for each partition.
_SMALL = {"segment.index.bytes": "4096"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """`usage` of `usage.seconds` in which nothing was written, after all partitions ran; `start_s`:
    from the start of the process until they did. Of a scrape the driver's CPU and bytes; of
    `causeway status --json` the time and CPU of its process."""

    topics: int
    partitions: int
    start_s: float
    usage: Usage
    scrape_cpu_s: float
    scrape_mb: float
    status_s: float
    status_cpu_s: float

    @property
    def idle(self) -> float:
        """Of a core, all processes of the mirror together."""
        return self.usage.cpu_s / self.usage.seconds


def measure(
    stage: Stage, name: str, topics: int, each: int, say: Say, *, settle_s: float, idle_s: float
) -> Capacity:
    partitions = topics * each
    with stage.run("idle", 1) as run:
        names = [f"{run.topic}-{number}" for number in range(topics)]
        say(f"{topics:,} topics of {each} partitions")
        create_topics(stage.source.internal_bootstrap, names, each, _SMALL)
        ports = Ports()
        port = ports.take()
        try:
            _write(stage.source.internal_bootstrap, names, each)
            flow = {
                f"{run.alias}->target.topics": f"{re.escape(run.topic)}-.*",
                "causeway.http.port": str(port),
            }
            file = stage.directory / "idle.properties"
            write_properties(file, properties(stage, run, {}) | flow)
            mirror = system(name, stage, run, flow=flow)
            with Meter(mirror.roots, stage.broker_pids, interval_s=_MEMORY_S) as meter:
                begun = time.monotonic()
                with mirror:
                    _await(port, mirror, partitions)
                    start_s = time.monotonic() - begun
                    say(f"all run after {start_s:.1f} s")
                    time.sleep(settle_s)
                    meter.start()
                    time.sleep(idle_s)
                    usage = meter.stop(seconds=idle_s)
                    scrape_cpu_s, scrape_mb = _scrape(port, mirror)
                    status_s, status_cpu_s = _status(file)
        finally:
            ports.release()
            delete_topics(stage.source.internal_bootstrap, names)
            delete_topics(
                stage.target.internal_bootstrap, [f"{run.alias}.{topic}" for topic in names]
            )
    found = Capacity(
        topics=topics,
        partitions=partitions,
        start_s=start_s,
        usage=usage,
        scrape_cpu_s=scrape_cpu_s,
        scrape_mb=scrape_mb,
        status_s=status_s,
        status_cpu_s=status_cpu_s,
    )
    parts = ", ".join(
        f"{part} {usage.parts.get(part, 0) / usage.seconds:.2%}" for part in (LANE, DRIVER, JVM)
    )
    say(f"{found.idle:.2%} of a core ({parts}), {usage.pss_mb:,.0f} MB")
    say(f"a scrape {scrape_cpu_s:.3f} s of CPU, status {status_s:.1f} s")
    return found


def _write(bootstrap: str, topics: list[str], each: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    failed: list[object] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for topic in topics:
        for partition in range(each):
            producer.produce(topic, b"one", partition=partition, on_delivery=told)
        producer.poll(0)
    if producer.flush(_TIMEOUT_S) or failed:
        raise CausewayError("write to", bootstrap, "not all records were acknowledged")


def _await(port: int, mirror: System, partitions: int) -> None:
    """Until the run's own page has them all as running."""
    until = time.monotonic() + _TIMEOUT_S
    running = 0
    while running < partitions:
        mirror.check()
        if time.monotonic() > until:
            cause = f"{running:,} of {partitions:,} partitions run after {_TIMEOUT_S:.0f} s"
            raise CausewayError("mirror", "many partitions", cause)
        time.sleep(1)
        try:
            running = json.loads(_get(port, "/api/v1/partitions?state=running&limit=1"))["total"]
        except OSError:
            continue  # it has yet to come up


def _scrape(port: int, mirror: System) -> tuple[float, float]:
    """CPU seconds and megabytes of one."""
    _get(port, "/metrics")
    before = _driver_cpu_s(mirror)
    time.sleep(_SCRAPES)
    begun = _driver_cpu_s(mirror)
    idle = (begun - before) / _SCRAPES  # a second
    begun_at = time.monotonic()
    for _ in range(_SCRAPES):
        size = len(_get(port, "/metrics"))
        time.sleep(1)  # it looks at itself twice a second at the most
    used = _driver_cpu_s(mirror) - begun - idle * (time.monotonic() - begun_at)
    return max(0.0, used / _SCRAPES), size / 1e6


def _driver_cpu_s(mirror: System) -> float:
    (pid,) = mirror.roots()
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _status(file: Path) -> tuple[float, float]:
    """What it takes, and how much CPU: medians, as the first one finds brokers that never had to
    answer such questions."""
    took, used = [], []
    for _ in range(_STATUSES):
        before = _children_cpu_s()
        begun = time.monotonic()
        subprocess.run(
            [Path(sys.executable).with_name("causeway"), "status", file, "--json"],
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=_TIMEOUT_S,
        )
        took.append(time.monotonic() - begun)
        used.append(_children_cpu_s() - before)
    return median(took), median(used)


def _children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _get(port: int, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        found: bytes = answer.read()
        return found
