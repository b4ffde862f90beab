"""A simulated Kafka cluster for deterministic tests: its brokers speak the real protocol.

    a connection's bytes ─► session ─► apis ─┬► producing, fetching, … ─► replica ─► log
                                             └► topic_requests ─► controller ─► each broker's image

No threads, no sockets, no clock, no chance but those of a World. Nothing depends on the order of a
set or on the identity of an object.
"""

from tests.simulation.cluster.cluster import KafkaCluster
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.groups import ConsumerGroup, GroupOffset
from tests.simulation.cluster.log import LogBatch, ReplicaLog, records_in
from tests.simulation.cluster.node import BrokerNode
from tests.simulation.cluster.replica import Replica
from tests.simulation.cluster.session import BrokerSession
from tests.simulation.cluster.settings import DAY_MS, BrokerSettings
from tests.simulation.cluster.topic_states import PartitionState, TopicState
from tests.simulation.cluster.writer import ClusterProducer, batch_of

__all__ = [
    "DAY_MS",
    "BrokerNode",
    "BrokerSession",
    "BrokerSettings",
    "ClusterProducer",
    "ConsumerGroup",
    "GroupOffset",
    "KafkaCluster",
    "LogBatch",
    "PartitionState",
    "Refused",
    "Replica",
    "ReplicaLog",
    "TopicState",
    "batch_of",
    "records_in",
]
