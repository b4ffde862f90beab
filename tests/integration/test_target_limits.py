"""Targets that take only small requests, and brokers that throttle: over real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

REQUEST_BYTES = 1_100_000
PARTITIONS = 40


@pytest.fixture(scope="module")
def small() -> Iterator[LocalCluster]:
    """A target that closes a connection after a request above REQUEST_BYTES."""
    properties = {"socket.request.max.bytes": str(REQUEST_BYTES)}
    with LocalCluster("B", properties=properties) as cluster:
        yield cluster


def _mirror(
    source: LocalCluster, target: LocalCluster, prefix: str, max_request_bytes: int | None = None
) -> Mirror:
    writer = replace(client("B", target.bootstrap), max_request_bytes=max_request_bytes)
    driver = LaneDriver(client("A", source.bootstrap), writer)
    tools = KafkaTools(source.bootstrap), KafkaTools(target.bootstrap)
    return Mirror(driver, *tools, prefix + "t", "A." + prefix + "t")


def _fill(mirror: Mirror, batches: int) -> None:
    """Batches of 80 kB in each partition."""
    mirror.create(PARTITIONS)
    for number in range(batches):
        mirror.source.produce(
            mirror.topic,
            [
                Outgoing(value=b"%d %d " % (number, n) + b"x" * 1_000, partition=n % PARTITIONS)
                for n in range(80 * PARTITIONS)
            ],
        )


def test_a_target_that_closes_connections_after_large_requests_gets_smaller_ones(
    source_cluster: LocalCluster, small: LocalCluster, prefix: str
) -> None:
    mirror = _mirror(source_cluster, small, prefix)
    with mirror.driver:
        _fill(mirror, 3)
        mirror.run()
        mirror.assert_same()
        (told,) = mirror.driver.small_requests
        assert int(told.rpartition(" ")[2]) <= REQUEST_BYTES


def test_max_request_size_is_kept_to(
    source_cluster: LocalCluster, small: LocalCluster, prefix: str
) -> None:
    """No connection is lost."""
    mirror = _mirror(source_cluster, small, prefix, max_request_bytes=1_000_000)
    with mirror.driver:
        _fill(mirror, 3)
        mirror.run()
        mirror.assert_same()
        assert {report.recoveries for report in mirror.driver.reports.values()} == {0}
