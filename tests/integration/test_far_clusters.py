"""Clusters 50 ms away: several fetches, or many produce requests, are under way as lanes die."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import psutil
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.far import Relays
from causeway.relay.lane.limits import MOST_SESSIONS
from tests.harness.kafka.cluster import LocalCluster, start_all
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
def mirror(
    ground: Ground, prefix: str, *, far: str, partitions: int = PARTITIONS
) -> Iterator[Mirror]:
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
        made.create(partitions)
        for partition in range(partitions):
            made.source.produce(
                made.topic,
                [Outgoing(value=b"%1000d" % i, partition=partition) for i in range(EACH)],
            )
        made.claim()
        yield made


def connections(lane: int, source: LocalCluster) -> set[int]:
    """Its own ports of those that it has to the broker."""
    port = int(source.bootstrap.rpartition(":")[2])
    found = psutil.Process(lane).net_connections("tcp")
    return {one.laddr.port for one in found if one.raddr and one.raddr.port == port}


def reads_all_at_once(lane: int, source: LocalCluster) -> bool:
    """Whether it has a connection for each partition."""
    return len(connections(lane, source)) >= PARTITIONS


@contextmanager
def room_for(more: int, cluster: LocalCluster) -> Iterator[None]:
    """The broker takes only so many connections more, from then on."""
    (broker,) = cluster.brokers.values()
    assert broker.pid is not None
    found = psutil.Process(broker.pid).net_connections("tcp")
    ours = {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}
    there = [
        one for one in found if one.status == psutil.CONN_ESTABLISHED and one.laddr.port in ours
    ]
    admin = KafkaTools(cluster.internal_bootstrap).admin

    def limit(count: int) -> None:
        entry = ConfigEntry(
            "max.connections.per.ip",
            str(count),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(60)

    limit(len(there) + more)
    try:
        yield
    finally:
        limit(2**31 - 1)


def arrived(it: Mirror) -> int:
    return sum(it.target.offsets(it.name).values())


def has_grown(it: Mirror, wanted: int) -> bool:
    return arrived(it) >= wanted


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_far_source_that_takes_few_connections_is_read_over_fewer(
    ground: Ground, prefix: str
) -> None:
    """All of its partitions are mirrored all the same. Those that it keeps it keeps, and tries no
    more: nothing is opened, lost or looked for again."""
    with mirror(ground, prefix, far="source", partitions=MOST_SESSIONS) as it:
        with room_for(5, ground.source):  # of which who looks for places has one as well
            lane = it.driver.start_lane(0).pid
            it.await_mirrored(timeout=120)
            await_until(lambda: it.driver.crowded == {"source 1"}, 60)
        before = recoveries(it), connections(lane, ground.source)
        assert len(before[1]) < MOST_SESSIONS
        for _ in range(3):
            for partition in range(MOST_SESSIONS):
                it.source.produce(it.topic, [Outgoing(value=b"more", partition=partition)])
            it.await_mirrored(timeout=120)
        it.assert_same()
        assert (recoveries(it), connections(lane, ground.source)) == before
        it.driver.drain(0)


def recoveries(it: Mirror) -> int:
    return sum(report.recoveries for report in it.driver.reports.values())
