"""A target broker whose disk hangs, or is full: what it leads waits and says why, the rest goes on,
and nothing is lost or doubled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from causeway.model import State
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import FOREVER, Mirror
from tests.harness.waiting import await_until
from tests.harness.writers import YEARS_AGO

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PARTITIONS = 6
DISK_MB = 96
ROOM_MB = 4  # what is left of a disk that is about to be full


@dataclass(frozen=True)
class Disk:
    """A file that is mounted as a disk of its own."""

    at: Path

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Who writes to it waits."""
        _run("fsfreeze", "--freeze", self.at)
        try:
            yield
        finally:
            _run("fsfreeze", "--unfreeze", self.at)

    @contextmanager
    def filled(self) -> Iterator[None]:
        ballast = self.at / "ballast"
        free = int(_run("stat", "--file-system", "--format=%a", self.at)) * int(
            _run("stat", "--file-system", "--format=%S", self.at)
        )
        _run("fallocate", "--length", f"{free - ROOM_MB * 1024 * 1024}", ballast)
        try:
            yield
        finally:
            ballast.unlink()


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def disk(image: Path, at: Path) -> Iterator[Disk]:
    at.mkdir(parents=True)
    try:
        _run("truncate", f"--size={DISK_MB}M", image)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", image)
        _run("mount", "-o", "loop", image, at)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a disk of its own for a broker needs Linux and the right to mount: {error}")
    try:
        yield Disk(at)
    finally:
        _run("umount", "--lazy", at)


@pytest.fixture
def target_with_disk(tmp_path: Path) -> Iterator[tuple[LocalCluster, Disk]]:
    """Two brokers; the second has a disk of its own. They forget the producers of old records at
    once."""
    forgets = {"producer.id.expiration.check.interval.ms": "200"}
    cluster = LocalCluster("B", brokers=2, directory=tmp_path / "B", properties=forgets)
    with disk(tmp_path / "image", cluster.brokers[2].directory / "data") as its:
        try:
            cluster.start()
            yield cluster, its
        finally:
            cluster.destroy()


@pytest.mark.slow
def test_what_a_hung_and_a_full_disk_hold_up(
    source_cluster: LocalCluster,
    source: KafkaTools,
    target_with_disk: tuple[LocalCluster, Disk],
    prefix: str,
) -> None:
    cluster, its_disk = target_with_disk
    target = KafkaTools(cluster.bootstrap)
    topic, name = f"{prefix}t", f"A.{prefix}t"
    source.create_topic(topic, PARTITIONS, config=FOREVER)
    target.create_topic(name, PARTITIONS, replication_factor=1, config=FOREVER)
    leaders = target.admin.list_topics(name, timeout=30).topics[name].partitions
    held = [p for p, partition in leaders.items() if partition.leader == 2]
    free = [p for p in leaders if p not in held]
    assert held
    assert free

    def write(size: int) -> None:
        value = bytes(size)
        source.produce(
            topic,
            [
                Outgoing(value=value, partition=n % PARTITIONS, timestamp=YEARS_AGO + n)
                for n in range(600)
            ],
        )

    clients = (
        replace(client(alias, of.bootstrap), request_timeout_ms=3_000)
        for alias, of in (("A", source_cluster), ("B", cluster))
    )
    with LaneDriver(*clients) as driver:
        mirror = Mirror(driver, source, target, topic, name)
        mirror.claim()
        driver.start_lane(0)
        write(10)
        mirror.await_mirrored()

        with its_disk.hung():
            write(10)
            mirror.await_mirrored(partitions=free)
            for partition in held:
                await_reason(driver, topic, partition)
        mirror.await_mirrored()

        with its_disk.filled():
            write(20_000)
            mirror.await_mirrored(partitions=free)
            await_until(
                lambda: cluster.brokers[2].pid is None,
                what="Kafka ends a broker whose disk is full",
            )
            for partition in held:
                await_reason(driver, topic, partition)
        cluster.restart(2)
        mirror.await_mirrored()
        mirror.assert_same()


def await_reason(driver: LaneDriver, topic: str, partition: int) -> None:
    """Until it has been tried again, and says why it does not run."""

    def told() -> bool:
        report = driver.reports["A->B", topic, partition]
        waits = report.state is not State.RUNNING and bool(report.reason)
        return waits and report.recoveries > 1

    await_until(told, what=f"a reason why {topic}-{partition} does not run")
