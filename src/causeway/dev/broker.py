"""One Kafka node as a child process: broker and controller in one, or a broker with ZooKeeper."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from causeway.dev.artifacts import broker_classpath
from causeway.dev.process import Process, spawn
from causeway.dev.versions import KafkaVersion
from causeway.errors import CausewayError
from causeway.java import find_java

# Serial collection costs the least on the two cores that everything shares, and a heap this small
# is collected in a few milliseconds. The page cache is what makes a broker fast, not its heap.
_HEAP, _PERFORMANCE = "-Xms256m -Xmx512m", "-XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"
_SHORT_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_LOG4J = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c)%n%throwable
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
"""
_LOG4J_1 = """\
log4j.rootLogger = {level}, file
log4j.appender.file = org.apache.log4j.FileAppender
log4j.appender.file.File = {file}
log4j.appender.file.layout = org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern = %d %p %m (%c)%n
"""


LOOPBACK = "127.0.0.1"
_METADATA = 3  # the API key
_METADATA_VERSION = 1  # every Kafka since 0.10 speaks it


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """All on loopback. `client` speaks the cluster's security protocol; `internal` is always
    plain text, for the brokers among themselves and for the tools that look after them. A
    ZooKeeper, if there is one, has node 1's `controller`; the other nodes' are not used."""

    client: int
    internal: int
    controller: int


class ClientListener:
    """The CLIENT listener of a cluster: without logins, here. Tests have one with logins."""

    @property
    def protocol(self) -> str:
        """`security.protocol` of the clients."""
        return "PLAINTEXT"

    @property
    def host(self) -> str:
        """The host that brokers advertise."""
        return LOOPBACK

    def java_client(self, user: str = "") -> dict[str, str]:
        """The properties with which a Java client, or Causeway, logs in as `user`."""
        return {"security.protocol": self.protocol}

    def broker_properties(self, version: KafkaVersion) -> dict[str, str]:
        """Properties of each broker for this listener."""
        return {}

    def format_options(self, version: KafkaVersion) -> list[str]:
        """Options of Kafka's `storage format`, such as users."""
        return []

    def jvm_options(self) -> list[str]:
        """Options for the JVM of each broker."""
        return []


def brokers_known(port: int, timeout_s: float = 5.0) -> int:
    """The number of live brokers that the broker on loopback `port` knows; 0 if it does not answer
    within `timeout_s`. A broker answers once it has caught up with the controllers, and names only
    brokers that the controllers have let in: the sign that a cluster is ready."""
    client = b"causeway-dev"
    no_topics = 0
    request = struct.pack(">hhih", _METADATA, _METADATA_VERSION, 1, len(client)) + client
    request += struct.pack(">i", no_topics)
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answers:
                (size,) = struct.unpack(">i", answers.read(4))
                _, count = struct.unpack_from(">ii", answers.read(size))
    except (OSError, struct.error):
        return 0
    return int(count)


def kafka_jvm_options(heap: str, performance: str) -> list[str]:
    """Options for a JVM that runs Kafka. KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS, if they
    are set, replace the given ones, as in Kafka's own scripts."""
    return [
        *shlex.split(os.environ.get("KAFKA_HEAP_OPTS") or heap),
        *shlex.split(os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS") or performance),
    ]


def new_cluster_id() -> str:
    """A random id in Kafka's form. It never begins with "-": Kafka's tool would read an option."""
    return base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


class Broker:
    """`start` may be called again after `stop` or `kill`: same ports, same data. `find` takes
    up a broker that an earlier Python process started in `directory`.

    Files: `server.properties`, `data/`, `broker.log` (what Kafka logs), `console.log` (what the
    Java machine says), `pid`."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        ports: BrokerPorts,
        version: KafkaVersion,
        *,
        jvm_options: Sequence[str] = (),
    ) -> None:
        self.node_id = node_id
        self.directory = directory
        self.ports = ports
        self.version = version
        self.process: Process | None = None
        self.jvm_options = tuple(jvm_options)

    @property
    def log_file(self) -> Path:
        return self.directory / "broker.log"

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.alive() else None

    def find(self) -> None:
        self.process = Process.read(self.directory / "pid")

    @property
    def formatted(self) -> bool:
        """With ZooKeeper there is nothing to format."""
        return self.version.zookeeper or (self.directory / "data" / "meta.properties").exists()

    def configure(self, properties: Mapping[str, str], log_level: str = "WARN") -> None:
        """Write the node's files. `properties` are complete but for `log.dirs`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = {**properties, "log.dirs": str(self.directory / "data")}
        path = self.directory / "server.properties"
        path.touch(mode=0o600)  # it may hold passwords
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        write_log4j(self.directory, self.log_file, log_level, self.version)

    def begin_format(self, cluster_id: str, options: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start Kafka's storage tool on the node's data directory, emptied; give what it returns
        to `end_format`. Two calls, so that nodes are formatted side by side."""
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        return subprocess.Popen(
            [
                *self._java(_SHORT_JVM),
                *("kafka.tools.StorageTool", "format", "--cluster-id", cluster_id),
                *("--config", str(self.directory / "server.properties"), *options),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end_format(self, tool: subprocess.Popen[str]) -> None:
        output, _ = tool.communicate()
        if tool.returncode != 0:
            raise CausewayError("format the storage of", self._name, _last_line(output))

    def start(self, *, detached: bool = False, jvm_options: Sequence[str] = ()) -> None:
        """Start the process; `ready` says when it serves. `jvm_options` are for this start."""
        if self.pid is not None:
            return
        self.process = spawn(
            [
                *self._java((*kafka_jvm_options(_HEAP, _PERFORMANCE), *jvm_options)),
                "kafka.Kafka",
                self.directory / "server.properties",
            ],
            output=self.directory / "console.log",
            detached=detached,
        )
        self.process.write(self.directory / "pid")

    def ready(self, brokers: int) -> bool:
        """True once it answers and knows all `brokers` of its cluster. CausewayError if it died."""
        if self.process is None or not self.process.alive():
            code = self.process.exit_code if self.process is not None else None
            raise CausewayError("start", self._name, f"exit code {code}; {self.last_words()}")
        return brokers_known(self.ports.internal) >= brokers

    def stop(self, timeout_s: float = 30.0) -> None:
        """An orderly end: leaders move away first."""
        if self.process is not None:
            self.process.stop(timeout_s)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process is not None:
            self.process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        if self.process is not None:
            self.process.send(signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            self.process.send(signal.SIGCONT)

    def last_words(self) -> str:
        """The end of its log, or of its console, and where to read on."""
        for file in (self.log_file, self.directory / "console.log"):
            if file.exists() and (text := file.read_text(errors="replace").strip()):
                lines = text.splitlines()
                problems = [line for line in lines if " ERROR " in line or "Exception" in line]
                return f"{(problems or lines)[-1].strip()} (see {file})"
        return f"it wrote no log in {self.directory}"

    @property
    def _name(self) -> str:
        return f"broker {self.node_id} in {self.directory}"

    def _java(self, options: Sequence[str]) -> list[str]:
        return [
            str(find_java()),
            *options,
            *self.jvm_options,
            *log4j_options(self.directory, self.version),
            *("-cp", broker_classpath(self.version)),
        ]


def write_log4j(directory: Path, file: Path, level: str, version: KafkaVersion) -> None:
    """Have a process of Kafka's with `directory` for its files log to `file`."""
    form = _LOG4J_1 if version.log4j_1 else _LOG4J
    _log4j_file(directory, version).write_text(form.format(file=file, level=level))


def log4j_options(directory: Path, version: KafkaVersion) -> list[str]:
    """For Java, once that is written."""
    file = _log4j_file(directory, version)
    if version.log4j_1:
        return [f"-Dlog4j.configuration={file.absolute().as_uri()}"]
    return [f"-Dlog4j2.configurationFile={file}"]


def _log4j_file(directory: Path, version: KafkaVersion) -> Path:
    return directory / ("log4j.properties" if version.log4j_1 else "log4j2.properties")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
