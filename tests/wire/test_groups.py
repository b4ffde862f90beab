"""Consumer groups' offsets, as librdkafka committed them."""

from __future__ import annotations

import pytest

from causeway.config.settings import ClientSettings
from causeway.dev.cluster import LocalCluster
from causeway.model import TopicPartition
from causeway.wire.cluster import Cluster
from tests.harness.kafka_tools import KafkaTools

pytestmark = pytest.mark.integration


def test_what_a_group_has_committed(
    source_cluster: LocalCluster, source: KafkaTools, prefix: str
) -> None:
    topic, group = prefix + "t", prefix + "group"
    source.create_topic(topic, 3)
    source.commit_group(group, {(topic, 0): 7, (topic, 2): 0})
    host, _, port = source_cluster.bootstrap.partition(":")
    settings = ClientSettings(alias="A", bootstrap=((host, int(port)),))

    with Cluster(settings) as cluster:
        assert cluster.committed_offsets(group) == {
            TopicPartition(topic, 0): 7,
            TopicPartition(topic, 2): 0,
        }
        assert cluster.committed_offsets(prefix + "nobody") == {}
