"""Taking over from the real MirrorMaker 2, going back to it, and never being behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.dev.cluster import LocalCluster
from causeway.dev.mirror_maker import MirrorMaker2
from tests.harness.control import Truth, checkpoints
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    run_to_end,
)
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration


def properties(source: LocalCluster, target: LocalCluster, prefix: str) -> dict[str, str]:
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        "A->B.enabled": "true",
        "topics": f"{prefix}.*",
        "groups": f"{prefix}.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.flush.interval.ms": "1000",
        "emit.checkpoints.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "A.consumer.isolation.level": "read_committed",
    }


@pytest.mark.timeout(900)
def test_taken_over_and_given_back(prefix: str, tmp_path: Path) -> None:
    """Records are written all the while. Nothing is lost and nothing is there twice, whoever
    mirrors; and where a group stands, MirrorMaker 2's checkpoints are never ahead of the truth,
    nor of ours."""
    with LocalCluster("A") as source_cluster, LocalCluster("B") as target_cluster:
        source, target = KafkaTools(source_cluster.bootstrap), KafkaTools(target_cluster.bootstrap)
        topic = prefix + "t"
        mirror = f"A.{topic}"
        source.create_topic(topic, 2)
        source.commit_group(f"{prefix}g", {(topic, 0): 0})
        settings = properties(source_cluster, target_cluster, prefix)
        theirs = MirrorMaker2(settings, tmp_path / "first")
        theirs.start()
        with writing(source, topic, 2, seed=1) as writer:
            await_until(lambda: writer.written > 500, 60, "records to mirror")
            await_copied(source, topic, target, mirror)
            stand = {(topic, p): end // 2 for p, end in source.offsets(topic).items()}
            source.commit_group(f"{prefix}g", stand)
            places = [((f"{prefix}g", (mirror, p)), stand[topic, p]) for p in (0, 1)]
            await_until(
                lambda: all(
                    (found := checkpoints(target).get(key)) and found.upstream == offset
                    for key, offset in places
                ),
                PATIENCE_S,
                "MirrorMaker 2's checkpoints",
            )
            before = checkpoints(target)
            theirs.stop()

            file = tmp_path / "first" / "mm2.properties"
            with Running("run", file, directory=tmp_path) as run:
                await_copied(source, topic, target, mirror)
                # A group that stands where this mirror has not been is MirrorMaker 2's affair.
                ends = source.offsets(topic)
                source.commit_group(f"{prefix}h", {(topic, p): end for p, end in ends.items()})
                ours = [(f"{prefix}h", (mirror, p)) for p in (0, 1)]
                await_until(
                    lambda: all(key in checkpoints(target) for key in ours),
                    PATIENCE_S,
                    "our checkpoints",
                )
                await_copied(source, topic, target, mirror)
                assert run.stop() == 0
            truth = Truth.of(source, topic, target, mirror)
            after = checkpoints(target)
            for key, offset in places:
                exact = truth.place(key[1][1], offset)
                assert before[key].downstream <= after[key].downstream <= exact
            for key in ours:
                found = after[key]
                assert found.downstream <= truth.place(key[1][1], found.upstream)

            again = MirrorMaker2(settings, tmp_path / "again")
            again.start()
            writer.end()
            await_copied(source, topic, target, mirror)
            again.stop()
        run_to_end(file)
        assert_same(source, topic, target, mirror)
