"""Brokers that die, freeze and come back: control work goes on with those that are left."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from causeway.cluster import TRANSACTION, Cluster, NewTopic, OffsetAt, value_of
from causeway.config import ClientSettings
from causeway.errors import UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Deadline
from tests.harness.batches import make_batch
from tests.harness.kafka.cluster import LocalCluster

pytestmark = pytest.mark.integration

TPS = [TopicPartition("spread", n) for n in range(6)]


@pytest.fixture(scope="module")
def brokers() -> Iterator[LocalCluster]:
    with LocalCluster("T", brokers=3) as running:
        yield running


@pytest.fixture
def cluster(brokers: LocalCluster) -> Iterator[Cluster]:
    addresses = tuple(
        (host, int(port))
        for host, _, port in (pair.partition(":") for pair in brokers.bootstrap.split(","))
    )
    with Cluster(
        ClientSettings(alias="T", bootstrap=addresses, request_timeout_ms=60_000)
    ) as running:
        if "spread" not in running.metadata().topics:
            new = NewTopic(name="spread", partitions=len(TPS), replication_factor=3)
            assert running.create_topics([new]) == {"spread": None}
        yield running


def ends(cluster: Cluster) -> dict[TopicPartition, int]:
    found = cluster.list_offsets(TPS, -1)
    assert all(isinstance(value, OffsetAt) for value in found.values()), found
    return {tp: value.offset for tp, value in found.items() if isinstance(value, OffsetAt)}


def write_everywhere(cluster: Cluster) -> None:
    for tp in TPS:
        cluster.produce_batch(tp, make_batch([b"x"]))


def test_goes_on_while_a_broker_is_dead_and_when_it_is_back(
    brokers: LocalCluster, cluster: Cluster
) -> None:
    write_everywhere(cluster)
    before = ends(cluster)
    brokers.kill(1)
    assert ends(cluster) == before
    write_everywhere(cluster)
    brokers.restart(1)
    write_everywhere(cluster)
    assert ends(cluster) == {tp: end + 2 for tp, end in before.items()}
    cluster.init_transactional_id("held")
    node = value_of(cluster.coordinators(TRANSACTION, ["held"], Deadline(10.0))["held"])
    brokers.restart(node)
    _, epoch = cluster.init_transactional_id("held")
    assert epoch >= 1


def test_a_frozen_broker_costs_time_but_nothing_else(
    brokers: LocalCluster, cluster: Cluster
) -> None:
    before = ends(cluster)
    brokers.pause(2)
    try:
        for _ in range(3):
            assert ends(cluster) == before
    finally:
        brokers.resume(2)


def test_a_cluster_that_went_away_is_told_after_the_request_timeout(
    brokers: LocalCluster,
) -> None:
    host, _, port = brokers.bootstrap.split(",")[0].partition(":")
    client = ClientSettings(alias="T", bootstrap=((host, int(port)),), request_timeout_ms=1_000)
    with Cluster(client) as cluster:
        cluster.bootstrap_check()
        for node in brokers.brokers:
            brokers.kill(node)
        started = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no broker answered in 1 s: .*refused"):
            cluster.metadata()
        assert time.monotonic() - started < 20
