"""`run --clusters B` with offset syncs on the target: MirrorMaker 2's way to run beside the target
and to need no right to write on the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import await_copied, mm2_file

pytestmark = pytest.mark.integration


def ends(kafka: KafkaTools) -> dict[str, dict[int, int]]:
    topics = kafka.topics() - {"__consumer_offsets"}
    return {topic: kafka.offsets(topic) for topic in topics}


@pytest.mark.slow
def test_nothing_is_written_to_the_source(tmp_path: Path) -> None:
    with LocalCluster("A") as a, LocalCluster("B") as b:
        source, target = KafkaTools(a.bootstrap), KafkaTools(b.bootstrap)
        source.create_topic("orders")
        source.produce("orders", [b"1", b"2"])
        source.commit_group("app", {("orders", 0): 1})
        target.create_topic("local")
        target.produce("local", [b"3"])
        before = ends(source)
        file = mm2_file(
            tmp_path,
            {"A": a, "B": b},
            "A->B.enabled = true",
            "B->A.enabled = true",
            "offset-syncs.topic.location = target",
            "offset-syncs.topic.replication.factor = 1",
            "checkpoints.topic.replication.factor = 1",
            "heartbeats.topic.replication.factor = 1",
            "emit.heartbeats.enabled = true",
            "sync.group.offsets.enabled = true",
        )
        planned = causeway("plan", file, "--clusters", "B", "--json")
        assert planned.code == 0, planned.err
        assert [each["link"] for each in planned.json["links"]] == ["A->B"]
        assert {each["cluster"] for each in planned.json["own_topics"]} == {"B"}

        ran = causeway("run", file, "--clusters", "B", "--until-caught-up")
        assert ran.code == 0, ran.err
        await_copied(source, "orders", target, "A.orders")
        assert ends(source) == before
        assert "mm2-offset-syncs.A.internal" in target.topics()

        wrong = causeway("run", file, "--clusters", "C")
        assert wrong.code == 2
        assert "no flow has target C (targets are A, B)" in wrong.err
