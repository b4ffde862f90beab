"""Spark's own cluster manager on this machine: a master and its workers, a process each."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyspark

from causeway.dev import Ports, Process, spawn
from tests.harness.running import python_workers
from tests.harness.waiting import await_until

_CLASSES = "org.apache.spark.deploy"
_START_TIMEOUT_S = 240.0


@dataclass
class SparkCluster:
    """`directory` holds what the workers and their executors write."""

    master: str
    pages: list[str]  # of the master and of each worker
    directory: Path
    workers: list[Process] = field(default_factory=list)

    def below(self, worker: int) -> list[psutil.Process]:
        """Executors of a worker, and their Python processes."""
        try:
            return psutil.Process(self.workers[worker].pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def python_workers(self, worker: int) -> list[psutil.Process]:
        """Those that run tasks: the daemon's children."""
        return python_workers(self.below(worker))

    def kill(self, worker: int) -> None:
        """SIGKILL to a worker and all that runs below it, as when its machine is gone."""
        for process in self.below(worker):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        self.workers[worker].kill()


@contextmanager
def spark_cluster(directory: Path, *, workers: int = 2, cores: int = 1) -> Iterator[SparkCluster]:
    """Starts it, and kills all of it in the end."""
    ports = Ports()
    port, page = ports.take(), ports.take()
    cluster = SparkCluster(f"spark://127.0.0.1:{port}", [f"http://127.0.0.1:{page}"], directory)
    place = ("--host", "127.0.0.1", "--webui-port")
    master = _start(directory, "master.Master", *place, str(page), "--port", str(port))
    try:
        for _ in range(workers):
            page = ports.take()
            cluster.pages.append(f"http://127.0.0.1:{page}")
            options = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(directory))
            cluster.workers.append(
                _start(directory, "worker.Worker", *place, str(page), *options, cluster.master)
            )
        await_until(
            lambda: _alive_workers(cluster.pages[0]) == workers,
            _START_TIMEOUT_S,
            "all workers have registered",
            poll_s=0.5,
        )
        yield cluster
    finally:
        for number in range(len(cluster.workers)):
            cluster.kill(number)
        master.kill()
        ports.release()


def _start(directory: Path, name: str, *options: str) -> Process:
    home = Path(pyspark.__path__[0])
    command: Sequence[str | Path] = [home / "bin" / "spark-class", f"{_CLASSES}.{name}", *options]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        # Executors must find Causeway by their own interpreter, not by a path of this test's.
        "PYTHONPATH": "",
    }
    return spawn(command, output=directory / f"{name}.log", environment=environment)


def _alive_workers(page: str) -> int:
    try:
        with urllib.request.urlopen(f"{page}/json/", timeout=10) as answer:
            status: dict[str, Any] = json.load(answer)
    except OSError:
        return 0
    return int(status["aliveworkers"])
