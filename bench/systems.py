"""The two systems, each run as its users run it, from the same property file."""

from __future__ import annotations

import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench import smt
from bench.stage import Run, Stage
from causeway.dev import Process, spawn
from causeway.errors import CausewayError
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.mirror_maker import MirrorMaker2, write_properties

CAUSEWAY = "causeway"
MM2 = "mm2"
MM2_TUNED = "mm2-tuned"
MM2_EXACTLY_ONCE = "mm2-exactly-once"
# Variants of single workloads, which say what they are.
CAUSEWAY_SQL = "causeway-sql"
CAUSEWAY_QUIET = "causeway-quiet"
CAUSEWAY_KEEPS = "causeway-keeps"
MM2_SMT = "mm2-smt"
TWO_PRODUCERS = "two-producers"
CAUSEWAY_BEFORE = "causeway-before"
BARE = "bare"
PLAIN_COPY = "plain-copy"
# Where a checkout of the commit to compare with lies, installed.
BEFORE = os.environ.get("CAUSEWAY_BEFORE", "")
TITLES = {
    CAUSEWAY: "Causeway",
    MM2: "MirrorMaker 2",
    MM2_TUNED: "MirrorMaker 2, tuned",
    MM2_EXACTLY_ONCE: "MirrorMaker 2, exactly once",
}
VARIANTS = {
    CAUSEWAY_SQL: "Causeway, SQL with a schema",
    CAUSEWAY_QUIET: "Causeway, with a quiet transform",
    CAUSEWAY_KEEPS: "Causeway, same offsets",
    MM2_SMT: "MirrorMaker 2 with Kafka's transformations",
    TWO_PRODUCERS: "two producers side by side",
    CAUSEWAY_BEFORE: "Causeway before",
    BARE: "a relay that only relays",
    PLAIN_COPY: "a plain TCP copy",
}

# What Kafka's scripts give the Java machine when nothing else is said, and connect-mirror-maker.sh.
KAFKA_PERFORMANCE = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
_JVM = ("-Xms256M", "-Xmx2G", *KAFKA_PERFORMANCE)


class System(ABC):
    """A mirror of one run's topic. `start` returns at once; `check` raises if it has died."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def check(self) -> None: ...

    @abstractmethod
    def roots(self) -> Iterable[int]:
        """The processes whose trees are its own."""

    @abstractmethod
    def stop(self) -> None: ...

    def __enter__(self) -> System:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def system(
    name: str,
    stage: Stage,
    run: Run,
    extra: Mapping[str, str] | None = None,
    *,
    flow: Mapping[str, str] | None = None,
) -> System:
    """`extra`: the producer settings that fit the work, for the tuned MirrorMaker 2 alone; `flow`:
    keys for all."""
    file = properties(stage, run, (extra or {}) if name == MM2_TUNED else {}) | dict(flow or {})
    directory = stage.directory / f"{name}-{run.alias}"
    if name == CAUSEWAY_KEEPS:
        file |= {"causeway.offsets": "preserve"}
    if name in (CAUSEWAY, CAUSEWAY_SQL, CAUSEWAY_QUIET, CAUSEWAY_KEEPS):
        return _Causeway(file, directory, Path(sys.executable).with_name("causeway"))
    if name == CAUSEWAY_BEFORE:
        return _Causeway(file, directory, Path(BEFORE) / ".venv/bin/causeway")
    if name == MM2_EXACTLY_ONCE:
        file = {
            **file,
            "exactly.once.source.support": "enabled",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": "http://127.0.0.1:0",
        }
    return _MirrorMaker(file, directory, [smt.jar(stage.directory)] if name == MM2_SMT else [])


def properties(stage: Stage, run: Run, producer: Mapping[str, str]) -> dict[str, str]:
    """The file of both systems. One broker a cluster, so one copy of everything."""
    flow = f"{run.alias}->target"
    return {
        "clusters": f"{run.alias}, target",
        **_cluster(run.alias, stage.source, stage.user),
        **_cluster("target", stage.target, stage.user),
        f"{flow}.enabled": "true",
        f"{flow}.topics": re.escape(run.topic),
        "tasks.max": "4",
        f"{run.alias}.consumer.isolation.level": "read_committed",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "sync.topic.acls.enabled": "false",  # the brokers have no authorizer
        **{f"target.producer.{key}": value for key, value in producer.items()},
    }


def _cluster(alias: str, cluster: LocalCluster, user: str) -> dict[str, str]:
    security = cluster.security.java_client(user) if user else {}
    keys = {"bootstrap.servers": cluster.bootstrap, **security}
    return {f"{alias}.{key}": value for key, value in keys.items()}


class _MirrorMaker(System):
    def __init__(self, file: Mapping[str, str], directory: Path, classpath: Sequence[Path]) -> None:
        self._process = MirrorMaker2(file, directory, jvm_options=_JVM, classpath=classpath)

    def start(self) -> None:
        self._process.start()

    def check(self) -> None:
        self._process.check()

    def roots(self) -> list[int]:
        pid = self._process.pid
        return [] if pid is None else [pid]

    def stop(self) -> None:
        self._process.stop()


class _Causeway(System):
    def __init__(self, file: Mapping[str, str], directory: Path, program: Path) -> None:
        self._directory = directory
        self._file = file
        self._program = program
        self._process: Process | None = None

    @property
    def _log(self) -> Path:
        return self._directory / "causeway.log"

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / "mm2.properties"
        write_properties(path, self._file)
        self._process = spawn([self._program, "run", path], output=self._log)

    def check(self) -> None:
        if self._process is not None and not self._process.alive():
            words = self._log.read_text(errors="replace").strip().splitlines()
            raise CausewayError("run causeway", str(self._directory), (words or ["no output"])[-1])

    def roots(self) -> list[int]:
        return [] if self._process is None else [self._process.pid]

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
