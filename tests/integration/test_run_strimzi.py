"""`causeway run` on a KafkaMirrorMaker2 resource of Strimzi, as it is, against real brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import yaml

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, status_of
from tests.harness.secured import ADMIN, PASSWORD, SecuredCluster
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredCluster]:
    with SecuredCluster("S", tmp_path / "certificates") as cluster:
        yield cluster


_moments = count(1)


def mount(folder: Path, files: dict[str, str]) -> None:
    """As Kubernetes mounts a Secret or a ConfigMap, and replaces its files by a link."""
    data = folder / f"..{next(_moments)}"
    data.mkdir(parents=True)
    for name, text in files.items():
        (data / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    link = folder / "..data_tmp"
    link.symlink_to(data.name)
    link.replace(folder / "..data")


def resource(secured: SecuredCluster, target: LocalCluster, prefix: str, *, state: str) -> str:
    once = {"replication.policy.class": "IdentityReplicationPolicy"}
    found = {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "mirror"},
        "spec": {
            "version": "4.3.1",
            "replicas": 1,
            "target": {
                "alias": "lake",
                "bootstrapServers": target.bootstrap,
                "groupId": "mirror-group",
                "configStorageTopic": "__mirror-config",
                "offsetStorageTopic": f"{prefix}connect-offsets",
                "statusStorageTopic": "__mirror-status",
                "config": {
                    "config.storage.replication.factor": -1,
                    "spark.master": "local[2]",
                    "causeway.http.port": -1,
                    "causeway.reload": "on-change",
                },
            },
            "mirrors": [
                {
                    "source": {
                        "alias": "shop",
                        "bootstrapServers": f"localhost:{secured.port('SASLTLS')}",
                        "tls": {
                            "trustedCertificates": [
                                {"secretName": "shop-cluster-ca-cert", "pattern": "*.crt"}
                            ]
                        },
                        "authentication": {
                            "type": "scram-sha-512",
                            "username": ADMIN,
                            "passwordSecret": {"secretName": "shop-user", "password": "password"},
                        },
                    },
                    "sourceConnector": {
                        "tasksMax": 1,
                        "state": state,
                        "config": {
                            **once,
                            "replication.factor": -1,
                            "offset-syncs.topic.replication.factor": -1,
                            "sync.topic.acls.enabled": "false",
                            "refresh.topics.interval.seconds": 1,
                        },
                    },
                    "checkpointConnector": {
                        "tasksMax": 1,
                        "config": {
                            **once,
                            "checkpoints.topic.replication.factor": -1,
                            "sync.group.offsets.enabled": "true",
                            "emit.checkpoints.interval.seconds": 1,
                            "sync.group.offsets.interval.seconds": 1,
                            "refresh.groups.interval.seconds": 1,
                        },
                    },
                    "topicsPattern": f"{prefix}.*",
                    "groupsPattern": f"{prefix}.*",
                }
            ],
        },
    }
    return yaml.safe_dump(found)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_resource_mirrors_as_it_is_and_waits_while_it_is_paused(
    secured: SecuredCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Out of a cluster behind TLS and SCRAM, its Secrets mounted; topics and groups arrive, behind
    what Strimzi's has copied before. The resource is changed twice while the same process runs.
    While it is paused in the resource, nothing more arrives, and no command resumes it. Running
    again, the mirror goes on there."""
    inside = KafkaTools(secured.bootstrap)
    topic, group = prefix + "orders", prefix + "billing"
    secrets = tmp_path / "secrets"
    mount(secrets / "shop-user", {"password": PASSWORD})
    mount(secrets / "shop-cluster-ca-cert", {"ca.crt": secured.certificates.ca.read_text()})
    monkeypatch.setenv("CAUSEWAY_SECRETS", str(secrets))  # for looks from inside this process
    inside.create_topics([topic])
    inside.produce(topic, [b"%d" % n for n in range(1000)])
    inside.commit_group(group, {(topic, 0): 600})

    offsets = prefix + "connect-offsets"
    copied_by_strimzi(inside, topic, target, offsets, 400)

    def apply(state: str) -> None:
        text = resource(secured, target_cluster, prefix, state=state)
        mount(tmp_path / "resource", {"mirror.yaml": text})

    apply("running")
    file = tmp_path / "resource" / "mirror.yaml"
    new = prefix + "orders-new"
    with Running("run", "--secrets", secrets, file, directory=tmp_path) as run:
        await_copied(inside, topic, target, topic)
        assert_same(inside, topic, target, topic)
        await_until(
            lambda: target.group_offsets(group).get((topic, 0)) == 600,
            PATIENCE_S,
            f"{group} at 600",
        )

        apply("paused")
        await_until(lambda: states(file) == {"paused"}, PATIENCE_S, "all is paused")
        inside.create_topics([new])
        inside.produce(topic, [b"later %d" % n for n in range(500)])
        resumed = causeway("resume", "--secrets", secrets, file)
        assert resumed.code == 2
        assert "spec.mirrors[0].sourceConnector.state" in resumed.err
        # The lag is known, so that nobody takes it for an end.
        await_until(lambda: lag(file) == 500, PATIENCE_S, "a lag of 500")
        assert target.offsets(topic) == {0: 1000}
        assert states(file) == {"paused"}
        assert target.partition_count(new) is None, "nor did Connect's connector, stopped, make it"

        apply("running")
        await_copied(inside, topic, target, topic)
        await_until(lambda: target.partition_count(new) == 1, PATIENCE_S, "the new topic")
        assert run.stop() == 0
        assert PASSWORD not in run.log
    assert_same(inside, topic, target, topic)


def copied_by_strimzi(
    inside: KafkaTools, topic: str, target: KafkaTools, offsets: str, many: int
) -> None:
    """The first `many` records lie in the mirror, and Connect's topic of offsets says so."""
    target.create_topics([topic])
    first = inside.read(topic)[0][:many]
    target.produce(topic, [Outgoing(value=r.value, timestamp=r.timestamp) for r in first])
    target.create_topics([offsets])
    place = {"cluster": "shop", "partition": 0, "topic": topic}
    key = json.dumps(["shop->lake.MirrorSourceConnector", place], separators=(",", ":")).encode()
    value = json.dumps({"offset": many - 1}).encode()
    target.produce(offsets, [Outgoing(key=key, value=value)])


def states(file: Path) -> set[str]:
    return {one["state"] for one in status_of(file).get("shop->lake", {}).get("partitions", ())}


def lag(file: Path) -> int:
    found = status_of(file)["shop->lake"]["partitions"]
    return sum((one["source_end"] or 0) - (one["mirrored_to"] or 0) for one in found)
