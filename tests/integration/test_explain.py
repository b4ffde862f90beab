"""`explain`, as a person uses it, on real brokers: with and without a driver, and where the source
is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing

pytestmark = pytest.mark.integration


@pytest.fixture
def file(
    source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(
        f"""clusters = {prefix}a, {prefix}b
{prefix}a.bootstrap.servers = {source_cluster.bootstrap}
{prefix}b.bootstrap.servers = {target_cluster.bootstrap}
{prefix}a->{prefix}b.enabled = true
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
topics = {prefix}.*
topics.exclude = {prefix}private.*
groups = {prefix}.*
sync.group.offsets.enabled = true
replication.factor = 1
causeway.http.port = -1
spark.master = local[2]
"""
    )
    return path


def explain(file: Path, *arguments: str) -> Any:
    answer = causeway("explain", file, *arguments, "--json")
    assert answer.code == 0, answer.err
    return answer.json["explanations"]


@pytest.mark.slow
def test_what_a_name_is_and_what_becomes_of_it(
    file: Path, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    orders, private, app = prefix + "orders", prefix + "private", prefix + "app"
    source.create_topic(orders, 2)
    source.create_topic(private)
    source.produce(orders, [Outgoing(value=b"x", partition=n % 2) for n in range(100)])
    source.commit_group(app, {(orders, 0): 30})

    (one,) = explain(file, orders)
    assert (one["kind"], one["code"], one["target"]) == (
        "topic",
        "no running driver",
        f"{prefix}a.{orders}",
    )
    assert one["rule"] == {"key": "topics", "pattern": f"{prefix}.*", "place": "topics (line 7)"}
    (one,) = explain(file, private)
    assert (one["code"], one["rule"]["place"]) == ("excluded", "topics.exclude (line 8)")
    (one,) = explain(file, app)
    assert (one["kind"], one["code"]) == ("group", "not-yet")
    assert "its mirror has not begun" in str(one["facts"])

    wrong = causeway("explain", file, prefix + "order")
    assert wrong.code == 2
    assert f"like it: {orders}" in wrong.err
    assert f"if it existed: on {prefix}a->{prefix}b it would go to" in wrong.err

    early = causeway("wait", file, "--timeout", "0", "--json")
    assert early.code == 11, early.err
    assert (early.json["reached"], early.json["lag_records"]) == (False, 100)

    ran = causeway("run", file, "--until-caught-up")
    assert ran.code == 0, ran.err

    done = causeway("wait", file, "--timeout", "30")
    assert (done.code, "reached" in done.out) == (0, True), done.err

    happened = causeway("events", file, "--json").json["events"]
    assert [each["event"] for each in happened][:2] == ["lead link", "begin"], "no driver runs now"
    (topic,) = causeway("topics", file, "--match", "ORDERS", "--json").json["topics"]
    assert (topic["topic"], topic["partitions"], topic["lag_records"]) == (orders, 2, 0)
    (group,) = causeway("groups", file, "--match", app, "--json").json["groups"]
    assert (group["name"], group["code"]) == (app, "synced")
    assert causeway("lanes", file).code == 9, "no driver to ask"

    (one,) = explain(file, f"{orders}-1")
    assert (one["kind"], one["name"]) == ("partition", f"{orders}-1")
    assert "was seen at" in str(one["facts"])
    (one,) = explain(file, app)
    assert (one["code"], one["done"]) == ("synced", True), one
    there = causeway("explain", file, f"{prefix}a.{orders}")
    assert there.code == 2
    assert f"topics are named as on the source, where it is {orders}" in there.err


def test_a_name_that_collides_on_the_target_and_one_that_was_deleted(
    file: Path, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    odd, old = f"{prefix}odd", f"{prefix}old"
    source.create_topics([odd, old])
    target.create_topic(f"{prefix}a_{odd}")

    (one,) = explain(file, odd)
    assert (one["code"], one["done"]) == ("problem", False)
    assert "collides with" in one["answer"]

    # What can be mirrored is, and the exit code tells that something could not.
    assert causeway("run", file, "--until-caught-up").code == 7
    source.delete_topic(old)
    (one,) = explain(file, old)
    assert (one["code"], one["target"]) == ("deleted", f"{prefix}a.{old}"), one
    assert "the source no longer has this topic" in str(one["facts"])


def test_a_source_that_is_gone_is_told_and_the_rest_explained(
    file: Path, source_cluster: LocalCluster, prefix: str
) -> None:
    text = file.read_text().replace(source_cluster.bootstrap, "127.0.0.1:1")
    file.write_text(text + f"{prefix}a.admin.request.timeout.ms = 1000\n")

    topic, group = explain(file, prefix + "orders")

    assert (topic["kind"], topic["code"], topic["done"]) == ("topic", "unknown", None)
    assert topic["rule"]["place"] == "topics (line 7)"
    assert f"of {prefix}a: " in topic["unknown"][0]
    assert (group["kind"], group["code"]) == ("group", "unknown")
