"""A small topic read to its end, also from a leader that does not show all of it yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import pytest

from causeway.cluster import (
    Cluster,
    ClusterMetadata,
    ConfigEntry,
    NewTopic,
    PartitionMetadata,
    TopicMetadata,
)
from causeway.errors import AuthorizationError, CausewayError, ConfigError
from causeway.link_topics import TopicLog
from causeway.link_topics.topic_log import COMPACTED
from causeway.model import TopicPartition
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


class There(Empty):
    """Has the topic already, with so many partitions and that policy (None: we may not see it);
    `locked`: we may not change it."""

    def __init__(self, policy: str | None, *, partitions: int = 1, end: int = 0) -> None:
        super().__init__(None)
        self._policy = policy
        self._partitions = partitions
        self._end = end
        self.locked = False
        self.altered: list[Mapping[str, Mapping[str, str]]] = []

    def __str__(self) -> str:
        return "B"

    def metadata(self, names: Collection[str]) -> ClusterMetadata:
        leader = PartitionMetadata(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        numbers = range(self._partitions)
        topic = TopicMetadata(
            name=TARGET, topic_id=TARGET_ID, partitions=dict.fromkeys(numbers, leader)
        )
        return ClusterMetadata(
            cluster_id="c", brokers={1: ("h", 1)}, controller=1, topics={TARGET: topic}
        )

    def describe_configs(self, _: object, __: object) -> dict[str, object]:
        if self._policy is None:
            return {TARGET: AuthorizationError("describe", TARGET, "we may not")}
        return {TARGET: {"cleanup.policy": ConfigEntry(value=self._policy, source="")}}

    def alter_configs(self, changes: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
        if self.locked:
            return {TARGET: AuthorizationError("configure topic", TARGET, "we may not")}
        self.altered.append(changes)
        return {TARGET: None}

    def log_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self._end)


def ensured(cluster: There) -> list[Mapping[str, Mapping[str, str]]]:
    TopicLog(cast(Cluster, cluster), TARGET).ensure(1)
    return cluster.altered


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_is_not_compacted_is_made_so_or_refused(policy: str) -> None:
    assert ensured(There(policy)) == [{TARGET: {"cleanup.policy": "compact"}}]
    locked = There(policy)
    locked.locked = True
    with pytest.raises(ConfigError, match=f"cleanup.policy is {policy}.*kafka-configs.*compact"):
        ensured(locked)


@pytest.mark.parametrize("policy", ["compact", None])
def test_a_topic_that_is_compacted_as_far_as_we_see_is_left_alone(policy: str | None) -> None:
    assert ensured(There(policy)) == []


def test_a_topic_with_several_partitions_is_refused_while_it_is_empty() -> None:
    with pytest.raises(ConfigError, match="3 partitions, and must have 1"):
        ensured(There("compact", partitions=3))
    assert ensured(There("compact", partitions=3, end=7)) == []


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
def test_a_new_topic_takes_batches_with_producers_for_every_broker_format(
    log_format: str | None, configs: dict[str, str]
) -> None:
    cluster = Empty(log_format)
    TopicLog(cast(Cluster, cluster), TARGET).ensure(1)
    assert [each.configs for each in cluster.made] == [configs]
