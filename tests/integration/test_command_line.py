"""`plan`, `run --until-caught-up` and `status` as a person uses them, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causeway.dev.cluster import LocalCluster
from tests.harness.command import causeway
from tests.harness.kafka_tools import KafkaTools, Outgoing

pytestmark = pytest.mark.integration


@pytest.fixture
def file(
    source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> Path:
    # Aliases of its own make it a link of its own, with its own progress topic.
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
replication.factor = 1
spark.master = local[2]
"""
    )
    return path


def link_of(answer: Any) -> Any:
    (link,) = answer["links"]
    return link


def test_plan_then_run_then_status(
    file: Path, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    orders, private = prefix + "orders", prefix + "private"
    source.create_topic(orders, 2, config={"max.message.bytes": "2000000"})
    source.create_topic(private)
    source.produce(
        orders, [Outgoing(value=b"x" * 100, partition=n % 2) for n in range(1000)], codec="zstd"
    )
    before = target.topics()

    plan = causeway("plan", file, "--json")

    assert plan.code == 0, plan.err
    link = link_of(plan.json)
    assert [topic["target_topic"] for topic in link["mirrored"]] == [f"{prefix}a.{orders}"]
    (change,) = link["changes"]
    assert (change["change"], change["partitions"]) == ("create topic", 2)
    assert change["configs"]["max.message.bytes"] == "2000000"
    (left,) = [left for left in link["left_out"] if left["topic"] == private]
    assert left["code"] == "excluded"
    assert f"{prefix}private.*" in left["reason"]
    assert link["problems"] == []
    assert target.topics() == before, "a plan writes nothing"

    unrun = link_of(causeway("status", file, "--json").json)
    assert unrun["driver"] is None
    assert unrun["partitions"][0]["state"] == "no running driver"
    assert unrun["partitions"][0]["lag_records"] == 500
    assert unrun["partitions"][0]["lag_ms"] > 0
    assert target.topics() == before, "nor does a status"

    run = causeway("run", file, "--until-caught-up")

    assert run.code == 0, run.err
    assert 'event="lanes ready" lanes=2' in run.err
    assert "Traceback" not in run.err
    assert {at: len(records) for at, records in target.read(f"{prefix}a.{orders}").items()} == {
        0: 500,
        1: 500,
    }
    status = causeway("status", file, "--json")
    assert status.code == 0, status.err
    assert [
        (one["partition"], one["source_end"], one["mirrored_to"], one["lag_records"], one["lag_ms"])
        for one in link_of(status.json)["partitions"]
    ] == [(0, 500, 500, 0, 0), (1, 500, 500, 0, 0)]
    assert link_of(status.json)["driver"]["running"] is False
    again = link_of(causeway("plan", file, "--json").json)
    assert (again["changes"], again["new_progress_topic"]) == ([], None)


def test_tables_for_people(file: Path, source: KafkaTools, target: KafkaTools, prefix: str) -> None:
    source.create_topic(prefix + "orders", 3)

    plan = causeway("plan", file)
    status = causeway("status", file)

    assert (plan.code, status.code) == (0, 0), plan.err + status.err
    assert f"{prefix}a->{prefix}b: 1 topic with 3 partitions would be mirrored" in plan.out
    assert f"{prefix}a.{prefix}orders" in plan.out
    assert "create: 3 partitions, 1 copy" in plan.out
    assert "no driver has run this link yet" in status.out
    assert "not begun" in status.out
