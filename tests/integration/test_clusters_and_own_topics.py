"""What a link takes for granted of its clusters and of its own topics is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.dev.cluster import LocalCluster
from tests.harness.command import causeway
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import mm2_file

pytestmark = pytest.mark.integration


def fill(tools: KafkaTools, topic: str, text: str, count: int = 20) -> None:
    tools.produce(
        topic, [Outgoing(value=f"{text} {n}".encode(), partition=0) for n in range(count)]
    )


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
