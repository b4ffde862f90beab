"""A broker's `server.properties`."""

from __future__ import annotations

from collections.abc import Mapping

from causeway.dev.broker import LOOPBACK, BrokerPorts
from causeway.dev.versions import KafkaVersion


def broker_properties(
    version: KafkaVersion,
    node: int,
    nodes: Mapping[int, BrokerPorts],
    advertised: tuple[str, int],
) -> dict[str, str]:
    """Returns the properties of broker `node` in the cluster of `nodes`. `advertised`: host and
    port for its users."""
    ports = nodes[node]
    host, port = advertised
    internal = f"INTERNAL://{LOOPBACK}:{ports.internal}"
    listeners = f"CLIENT://{LOOPBACK}:{ports.client},{internal}"
    protocols = "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT"
    if version.zookeeper:
        role = _with_zookeeper(node, nodes)
    else:
        listeners += f",CONTROLLER://{LOOPBACK}:{ports.controller}"
        protocols += ",CONTROLLER:PLAINTEXT"
        role = _with_controllers(node, nodes)
    return {
        **_defaults(len(nodes)),
        **(_share_groups(len(nodes)) if version.share_groups else {}),
        **role,
        "listeners": listeners,
        "advertised.listeners": f"CLIENT://{host}:{port},{internal}",
        "listener.security.protocol.map": protocols,
    }


def _with_controllers(node: int, nodes: Mapping[int, BrokerPorts]) -> dict[str, str]:
    return {
        "node.id": str(node),
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(
            f"{other}@{LOOPBACK}:{its.controller}" for other, its in nodes.items()
        ),
        # The controllers soon notice that a broker was killed, and that it is back.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # Without changes, the controllers' records are half of the cost of an idle cluster.
        "metadata.max.idle.interval.ms": "5000",
    }


def _with_zookeeper(node: int, nodes: Mapping[int, BrokerPorts]) -> dict[str, str]:
    return {
        "broker.id": str(node),
        "zookeeper.connect": f"{LOOPBACK}:{nodes[min(nodes)].controller}",
        "zookeeper.session.timeout.ms": "3000",
    }


def _defaults(brokers: int) -> dict[str, str]:
    """Returns values that differ from Kafka's defaults, with the reasons."""
    copies, in_sync = _copies(brokers)
    return {
        "inter.broker.listener.name": "INTERNAL",
        # As many replicas as there are brokers.
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        # Few partitions of the brokers' own topics, so that these are created quickly.
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        # A lone consumer gets its partitions at once.
        "group.initial.rebalance.delay.ms": "0",
        # A mistaken name must show as an error, not as a new topic.
        "auto.create.topics.enable": "false",
        # By default, the log cleaner would use a quarter of the small heap.
        "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
        "num.io.threads": "4",
        "num.network.threads": "2",
    }


def _share_groups(brokers: int) -> dict[str, str]:
    copies, in_sync = _copies(brokers)
    return {
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
    }


def _copies(brokers: int) -> tuple[str, str]:
    """Returns the replicas of each partition, and how many of them must have a record before it is
    acknowledged."""
    return str(min(3, brokers)), "1" if brokers < 3 else "2"
