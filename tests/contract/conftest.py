"""Each test runs with each kind of brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from causeway.cluster import Cluster
from causeway.config import ClientSettings
from tests.contract.client import Client
from tests.contract.grouped import Join, JoinedMember
from tests.harness.kafka.cluster import LocalCluster

REAL = "real"


@pytest.fixture(scope="session", params=[pytest.param(REAL, marks=pytest.mark.integration)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def is_real(kind: str) -> bool:
    return kind == REAL


@pytest.fixture(scope="module")
def cluster(kind: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One broker that the tests of a session share: do not break it, do not reconfigure it."""
    running: LocalCluster = request.getfixturevalue("source_cluster")
    with Cluster(settings(running.bootstrap)) as found:
        yield found


@pytest.fixture
def client(cluster: Cluster, prefix: str) -> Client:
    return Client(cluster, prefix)


@pytest.fixture
def join(kind: str) -> Join:
    return JoinedMember


def settings(bootstrap: str) -> ClientSettings:
    addresses = [address.rpartition(":") for address in bootstrap.split(",")]
    return ClientSettings(
        alias="C", bootstrap=tuple((host, int(port)) for host, _, port in addresses)
    )
