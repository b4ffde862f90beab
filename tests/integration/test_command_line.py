"""`plan`, `run --until-caught-up` and `status` as a person uses them, one after the other."""

from __future__ import annotations

import re
import time
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


@pytest.mark.slow
def test_plan_then_run_then_status(
    file: Path, source: KafkaTools, target: KafkaTools, prefix: str
) -> None:
    orders, private = prefix + "orders", prefix + "private"
    source.create_topic(orders, 2, config={"max.message.bytes": "2000000"})
    source.create_topic(private)
    source.produce(
        orders, [Outgoing(value=b"x" * 100, partition=n % 2) for n in range(1000)], codec="zstd"
    )
    before, before_on_source = target.topics(), source.topics()

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
    assert link["mirrored"][0]["starts"] == [
        {
            "partition": n,
            "how": "begin",
            "offset": 0,
            "source_first": 0,
            "source_end": 500,
            "offsets_to_fill": 0,
        }
        for n in (0, 1)
    ]
    own = {(topic["cluster"], topic["topic"]) for topic in plan.json["own_topics"]}
    assert not any(topic["exists"] for topic in plan.json["own_topics"])
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
    made = {(f"{prefix}b", topic) for topic in target.topics() - before}
    made |= {(f"{prefix}a", topic) for topic in source.topics() - before_on_source}
    made -= {(f"{prefix}b", topic) for topic in ("__consumer_offsets", "__transaction_state")}
    assert made == own | {(f"{prefix}b", f"{prefix}a.{orders}")}, "what the plan said, and no more"
    status = causeway("status", file, "--json")
    assert status.code == 0, status.err
    assert [
        (one["partition"], one["source_end"], one["mirrored_to"], one["lag_records"], one["lag_ms"])
        for one in link_of(status.json)["partitions"]
    ] == [(0, 500, 500, 0, 0), (1, 500, 500, 0, 0)]
    assert link_of(status.json)["driver"]["running"] is False
    assert causeway("status", file, "--json", "--check").code == 9, "no driver runs"
    again = link_of(causeway("plan", file, "--json").json)
    assert (again["changes"], again["new_progress_topic"]) == ([], None)
    assert [start["how"] for start in again["mirrored"][0]["starts"]] == ["go on"] * 2
    assert all(topic["exists"] for topic in causeway("plan", file, "--json").json["own_topics"])


def test_an_open_transaction_is_named_with_what_it_holds_back(
    file: Path, source: KafkaTools, prefix: str
) -> None:
    """No driver has watched it: all that is told is the date of its first record."""
    topic = prefix + "held"
    source.create_topic(topic)
    source.produce(topic, [b"before"])
    with source.transactional(topic) as transactions:
        transactions.begin()
        transactions.send(
            topic, Outgoing(value=b"open", timestamp=int(time.time() * 1000) - 90_000)
        )
        transactions.flush()
        source.produce(topic, [b"behind"] * 9)

        (one,) = link_of(causeway("status", file, "--json").json)["partitions"]
        shown = causeway("status", file).out

        transactions.abort()
    assert (one["source_end"], one["high_watermark"]) == (1, 11)
    assert (one["lag_records"], one["held_records"]) == (1, 10)
    said = r"producer \d+, epoch \d+, holds offset 1, a record dated 2 min ago: 10 off"
    assert re.search(said, one["reason"])
    assert "1 of 11" in shown
    source.await_transactions(topic)
    (one,) = link_of(causeway("status", file, "--json").json)["partitions"]
    assert (one["source_end"], one["held_records"]) == (12, 0)
    assert "transaction" not in one["reason"]


def test_tables_for_people(file: Path, source: KafkaTools, target: KafkaTools, prefix: str) -> None:
    source.create_topic(prefix + "orders", 3)
    source.produce(prefix + "orders", [Outgoing(value=b"x", partition=1)] * 1200)
    source.create_topic(f"__{prefix}settings")
    source.create_topic(prefix + "stock")
    target.create_topic(f"{prefix}a.{prefix}stock")
    target.produce(f"{prefix}a.{prefix}stock", [b"not ours"])
    with file.open("a") as more:
        more.write(f"{prefix}a.consumer.auto.offset.reset = latest\n")
        more.write(f"{prefix}b.consumer.client.id = x\nnonsense = 1\n")

    plan = causeway("plan", file)
    status = causeway("status", file)

    assert (plan.code, status.code) == (7, 0), plan.err + status.err
    assert f"{prefix}a->{prefix}b: 2 topics with 4 partitions would be mirrored" in plan.out
    assert (
        "the first record (2 of 3); the end: 1,200 earlier records are left out (1 of 3)"
        in plan.out
    )
    assert "nowhere, it would stop" in plan.out
    assert f"{prefix}a.{prefix}stock has data already (1 offsets)" in plan.out
    assert "message.timestamp.after.max.ms: a mirror takes records as they are" in plan.out
    assert f"mm2-offset-syncs.{prefix}b.internal" in plan.out
    assert f"__{prefix}" not in plan.out
    assert "of Kafka, Connect and mirrors left out" in plan.out
    assert "unknown keys" in plan.err
    assert "unknown keys" not in status.err
    assert f"{prefix}a.{prefix}orders" in plan.out
    assert "create: 3 partitions, 1 replica" in plan.out
    assert "no driver has run this link yet" in status.out
    assert "not begun" in status.out


def test_a_mirror_that_begins_at_the_end_is_not_taken_for_a_whole_one(
    file: Path, source: KafkaTools, prefix: str
) -> None:
    source.create_topic(prefix + "orders")
    source.produce(prefix + "orders", [b"x"] * 10)
    with file.open("a") as more:
        more.write(f"{prefix}a.consumer.auto.offset.reset = latest\n")

    run = causeway("run", file, "--until-caught-up")
    (one,) = link_of(causeway("status", file, "--json").json)["partitions"]

    assert run.code == 0, run.err
    assert (one["mirrored_to"], one["lag_records"]) == (10, 0)
    assert one["reason"].startswith("the mirror is empty: the source's offsets 0 to 9 lie before")
