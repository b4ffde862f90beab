"""Partitions that a changed file does not concern do not pause while it is put in force."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
PARTITIONS = 2
ROUNDS = 5
EVERY_S = 0.005  # a record of each partition
SHORT_S = 0.1  # what a reload may cost on a quiet machine


class Stream:
    """Records that are written all the time, and when the target has them. `gaps` are the longest
    times without a record of any one partition."""

    def __init__(self, source: LocalCluster, topic: str, target: LocalCluster, mirror: str) -> None:
        self._producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 0})
        self._topic, self._mirror = topic, mirror
        self._consumer = Consumer(
            {
                "bootstrap.servers": target.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._came: dict[int, float] = {}
        self._longest = 0.0
        self._threads = [threading.Thread(target=each) for each in (self._write, self._read)]

    def start(self) -> None:
        self._consumer.assign([TopicPartition(self._mirror, n, 0) for n in range(PARTITIONS)])
        for thread in self._threads:
            thread.start()
        await_until(lambda: len(self._came) == PARTITIONS, PATIENCE_S, "the stream has begun")

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
        self._producer.flush(60)
        self._consumer.close()

    def _write(self) -> None:
        while not self._over.wait(EVERY_S):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"x", partition=partition)
            self._producer.poll(0)

    def _read(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._note(message.partition(), time.monotonic())

    def _note(self, partition: int, now: float) -> None:
        with self._lock:
            self._longest = max(self._longest, now - self._came.get(partition, now))
            self._came[partition] = now

    @contextmanager
    def measured(self) -> Iterator[list[float]]:
        """Afterwards, the list has the longest gap in the block, seconds."""
        found: list[float] = []
        with self._lock:
            now = time.monotonic()
            self._came = dict.fromkeys(self._came, now)
            self._longest = 0.0
        yield found
        with self._lock:
            now = time.monotonic()
            found.append(max(self._longest, *(now - came for came in self._came.values())))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_reload_leaves_no_gap_in_the_stream_of_other_partitions(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A topic is added and excluded, in turns, and the settings of all tasks change with it. Each
    reload stands beside a time of the same length without one. A machine may be slow at any moment,
    so the best of five rounds counts; a partition that pauses for each reload pauses in all. And
    its lane has never let go of it: it has recovered once, and its counts go on."""
    steady, moving = prefix + "steady", prefix + "moving"
    source.create_topics([steady, moving], PARTITIONS)
    target.create_topic(f"A.{steady}", PARTITIONS)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "causeway.http.port = 0",
        "A->B.enabled = true",
        f"A->B.topics = {steady}",
    )
    texts = (
        file.read_text().replace(f"topics = {steady}", f"topics = {steady}, {moving}"),
        file.read_text(),
    )
    stream = Stream(source_cluster, steady, target_cluster, f"A.{steady}")
    usual: list[float] = []
    during: list[float] = []
    with Running("run", file, directory=tmp_path) as run:
        run.await_log("lanes ready")
        stream.start()
        await_until(lambda: "running" in states(run, steady), PATIENCE_S, "it is mirrored")
        before = partitions(run, steady)
        for number in range(ROUNDS):
            began = time.monotonic()
            with stream.measured() as found:
                file.write_text(f"{texts[number % 2]}offset.lag.max = {number}\n")
                os.kill(run.pid, signal.SIGHUP)
                await_until(partial(applied, run, number + 1), PATIENCE_S, "the file is in force")
            during += found
            with stream.measured() as found:
                time.sleep(time.monotonic() - began)  # the control window, of the same length
            usual += found
        after = partitions(run, steady)
        stream.end()
        await_copied(source, steady, target, f"A.{steady}")
        assert run.stop() == 0
    shown = [f"{1000 * min(each):.0f} to {1000 * max(each):.0f} ms" for each in (during, usual)]
    print(f"longest gap during a reload: {shown[0]}; without one: {shown[1]}")
    for one, other in zip(before, after, strict=True):
        assert (one["lane"], one["recoveries"]) == (other["lane"], other["recoveries"])
        assert one["records"] < other["records"]
    assert min(during) < max(SHORT_S, 3 * min(usual)), shown
    assert_same(source, steady, target, f"A.{steady}")


def applied(run: Running, many: int) -> bool:
    return run.log.count("file applied") == many


def partitions(run: Running, topic: str) -> list[Any]:
    items: list[Any] = run.api(f"partitions?topic={topic}")["items"]
    return items


def states(run: Running, topic: str) -> set[str]:
    return {each["state"] for each in partitions(run, topic)}
