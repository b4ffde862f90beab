"""Jars that tests and benchmarks need besides a broker's: Kafka's, and those of login libraries."""

from __future__ import annotations

from pathlib import Path

from causeway.dev import JarSet, broker_classpath, classpath

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
_MSK = JarSet(
    folder="aws-msk-iam-auth",
    title="Amazon's library for MSK",
    roots=("aws-msk-iam-auth",),
    organisation="software.amazon.msk",
    release="2.3.6",
    pins=Path(__file__).parents[1] / "msk" / "jars.sha512",
)


def connect_classpath() -> str:
    """Of MirrorMaker 2; it holds no broker."""
    return classpath(_CONNECT)


def tiered_storage_classpath() -> str:
    """Of `org.apache.kafka.server.log.remote.storage.LocalTieredStorage`, the remote tier in a
    folder that Kafka's own tests use."""
    return classpath(_TIERED)


def msk_classpath() -> str:
    """Of Amazon's login library for MSK, and of the Kafka client that it needs."""
    return f"{classpath(_MSK)}:{broker_classpath()}"
