"""A plan, applied to real brokers, leaves nothing to plan; and the mirror takes what is widest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from causeway.cluster import Cluster
from causeway.config import ClientSettings, LinkSettings
from causeway.control import TopicPlan, topic_changes, topics
from causeway.filters import compile_patterns
from causeway.naming import ReplicationPolicy
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

WIDE = str(2**63 - 1)


def client(alias: str, cluster: LocalCluster) -> ClientSettings:
    host, port = cluster.bootstrap.split(":")
    return ClientSettings(alias=alias, bootstrap=((host, int(port)),))


class Link:
    """A->B for the topics of one test."""

    def __init__(self, source: LocalCluster, target: LocalCluster, prefix: str) -> None:
        self._settings: dict[str, Any] = {
            "source": client("A", source),
            "target": client("B", target),
            "source_admin": client("A", source),
            "target_admin": client("B", target),
            "policy": ReplicationPolicy(source_alias="A"),
            "topics": compile_patterns(prefix + ".*"),
            "topics_exclude": (),
            "config_properties_exclude": (),
            "replication_factor": 1,
        }
        self._source = Cluster(self._settings["source"])
        self._target = Cluster(self._settings["target"])
        self._tools = KafkaTools(target.bootstrap)

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def plan(self, **changes: Any) -> TopicPlan:
        link = LinkSettings(**(self._settings | changes))
        return topics.plan(topics.observe(self._source, self._target, link), link)

    def apply(self, planned: TopicPlan) -> None:
        """Returns once the broker shows the partitions, which are changed last."""
        assert list(topic_changes.apply(planned.changes, self._target).values()) == [
            None for _ in planned.changes
        ]
        wanted = {topic.target: topic.target_partitions for topic in planned.mirrored}
        await_until(
            lambda: wanted == {name: self._tools.partition_count(name) for name in wanted},
            what=f"{wanted} partitions",
        )


@pytest.fixture
def link(source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str) -> Iterator[Link]:
    made = Link(source_cluster, target_cluster, prefix)
    yield made
    made.close()


def test_a_plan_applied_leaves_nothing_to_do(
    link: Link, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    wide, plain = prefix + "wide", prefix + "plain"
    own = {
        "max.message.bytes": "3000000",
        "retention.ms": "-1",
        "cleanup.policy": "compact",
        "compression.type": "zstd",
    }
    source.create_topic(wide, 3, config=own)
    source.create_topic(plain, 1)

    planned = link.plan()
    link.apply(planned)

    assert [topic.target for topic in planned.mirrored] == [f"A.{plain}", f"A.{wide}"]
    assert [topic.target_partitions for topic in planned.mirrored] == [1, 3]
    config = target.topic_config(f"A.{wide}")
    assert {name: config[name] for name in own} == own
    assert config["message.timestamp.after.max.ms"] == WIDE
    assert config["message.timestamp.before.max.ms"] == WIDE
    again = link.plan()
    assert (again.changes, again.problems) == ((), ())
    assert all(topic.target_id for topic in again.mirrored)


def test_an_existing_mirror_is_widened_and_grows(
    link: Link, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    name, mirror = prefix + "orders", f"A.{prefix}orders"
    source.create_topic(name, 4, config={"max.message.bytes": "2000000", "retention.ms": "1000"})
    target.create_topic(
        mirror,
        2,
        config={"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
    )

    planned = link.plan()
    link.apply(planned)

    assert [topic.target_partitions for topic in planned.mirrored] == [4]
    config = target.topic_config(mirror)
    assert config["max.message.bytes"] == "2000000"
    assert config["compression.type"] == "producer"
    assert config["message.timestamp.type"] == "CreateTime"
    assert config["retention.ms"] == "604800000"
    assert link.plan().changes == ()


def test_too_few_brokers_and_names_the_brokers_refuse_are_said_per_topic(
    link: Link, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    source.create_topic(prefix + "a.b")
    target.create_topic(f"A.{prefix}a_b")

    (problem,) = link.plan(replication_factor=2).problems
    planned = link.plan()
    (foreseen,) = topic_changes.as_target_takes(planned, link._target, "B").problems
    errors = topic_changes.apply(planned.changes, link._target)

    assert "needs 2 brokers, B has 1" in str(problem.error)
    (error,) = errors.values()
    assert error is not None
    assert "collides" in str(error)
    assert str(foreseen.error) == str(error)
