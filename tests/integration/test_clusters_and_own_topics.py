"""What a link takes for granted of its clusters and of its own topics is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.model import State
from tests.harness.command import causeway
from tests.harness.daemon import RunningDaemon, link, link_apart
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import assert_same, await_copied, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


def fill(tools: KafkaTools, topic: str, text: str, count: int = 20) -> None:
    tools.produce(
        topic, [Outgoing(value=f"{text} {n}".encode(), partition=0) for n in range(count)]
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_own_topics_that_would_lose_records_are_made_compact(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    file = mm2_file(
        tmp_path,
        {a: source_cluster, b: target_cluster},
        f"{a}->{b}.enabled = true",
        "topics = none",
    )
    progress, directives = (f"__causeway.{a}.{b}.{name}" for name in ("progress", "directives"))
    syncs, checkpoints = f"mm2-offset-syncs.{b}.internal", f"{a}.checkpoints.internal"
    target.create_topic(progress, 3, config={"cleanup.policy": "compact"})

    planned = causeway("plan", file)
    assert planned.code == 2
    assert f"{progress} on {b}: it has 3 partitions, and must have 1" in planned.out
    refused = causeway("run", file, "--until-caught-up")
    assert refused.code == 2
    assert "it has 3 partitions, and must have 1" in refused.err

    target.delete_topic(progress)
    for tools, topic in (
        (target, progress),
        (target, directives),
        (target, checkpoints),
        (source, syncs),
    ):
        tools.create_topic(topic, config={"cleanup.policy": "delete"})
    planned = causeway("plan", file)
    assert planned.code == 0
    for topic in (progress, directives, checkpoints, syncs):
        assert (
            f"{topic} on {a if topic == syncs else b}: set cleanup.policy to compact"
            in " ".join(planned.out.split())
        )
    assert causeway("run", file, "--until-caught-up").code == 0
    policies = {t: target.topic_config(t)["cleanup.policy"] for t in (progress, directives)}
    assert policies == {
        progress: "compact",
        directives: "compact",
    }
    assert source.topic_config(syncs)["cleanup.policy"] == "compact"


@pytest.fixture(scope="module")
def stranger() -> Iterator[LocalCluster]:
    """Another cluster than the source and the target."""
    with LocalCluster("C") as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_another_cluster_at_the_address_is_not_mirrored(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    stranger: LocalCluster,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, strange = f"{prefix}ours", f"{prefix}theirs"
    others = KafkaTools(stranger.bootstrap)

    def flow(*clusters: LocalCluster, **more: Any) -> LinkSettings:
        bootstrap = ",".join(cluster.bootstrap for cluster in clusters)
        made = link_apart(bootstrap, target.bootstrap, prefix)
        changed = replace(made.source, request_timeout_ms=4_000, **more)
        return replace(made, source=changed, source_admin=changed)

    alias = flow(source_cluster).source.alias
    source.create_topic(topic)
    others.create_topic(strange)
    fill(source, topic, "ours")
    fill(others, strange, "theirs")
    with RunningDaemon(monkeypatch, flow(stranger, source_cluster)) as run:
        await_until(lambda: "lead to several clusters" in told(run), 120, "it is told")
    assert target.topics().isdisjoint({f"{alias}.{topic}", f"{alias}.{strange}"}), (
        "nobody knows which is A"
    )

    with RunningDaemon(monkeypatch, flow(source_cluster)):
        await_copied(source, topic, target, f"{alias}.{topic}")

    with RunningDaemon(monkeypatch, flow(stranger, source_cluster)) as run:
        fill(source, topic, "more of ours")
        await_copied(source, topic, target, f"{alias}.{topic}")
        run.await_state(topic, State.RUNNING)

    with RunningDaemon(monkeypatch, flow(stranger)) as run:
        await_until(lambda: "belongs to cluster" in told(run), 120, "it is told")
        assert f"{alias}.causeway.cluster.id = " in told(run)
        assert not [p for p in run.partitions().values() if p.state is State.STOPPED]
    assert f"{alias}.{strange}" not in target.topics()

    with RunningDaemon(monkeypatch, flow(source_cluster)) as run:
        fill(source, topic, "the rest of ours")
        await_copied(source, topic, target, f"{alias}.{topic}")
    assert_same(source, topic, target, f"{alias}.{topic}")

    moved = Cluster(flow(stranger).source)
    with moved:
        cluster_id = moved.bootstrap_check().cluster_id
    with RunningDaemon(monkeypatch, flow(stranger, cluster_id=cluster_id)):
        await_copied(others, strange, target, f"{alias}.{strange}")
    with RunningDaemon(monkeypatch, flow(stranger)):
        fill(others, strange, "more of theirs")
        await_copied(others, strange, target, f"{alias}.{strange}")


def told(run: RunningDaemon) -> str:
    """All reasons that its link gives."""
    if run.snapshot is None:
        return ""
    found = run.link()
    return "; ".join([found.reason or "", *(trouble.reason for trouble in found.problems)])


@pytest.mark.timeout(600)
def test_two_aliases_of_one_cluster_make_no_endless_prefixes(
    stranger: LocalCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = KafkaTools(stranger.bootstrap)
    loop, copied = f"{prefix}loop", f"{prefix}once"
    for topic in (loop, copied):
        others.create_topic(topic)
        fill(others, topic, "one")
    round_and_round = link(stranger.bootstrap, stranger.bootstrap, f".*{prefix}.*")
    with RunningDaemon(monkeypatch, round_and_round) as run:
        await_until(lambda: run.result is not None, 120, "nothing can be mirrored, so it ends")
    assert "are one cluster by its id" in str(run.result)
    assert not [topic for topic in others.topics() if topic.startswith("A.") and prefix in topic]

    once = link(stranger.bootstrap, stranger.bootstrap, copied)
    with RunningDaemon(monkeypatch, once):
        await_copied(others, copied, others, f"A.{copied}")


@pytest.mark.timeout(600)
def test_plan_tells_of_a_loop_that_another_file_closes(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.create_topic(prefix)
    fill(source, prefix, "one")
    with RunningDaemon(monkeypatch, link(source.bootstrap, target.bootstrap, prefix)):
        await_copied(source, prefix, target, f"A.{prefix}")
    back = mm2_file(
        tmp_path,
        {"X": target_cluster, "Y": source_cluster},
        "X->Y.enabled = true",
        f"topics = .*{prefix}.*",
    )
    told = " ".join(causeway("plan", back).out.split())
    assert f"a loop: by __causeway.A.B.progress on X, a flow brings A.{prefix} from Y" in told
    alike = mm2_file(
        tmp_path,
        {"B": target_cluster, "A": source_cluster},
        "B->A.enabled = true",
        f"topics = .*{prefix}.*",
    )
    assert "a loop" not in causeway("plan", alike).out, "names tell"
