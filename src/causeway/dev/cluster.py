"""A Kafka cluster of one or three nodes on this machine.

    with LocalCluster("A") as cluster:
        produce_to(cluster.bootstrap)

Each node has three listeners: CLIENT speaks what the cluster's users speak, INTERNAL (plain text)
joins the brokers, CONTROLLER the controllers; a Kafka that is older than those has a ZooKeeper. A
test may thus break, proxy or encrypt CLIENT and the cluster itself stays sound.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from causeway.dev.broker import LOOPBACK, Broker, BrokerPorts, ClientListener, new_cluster_id
from causeway.dev.ports import Ports
from causeway.dev.properties import broker_properties
from causeway.dev.quick_start import quick_start_options
from causeway.dev.versions import KafkaVersion, kafka_version
from causeway.dev.zookeeper import ZooKeeper
from causeway.errors import CausewayError

START_TIMEOUT_S = 240.0
_POLL_S = 0.05

Advertised = Callable[[int, int], tuple[str, int]]
"""From a node id and its client port to the host and port that it tells clients to use."""


class LocalCluster:
    """`properties` are added to (and win over) every broker's; `advertised` lets a broker name a
    proxy's address instead of its own; `version`: kafka_version()'s unless given. Without
    `directory` the data lies in a temporary one, which `destroy` (and the end of a `with` block)
    removes.

    The brokers die with this Python process, however it ends, unless they are `detached`: true for
    a new cluster, or the ports of one that runs in `directory` already."""

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        version: KafkaVersion | None = None,
        directory: Path | None = None,
        security: ClientListener | None = None,
        properties: Mapping[str, str] | None = None,
        advertised: Advertised | None = None,
        detached: bool | Mapping[int, BrokerPorts] = False,
    ) -> None:
        self.name = name
        self.version = version or kafka_version()
        self.security = security or ClientListener()
        self.jvm_options = tuple(self.security.jvm_options())
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"causeway-{name}-"))
        self._properties = dict(properties or {})
        self._ports = Ports()
        ports = detached if isinstance(detached, Mapping) else None
        take = self._ports.take
        self.brokers = {
            node: Broker(
                node,
                self.directory / f"broker-{node}",
                ports[node]
                if ports
                else BrokerPorts(client=take(), internal=take(), controller=take()),
                self.version,
            )
            for node in range(1, brokers + 1)
        }
        self._advertised = {
            node: advertised(node, broker.ports.client)
            if advertised
            else (self.security.host, broker.ports.client)
            for node, broker in self.brokers.items()
        }
        self._zookeeper: ZooKeeper | None = None
        if self.version.zookeeper:
            port = self.brokers[1].ports.controller
            self._zookeeper = ZooKeeper(self.directory / "zookeeper", port, self.version)
        if ports:
            for broker in self.brokers.values():
                broker.find()
            if self._zookeeper is not None:
                self._zookeeper.find()
        self._detached = bool(detached)

    @property
    def bootstrap(self) -> str:
        """Where users of the cluster connect: `host:port,…` of every broker, running or not."""
        return ",".join(f"{host}:{port}" for host, port in self._advertised.values())

    @property
    def internal_bootstrap(self) -> str:
        """The same cluster in plain text and past any proxy, for tools that look after it."""
        return ",".join(f"{LOOPBACK}:{broker.ports.internal}" for broker in self.brokers.values())

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        start_all([self], timeout_s)

    def stop(self) -> None:
        """End every broker in good order; the data stays."""
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.resume()
        for broker in self.brokers.values():
            broker.stop()
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def destroy(self) -> None:
        """Kill what runs, and remove a temporary directory."""
        for broker in self.brokers.values():
            broker.kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
        self._ports.release()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, node: int = 1) -> None:
        """SIGKILL one broker: no flush, no handing over."""
        self.brokers[node].kill()

    def pause(self, node: int = 1) -> None:
        """Hold one broker with SIGSTOP until `resume`."""
        self.brokers[node].pause()

    def resume(self, node: int = 1) -> None:
        self.brokers[node].resume()

    def restart(self, node: int = 1, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start one broker again on its ports and data; it is stopped first if it runs. Returns
        once it serves."""
        broker = self.brokers[node]
        broker.stop()
        self._launch(broker, timeout_s)
        self._await(lambda: broker.ready(self._running()), timeout_s)

    def await_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns once every broker answers and knows all the others."""
        self._await(
            lambda: all(broker.ready(len(self.brokers)) for broker in self.brokers.values()),
            timeout_s,
        )

    def prepare(self) -> None:
        """Write the brokers' files, and format their storage if that is still to be done."""
        jvm_options = (*quick_start_options(self.version), *self.jvm_options)
        for broker in self.brokers.values():
            broker.jvm_options = jvm_options
            broker.configure(self.broker_properties(broker))
        # All or none: a format that was cut short leaves nodes that do not know each other.
        if all(broker.formatted for broker in self.brokers.values()):
            return
        cluster_id = new_cluster_id()
        options = self.security.format_options(self.version)
        tools = [
            (broker, broker.begin_format(cluster_id, options)) for broker in self.brokers.values()
        ]
        for broker, tool in tools:
            broker.end_format(tool)

    def broker_properties(self, broker: Broker) -> dict[str, str]:
        """Its `server.properties` but for `log.dirs`; a subclass may add listeners of its own."""
        nodes = {node: other.ports for node, other in self.brokers.items()}
        advertised = self._advertised[broker.node_id]
        return {
            **broker_properties(self.version, broker.node_id, nodes, self.security, advertised),
            **self._properties,
        }

    def launch(self) -> None:
        """Start the brokers that do not run, and return at once (where there is a ZooKeeper, once
        that serves); see `await_ready`."""
        for broker in self.brokers.values():
            self._launch(broker, START_TIMEOUT_S)

    def _launch(self, broker: Broker, timeout_s: float) -> None:
        if broker.pid is None and (zookeeper := self._zookeeper) is not None:
            zookeeper.start(detached=self._detached)
            node = broker.node_id
            self._await(lambda: zookeeper.ready() and not zookeeper.remembers(node), timeout_s)
        broker.start(detached=self._detached)

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.destroy()

    def _running(self) -> int:
        return sum(broker.pid is not None for broker in self.brokers.values())

    def _await(self, ready: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if time.monotonic() > deadline:
                words = "; ".join(broker.last_words() for broker in self.brokers.values())
                cause = f"not ready within {timeout_s:g} s: {words}"
                raise CausewayError("start", f"cluster {self.name}", cause)
            time.sleep(_POLL_S)


def start_all(clusters: Sequence[LocalCluster], timeout_s: float = START_TIMEOUT_S) -> None:
    """Start several clusters side by side; returns once all serve."""
    for cluster in clusters:
        cluster.prepare()
    for cluster in clusters:
        cluster.launch()
    for cluster in clusters:
        cluster.await_ready(timeout_s)
