"""Jars of Kafka that tests and benchmarks need besides a broker's."""

from __future__ import annotations

from causeway.dev import JarSet, classpath

_CONNECT = JarSet(
    folder="connect-lib",
    title="MirrorMaker 2",
    roots=("connect-mirror", "connect-runtime", "kafka-tools"),
)
_TIERED = JarSet(
    folder="tiered-lib",
    title="Kafka's local tiered storage",
    roots=("kafka-storage",),
    classifier="test",
)


def connect_classpath() -> str:
    """Of MirrorMaker 2; it holds no broker."""
    return classpath(_CONNECT)


def tiered_storage_classpath() -> str:
    """Of `org.apache.kafka.server.log.remote.storage.LocalTieredStorage`, the remote tier in a
    folder that Kafka's own tests use."""
    return classpath(_TIERED)
