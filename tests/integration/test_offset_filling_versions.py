"""Offsets of logs are filled on each Kafka that is promised: `make test-versions`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from causeway.cluster import Cluster, filling, transactions
from causeway.config import ClientSettings
from causeway.dev import TESTED, kafka_version
from causeway.errors import BrokerError
from causeway.model import TopicPartition
from tests.harness.batches import make_batch
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.markers import ends, seen, write_markers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

TIMEOUT_MS = 60_000
INVALID_PRODUCER_EPOCH = 47
AT = TopicPartition("filled", 0)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.versions) for name in TESTED],
)
def running(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three brokers, of which two must have each record."""
    with LocalCluster(
        f"f{request.param.replace('.', '')}",
        brokers=3,
        version=kafka_version(request.param),
        properties={"min.insync.replicas": "2"},
    ) as cluster:
        yield cluster


def test_offsets_are_filled(running: LocalCluster) -> None:
    tools = KafkaTools(running.bootstrap)
    tools.create_topic(AT.topic, replication_factor=3)
    tools.create_topic("compacted", replication_factor=3, config={"cleanup.policy": "compact"})
    addresses = (address.split(":") for address in running.bootstrap.split(","))
    settings = ClientSettings(
        alias="F", bootstrap=tuple((host, int(port)) for host, port in addresses)
    )
    with Cluster(settings) as cluster:
        filled(cluster, tools)


def filled(cluster: Cluster, tools: KafkaTools) -> None:
    data, fill, compacted = (
        transactions.begin(cluster, name, TIMEOUT_MS) for name in ("data", "fill", "compacted")
    )

    # The beginning.
    stop = 2_500_000
    filling.fill(cluster, fill, AT, 0, stop, keyed=False, delete=True, on_step=lambda _: True)
    assert ends(tools, AT) == (stop, stop, stop)

    # Markers between two batches of one producer.
    first = make_batch([b"first"], producer=(data.producer_id, data.epoch, 0))
    assert cluster.produce_batch(AT, first) == stop
    assert write_markers(cluster, AT, data.producer_id, data.epoch, 500) == 0
    second = make_batch([b"second"], producer=(data.producer_id, data.epoch, 1))
    assert cluster.produce_batch(AT, second) == stop + 501

    # Empty transactions.
    filling.fill_with_markers(cluster, fill, AT, 10)
    third = make_batch([b"third"], producer=(data.producer_id, data.epoch, 2))
    assert cluster.produce_batch(AT, third) == stop + 512
    wanted = [(stop, b"first"), (stop + 501, b"second"), (stop + 512, b"third")]
    for read_committed in (False, True):
        assert seen(tools, AT, read_committed=read_committed) == wanted

    # Another epoch.
    data = transactions.begin(cluster, "data", TIMEOUT_MS)
    assert write_markers(cluster, AT, data.producer_id, data.epoch, 1) == 0
    assert write_markers(cluster, AT, data.producer_id, data.epoch - 1, 1) == INVALID_PRODUCER_EPOCH
    late = make_batch([b"late"], producer=(data.producer_id, data.epoch - 1, 3))
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        cluster.produce_batch(AT, late)
    fourth = make_batch([b"fourth"], producer=(data.producer_id, data.epoch, 0))
    assert cluster.produce_batch(AT, fourth) == stop + 514

    # A compacted topic.
    at = TopicPartition("compacted", 0)
    filling.fill(cluster, compacted, at, 0, 150_000, keyed=True, delete=False, on_step=bool)
    assert ends(tools, at)[1:] == (150_000, 150_000)
    assert seen(tools, at, read_committed=True) == []
