"""Each test runs with each kind of brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from causeway.cluster import Cluster
from tests.contract.brokers import Brokers, RealBrokers, settings
from tests.contract.client import Client
from tests.contract.grouped import Join, JoinedMember
from tests.contract.loopback import SimulatedBrokers
from tests.harness.kafka.cluster import LocalCluster

REAL, SIMULATED = "real", "simulated"
# Brokers look more often than by default for what has become old.
HASTE = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


def kinds(*more: pytest.MarkDecorator) -> list[Any]:
    return [SIMULATED, pytest.param(REAL, marks=[pytest.mark.integration, *more])]


# For modules that need brokers of their own, which take a while to start.
OWN_BROKERS = pytest.mark.parametrize(
    "kind", kinds(pytest.mark.slow), indirect=True, scope="session"
)


@pytest.fixture(scope="session", params=kinds())
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def is_real(kind: str) -> bool:
    return kind == REAL


@pytest.fixture(scope="session")
def simulated() -> Iterator[SimulatedBrokers]:
    """One broker for tests that do not break it."""
    with closing_brokers("S", 1) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def cluster(is_real: bool, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One broker that the tests of a session share: do not break it, do not reconfigure it."""
    running = request.getfixturevalue("source_cluster" if is_real else "simulated")
    with Cluster(settings(running.bootstrap)) as found:
        yield found


@pytest.fixture
def client(cluster: Cluster, prefix: str) -> Client:
    return Client(cluster, prefix)


@pytest.fixture
def join(is_real: bool, request: pytest.FixtureRequest) -> Join:
    """Gives a group of `client` a member."""
    if is_real:
        return JoinedMember
    simulated: SimulatedBrokers = request.getfixturevalue("simulated")
    return simulated.join


@pytest.fixture(scope="module")
def hasty(is_real: bool) -> Iterator[Brokers]:
    """One broker that a test may break if it repairs it, with HASTE."""
    if is_real:
        with LocalCluster("H", properties=HASTE) as running:
            yield RealBrokers(running)
    else:
        with closing_brokers("H", 1) as brokers:
            yield brokers


@pytest.fixture(scope="module")
def three(is_real: bool) -> Iterator[Brokers]:
    """Three brokers that a test may break if it repairs them."""
    if is_real:
        with LocalCluster("R", brokers=3) as running:
            yield RealBrokers(running)
    else:
        with closing_brokers("R", 3) as brokers:
            yield brokers


@contextmanager
def closing_brokers(name: str, count: int) -> Iterator[SimulatedBrokers]:
    brokers = SimulatedBrokers(name, count)
    try:
        yield brokers
    finally:
        brokers.destroy()
