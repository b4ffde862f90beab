"""One Kafka node as a child process: broker and controller together, or a broker with ZooKeeper."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
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

# Serial collection costs least if two cores run everything, and collects a heap this small in a few
# milliseconds. A broker is fast by the page cache, not by its heap.
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
_METADATA_VERSION = 1  # every Kafka since 0.10 supports it


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """Ports on loopback. `client` has the cluster's security protocol. `internal` is always plain
    text, for the brokers and for tools that check them. If there is a ZooKeeper, it has the
    `controller` port of node 1, and the `controller` ports of other nodes are not used."""

    client: int
    internal: int
    controller: int


def brokers_known(port: int, timeout_s: float = 5.0) -> int:
    """Returns the number of live brokers that the broker on loopback `port` knows; 0 if it does not
    answer within `timeout_s`. A broker answers once it has caught up with the controllers, and
    names only brokers that the controllers have accepted. So this shows that a cluster is ready."""
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
    """Returns a random id in Kafka's form. It never begins with "-", as an option does."""
    return base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


class KafkaProcess:
    """A process of Kafka's jars with `directory` for its files. After `stop` or `kill` it may be
    started again, with the same ports and data. `find` finds a process that an earlier Python
    process has started.

    Files: `data/`, `<name>.log` (Kafka's log), `console.log` (the output of the Java machine),
    `pid`."""

    def __init__(self, name: str, directory: Path, version: KafkaVersion) -> None:
        self.directory = directory
        self.version = version
        self.process: Process | None = None
        self.jvm_options: tuple[str, ...] = ()
        self.log_file = directory / f"{name}.log"

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.alive() else None

    def find(self) -> None:
        self.process = Process.read(self.directory / "pid")

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stops the process in good order: leaders move away first."""
        if self.process is not None:
            self.process.stop(timeout_s)

    def kill(self) -> None:
        """Kills the process, and waits until it has ended."""
        if self.process is not None:
            self.process.kill()

    @property
    def _log4j_file(self) -> Path:
        return self.directory / f"log4j{'' if self.version.log4j_1 else '2'}.properties"

    def _configure(self, file: str, text: str, log_level: str) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        form = _LOG4J_1 if self.version.log4j_1 else _LOG4J
        self._log4j_file.write_text(form.format(file=self.log_file, level=log_level))
        path = self.directory / file
        path.touch(mode=0o600)  # it may hold passwords
        path.write_text(text)
        return path

    def _spawn(self, options: Sequence[str], main: str, file: str, *, detached: bool) -> None:
        self.process = spawn(
            [*self._java(options), main, self.directory / file],
            output=self.directory / "console.log",
            detached=detached,
        )
        self.process.write(self.directory / "pid")

    def _java(self, options: Sequence[str]) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={self._log4j_file}"
        if self.version.log4j_1:
            log4j = f"-Dlog4j.configuration={self._log4j_file.absolute().as_uri()}"
        classpath = ("-cp", broker_classpath(self.version))
        return [str(find_java()), *options, *self.jvm_options, log4j, *classpath]


class Broker(KafkaProcess):
    """A broker, with a controller in the same process unless its cluster has a ZooKeeper."""

    def __init__(
        self, node_id: int, directory: Path, ports: BrokerPorts, version: KafkaVersion
    ) -> None:
        super().__init__("broker", directory, version)
        self.node_id = node_id
        self.ports = ports

    @property
    def formatted(self) -> bool:
        """Whether the storage is formatted. With ZooKeeper there is nothing to format."""
        return self.version.zookeeper or (self.directory / "data" / "meta.properties").exists()

    def configure(self, properties: Mapping[str, str], log_level: str = "WARN") -> None:
        """Writes the node's files. `properties`: all properties except `log.dirs`."""
        lines = {**properties, "log.dirs": str(self.directory / "data")}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        self._configure("server.properties", text, log_level)

    def begin_format(self, cluster_id: str, options: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Empties the node's data directory, and starts Kafka's storage tool on it. Returns a value
        for `end_format`. There are two calls so that nodes are formatted in parallel."""
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
            last = (output.strip().splitlines() or ["it printed nothing"])[-1]
            raise CausewayError("format the storage of", self._name, last)

    def start(self, *, detached: bool = False, jvm_options: Sequence[str] = ()) -> None:
        """Starts the process; `ready` shows when it serves. `jvm_options`: for this start."""
        if self.pid is None:
            options = (*kafka_jvm_options(_HEAP, _PERFORMANCE), *jvm_options)
            self._spawn(options, "kafka.Kafka", "server.properties", detached=detached)

    def ready(self, brokers: int) -> bool:
        """Returns whether it answers and knows all `brokers` of its cluster. Raises CausewayError
        if it has ended."""
        if self.process is None or not self.process.alive():
            code = self.process.exit_code if self.process is not None else None
            raise CausewayError("start", self._name, f"exit code {code}; {self.last_words()}")
        return brokers_known(self.ports.internal) >= brokers

    def last_words(self) -> str:
        """Returns the end of its log or of its console output, and the file."""
        for file in (self.log_file, self.directory / "console.log"):
            if file.exists() and (text := file.read_text(errors="replace").strip()):
                lines = text.splitlines()
                problems = [line for line in lines if " ERROR " in line or "Exception" in line]
                return f"{(problems or lines)[-1].strip()} (see {file})"
        return f"it wrote no log in {self.directory}"

    @property
    def _name(self) -> str:
        return f"broker {self.node_id} in {self.directory}"


_ZOOKEEPER = """\
dataDir = {directory}/data
clientPort = {port}
clientPortAddress = 127.0.0.1
tickTime = 500
maxClientCnxns = 0
admin.enableServer = false
4lw.commands.whitelist = dump
"""


class ZooKeeper(KafkaProcess):
    """A ZooKeeper of one node, for the versions of Kafka that need one."""

    def __init__(self, directory: Path, port: int, version: KafkaVersion) -> None:
        super().__init__("zookeeper", directory, version)
        self._port = port

    def start(self, *, detached: bool = False) -> None:
        """Starts the process, unless it runs; `ready` shows when it serves."""
        if self.pid is None:
            text = _ZOOKEEPER.format(directory=self.directory, port=self._port)
            self._configure("zookeeper.properties", text, "WARN")
            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
            self._spawn(_SHORT_JVM, main, "zookeeper.properties", detached=detached)

    def ready(self) -> bool:
        return bool(self._registered())

    def remembers(self, node: int) -> bool:
        """Returns whether broker `node`, which may have been killed, is still registered. Until its
        session ends, another broker with the same number is refused."""
        return f"/brokers/ids/{node}\n" in self._registered()

    def _registered(self) -> str:
        """Returns its answer to `dump`, or "" if it does not answer."""
        try:
            with socket.create_connection((LOOPBACK, self._port), timeout=5) as connection:
                connection.sendall(b"dump")
                with connection.makefile("r") as answer:
                    return answer.read()
        except OSError:
            return ""
