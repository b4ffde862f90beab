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

from causeway.formats import load
from causeway.operate.verify import verify
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, mm2_file
from tests.harness.waiting import await_until
from tests.harness.writers import YEARS_AGO, writing

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "20"))
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
FOREVER = {"retention.ms": "-1"}
# SIGKILL to all of it, to the driver alone, to a lane; a lane that sleeps; an end in good order.
ACTS = ("all", "driver", "lane", "sleep", "stop")


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
        # So long old records wait after each start, for what was sent before.
        "B.request.timeout.ms = 5000",
    )
    chance = random.Random(SEED)
    run = Running("run", file, directory=tmp_path)
    pause = threading.Event()
    done: list[str] = []
    try:
        with (
            writing(source, now, 2, seed=SEED, pause_s=0.1) as writer,
            writing(source, old, 2, timestamp=YEARS_AGO, seed=SEED + 1, pause_s=0.1),
        ):
            await_copied(source, now, target, f"A.{now}")
            until = time.monotonic() + FIRE_S
            while time.monotonic() < until:
                act = chance.choice([act for act in ACTS if act not in done[-3:]])
                done.append(act)
                if act in ("lane", "sleep"):
                    _torment(run, act, pause, chance)
                else:
                    _end(run, act)
                    run = Running("run", file, directory=tmp_path)
                pause.wait(chance.uniform(0, 4))
                # Whatever happened, what progress knows of lies there as it is on the source.
                differ = [one for one in verify(load(file)).partitions if one.differences]
                assert not differ, differ
        for topic in (now, old):
            await_copied(source, topic, target, f"A.{topic}")
        assert run.stop() == 0, run.log
    except AssertionError as error:
        run.add_note(error)
        raise
    finally:
        run.kill()
        print(f"seed {SEED}: {' '.join(done)}; {writer.written} records")

    assert writer.written > 1_000
    for topic in (now, old):
        assert_same(source, topic, target, f"A.{topic}")
    assert verify(load(file), topics=[now, old]).agrees


def _end(run: Running, act: str) -> None:
    if act == "all":
        run.kill()
    elif act == "driver":
        run.kill_driver()
    else:
        # One that has only just started does not know the signal yet, and has done nothing.
        assert run.stop() in (0, -signal.SIGTERM), run.log


def _torment(run: Running, act: str, pause: threading.Event, chance: random.Random) -> None:
    """Kill one lane, or have it sleep, perhaps past its lease."""
    worker = chance.choice(await_until(run.workers, PATIENCE_S, "lanes to torment"))
    try:
        if act == "lane":
            worker.kill()
            return
        worker.send_signal(signal.SIGSTOP)
        pause.wait(chance.uniform(0, 4))
        worker.send_signal(signal.SIGCONT)
    except psutil.NoSuchProcess:
        pass
