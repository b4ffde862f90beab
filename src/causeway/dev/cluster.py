"""A Kafka cluster of one or three nodes on this machine.

    with LocalCluster("A") as cluster:
        produce_to(cluster.bootstrap)

Each node has three listeners: CLIENT speaks what the cluster's users speak, INTERNAL (plain text)
joins the brokers, CONTROLLER the controllers. A test may thus break, proxy or encrypt CLIENT and
the cluster itself stays sound.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from causeway.dev.broker import Broker, BrokerPorts
from causeway.dev.ports import Ports
from causeway.dev.security import PLAINTEXT, Security
from causeway.errors import CausewayError

START_TIMEOUT_S = 90.0
_POLL_S = 0.05

Advertised = Callable[[int, int], tuple[str, int]]
"""From a node id and its client port to the host and port that it tells clients to use."""


class LocalCluster:
    """`properties` are added to (and win over) every broker's; `advertised` lets a broker name a
    proxy's address instead of its own. Without `directory` the data lies in a temporary one, which
    `destroy` (and the end of a `with` block) removes.

    The brokers die with this Python process, however it ends, unless they are `detached`. With
    the `ports` and the directory that a detached cluster had, this is that cluster."""

    host = "127.0.0.1"

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        directory: Path | None = None,
        security: Security = PLAINTEXT,
        properties: Mapping[str, str] | None = None,
        advertised: Advertised | None = None,
        ports: Mapping[int, BrokerPorts] | None = None,
        detached: bool = False,
        log_level: str = "WARN",
    ) -> None:
        self.name = name
        self.security = security
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"causeway-{name}-"))
        self._properties = dict(properties or {})
        self._ports = Ports()
        take = self._ports.take
        self.brokers = {
            node: Broker(
                node,
                self.directory / f"broker-{node}",
                ports[node]
                if ports
                else BrokerPorts(client=take(), internal=take(), controller=take()),
                jvm_options=security.jvm_options(),
            )
            for node in range(1, brokers + 1)
        }
        self._advertised = {
            node: advertised(node, broker.ports.client)
            if advertised
            else (security.host, broker.ports.client)
            for node, broker in self.brokers.items()
        }
        if ports:
            for broker in self.brokers.values():
                broker.find()
        self._detached = detached
        self._log_level = log_level

    @property
    def bootstrap(self) -> str:
        """Where users of the cluster connect: `host:port,…` of every broker, running or not."""
        return ",".join(f"{host}:{port}" for host, port in self._advertised.values())

    @property
    def internal_bootstrap(self) -> str:
        """The same cluster in plain text and past any proxy, for tools that look after it."""
        return ",".join(f"{self.host}:{broker.ports.internal}" for broker in self.brokers.values())

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        start_all([self], timeout_s)

    def stop(self) -> None:
        """End every broker in good order; the data stays."""
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.resume()
        for broker in self.brokers.values():
            broker.stop()

    def destroy(self) -> None:
        """Kill what runs, and remove a temporary directory."""
        for broker in self.brokers.values():
            broker.kill()
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
        broker.start(detached=self._detached)
        self._await(lambda: broker.ready(self._running()), timeout_s)

    def await_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns once every broker answers and knows all the others."""
        self._await(
            lambda: all(broker.ready(len(self.brokers)) for broker in self.brokers.values()),
            timeout_s,
        )

    def prepare(self) -> None:
        """Write the brokers' files, and format their storage if that is still to be done."""
        for broker in self.brokers.values():
            broker.configure(self._broker_properties(broker), self._log_level)
        # All or none: a format that was cut short leaves nodes that do not know each other.
        if all(broker.formatted for broker in self.brokers.values()):
            return
        # A random UUID's text may begin with "-", which the tool would take for an option.
        cluster_id = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        options = self.security.format_options()
        tools = [
            (broker, broker.begin_format(cluster_id, options)) for broker in self.brokers.values()
        ]
        for broker, tool in tools:
            broker.end_format(tool)

    def launch(self) -> None:
        """Start the brokers that do not run, and return at once; see `await_ready`."""
        for broker in self.brokers.values():
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

    def _broker_properties(self, broker: Broker) -> dict[str, str]:
        ports = broker.ports
        host, port = self._advertised[broker.node_id]
        return {
            **_defaults(len(self.brokers)),
            "node.id": str(broker.node_id),
            "listeners": f"CLIENT://{self.host}:{ports.client},"
            f"INTERNAL://{self.host}:{ports.internal},"
            f"CONTROLLER://{self.host}:{ports.controller}",
            "advertised.listeners": f"CLIENT://{host}:{port},"
            f"INTERNAL://{self.host}:{ports.internal}",
            "listener.security.protocol.map": f"CLIENT:{self.security.protocol},"
            "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": ",".join(
                f"{node}@{self.host}:{other.ports.controller}"
                for node, other in self.brokers.items()
            ),
            **self.security.broker_properties(),
            **self._properties,
        }


def start_all(clusters: Sequence[LocalCluster], timeout_s: float = START_TIMEOUT_S) -> None:
    """Start several clusters side by side; returns once all serve."""
    for cluster in clusters:
        cluster.prepare()
    for cluster in clusters:
        cluster.launch()
    for cluster in clusters:
        cluster.await_ready(timeout_s)


def _defaults(brokers: int) -> dict[str, str]:
    """What differs from Kafka's own defaults, and why."""
    copies = str(min(3, brokers))
    in_sync = "1" if brokers < 3 else "2"
    return {
        "process.roles": "broker,controller",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        # As many copies as there are brokers to hold them.
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # Few partitions of the topics that the brokers make for themselves: quick to create.
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.num.partitions": "1",
        # A lone consumer gets its partitions at once.
        "group.initial.rebalance.delay.ms": "0",
        # A mistaken name must show as an error, not as a new topic.
        "auto.create.topics.enable": "false",
        # A broker that was killed is missed, and taken back, soon.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # A quarter of the small heap would go to the log cleaner.
        "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
        "num.io.threads": "4",
        "num.network.threads": "2",
    }
