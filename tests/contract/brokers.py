"""Clusters that a test may break."""

from __future__ import annotations

from typing import Protocol

from kafka.protocol.admin import ElectLeadersRequest

from causeway.cluster import Cluster
from causeway.config import ClientSettings
from causeway.model import TopicPartition
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.waiting import await_until


class Brokers(Protocol):
    """Nodes go by their ids."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def nodes(self) -> tuple[int, ...]:
        """Running or not."""

    def stop(self, node: int, *, clean: bool) -> None:
        """In good order, or as by SIGKILL. Nothing if it does not run."""

    def start(self, node: int) -> None:
        """Returns once it serves."""

    def freeze(self, node: int) -> None:
        """Connections stay, and nothing answers."""

    def thaw(self, node: int) -> None:
        """It goes on where it was."""

    def clean(self, at: TopicPartition) -> None:
        """Compacts a log, if the brokers do not do it by themselves."""

    def elect_unclean(self, at: TopicPartition, node: int) -> None:
        """`node` leads, though it lacks records. No other replica is up."""


_UNCLEAN = 1


class RealBrokers:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(self._cluster.brokers)

    def stop(self, node: int, *, clean: bool) -> None:
        if clean:
            self._cluster.brokers[node].stop()
        else:
            self._cluster.kill(node)

    def start(self, node: int) -> None:
        self._cluster.restart(node)

    def freeze(self, node: int) -> None:
        self._cluster.pause(node)

    def thaw(self, node: int) -> None:
        self._cluster.resume(node)

    def clean(self, at: TopicPartition) -> None:
        """They do."""

    def elect_unclean(self, at: TopicPartition, node: int) -> None:
        request = ElectLeadersRequest(
            election_type=_UNCLEAN,
            topic_partitions=[(at.topic, [at.partition])],
            timeout_ms=10_000,
            min_version=1,
        )

        def elected() -> bool:
            with Cluster(settings(self.bootstrap)) as client:
                answer = client.call(request)
            result = answer.replica_election_results[0].partition_result[0]
            return not result.error_code

        await_until(elected, 60, f"broker {node} leads {at}")


def settings(bootstrap: str, timeout_ms: int = 30_000) -> ClientSettings:
    addresses = [address.rpartition(":") for address in bootstrap.split(",")]
    return ClientSettings(
        alias="C",
        bootstrap=tuple((host, int(port)) for host, _, port in addresses),
        request_timeout_ms=timeout_ms,
    )
