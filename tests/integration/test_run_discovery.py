"""Topics and partitions that come and go while several flows run in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    mm2_file,
    status_of,
)
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration


def fill(tools: KafkaTools, topic: str, partitions: int, text: str) -> None:
    tools.produce(
        topic,
        [
            Outgoing(value=f"{text} {n}".encode(), key=b"k%d" % n, partition=n % partitions)
            for n in range(60)
        ],
    )


@pytest.mark.timeout(1200)
def test_topics_and_partitions_that_come_and_go(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Four flows in one file: both ways between A and B, which must not go in a circle; one that
    keeps names (to the same brokers, under another alias); one with a separator of its own."""
    both, back = f"{prefix}both", f"{prefix}back"
    plain, joined = f"plain-{prefix}t", f"joined-{prefix}t"
    steady = f"{prefix}steady"
    source.create_topics([both, plain, joined, steady], 2)
    target.create_topic(back, 2)
    for topic in (both, plain, joined):
        fill(source, topic, 2, "first")
    fill(target, back, 2, "first")
    names = f".*{prefix}.*"
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster, "C": target_cluster, "D": target_cluster},
        "A->B.enabled = true",
        "B->A.enabled = true",
        "A->C.enabled = true",
        "A->D.enabled = true",
        f"topics = {names}",
        "topics.exclude = plain-.*, .*joined-.*",
        f"A->C.topics = plain-{prefix}.*",
        "A->C.topics.exclude = none",
        "A->C.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        f"A->D.topics = joined-{prefix}.*",
        "A->D.topics.exclude = none",
        "A->D.replication.policy.separator = _",
        # A_checkpoints_internal would stand in the way of A.checkpoints.internal, in other tests.
        "A->D.emit.checkpoints.enabled = false",
        "A->D.emit.offset-syncs.enabled = false",
        "refresh.topics.interval.seconds = 1",
    )
    with (
        Running("run", file, directory=tmp_path) as run,
        writing(source, steady, 2, seed=1) as writer,
    ):
        mirrors = [
            (source, both, target, f"A.{both}"),
            (target, back, source, f"B.{back}"),
            (source, plain, target, plain),
            (source, joined, target, f"A_{joined}"),
            (source, steady, target, f"A.{steady}"),
        ]
        for mirror in mirrors:
            await_copied(*mirror)
        await_until(lambda: len(run.workers()) == 2, PATIENCE_S, "both lanes")
        workers = {worker.pid for worker in run.workers()}

        new, doomed, reborn = (f"{prefix}{name}" for name in ("new", "doomed", "reborn"))
        source.create_topics([new, doomed, reborn], 2)
        source.add_partitions(both, 4)
        for topic, partitions in ((new, 2), (doomed, 2), (reborn, 2), (both, 4)):
            fill(source, topic, partitions, "second")
        mirrors.append((source, new, target, f"A.{new}"))
        for topic in (both, new, doomed, reborn, steady):
            await_copied(source, topic, target, f"A.{topic}")

        source.delete_topic(doomed)
        source.recreate_topic(reborn, 2)
        fill(source, reborn, 2, "not the same")

        def told() -> bool:
            reasons = _stopped(file, doomed, reborn)
            return (
                "was deleted on the source" in reasons.get(doomed, "")
                and "deleted and recreated" in reasons.get(reborn, "")
                and "--adopt" in reasons[reborn]
            )

        await_until(told, PATIENCE_S, "both are stopped, with their reasons", poll_s=0.5)

        fill(source, new, 2, "third")
        writer.end()
        for mirror in mirrors:
            await_copied(*mirror)
        assert {worker.pid for worker in run.workers()} == workers, "the same lanes go on"
        assert "lane ended" not in run.log
        assert run.stop() == 0

    for mirror in mirrors:
        assert_same(*mirror)
    for topic in (doomed, reborn):
        assert {p: len(r) for p, r in target.read(f"A.{topic}").items()} == {0: 30, 1: 30}
    assert {name for name in source.topics() if name.startswith("B.") and prefix in name} == {
        f"B.{back}"
    }
    assert {name for name in target.topics() if name.startswith("B.")} == set()
    assert not [name for name in target.topics() if name.startswith("A.A.")]


def _stopped(file: Path, *topics: str) -> Mapping[str, str]:
    """The reasons of `topics` once all their partitions are stopped, nothing before."""
    found = [one for one in status_of(file)["A->B"]["partitions"] if one["topic"] in topics]
    if len(found) < 2 * len(topics) or any(one["state"] != "stopped" for one in found):
        return {}
    return {one["topic"]: one["reason"] for one in found}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_stops_one_flow_leaves_another_of_the_same_partition_running(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Both are in one lane, which reads the partition for each of them."""
    topic = f"{prefix}t"
    source.create_topic(topic)
    fill(source, topic, 1, "first")
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster, "C": target_cluster},
        "A->B.enabled = true",
        "A->C.enabled = true",
        f"topics = {topic}",
        "A->C.replication.policy.separator = -",
        "emit.checkpoints.enabled = false",
        "emit.offset-syncs.enabled = false",
        "causeway.lanes = 1",
    )
    mirrors = f"A.{topic}", f"A-{topic}"
    with Running("run", file, directory=tmp_path) as run:
        for mirror in mirrors:
            await_copied(source, topic, target, mirror)
        target.delete_topic(mirrors[1])

        def stopped() -> bool:
            (partition,) = status_of(file)["A->C"]["partitions"]
            return bool(partition["state"] == "stopped")

        fill(source, topic, 1, "second")
        await_until(stopped, PATIENCE_S, "A->C stops")
        fill(source, topic, 1, "third")

        await_copied(source, topic, target, mirrors[0])
        assert run.stop() == 0, run.log
    assert_same(source, topic, target, mirrors[0])
