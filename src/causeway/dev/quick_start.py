"""With a class data archive, which Java writes once, brokers start in half the CPU time.

    <cache>/causeway/kafka/<version>/broker-<build of Java>.jsa

A broker is started only to be stopped again: when it ends, Java writes the classes that it has
loaded, parsed and verified into the archive. Later brokers map that file. Java ignores an archive
that does not fit (other jars, another Java).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from rich.console import Console

from causeway.dev.artifacts import broker_classpath, kafka_directory, locked
from causeway.dev.broker import LOOPBACK, Broker, BrokerPorts, new_cluster_id
from causeway.dev.ports import Ports
from causeway.dev.properties import broker_properties
from causeway.dev.versions import KafkaVersion
from causeway.errors import CausewayError
from causeway.java import java_identity

_START_TIMEOUT_S = 120.0
_WRITE_TIMEOUT_S = 120.0


def quick_start_options(version: KafkaVersion) -> list[str]:
    """Returns options for Java. The first call makes the archive. Returns none if Java writes no
    archive, or if this version of Kafka needs a ZooKeeper, which would also have to be started."""
    broker_classpath(version)
    if version.zookeeper:
        return []
    folder = kafka_directory(version)
    archive = folder / f"broker-{java_identity()}.jsa"
    if not archive.exists():
        with locked(folder / ".lock"):
            if not archive.exists():
                _make(archive, version)
    # An empty file shows that an attempt was made, and that this Java writes no archive.
    return [f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []


def _make(archive: Path, version: KafkaVersion) -> None:
    Console(stderr=True).print("Starting Kafka once, to prepare for quick starts.")
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".trial-") as temporary:
        written = Path(temporary) / "archive"
        ports = Ports()
        own = BrokerPorts(client=ports.take(), internal=ports.take(), controller=ports.take())
        broker = Broker(1, Path(temporary), own, version)
        try:
            advertised = (LOOPBACK, own.client)
            broker.configure(broker_properties(version, 1, {1: own}, advertised))
            broker.end_format(broker.begin_format(new_cluster_id()))
            broker.start(jvm_options=[f"-XX:ArchiveClassesAtExit={written}"])
            deadline = time.monotonic() + _START_TIMEOUT_S
            while not broker.ready(1):
                if time.monotonic() > deadline:
                    raise CausewayError(
                        "start Kafka", "for the first time", "it is not ready in time"
                    )
                time.sleep(0.1)
            broker.stop(_WRITE_TIMEOUT_S)
        finally:
            broker.kill()
            ports.release()
        written.touch()
        written.rename(archive)
