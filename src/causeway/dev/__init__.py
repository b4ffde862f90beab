"""Local Kafka: real KRaft brokers as child processes, and MirrorMaker 2's jars.

`causeway.dev.load` writes sample records. It is a door of its own, as it imports two clients."""

from causeway.dev.artifacts import (
    broker_classpath,
    cache_directory,
    connect_classpath,
    locked,
    tiered_storage_classpath,
)
from causeway.dev.broker import LOOPBACK, Broker, BrokerPorts, ClientListener, kafka_jvm_options
from causeway.dev.cluster import LocalCluster, start_all
from causeway.dev.environment import BrokerStatus, ClusterStatus, Environment, state_directory
from causeway.dev.ports import Ports
from causeway.dev.process import Process, spawn
from causeway.dev.versions import DEFAULT_VERSION, OLDEST, TESTED, KafkaVersion, kafka_version
