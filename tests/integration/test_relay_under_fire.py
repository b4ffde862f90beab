"""Lanes that are killed, frozen and doubled, brokers that die: the target must come out exact.

Each test compares whole logs: what an independent client reads of the source, committed, must be
what it reads of the target, for readers of uncommitted and of committed records alike: nothing
lost, nothing doubled, order kept. CAUSEWAY_FIRE_SECONDS lengthens the random ones.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from causeway.dev.cluster import LocalCluster
from causeway.relay.control import LaneConnection
from causeway.relay.messages import Assignment, PartitionReport, Report, ToDriver
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "20"))
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
FOREVER = {"retention.ms": "-1"}
YEARS_AGO = 1_577_836_800_000  # 2020


class ForgetfulDriver(LaneDriver):
    """Its progress was lost now and then: a new lane may be told any pair that was ever true."""

    def __init__(self, *arguments: object, seed: int, **more: object) -> None:
        self._random = random.Random(seed)
        self.history: dict[tuple[str, str, int], list[PartitionReport]] = {}
        super().__init__(*arguments, **more)  # type: ignore[arg-type]

    def _on_message(self, connection: LaneConnection, message: ToDriver) -> None:
        if isinstance(message, Report):
            for report in message.partitions:
                self.history.setdefault(report.key, []).append(report)
        super()._on_message(connection, message)

    def _newest(self, assignment: Assignment) -> Assignment:
        ever = self.history.get(assignment.key)
        if not ever or self._random.random() < 0.1:
            return assignment
        report = ever[-1] if self._random.random() < 0.5 else self._random.choice(ever)
        return assignment.model_copy(
            update={"outlets": report.outlets, "leader_epoch": report.leader_epoch}
        )


class Writer(threading.Thread):
    """Writes transactions to every partition of `topic`, a quarter of them aborted, until told to
    stop. Each value is written once."""

    def __init__(
        self, source: KafkaTools, topic: str, partitions: int, *, timestamp: int | None, seed: int
    ) -> None:
        super().__init__(daemon=True)
        self._source, self._topic, self._partitions = source, topic, partitions
        self._timestamp = timestamp
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self.written = 0

    def run(self) -> None:
        try:
            codec = self._random.choice(["none", "gzip", "snappy", "lz4", "zstd"])
            with self._source.transactional(f"{self._topic}-writer", codec=codec) as transactions:
                while not self._ended.wait(self._random.uniform(0, 0.05)):
                    transactions.begin()
                    for _ in range(self._random.choice([1, 5, 200, 1000])):
                        self.written += 1
                        transactions.send(self._topic, self._record(self.written))
                    if self._random.random() < 0.25:
                        transactions.abort()
                    else:
                        transactions.commit()
        except BaseException as failure:
            self.failure = failure

    def _record(self, number: int) -> Outgoing:
        return Outgoing(
            value=b"%d " % number + b"x" * self._random.choice([0, 10, 300]),
            key=b"%d" % self._random.randrange(50),
            timestamp=None if self._timestamp is None else self._timestamp + number,
            partition=self._random.randrange(self._partitions),
        )

    def end(self) -> None:
        self._ended.set()
        self.join(60)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


@contextmanager
def writing(
    source: KafkaTools, topic: str, partitions: int, *, timestamp: int | None, seed: int
) -> Iterator[Writer]:
    writer = Writer(source, topic, partitions, timestamp=timestamp, seed=seed)
    writer.start()
    try:
        yield writer
    finally:
        writer.end()


def torment(driver: LaneDriver, seed: int, seconds: float, live: int = 3) -> None:
    """Start, kill, freeze and thaw lanes at random, then kill them all."""
    chance = random.Random(seed)
    frozen: set[int] = set()
    numbers = iter(range(1_000_000))
    pause = threading.Event()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        act = chance.choice(["start", "start", "kill", "freeze", "thaw", "thaw"])
        running = [n for n in driver.lanes if n not in frozen]
        if act == "start" and len(driver.lanes) < live:
            driver.start_lane(next(numbers))
        elif act == "kill" and driver.lanes:
            victim = chance.choice(list(driver.lanes))
            frozen.discard(victim)
            driver.kill(victim)
        elif act == "freeze" and running:
            victim = chance.choice(running)
            driver.signal(victim, signal.SIGSTOP)
            frozen.add(victim)
        elif act == "thaw" and frozen:
            victim = chance.choice(sorted(frozen))
            driver.signal(victim, signal.SIGCONT)
            frozen.discard(victim)
        pause.wait(chance.uniform(0, 1.5))
    for number in list(driver.lanes):
        driver.kill(number)


def await_mirrored(driver: LaneDriver, source: KafkaTools, topic: str, timeout: float = 60) -> None:
    ends = source.offsets(topic, read_committed=True)
    driver.await_position({(topic, p): end for p, end in ends.items()}, timeout)


def assert_exact(source: KafkaTools, topic: str, target: KafkaTools, mirror: str, why: str) -> None:
    wanted = source.read(topic, read_committed=True)
    for read_committed in (False, True):
        found = target.read(mirror, read_committed=read_committed)
        for partition, records in wanted.items():
            assert [r.content for r in found[partition]] == [r.content for r in records], (
                f"partition {partition}, read_committed={read_committed}: {why}"
            )


@pytest.mark.parametrize("timestamp", [None, YEARS_AGO], ids=["now", "years-ago"])
def test_lanes_killed_and_frozen_at_random(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    timestamp: int | None,
) -> None:
    topic, mirror = prefix + "t", "A." + prefix + "t"
    source.create_topic(topic, 2, config=FOREVER)
    target.create_topic(mirror, 2, config=FOREVER)
    with (
        ForgetfulDriver(
            client("A", source_cluster.bootstrap), client("B", target_cluster.bootstrap), seed=SEED
        ) as driver,
        writing(source, topic, 2, timestamp=timestamp, seed=SEED) as writer,
    ):
        driver.claim(topic, mirror)
        torment(driver, SEED, FIRE_S)
        writer.end()
        driver.start_lane(-1)
        await_mirrored(driver, source, topic)

    assert writer.written > 1_000
    assert_exact(source, topic, target, mirror, f"seed {SEED}")
