"""A link with transforms killed again and again: driver, JVM, lanes, both workers of a stage, and
the target's broker.

The transform drops, multiplies, routes and rewrites; both of its targets must come out exact, for
records of now and for records of years ago, whose producers the target forgets within a second.
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

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, mm2_file
from tests.harness.transformed import assert_transformed, await_transformed, expected, lines
from tests.harness.waiting import await_until
from tests.harness.writers import YEARS_AGO, writing

pytestmark = [pytest.mark.integration, pytest.mark.slow]

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "30"))
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
BACKLOG = 200_000
# It replaces the one of tests.harness.transformed.
BETTER = """
A->B.causeway.transforms = mixed
A->B.causeway.transform.mixed.topics = {topic}
A->B.causeway.transform.mixed.value.format = string
A->B.causeway.transform.mixed.sql = SELECT concat('better:', value) AS value FROM records
"""
FOREVER = {"retention.ms": "-1"}
ACTS = ("all", "driver", "jvm", "worker", "worker", "worker", "broker", "stop")


@pytest.fixture
def forgetful() -> Iterator[LocalCluster]:
    with LocalCluster(
        "B", properties={"producer.id.expiration.check.interval.ms": "500"}
    ) as cluster:
        yield cluster


@pytest.mark.timeout(1200 + FIRE_S)
def test_exact_whatever_is_killed(
    source: KafkaTools,
    source_cluster: LocalCluster,
    forgetful: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    target = KafkaTools(forgetful.bootstrap)
    now, old = prefix + "now", prefix + "old"
    routed = prefix + "routed"
    source.create_topics([now, old], 2, config=FOREVER)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": forgetful},
        "A->B.enabled = true",
        f"topics = {now}, {old}",
        "causeway.lease.ms = 3000",
        "B.producer.request.timeout.ms = 5000",
        "A->B.causeway.transforms = mixed, aged",
        *lines(now, routed)[1:],
        *lines(old, f"{routed}-old", "aged")[1:],
    )
    chance = random.Random(SEED)
    run = Running("run", file, directory=tmp_path)
    pause = threading.Event()
    done: list[str] = []
    mirrors = ((now, f"A.{routed}"), (old, f"A.{routed}-old"))
    try:
        with (
            writing(source, now, 2, seed=SEED, pause_s=1.0) as writer,
            writing(source, old, 2, timestamp=YEARS_AGO, seed=SEED + 1, pause_s=1.0),
        ):
            await_until(lambda: _holds(target, f"A.{routed}-old"), 300, "transformed records")
            until = time.monotonic() + FIRE_S
            while time.monotonic() < until:
                act = chance.choice([act for act in ACTS if act not in done[-2:]])
                done.append(act)
                workers = await_until(run.workers, 120, "workers")
                if act == "worker":
                    _signal(chance.choice(workers))
                elif act == "broker":
                    forgetful.kill()
                    forgetful.restart()
                elif act == "jvm":
                    for process in run.processes():
                        if _is_java(process):
                            _signal(process)
                else:
                    _end(run, act)
                    run = Running("run", file, directory=tmp_path)
                pause.wait(chance.uniform(2, 8))
        for topic, other in mirrors:
            await_transformed(source, topic, target, f"A.{topic}", other)
        assert run.stop() == 0, run.log
    except AssertionError as error:
        run.add_note(error)
        raise
    finally:
        run.kill()
        print(f"seed {SEED}: {' '.join(done)}; {writer.written} records")

    assert writer.written > 500
    for topic, other in mirrors:
        assert_transformed(source, topic, target, f"A.{topic}", other)


def test_a_faulty_transform_is_replaced_after_a_kill_without_a_run_over_the_backlog(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Its records are in the target up to one source offset, those of its successor from there on:
    in both topics that it led to, without a gap or a double."""
    topic, routed = prefix + "t", prefix + "routed"
    source.create_topic(topic, 2, config=FOREVER)
    values = [b"%d " % n + b"x" * 200 for n in range(BACKLOG)]
    source.produce(topic, [Outgoing(value=v, partition=n % 2) for n, v in enumerate(values)])
    both = {"A": source_cluster, "B": target_cluster}
    common = ("A->B.enabled = true", f"topics = {topic}", "causeway.lease.ms = 3000")
    faulty = mm2_file(tmp_path, both, *common, *lines(topic, routed))
    better = mm2_file(tmp_path, both, *common, *BETTER.format(topic=topic).strip().splitlines())

    def sizes() -> int:
        return sum(sum(target.offsets(f"A.{name}").values()) for name in (topic, routed))

    with Running("run", faulty, directory=tmp_path) as run:
        await_until(lambda: _holds(target, f"A.{routed}"), 300, "transformed records", poll_s=0.01)
        run.kill()
    killed = sizes()
    refused = causeway("run", better, "--until-caught-up", timeout_s=2 * PATIENCE_S)
    assert refused.code == 7, refused.err
    assert "--finish-in-flight" in refused.err
    assert sizes() == killed
    ended = causeway("run", faulty, "--finish-in-flight", timeout_s=2 * PATIENCE_S)
    assert ended.code == 0, ended.err
    finished = sizes()
    assert killed <= finished < BACKLOG, "nothing but what was in flight"
    ended = causeway("run", better, "--until-caught-up", timeout_s=2 * PATIENCE_S)
    assert ended.code == 0, ended.err

    made = {name: target.read(f"A.{name}") for name in (topic, routed)}
    for partition, records in source.read(topic).items():
        found = [record.value or b"" for record in made[topic][partition]]
        by_better = [b"better:" + (record.value or b"") for record in records]
        place = by_better.index(next(value for value in found if value.startswith(b"better:")))
        own, led = expected(records[:place])
        assert found == [one.value for one in own] + by_better[place:]
        assert [one.value for one in made[routed][partition]] == [one.value for one in led]


def _holds(target: KafkaTools, topic: str) -> bool:
    return target.partition_count(topic) is not None and sum(target.offsets(topic).values()) > 0


def _end(run: Running, act: str) -> None:
    if act == "all":
        run.kill()
    elif act == "driver":
        run.kill_driver()
    else:
        assert run.stop() in (0, -signal.SIGTERM), run.log


def _signal(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        pass


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False
