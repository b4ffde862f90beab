"""ACLs and configs of mirrors follow the source's; what the target refuses is said item by item."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    left_undone,
    mm2_file,
)
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
HOUR, DAY = "3600000", "86400000"
QUICK = (
    "sync.topic.acls.interval.seconds = 1",
    "sync.topic.configs.interval.seconds = 1",
    "emit.checkpoints.enabled = false",
    "emit.offset-syncs.enabled = false",
)


USERS = dict.fromkeys(("causeway", "shop"), "secret")
SECURITY = Security(protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users=USERS, acl=True)


class Guarded(NamedTuple):
    """Two clusters with authorizers, and their administrators. On the target Causeway is the user
    `causeway`, who may do everything that is not denied."""

    source: LocalCluster
    target: LocalCluster
    at_source: KafkaTools
    at_target: KafkaTools

    def file(
        self, directory: Path, *lines: str, more: dict[str, LocalCluster] | None = None
    ) -> Path:
        keys = self.target.security.java_client("causeway")
        return mm2_file(
            directory,
            {"A": self.source.internal_bootstrap, "B": self.target, **(more or {})},
            *QUICK,
            *(f"B.{key} = {value}" for key, value in keys.items()),
            "A->B.enabled = true",
            *lines,
        )

    def as_user(self, name: str) -> KafkaTools:
        """On the target."""
        return KafkaTools(self.target.bootstrap, SECURITY.librdkafka(name))


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    clusters = LocalCluster("A", security=SECURITY), LocalCluster("B", security=SECURITY)
    try:
        start_all(clusters)
        at_source, at_target = (KafkaTools(each.internal_bootstrap) for each in clusters)
        for kind in (ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID):
            create(at_target, AclBinding(kind, "*", LITERAL, "User:causeway", "*", ALL, ALLOW))
        create(at_target, on_cluster(ALL, ALLOW))
        yield Guarded(*clusters, at_source, at_target)
    finally:
        for cluster in clusters:
            cluster.destroy()


def acl(
    user: str,
    operation: AclOperation,
    topic: str,
    permission: AclPermissionType = ALLOW,
    pattern: ResourcePatternType = LITERAL,
) -> AclBinding:
    name = f"User:{user}"
    return AclBinding(ResourceType.TOPIC, topic, pattern, name, "*", operation, permission)


def on_cluster(operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    kind, user = ResourceType.BROKER, "User:causeway"
    return AclBinding(kind, "kafka-cluster", LITERAL, user, "*", operation, permission)


def create(tools: KafkaTools, *rules: AclBinding) -> None:
    for done in tools.admin.create_acls(list(rules)).values():
        done.result(PATIENCE_S)


def remove(tools: KafkaTools, rule: AclBinding) -> None:
    exactly = AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )
    for done in tools.admin.delete_acls([exactly]).values():
        assert len(done.result(PATIENCE_S)) == 1


def acls_of(tools: KafkaTools, topic: str) -> set[AclBinding]:
    """Those on this very topic."""
    which = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return set(tools.admin.describe_acls(which).result(PATIENCE_S))


def planned_by(file: Path, link: str = "A->B") -> dict[str, Any]:
    plan = causeway("plan", file, "--json")
    assert plan.code == 0, plan.err
    (found,) = [each for each in plan.json["links"] if each["link"] == link]
    return dict(found)


def await_left_undone(file: Path, task: str, *items: str) -> dict[str, str]:
    """Until it is exactly these."""
    undone: dict[str, str] | None = None

    def are_these() -> bool:
        nonlocal undone
        undone = left_undone(file, task)
        return undone is not None and undone.keys() == set(items)

    await_until(are_these, PATIENCE_S, f"{task} leaves {items} undone", poll_s=0.5)
    assert undone is not None
    return undone


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_acls_follow_and_mirrors_are_read_only(
    guarded: Guarded,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    at_source, at_target = guarded.at_source, guarded.at_target
    topic, names = prefix + "orders", prefix + "ord"
    mirror = f"A.{topic}"
    at_source.create_topic(topic)
    at_source.produce(topic, [b"1", b"2"])
    create(
        at_source,
        acl("ann", READ, topic),
        acl("bob", ALL, topic),
        acl("dan", READ, topic, DENY),
        acl("shop", WRITE, topic),
        acl("eve", READ, names, pattern=PREFIXED),
    )
    create(at_target, acl("shop", WRITE, f"A.{prefix}", pattern=PREFIXED))
    at_target.create_topic(f"A.{prefix}else")
    shop = guarded.as_user("shop")
    file = guarded.file(
        tmp_path,
        "A->P.enabled = true",
        f"topics = {topic}",
        "A->B.causeway.read.only.mirrors = true",
        "A->B.causeway.principal = User:causeway",
        more={"P": target_cluster},
    )
    barred = acl("shop", WRITE, mirror, DENY)
    copied = {acl("ann", READ, mirror), acl("bob", READ, mirror), acl("dan", READ, mirror, DENY)}
    by_name = f"ALLOW READ on PREFIXED TOPIC {names} for User:eve from *"
    planned = planned_by(file)
    assert set(planned["acls"]["create"]) == {
        f"ALLOW READ on LITERAL TOPIC {mirror} for User:ann from *",
        f"ALLOW READ on LITERAL TOPIC {mirror} for User:bob from *",
        f"DENY READ on LITERAL TOPIC {mirror} for User:dan from *",
        f"DENY WRITE on LITERAL TOPIC {mirror} for User:shop from *",
    }
    assert by_name in {left["acl"] for left in planned["acls"]["left_out"]}
    assert acls_of(at_target, mirror) == set(), "a plan writes nothing"

    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: acls_of(at_target, mirror) == {*copied, barred}, PATIENCE_S)
        (why,) = await_left_undone(file, "ACLs", by_name).values()
        assert f"on B it would be PREFIXED 'A.{names}'" in why
        await_until(lambda: left_undone(file, "ACLs", "A->P") == {}, PATIENCE_S, "no authorizer")

        assert writes(shop, f"A.{prefix}else"), "no mirror"
        assert not writes(shop, mirror)
        at_source.produce(topic, [b"3"])
        await_copied(at_source, topic, at_target, mirror)
        await_copied(at_source, topic, target, mirror)

        only_the_new_one_is_written(guarded, file, topic, by_name)
        assert acls_of(at_target, mirror) == {*copied, barred, acl("fay", READ, mirror)}
        assert run.stop() == 0
    assert_same(at_source, topic, at_target, mirror)
    assert planned_by(file)["acls"]["create"] == []

    # What ends is opened: the rule that Causeway added is taken away, and named.
    # Only this topic: other tests mirror by the same link.
    over = "failover", str(file), "--link", "A->B", "--topic", topic, "--json"
    shown = causeway(*over).json["failed_over"][0]
    (doomed,) = shown["lifted"]
    assert doomed == f"DENY WRITE on LITERAL TOPIC {mirror} for User:shop from *"
    assert barred in acls_of(at_target, mirror), "it was only shown"
    done = causeway(*over, "--yes").json["failed_over"][0]
    assert (done["state"], done["lifted"]) == ("failed over", [doomed])
    await_until(lambda: writes(shop, mirror), PATIENCE_S, "what is lifted is lifted")
    assert acls_of(at_target, mirror) == {*copied, acl("fay", READ, mirror)}, "and no more"


def only_the_new_one_is_written(guarded: Guarded, file: Path, topic: str, by_name: str) -> None:
    """Where nothing can be written, only what is new is refused; once it can be, it is done."""
    create(guarded.at_target, on_cluster(AclOperation.ALTER, DENY))
    create(guarded.at_source, acl("fay", READ, topic))
    new = f"ALLOW READ on LITERAL TOPIC A.{topic} for User:fay from *"
    refused = await_left_undone(file, "ACLs", by_name, new)
    assert "ALTER on the cluster" in refused[new]
    remove(guarded.at_target, on_cluster(AclOperation.ALTER, DENY))
    await_left_undone(file, "ACLs", by_name)


def writes(tools: KafkaTools, topic: str) -> bool:
    try:
        tools.produce(topic, [b"x"])
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_configs_follow_and_what_is_refused_holds_up_nothing_else(
    guarded: Guarded, prefix: str, tmp_path: Path
) -> None:
    at_source, at_target = guarded.at_source, guarded.at_target
    one, two, three = (prefix + name for name in ("one", "two", "three"))
    mirrors = {topic: f"A.{topic}" for topic in (one, two, three)}
    at_source.create_topics(mirrors, config={"retention.ms": HOUR, "retention.bytes": "7000000"})
    file = guarded.file(
        tmp_path,
        f"topics = {prefix}.*",
        "sync.topic.acls.enabled = false",
        r"config.properties.exclude = retention\.bytes",
    )

    def await_config(topic: str, name: str, value: str) -> None:
        await_until(
            lambda: at_target.topic_config(mirrors[topic])[name] == value,
            PATIENCE_S,
            f"{name} of {mirrors[topic]} is {value}",
        )

    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: set(mirrors.values()) <= at_target.topics(), PATIENCE_S)
        await_config(one, "retention.ms", HOUR)
        untouched = at_target.topic_config(mirrors[one])
        assert untouched["retention.bytes"] == "-1", "excluded"

        at_target.set_topic_config(mirrors[one], {"retention.bytes": "5000000"})
        at_target.set_topic_config(mirrors[one], {"retention.ms": DAY, "segment.ms": DAY})
        await_config(one, "retention.ms", HOUR)
        await_config(one, "segment.ms", untouched["segment.ms"])
        await_config(one, "retention.bytes", "5000000")

        # `three` is as it should be: if it were written all the same, that would be refused.
        denied = [
            acl("causeway", AclOperation.ALTER_CONFIGS, mirrors[topic], DENY)
            for topic in (two, three)
        ]
        create(at_target, *denied)
        for topic in (one, two):
            at_source.set_topic_config(topic, {"segment.ms": DAY})
        await_config(one, "segment.ms", DAY)
        refused = await_left_undone(file, "topic configs", mirrors[two])
        assert f"ALTER_CONFIGS on topic {mirrors[two]}" in refused[mirrors[two]]
        at_source.produce(two, [b"goes on"])
        await_copied(at_source, two, at_target, mirrors[two])

        for rule in denied:
            remove(at_target, rule)
        await_config(two, "segment.ms", DAY)
        await_left_undone(file, "topic configs")
        assert run.stop() == 0

    assert planned_by(file)["changes"] == []
    at_target.set_topic_config(mirrors[one], {"retention.ms": DAY, "segment.ms": "7200000"})
    assert planned_by(file)["changes"] == [
        {
            "change": "alter configs",
            "topic": mirrors[one],
            "configs": {"retention.ms": HOUR, "segment.ms": DAY},
        }
    ]
    assert at_target.topic_config(mirrors[one])["retention.ms"] == DAY, "a plan writes nothing"
