"""Clusters that a test may break."""

from __future__ import annotations

from typing import Protocol

from causeway.model import TopicPartition
from tests.harness.kafka.cluster import LocalCluster


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
