"""Resources with several mirrors, and all that may stand in them, in another form and back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from causeway.formats import Form, convert
from tests.harness.pems import make_pem
from tests.harness.strimzi import judged, mount, other

SOURCE = {
    "replication.factor": 3,
    "refresh.topics.interval.seconds": 60,
    "refresh.topics.enabled": "false",
    "sync.topic.configs.enabled": True,
    "topics.exclude": "x.*",
    "consumer.override.fetch.max.bytes": 1_234_567,
    "producer.override.request.timeout.ms": 9000,
    "source.cluster.client.id": "s",
    "target.cluster.client.id": "t",
    "consumer.isolation.level": "read_uncommitted",
    "admin.timeout.ms": 9999,
}
CHECKPOINT = {
    "sync.group.offsets.enabled": "true",
    "emit.checkpoints.interval.seconds": 7,
    "groups.exclude": "z",
    "checkpoints.topic.replication.factor": 2,
}
HEARTBEAT = {"emit.heartbeats.interval.seconds": 3, "heartbeats.topic.replication.factor": 2}
CLUSTER = {
    "client.id": "c",
    "request.timeout.ms": 7000,
    "consumer.fetch.max.bytes": 99_999,
    "ssl.endpoint.identification.algorithm": "",
}
PATTERNS = {
    "topicsPattern": "a.*|b",
    "topicsExcludePattern": "c,d",
    "groupsPattern": "g.*",
    "groupsExcludePattern": "h",
}


class Maker:
    """`old`: of v1beta2; `listed`: with its clusters in a list of their own."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.old = self._maybe()
        self.listed = self.old and self._maybe(0.7)

    def _maybe(self, chance: float = 0.5) -> bool:
        return self._random.random() < chance

    def _some(self, of: Mapping[str, Any], chance: float = 0.4) -> dict[str, Any]:
        return {name: value for name, value in of.items() if self._maybe(chance)}

    def resource(self) -> dict[str, Any]:
        target, *sources = self._random.sample(["eu", "us", "ap-1", "lake_2"], 3)
        spec: dict[str, Any] = {"replicas": 2, **self._some({"resources": {"limits": {"cpu": 1}}})}
        if self.listed:
            spec["connectCluster"] = target
            spec["clusters"] = [self._cluster(alias) for alias in (target, *sources)]
        else:
            topics = ("offsetStorageTopic", "configStorageTopic", "statusStorageTopic")
            spec["target"] = self._cluster(target) | {"groupId": "g", **dict.fromkeys(topics, "x")}
        spec["mirrors"] = [self._mirror(source, target) for source in sources]
        return {
            "apiVersion": f"kafka.strimzi.io/{'v1beta2' if self.old else 'v1'}",
            "kind": "KafkaMirrorMaker2",
            "metadata": {"name": "x"},
            "spec": spec,
        }

    def _mirror(self, source: str, target: str) -> dict[str, Any]:
        found: dict[str, Any] = self._some(PATTERNS)
        if self.listed:
            found |= {"sourceCluster": source, "targetCluster": target}
        else:
            found["source"] = self._cluster(source)
        connectors = {
            "sourceConnector": self._connector(SOURCE),
            "checkpointConnector": self._connector(CHECKPOINT),
        }
        if self.old:
            connectors["heartbeatConnector"] = self._connector(HEARTBEAT)
            found |= self._some({"topicsBlacklistPattern": "zz"})
        return found | self._some(connectors, 0.8)

    def _connector(self, config: Mapping[str, Any]) -> dict[str, Any]:
        states = ["running", "paused", "stopped"]
        more = {
            "tasksMax": self._random.randrange(1, 9),
            "state": self._random.choice(states),
            "autoRestart": {"enabled": True},
            **({"pause": self._maybe()} if self.old else {}),
        }
        return {"config": self._some(config), **self._some(more)}

    def _cluster(self, alias: str) -> dict[str, Any]:
        found: dict[str, Any] = {"alias": alias, "bootstrapServers": f"{alias}:9092,{alias}2:9093"}
        tls = self._maybe()
        if tls:
            found["tls"] = self._random.choice([{}, {"trustedCertificates": self._trusted()}])
        if self._maybe():
            found["authentication"] = self._login(tls=tls)
        return found | {"config": self._some(CLUSTER)}

    def _trusted(self) -> list[dict[str, str]]:
        ways = [{"certificate": "ca.crt"}, {"certificate": "old.crt"}, {"pattern": "*.crt"}]
        names = self._random.choices(["one", "two"], k=self._random.randrange(3))
        return [{"secretName": name, **self._random.choice(ways)} for name in names]

    def _login(self, *, tls: bool) -> dict[str, Any]:
        kinds = ["plain", "scram-sha-256", "scram-sha-512", "oauth" if self.old else "custom"]
        match self._random.choice([*kinds, "tls"] if tls else kinds):
            case "tls":
                pair = {"secretName": "two", "certificate": "user.crt", "key": "user.key"}
                return {"type": "tls", "certificateAndKey": pair}
            case "oauth":
                more = {"scope": "k", "audience": "a", "tlsTrustedCertificates": self._trusted()}
                return {
                    "type": "oauth",
                    "clientId": "me",
                    "tokenEndpointUri": "https://idp/token",
                    "clientSecret": {"secretName": "one", "key": "password"},
                    **self._some(more),
                }
            case "custom":
                config = {
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": 'o.PlainLoginModule required username="u"'
                    ' password="${strimzisecrets:kafka/one:password}";',
                }
                return {"type": "custom", "sasl": True, "config": config}
            case kind:
                return {
                    "type": kind,
                    "username": self._random.choice(["u", "CN=x,O=y", 'a"b']),
                    "passwordSecret": {"secretName": "one", "password": "password"},
                }


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("secrets")
    key, certificate = make_pem()
    for name in ("one", "two"):
        certificates = dict.fromkeys(("ca.crt", "old.crt", "user.crt"), certificate)
        mount(root / name, {"password": "wo'r d", "user.key": key, **certificates})
    return root


@pytest.mark.parametrize("seed", range(12))
def test_a_resource_says_the_same_in_every_form(
    seed: int, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEWAY_SECRETS", str(secrets))
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(Maker(seed).resource(), sort_keys=False))
    before = judged(file, secrets)
    assert before is not None
    assert len(before.links) == 2
    plain = other(tmp_path, convert(file), "mirror.properties")
    assert judged(plain) == before
    assert judged(other(tmp_path, convert(file, Form.CAUSEWAY), "causeway.yaml")) == before
