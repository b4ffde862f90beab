"""`causeway run` killed again and again: the target must come out exact.

Transactions, a quarter of them aborted, are written all the while, to one topic with the times of
now and to one with times of years ago. The target forgets a producer whose newest record is more
than a day old, here within a second: such records have no guard but recovery and leases.
CAUSEWAY_FIRE_SECONDS lengthens the fire, CAUSEWAY_FIRE_SEED repeats one.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from causeway.dev.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import Running, assert_same, await_copied, mm2_file
from tests.harness.writers import YEARS_AGO, writing

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "25"))
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
FOREVER = {"retention.ms": "-1"}


@pytest.fixture
def forgetful() -> Iterator[LocalCluster]:
    """A target that looks for producers to forget twice a second instead of every ten minutes."""
    with LocalCluster(
        "B", properties={"producer.id.expiration.check.interval.ms": "500"}
    ) as cluster:
        yield cluster


@pytest.mark.timeout(1200 + FIRE_S)
def test_process_tree_and_lanes_killed_at_random(
    source: KafkaTools,
    source_cluster: LocalCluster,
    forgetful: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    target = KafkaTools(forgetful.bootstrap)
    now, old = prefix + "now", prefix + "old"
    source.create_topics([now, old], 2, config=FOREVER)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": forgetful},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "causeway.lease.ms = 3000",
    )
    chance = random.Random(SEED)
    kills = {"all": 0, "driver": 0, "lane": 0, "freeze": 0}
    run = Running("run", file, directory=tmp_path)
    pause = threading.Event()
    try:
        with (
            writing(source, now, 2, seed=SEED, pause_s=0.1) as writer,
            writing(source, old, 2, timestamp=YEARS_AGO, seed=SEED + 1, pause_s=0.1),
        ):
            await_copied(source, now, target, f"A.{now}")
            until = time.monotonic() + FIRE_S
            while time.monotonic() < until:
                act = chance.choice(["all", "driver", "lane", "lane", "lane", "freeze"])
                if act in ("all", "driver"):
                    run.kill() if act == "all" else run.kill_driver()
                    run = Running("run", file, directory=tmp_path)
                elif workers := run.workers():
                    _torment(chance.choice(workers), act, pause, chance.uniform(0, 4))
                else:
                    act = ""
                if act:
                    kills[act] += 1
                pause.wait(chance.uniform(0, 4))
        for topic in (now, old):
            await_copied(source, topic, target, f"A.{topic}")
        assert run.stop() == 0, run.log
    finally:
        run.kill()
        print(f"seed {SEED}, {kills}, {writer.written} records")

    assert writer.written > 1_000
    for topic in (now, old):
        assert_same(source, topic, target, f"A.{topic}")


def _torment(worker: psutil.Process, act: str, pause: threading.Event, seconds: float) -> None:
    """Kill one lane, or have it sleep, perhaps past its lease."""
    try:
        if act == "lane":
            worker.kill()
            return
        worker.send_signal(signal.SIGSTOP)
        pause.wait(seconds)
        worker.send_signal(signal.SIGCONT)
    except psutil.NoSuchProcess:
        pass
