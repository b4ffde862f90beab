"""A cluster of three brokers. The mirror's connections go through proxies; those of applications,
of the independent reader and of the brokers among themselves do not."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from functools import cached_property

from confluent_kafka import KafkaException
from kafka import KafkaAdminClient, TopicPartition

from tests.fire.topics import PREFIX, FireTopic
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.proxy import Proxies
from tests.harness.waiting import await_until

BROKERS = 3
_PROPERTIES = {
    # Long enough for a busy machine. A broker that freezes for longer loses its partitions.
    "broker.heartbeat.interval.ms": "1000",
    "broker.session.timeout.ms": "6000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "2000",
    # An application that was killed leaves no transaction open for long.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
}
_HEALTHY_S = 240.0


class Site:
    def __init__(self, name: str) -> None:
        self.name = name
        self.proxies = Proxies()
        self.cluster = LocalCluster(
            name, brokers=BROKERS, advertised=self.proxies, properties=_PROPERTIES
        )
        self.ended = threading.Event()

    @property
    def bootstrap(self) -> str:
        """Of applications."""
        return self.cluster.internal_bootstrap

    @cached_property
    def tools(self) -> KafkaTools:
        return KafkaTools(self.bootstrap)

    def destroy(self) -> None:
        for node in self.cluster.brokers:
            self.cluster.resume(node)
        self.cluster.destroy()
        self.proxies.close()

    def wait(self, seconds: float) -> None:
        self.ended.wait(seconds)

    def await_healthy(self) -> None:
        """Until each replica of each partition is in sync: before the next broker suffers."""
        await_until(self._is_healthy, _HEALTHY_S, f"all replicas of {self.name} are in sync", 0.3)

    def _is_healthy(self) -> bool:
        try:
            known = self.tools.admin.list_topics(timeout=20)
        except KafkaException:
            return False
        return len(known.brokers) == BROKERS and all(
            partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
            for topic in known.topics.values()
            for partition in topic.partitions.values()
        )

    def kill_broker(self, chance: random.Random) -> None:
        node = chance.choice(list(self.cluster.brokers))
        self.cluster.kill(node)
        self.wait(chance.uniform(0, 10))
        self.cluster.restart(node)
        self.await_healthy()

    def freeze_broker(self, chance: random.Random) -> None:
        """For a moment, or beyond its session of 6 s: then it thaws as one that led."""
        node = chance.choice(list(self.cluster.brokers))
        self.cluster.pause(node)
        try:
            self.wait(chance.choice([chance.uniform(0.3, 4), chance.uniform(7, 15)]))
        finally:
            self.cluster.resume(node)
        self.await_healthy()

    def roll(self, chance: random.Random) -> None:
        nodes = list(self.cluster.brokers)
        chance.shuffle(nodes)
        for node in nodes:
            self.cluster.restart(node)
            self.await_healthy()

    def reassign(self, chance: random.Random) -> None:
        """Each partition of a topic to two brokers, and then back to three in another order."""
        topics = self.tools.admin.list_topics(timeout=60).topics
        name = chance.choice(sorted(name for name in topics if name.startswith(PREFIX)))
        for replicas in (2, BROKERS):
            wanted = {
                TopicPartition(name, partition): chance.sample(range(1, BROKERS + 1), replicas)
                for partition in topics[name].partitions
            }
            self._reassigned(wanted)
            self.await_healthy()

    def _reassigned(self, wanted: Mapping[TopicPartition, list[int]]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))
        try:
            errors = admin.alter_partition_reassignments(wanted)
            assert not any(errors.values()), errors
            await_until(
                lambda: not admin.list_partition_reassignments(),
                _HEALTHY_S,
                f"partitions of {self.name} are reassigned",
            )
        finally:
            admin.close()

    # The network between the mirror and this cluster

    def stall_network(self, chance: random.Random) -> None:
        """One broker's connections are held, and go on later, as if nothing had been."""
        proxy = self.proxies[chance.choice(list(self.cluster.brokers))]
        proxy.stall(chance.choice(["up", "down", "both"]), new_ones=chance.random() < 0.5)
        self.wait(chance.uniform(1, 20))
        proxy.release()

    def reset_network(self, chance: random.Random) -> None:
        for node in self.cluster.brokers:
            self.proxies[node].cut()

    def partition_network(self, chance: random.Random) -> None:
        """The mirror does not reach the cluster. What was on its way is lost, or comes later."""
        for node in self.cluster.brokers:
            self.proxies[node].stall("both")
            self.proxies[node].refuse()
        self.wait(chance.uniform(2, 25))
        lost = chance.random() < 0.5
        for node in self.cluster.brokers:
            if lost:
                self.proxies[node].cut()
            self.proxies[node].release()
            self.proxies[node].refuse(False)

    # Topics

    def create(self, topic: FireTopic) -> None:
        self.tools.create_topic(topic.name, topic.partitions, config=topic.config)

    def grow(self, topic: FireTopic) -> None:
        self.tools.add_partitions(topic.name, topic.partitions + 1)
        topic.partitions += 1
