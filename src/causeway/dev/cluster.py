"""A Kafka cluster of one or three nodes on this machine.

Each node has three listeners: CLIENT is for the cluster's users, INTERNAL (plain text) is for the
brokers, CONTROLLER is for the controllers. Before controllers, Kafka had a ZooKeeper. A test may
break, proxy or encrypt CLIENT, and the cluster keeps working.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from causeway.dev.broker import LOOPBACK, Broker, BrokerPorts, ZooKeeper, new_cluster_id
from causeway.dev.ports import Ports
from causeway.dev.properties import broker_properties
from causeway.dev.quick_start import quick_start_options
from causeway.dev.versions import KafkaVersion, kafka_version
from causeway.errors import CausewayError

START_TIMEOUT_S = 240.0
_POLL_S = 0.05


class LocalCluster:
    """`version`: default kafka_version(). Unless `detached`, the brokers die with this Python
    process, however it ends. `detached`: True for a new cluster, or the ports of a cluster that
    already runs in `directory`."""

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        brokers: int = 1,
        version: KafkaVersion | None = None,
        detached: bool | Mapping[int, BrokerPorts] = False,
    ) -> None:
        self.name = name
        self.version = version or kafka_version()
        self.directory = directory
        self.jvm_options: tuple[str, ...] = ()
        self.format_options: tuple[str, ...] = ()
        self.ports = Ports()
        known = detached if isinstance(detached, Mapping) else {}
        self.brokers = {
            node: Broker(
                node, directory / f"broker-{node}", known.get(node) or self._ports(), self.version
            )
            for node in range(1, brokers + 1)
        }
        self.advertised = {
            node: (LOOPBACK, broker.ports.client) for node, broker in self.brokers.items()
        }
        self._zookeeper: ZooKeeper | None = None
        if self.version.zookeeper:
            port = self.brokers[1].ports.controller
            self._zookeeper = ZooKeeper(directory / "zookeeper", port, self.version)
        for process in self._processes() if known else ():
            process.find()
        self._detached = bool(detached)

    @property
    def bootstrap(self) -> str:
        """The address for users of the cluster: `host:port,…` of each broker, running or not."""
        return ",".join(f"{host}:{port}" for host, port in self.advertised.values())

    def destroy(self) -> None:
        """Kills all running processes."""
        for process in self._processes():
            process.kill()
        self.ports.release()

    def await_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns once each broker answers and knows all other brokers."""
        self.wait_for(
            lambda: all(broker.ready(len(self.brokers)) for broker in self.brokers.values()),
            timeout_s,
        )

    def prepare(self) -> None:
        """Writes the brokers' files, and formats their storage unless that is done."""
        jvm_options = (*quick_start_options(self.version), *self.jvm_options)
        for broker in self.brokers.values():
            broker.jvm_options = jvm_options
            broker.configure(self.broker_properties(broker))
        # All or none: after an interrupted format, nodes do not know each other.
        if all(broker.formatted for broker in self.brokers.values()):
            return
        cluster_id = new_cluster_id()
        tools = [
            (broker, broker.begin_format(cluster_id, self.format_options))
            for broker in self.brokers.values()
        ]
        for broker, tool in tools:
            broker.end_format(tool)

    def broker_properties(self, broker: Broker) -> dict[str, str]:
        """Returns the `server.properties` except `log.dirs`. A subclass may add listeners."""
        nodes = {node: other.ports for node, other in self.brokers.items()}
        return broker_properties(
            self.version, broker.node_id, nodes, self.advertised[broker.node_id]
        )

    def launch(self, broker: Broker, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts a broker that does not run. Returns at once, or once the ZooKeeper serves, if
        there is one."""
        if broker.pid is None and (zookeeper := self._zookeeper) is not None:
            zookeeper.start(detached=self._detached)
            node = broker.node_id
            self.wait_for(lambda: zookeeper.ready() and not zookeeper.remembers(node), timeout_s)
        broker.start(detached=self._detached)

    def wait_for(self, ready: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if time.monotonic() > deadline:
                words = "; ".join(broker.last_words() for broker in self.brokers.values())
                cause = f"not ready within {timeout_s:g} s: {words}"
                raise CausewayError("start", f"cluster {self.name}", cause)
            time.sleep(_POLL_S)

    def _processes(self) -> list[Broker | ZooKeeper]:
        """Returns the brokers, followed by the ZooKeeper, which they need until they have ended."""
        zookeeper = () if self._zookeeper is None else (self._zookeeper,)
        return [*self.brokers.values(), *zookeeper]

    def _ports(self) -> BrokerPorts:
        take = self.ports.take
        return BrokerPorts(client=take(), internal=take(), controller=take())


def start_all(clusters: Sequence[LocalCluster], timeout_s: float = START_TIMEOUT_S) -> None:
    """Starts several clusters in parallel. Returns once all serve."""
    for cluster in clusters:
        cluster.prepare()
    for cluster in clusters:
        for broker in cluster.brokers.values():
            cluster.launch(broker)
    for cluster in clusters:
        cluster.await_ready(timeout_s)
