"""Fixtures for every test. A cluster starts only when a test asks for one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from causeway.dev import Ports
from tests.harness.examples import examples
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools
from tests.harness.reloads import ChangingFile
from tests.harness.schema_registry import RegistryServer

# Brokers live for seconds here: what Java's second compiler would make faster is over by then.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1"
os.environ.setdefault("KAFKA_JVM_PERFORMANCE_OPTS", f"-XX:+UseSerialGC {_SHORT_LIVED}")
# So does Spark: the JVM that runs transforms, and the one that only writes its command line.
os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", f"-XX:+UseSerialGC {_SHORT_LIVED}")

# Under nohup, SIGHUP is ignored. Processes would inherit that, and no run would reload its file.
# They do not inherit a handler.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# No test fails because a machine is slow.
settings.register_profile("causeway", deadline=None, max_examples=examples(100))
settings.load_profile("causeway")

# Nobody misses brokers that nobody kills: these are Kafka's own times.
_UNHURRIED = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}
_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes seconds comes first: no worker is left with it while the others have no more."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is None)


@pytest.fixture(autouse=True)
def _modules_are_found() -> Iterator[None]:
    """A driver that runs in this process sets PYTHONSAFEPATH for Spark's workers. The next test may
    start `python -m bench…`, which is found in the working directory."""
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(autouse=True)
def _no_kept_credentials() -> Iterator[None]:
    """A process keeps AWS credentials that expire. The next test has others."""
    yield
    if (kept := sys.modules.get("causeway.logins.aws_credentials")) is not None:
        kept.aws_login.cache_clear()


@pytest.fixture(scope="session")
def _clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    pair = (LocalCluster("A", properties=_UNHURRIED), LocalCluster("B", properties=_UNHURRIED))
    try:
        start_all(pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.destroy()


@pytest.fixture(scope="session")
def source_cluster(_clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """One broker, plain text, shared by the whole session: do not break it, do not reconfigure it.
    A test that kills or needs settings of its own starts a LocalCluster of its own."""
    return _clusters[0]


@pytest.fixture(scope="session")
def target_cluster(_clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """As `source_cluster`, the other side."""
    return _clusters[1]


@pytest.fixture(scope="session")
def source(source_cluster: LocalCluster) -> KafkaTools:
    return KafkaTools(source_cluster.bootstrap)


@pytest.fixture(scope="session")
def target(target_cluster: LocalCluster) -> KafkaTools:
    return KafkaTools(target_cluster.bootstrap)


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A real one, shared by the whole session: whoever freezes it thaws it."""
    registry = RegistryServer(tmp_path_factory.mktemp("registry") / "registry.log")
    try:
        yield registry
    finally:
        registry.close()


@pytest.fixture
def changing(
    source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> ChangingFile:
    """A file between both clusters that a test changes while a driver works by it."""
    return ChangingFile(source_cluster, target_cluster, prefix, tmp_path)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine that no other test has meanwhile."""
    ports = Ports()
    yield ports.take()
    ports.release()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A start for topic, group and transactional names that no other test of the session uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60]
    return f"t{next(_numbers)}-{name}-"
