"""A small topic read to its end, also from a leader that does not show all of it yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import pytest

from causeway.errors import AuthorizationError, CausewayError
from causeway.relay.topic_log import COMPACTED, TopicLog
from causeway.wire.admin import ConfigEntry, NewTopic
from causeway.wire.cluster import Cluster
from causeway.wire.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tests.harness.world import TARGET, TARGET_ID, FakeCluster, plain_world


def test_reads_to_the_end_or_says_that_it_cannot() -> None:
    logs = plain_world(9, 5).targets

    def read(shown: int | None) -> int:
        cluster = FakeCluster(TARGET, TARGET_ID, logs, compacted=True, shown=shown)
        return sum(batch.records for batch in TopicLog(cast(Cluster, cluster), TARGET).batches())

    assert read(None) == 5
    with pytest.raises(CausewayError, match="shows it up to offset 0 only"):
        read(0)


class Empty:
    """A cluster that makes topics; its broker writes logs in `log_format`, or hides that."""

    def __init__(self, log_format: str | None) -> None:
        self._log_format = log_format
        self.made: list[NewTopic] = []

    def metadata(self, names: Collection[str]) -> ClusterMetadata:
        leader = PartitionMetadata(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        topics = {
            each.name: TopicMetadata(name=each.name, topic_id=TARGET_ID, partitions={0: leader})
            for each in self.made
        }
        return ClusterMetadata(cluster_id="c", brokers={1: ("h", 1)}, controller=1, topics=topics)

    def broker_configs(self, _: int) -> dict[str, ConfigEntry]:
        if self._log_format is None:
            raise AuthorizationError("read the configuration of broker", "1", "we may not")
        entry = ConfigEntry(value=self._log_format, source="STATIC_BROKER_CONFIG")
        return {"log.message.format.version": entry} if self._log_format else {}

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, None]:
        self.made += topics
        return {each.name: None for each in topics}


@pytest.mark.parametrize(
    ("log_format", "configs"),
    [
        ("0.10.2-IV0", {**COMPACTED, "message.format.version": "2.8"}),
        ("0.11.0", COMPACTED),
        ("3.0-IV1", COMPACTED),
        ("", COMPACTED),  # Kafka 4 has no such config
        (None, COMPACTED),
    ],
)
def test_a_new_topic_takes_what_producers_write_whatever_its_brokers_formats_are(
    log_format: str | None, configs: dict[str, str]
) -> None:
    cluster = Empty(log_format)
    TopicLog(cast(Cluster, cluster), TARGET).ensure(1)
    assert [each.configs for each in cluster.made] == [configs]
