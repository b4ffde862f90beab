"""A ZooKeeper of one node as a child process, for the versions of Kafka that need one."""

from __future__ import annotations

import socket
from pathlib import Path

from causeway.dev.artifacts import broker_classpath
from causeway.dev.broker import log4j_options, write_log4j
from causeway.dev.process import Process, spawn
from causeway.dev.versions import KafkaVersion
from causeway.java import find_java

_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_FILE = """\
dataDir = {directory}/data
clientPort = {port}
clientPortAddress = 127.0.0.1
tickTime = 500
maxClientCnxns = 0
admin.enableServer = false
4lw.commands.whitelist = dump
"""


class ZooKeeper:
    """The one of Kafka's own jars. `start` may be called again after `stop` or `kill`: same port,
    same data. `find` takes up one that an earlier Python process started in `directory`.

    Files: `zookeeper.properties`, `data/`, `zookeeper.log`, `console.log`, `pid`."""

    def __init__(self, directory: Path, port: int, version: KafkaVersion) -> None:
        self._directory = directory
        self._port = port
        self._version = version
        self._process: Process | None = None

    def find(self) -> None:
        self._process = Process.read(self._directory / "pid")

    def start(self, *, detached: bool = False) -> None:
        """Start the process, unless it runs; `ready` tells when it serves."""
        if self._process is not None and self._process.alive():
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        file = self._directory / "zookeeper.properties"
        file.write_text(_FILE.format(directory=self._directory, port=self._port))
        write_log4j(self._directory, self._directory / "zookeeper.log", "WARN", self._version)
        self._process = spawn(
            [
                find_java(),
                *_JVM,
                *log4j_options(self._directory, self._version),
                *("-cp", broker_classpath(self._version)),
                "org.apache.zookeeper.server.ZooKeeperServerMain",
                file,
            ],
            output=self._directory / "console.log",
            detached=detached,
        )
        self._process.write(self._directory / "pid")

    def ready(self) -> bool:
        return bool(self._ask("dump"))

    def remembers(self, node: int) -> bool:
        """Whether broker `node`, which may have been killed, is still registered: until its session
        is over, a successor of the same number is turned away."""
        return f"/brokers/ids/{node}\n" in self._ask("dump")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(30)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _ask(self, word: str) -> str:
        """Its answer to one of the words that it knows, or "" where it gives none."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
                connection.sendall(word.encode())
                with connection.makefile("r") as answer:
                    return answer.read()
        except OSError:
            return ""
