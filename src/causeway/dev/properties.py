"""A broker's `server.properties`."""

from __future__ import annotations

from collections.abc import Mapping

from causeway.dev.broker import BrokerPorts
from causeway.dev.security import Security

LOOPBACK = "127.0.0.1"


def broker_properties(
    node: int,
    nodes: Mapping[int, BrokerPorts],
    security: Security,
    advertised: tuple[str, int],
) -> dict[str, str]:
    """Of broker `node` of the cluster that `nodes` make up. `advertised` is the host and port that
    it tells its users."""
    ports = nodes[node]
    host, port = advertised
    internal = f"INTERNAL://{LOOPBACK}:{ports.internal}"
    return {
        **_defaults(len(nodes)),
        "node.id": str(node),
        "listeners": f"CLIENT://{LOOPBACK}:{ports.client},{internal},"
        f"CONTROLLER://{LOOPBACK}:{ports.controller}",
        "advertised.listeners": f"CLIENT://{host}:{port},{internal}",
        "listener.security.protocol.map": f"CLIENT:{security.protocol},"
        "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": ",".join(
            f"{other}@{LOOPBACK}:{its.controller}" for other, its in nodes.items()
        ),
        **security.broker_properties(),
    }


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
