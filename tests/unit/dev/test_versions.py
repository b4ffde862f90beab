"""Which Kafka a name means, and what its brokers are given."""

from __future__ import annotations

import pytest

from causeway.dev import DEFAULT_VERSION, OLDEST, TESTED, BrokerPorts, kafka_version
from causeway.dev.properties import broker_properties
from causeway.errors import ConfigError
from tests.harness.kafka.security import Security


@pytest.mark.parametrize(
    ("name", "release"),
    [("2.8", OLDEST), ("3.6.2", "3.6.2"), ("4.3", DEFAULT_VERSION), (None, DEFAULT_VERSION)],
)
def test_names(name: str | None, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAUSEWAY_KAFKA_VERSION", raising=False)
    assert str(kafka_version(name)) == release


def test_the_environment_picks_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSEWAY_KAFKA_VERSION", "3.3")
    assert str(kafka_version()) == TESTED["3.3"]
    assert str(kafka_version("4.0.0")) == "4.0.0"


@pytest.mark.parametrize("name", ["3.6", "newest", "4.3.0-rc1", "v4.3.0"])
def test_what_is_no_release_is_refused_with_those_that_are_tested(name: str) -> None:
    tested = r"name one that is tested \(2\.8, 3\.3, 3\.9, 4\.0, 4\.3\), or another release as 4"
    with pytest.raises(ConfigError, match=f"use Kafka {name}: it is no release.*{tested}"):
        kafka_version(name)


def test_what_is_too_old_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"use Kafka 2\.7\.2: its topics have no ids"):
        kafka_version("2.7.2")


def test_versions_compare_by_age() -> None:
    names = ["2.8", "3.3", "3.9.2", "3.10.0", "4.0"]
    assert sorted(map(kafka_version, names)) == list(map(kafka_version, names))


def properties(name: str) -> dict[str, str]:
    nodes = {n: BrokerPorts(client=n, internal=10 + n, controller=20 + n) for n in (1, 2, 3)}
    return broker_properties(kafka_version(name), 2, nodes, ("host", 99))


def test_an_old_broker_gets_a_zookeeper_and_no_controllers() -> None:
    old, new = properties("2.8"), properties("4.3")
    assert old["zookeeper.connect"] == "127.0.0.1:21"
    assert old["broker.id"] == "2"
    assert "CONTROLLER" not in old["listeners"]
    assert "process.roles" not in old
    assert not [key for key in new if key.startswith(("zookeeper", "broker.id"))]
    assert new["controller.quorum.voters"] == "1@127.0.0.1:21,2@127.0.0.1:22,3@127.0.0.1:23"
    assert old["advertised.listeners"] == new["advertised.listeners"]


@pytest.mark.parametrize(("name", "authorizer"), [("2.8", "Acl"), ("3.3", "Standard")])
def test_each_has_its_authorizer(name: str, authorizer: str) -> None:
    security = Security(
        protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users={"ann": "a"}, acl=True
    )
    found = security.broker_properties(kafka_version(name))["authorizer.class.name"]
    assert found.endswith(f".{authorizer}Authorizer")


def test_scram_users_before_the_first_start_want_a_newer_kafka() -> None:
    security = Security(
        protocol="SASL_PLAINTEXT", mechanisms=("SCRAM-SHA-256",), users={"ann": "a"}
    )
    assert security.format_options(kafka_version("3.9"))[0] == "--add-scram"
    with pytest.raises(ConfigError, match=r"SCRAM with Kafka 2\.8\.2"):
        security.format_options(kafka_version("2.8"))
