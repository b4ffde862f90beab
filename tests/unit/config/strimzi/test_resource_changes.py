"""A changed KafkaMirrorMaker2 resource is a change of settings that a running driver applies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from causeway.config import Settings, changes
from causeway.formats import load
from tests.harness.strimzi import mount

FLOW = "cluster-a->cluster-b"
Change = Callable[[dict[str, Any]], Any]


def resource(version: str = "v1") -> dict[str, Any]:
    target = {
        "alias": "cluster-b",
        "bootstrapServers": "b:9092",
        "groupId": "g",
        "configStorageTopic": "c",
        "offsetStorageTopic": "o",
        "statusStorageTopic": "s",
        "authentication": {
            "type": "scram-sha-512",
            "username": "mirror",
            "passwordSecret": {"secretName": "cluster-b-user", "password": "password"},
        },
    }
    return {
        "apiVersion": f"kafka.strimzi.io/{version}",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "mirror"},
        "spec": {
            "replicas": 1,
            "target": target,
            "mirrors": [mirror("cluster-a")],
        },
    }


def mirror(alias: str) -> dict[str, Any]:
    return {
        "source": {"alias": alias, "bootstrapServers": f"{alias}:9092"},
        "sourceConnector": {"config": {"refresh.topics.interval.seconds": 60}},
        "checkpointConnector": {"config": {"sync.group.offsets.enabled": "true"}},
        "topicsPattern": "orders.*",
        "groupsPattern": "billing",
    }


class Place:
    """Where a resource and its Secret are mounted."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "mirror.yaml"
        self._secrets = directory / "secrets"
        mount(self._secrets / "cluster-b-user", {"password": "first"})

    def settings(self, found: dict[str, Any]) -> Settings:
        self.file.write_text(yaml.safe_dump(found))
        return load(self.file, environment={"CAUSEWAY_SECRETS": str(self._secrets)})

    def with_password(self, text: str) -> None:
        (self._secrets / "cluster-b-user" / "password").write_text(text)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def found(place: Place, change: Change, version: str = "v1") -> dict[str, tuple[Any, Any]]:
    """Each changed setting before and after. None needs a restart."""
    before = place.settings(resource(version))
    other = resource(version)
    change(other)
    result = changes(before, place.settings(other))
    assert not [each.place for each in result if each.applies.restart]
    return {each.place: (each.before, each.after) for each in result}


def first(resource: dict[str, Any]) -> dict[str, Any]:
    each: dict[str, Any] = resource["spec"]["mirrors"][0]
    return each


@pytest.mark.parametrize("state", ["paused", "stopped"])
def test_the_state_of_the_source_connector(place: Place, state: str) -> None:
    """It stops records, and with them configs and ACLs, as with Connect's connector."""
    assert found(place, lambda one: first(one)["sourceConnector"].update(state=state)) == {
        f"{FLOW}.sync.topic.configs.enabled": ("true", "false"),
        f"{FLOW}.sync.topic.acls.enabled": ("true", "false"),
        f"{FLOW}.causeway.paused": ("", "records"),
    }


@pytest.mark.parametrize(
    ("version", "held"), [("v1", {"state": "stopped"}), ("v1beta2", {"pause": True})]
)
def test_the_state_of_the_checkpoint_connector(
    place: Place, version: str, held: dict[str, Any]
) -> None:
    change: Change = lambda one: first(one)["checkpointConnector"].update(held)  # noqa: E731
    assert found(place, change, version) == {
        f"{FLOW}.emit.checkpoints.enabled": ("true", "false"),
        f"{FLOW}.sync.group.offsets.enabled": ("true", "false"),
        f"{FLOW}.causeway.paused": ("", "checkpoints"),
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda one: first(one).update(topicsPattern="orders.*|audit"),
            {f"{FLOW}.topics": ("orders.*", "orders.*|audit")},
        ),
        (
            lambda one: first(one).update(topicsExcludePattern="orders-test"),
            {f"{FLOW}.topics.exclude": (r"mm2.*\.internal,.*\.replica,__.*", "orders-test")},
        ),
        (
            lambda one: first(one).update(groupsPattern=".*"),
            {f"{FLOW}.groups": ("billing", ".*")},
        ),
        (
            lambda one: first(one)["sourceConnector"]["config"].update(
                {"refresh.topics.interval.seconds": 5}
            ),
            {f"{FLOW}.refresh.topics.interval.seconds": ("60", "5")},
        ),
        (
            lambda one: first(one).pop("checkpointConnector"),
            {
                f"{FLOW}.emit.checkpoints.enabled": ("true", "false"),
                f"{FLOW}.sync.group.offsets.enabled": ("true", "false"),
            },
        ),
        (
            lambda one: first(one)["source"].update(bootstrapServers="new-a:9092"),
            {"cluster-a.bootstrap.servers": ("cluster-a:9092", "new-a:9092")},
        ),
        (
            lambda one: one["spec"]["mirrors"].append(mirror("cluster-c")),
            {
                "cluster-c.bootstrap.servers": (None, "cluster-c:9092"),
                "cluster-c->cluster-b.enabled": ("false", "true"),
            },
        ),
        # How Strimzi runs its pods.
        (lambda one: one["spec"].update(replicas=3), {}),
        (lambda one: first(one)["sourceConnector"].update(tasksMax=7), {}),
        (
            lambda one: first(one)["sourceConnector"].update(
                listOffsets={"toConfigMap": {"name": "offsets"}}
            ),
            {},
        ),
    ],
)
def test_other_fields(place: Place, change: Change, expected: dict[str, tuple[Any, Any]]) -> None:
    assert found(place, change) == expected


def test_a_heartbeat_connector_that_is_stopped(place: Place) -> None:
    def beating(state: str) -> Settings:
        one = resource("v1beta2")
        first(one)["heartbeatConnector"] = {"config": {}, "state": state}
        return place.settings(one)

    result = changes(beating("running"), beating("stopped"))
    assert {each.place: (each.before, each.after) for each in result} == {
        f"{FLOW}.emit.heartbeats.enabled": ("true", "false"),
        f"{FLOW}.causeway.paused": ("", "heartbeats"),
    }


def test_a_renewed_secret(place: Place) -> None:
    before = place.settings(resource())
    place.with_password("second")
    assert before.rereading is not None
    assert before.rereading.stale
    (change,) = changes(before, place.settings(resource()))
    assert (change.place, change.before, change.after) == (
        "cluster-b.sasl.jaas.config",
        "(hidden)",
        "(changed)",
    )
