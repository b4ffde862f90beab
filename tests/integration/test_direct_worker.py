"""Many transforms of rules: one direct worker, and a stage for the one that meets an odd record."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing, Record
from tests.harness.running import PATIENCE_S, Running, arguments_of, mm2_file
from tests.harness.transformed import assert_transformed
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "30"))
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
ACTS = ("all", "driver", "jvm", "worker", "worker", "direct", "direct", "direct")
TRANSFORMS, EACH = 9, 40
ODD = b'{"n": %d, "name": "\\u0041da"}'  # as any JSON may be written; the shortcut leaves it


def _values(first: int, *odd: int) -> list[bytes]:
    return [
        ODD % n if n in odd else b'{"n": %d, "name": "Ada"}' % n for n in range(first, first + EACH)
    ]


@pytest.mark.slow
def test_processes_that_die_while_a_late_stage_begins_lose_and_double_nothing(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Plain records need no stage. Then one that is odd, among others, has its transform's stage
    begin; meanwhile the direct worker is killed, and all of Spark's workers are."""
    topics = [f"{prefix}t{number}" for number in range(TRANSFORMS)]
    source.create_topics(topics, 1)
    names = [f"t{number}" for number in range(TRANSFORMS)]
    lines = ["A->B.causeway.transforms = " + ", ".join(names)]
    for name in names:
        lines += [
            f"A->B.causeway.transform.{name}.topics = {prefix}{name}",
            f"A->B.causeway.transform.{name}.rules = mask value.$.name keep first 1",
        ]
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}t.*",
        "causeway.lanes = 1",
        *lines,
    )

    def write(values: list[bytes], *to: str) -> None:
        for topic in to:
            source.produce(topic, [Outgoing(value=value, partition=0) for value in values])

    def arrived(count: int, *of: str) -> bool:
        return all(
            target.partition_count(f"A.{topic}") is not None
            and target.offsets(f"A.{topic}") == {0: count}
            for topic in of
        )

    write(_values(0), *topics)
    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: arrived(EACH, *topics), PATIENCE_S, "plain records")
        assert len(run.workers()) == 1, "the lane's"
        direct = _direct(run)
        assert len(direct) == 1
        _kill(direct)
        write(_values(EACH, EACH + 7, EACH + 8), topics[0])
        write(_values(EACH), *topics[1:])
        await_until(lambda: len(run.workers()) > 1, PATIENCE_S, "the stage's workers")
        _kill(run.workers())
        await_until(lambda: arrived(2 * EACH, *topics), PATIENCE_S, "all records")
        await_until(lambda: len(run.workers()) == 3, PATIENCE_S, "the lane's, and one stage's two")
        assert run.stop() == 0, run.log
    for topic in topics:
        (records,) = target.read(f"A.{topic}").values()
        found = [json.loads(record.value or b"") for record in records]
        assert found == [{"n": n, "name": "A**"} for n in range(2 * EACH)], topic


@pytest.mark.slow
@pytest.mark.timeout(900 + FIRE_S)
@pytest.mark.parametrize("others", [0, 8], ids=["one", "many"])
def test_exact_whatever_is_killed_while_stages_come_and_go(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    others: int,
) -> None:
    """One record in a thousand needs Spark. With others, stages begin late."""
    topic = f"{prefix}t"
    source.create_topics([topic], 2)
    names = ["t", *(f"other{number}" for number in range(others))]
    rules = [
        f"A->B.causeway.transform.{name}.{key}"
        for name in names
        for key in (f"topics = {prefix}{name}", "rules = mask value.$.name keep first 1")
    ]
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "causeway.lease.ms = 3000",
        "A->B.causeway.transforms = " + ", ".join(names),
        *rules,
    )
    chance, pause, done = random.Random(SEED), threading.Event(), list[str]()
    run = Running("run", file, directory=tmp_path)

    def value(number: int, of: random.Random) -> bytes:
        name = "Ada" if of.random() < 0.999 else "\\u0041da"
        return b'{"n":%d,"name":"%s"}' % (number, name.encode())

    def there() -> bool:
        """As many as are committed on the source by now."""
        wanted = {p: len(made) for p, made in source.read(topic, read_committed=True).items()}
        return target.partition_count(f"A.{topic}") is not None and all(
            target.offsets(f"A.{topic}")[p] >= count for p, count in wanted.items()
        )

    try:
        with writing(source, topic, 2, seed=SEED, value=value) as writer:
            await_until(lambda: target.partition_count(f"A.{topic}"), 120, "the mirror")
            until = time.monotonic() + FIRE_S
            while time.monotonic() < until:
                act = chance.choice([act for act in ACTS if act not in done[-1:]])
                done.append(act)
                if act == "direct":
                    _kill(_direct(run))
                elif act == "worker":
                    _kill([chance.choice(await_until(run.workers, 120, "workers"))])
                elif act == "jvm":
                    _kill([p for p in run.processes() if _is_java(p)])
                else:
                    run.kill() if act == "all" else run.kill_driver()
                    run = Running("run", file, directory=tmp_path)
                pause.wait(chance.uniform(1, 8))
        await_until(there, 300, "all records", poll_s=1.0)
        assert run.stop() == 0, run.log
    except AssertionError as error:
        run.add_note(error)
        raise
    finally:
        run.kill()
        print(f"seed {SEED}: {' '.join(done)}; {writer.written} records")
    assert writer.written > 500
    assert_transformed(source, topic, target, f"A.{topic}", f"A.{topic}", _made)


def _made(records: list[Record]) -> tuple[list[Record], list[Record]]:
    made = []
    for record in records:
        text = record.value or b""
        before, _, _ = text.rpartition(b":")
        made.append(replace(record, value=before + b':"A**"}'))
    return made, made


def _direct(run: Running) -> list[psutil.Process]:
    return [p for p in run.processes() if "direct_worker" in arguments_of(p)]


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False
