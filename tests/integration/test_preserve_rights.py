"""The rights that topics need to keep their offsets: `plan` names what is missing, and `run` works
with exactly those that docs/how-to/security.md lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from causeway.formats import load
from causeway.operate.plan import LinkPlan, plan
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools
from tests.harness.lanes import client
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.same_offsets import begin_at
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
START = 1_437
MIRROR, IDS = "A.late", "causeway.A.B"
RECORDS = (
    (ResourceType.TOPIC, MIRROR, "READ WRITE ALTER ALTER_CONFIGS"),
    (ResourceType.TOPIC, "__causeway.A.B.progress", "CREATE READ WRITE"),
    (ResourceType.TOPIC, "__causeway.A.B.directives", "READ"),
    (ResourceType.TRANSACTIONAL_ID, IDS, "WRITE"),
)


class Target(NamedTuple):
    cluster: LocalCluster
    tools: KafkaTools
    file: Path

    def grant(self, kind: ResourceType, name: str, operations: str, prefixed: bool = False) -> None:
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        rules = [
            AclBinding(
                kind, name, pattern, "User:B", "*", AclOperation[each], AclPermissionType.ALLOW
            )
            for each in operations.split()
        ]
        for done in self.tools.admin.create_acls(rules).values():
            done.result(PATIENCE_S)

    def planned(self) -> LinkPlan:
        (found,) = plan(load(self.file)).links
        return found

    def lacks(self) -> set[str | None]:
        return {each.error.remedy for each in self.planned().problems}

    def ends(self) -> dict[int, int]:
        return self.tools.offsets(MIRROR)


@pytest.fixture
def target(source_cluster: LocalCluster, source: KafkaTools, tmp_path: Path) -> Iterator[Target]:
    """Its user may do what mirrors need. The source's topic begins above 0, and has a marker."""
    security = Security(
        protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users={"B": "secret"}, acl=True
    )
    cluster = LocalCluster("B", security=security)
    try:
        start_all([cluster])
        keys = security.java_client("B")
        file = mm2_file(
            tmp_path,
            {"A": source_cluster, "B": cluster},
            "A->B.enabled = true",
            "topics = late",
            "A->B.causeway.offsets = preserve",
            "sync.topic.acls.enabled = false",
            "emit.checkpoints.enabled = false",
            "emit.offset-syncs.enabled = false",
            "causeway.mirror.maker.offsets = false",
            *(f"B.{key} = {value}" for key, value in keys.items()),
        )
        found = Target(cluster, KafkaTools(cluster.internal_bootstrap), file)
        for rule in RECORDS:
            found.grant(*rule)
        source.create_topic("late")
        begin_at(client("A", source.bootstrap), "late", START)
        for _ in range(3):
            with source.transactional("late") as writes:
                writes.begin()
                writes.send("late", b"x")
                writes.commit()
        source.await_transactions("late")
        found.tools.create_topic(MIRROR)
        yield found
    finally:
        source.delete_topic("late")
        cluster.destroy()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_missing_is_named_and_what_is_granted_is_enough(
    target: Target, source: KafkaTools, tmp_path: Path
) -> None:
    to_delete = f"grant DELETE on {MIRROR}"
    to_fill = f"grant WRITE on transactional ids with the prefix {IDS}.offsets"
    assert to_delete in target.lacks()
    with Running("run", target.file, directory=tmp_path) as run:
        await_until(lambda: said(target, "on transactional id"), PATIENCE_S, "a lack")
        target.grant(ResourceType.TRANSACTIONAL_ID, f"{IDS}.offsets", "WRITE", prefixed=True)
        await_until(lambda: said(target, "DELETE on"), PATIENCE_S, "the lack of DELETE")
        target.grant(ResourceType.TOPIC, MIRROR, "DELETE")
        await_until(lambda: target.ends() == source.offsets("late"), PATIENCE_S, "the same end")
        assert run.stop() == 0
    assert "way=transactions" in run.log
    # What a lane could fill and not delete is deleted by the next one.
    assert target.tools.offsets(MIRROR, "earliest") == {0: START}
    assert [r.offset for r in target.tools.read(MIRROR)[0]] == [START, START + 2, START + 4]
    found = target.planned()
    assert found.problems == ()
    assert any("whether CLUSTER_ACTION on the cluster is granted" in each for each in found.notes)
    assert to_fill not in target.lacks()

    target.grant(ResourceType.BROKER, "kafka-cluster", "CLUSTER_ACTION DESCRIBE")
    with source.transactional("late") as writes:
        writes.begin()
        writes.send("late", b"y")
        writes.commit()
    with Running("run", target.file, directory=tmp_path) as run:
        await_until(lambda: target.ends() == source.offsets("late"), PATIENCE_S, "the same end")
        assert run.stop() == 0
    assert "way=markers" in run.log


def said(target: Target, words: str) -> bool:
    """Whether the reason of the partition has these words."""
    (link,) = status_of(target.file).values()
    return any(words in str(one["reason"]) for one in link["partitions"])
