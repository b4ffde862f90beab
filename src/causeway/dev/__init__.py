"""Local Kafka: real KRaft brokers as child processes.

`causeway.dev.load` writes sample records. It is a separate door, because it imports a client."""

from causeway.dev.artifacts import JarSet, broker_classpath, cache_directory, classpath, locked
from causeway.dev.broker import LOOPBACK, Broker, BrokerPorts, kafka_jvm_options
from causeway.dev.cluster import START_TIMEOUT_S, LocalCluster, start_all
from causeway.dev.environment import BrokerStatus, ClusterStatus, Environment, state_directory
from causeway.dev.ports import Ports
from causeway.dev.process import Process, spawn
from causeway.dev.versions import DEFAULT_VERSION, OLDEST, TESTED, KafkaVersion, kafka_version
