"""Clusters 50 ms away: several fetches, or many produce requests, are under way as lanes die."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import psutil
import pytest

from bench.far import Relays
from causeway.dev.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import Mirror
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

PARTITIONS = 4
EACH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    source: LocalCluster
    target: LocalCluster


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with Relays() as relays:
        source, target = (LocalCluster(name, advertised=relays) for name in "AB")
        try:
            start_all((source, target))
            yield Ground(source=source, target=target)
        finally:
            source.destroy()
            target.destroy()


@contextmanager
def mirror(ground: Ground, prefix: str, *, far: str) -> Iterator[Mirror]:
    """A backlog in every partition, to be mirrored by lanes from or to the far one."""
    source, target = (
        client(name, cluster.bootstrap if far == name else cluster.internal_bootstrap)
        for name, cluster in (("source", ground.source), ("target", ground.target))
    )
    with LaneDriver(source, target, lease_s=10, in_flight=None) as driver:
        made = Mirror(
            driver,
            KafkaTools(ground.source.internal_bootstrap),
            KafkaTools(ground.target.internal_bootstrap),
            prefix + "t",
            "A." + prefix + "t",
        )
        made.create(PARTITIONS)
        for partition in range(PARTITIONS):
            made.source.produce(
                made.topic,
                [Outgoing(value=b"%1000d" % i, partition=partition) for i in range(EACH)],
            )
        made.claim()
        yield made


def reads_all_at_once(lane: int, source: LocalCluster) -> bool:
    """Whether it has a connection for each partition."""
    port = int(source.bootstrap.rpartition(":")[2])
    found = psutil.Process(lane).net_connections("tcp")
    return sum(1 for one in found if one.raddr and one.raddr.port == port) >= PARTITIONS


def arrived(it: Mirror) -> int:
    return sum(it.target.offsets(it.name).values())


def has_grown(it: Mirror, wanted: int) -> bool:
    return arrived(it) >= wanted


@pytest.mark.parametrize("far", ["source", "target"])
def test_lanes_killed_with_much_under_way(ground: Ground, prefix: str, far: str) -> None:
    """Each lane is killed once it has brought something, with as much more on its way. A far source
    is read over a connection a partition: a fetch is under way on each."""
    with mirror(ground, prefix, far=far) as it:
        for number in range(3):
            wanted = min(arrived(it) + 1, PARTITIONS * EACH)  # a lane may bring all at once
            lane = it.driver.start_lane(number).pid
            if far == "source":
                await_until(partial(reads_all_at_once, lane, ground.source))
            await_until(partial(has_grown, it, wanted))
            it.driver.kill(number)
        it.driver.start_lane(9)
        it.await_mirrored(timeout=120)
        it.assert_same()
        it.driver.drain(9)
