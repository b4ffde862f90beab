"""Mirrors that keep the topics' names are taken over from the real MirrorMaker 2 at its positions;
without positions, a run asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.mirror_maker import MirrorMaker2
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    mm2_file,
    run_to_end,
    status_of,
)
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

IDENTITY = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    # As in Apache's example, and another alias than that of the offsets topic's name.
    "B.offset.storage.topic": "mm2-offsets-B.internal",
    "A->B.source.cluster.alias": "east",
}
RECIPE = {
    "source.cluster.alias": "",
    "target.cluster.alias": "",
    "replication.policy.separator": "",
    "checkpoints.topic.replication.factor": "1",
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("names", [IDENTITY, RECIPE], ids=["identity", "recipe"])
def test_nothing_is_copied_again(
    names: dict[str, str],
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    topic = prefix + "t"
    source.create_topic(topic, 1)
    source.produce(topic, [b"%d" % number for number in range(500)])
    theirs = MirrorMaker2(
        {
            "clusters": "A, B",
            "A.bootstrap.servers": source_cluster.bootstrap,
            "B.bootstrap.servers": target_cluster.bootstrap,
            "A->B.enabled": "true",
            "topics": f"{prefix}.*",
            "groups": f"{prefix}.*",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.flush.interval.ms": "1000",
            "emit.heartbeats.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "causeway.http.port": "-1",
            **names,
        },
        tmp_path / "theirs",
    )
    theirs.start()
    await_copied(source, topic, target, topic)
    theirs.stop(PATIENCE_S)
    source.produce(topic, [b"%d" % number for number in range(500, 510)])

    planned = causeway("plan", theirs.properties_file, "--json")
    assert '"how": "begin"' not in planned.out or '"offset": 500' in planned.out, planned.out
    run_to_end(theirs.properties_file)

    assert_same(source, topic, target, topic)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_target_with_data_of_which_nothing_is_known_stops_and_asks(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    copied, new = prefix + "copied", prefix + "new"
    for topic in (copied, new):
        source.create_topic(topic, 1)
        source.produce(topic, [b"%d" % number for number in range(30)])
    target.create_topic(copied, 1)
    target.produce(
        copied,
        [Outgoing(value=r.value, timestamp=r.timestamp) for r in source.read(copied)[0][:20]],
    )
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "replication.policy.class = IdentityReplicationPolicy",
        "sync.topic.acls.enabled = false",
        "emit.checkpoints.enabled = false",
    )
    planned = causeway("plan", file)
    assert "--adopt" in planned.out + planned.err
    with Running("run", file, directory=tmp_path) as run:
        await_copied(source, new, target, new)
        await_until(
            lambda: any(p["state"] == "stopped" for p in status_of(file)["A->B"]["partitions"]),
            PATIENCE_S,
            "the topic with data is stopped",
        )
        (stopped,) = (p for p in status_of(file)["A->B"]["partitions"] if p["topic"] == copied)
        assert "has data already" in stopped["reason"]
        assert "--from" in stopped["reason"]
        assert "--adopt" in stopped["reason"]
        assert target.offsets(copied) == {0: 20}
        assert run.stop() == 0

    run_to_end(file, "--adopt")
    assert_same(source, copied, target, copied)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("named", [True, False])
def test_connectors_in_a_connect_cluster_are_taken_over(
    named: bool,
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """By the worker's offsets topic, in which a connector has any name; also if the file lacks the
    name, as the records confirm the position."""
    topic, positions = prefix + "t", prefix + "connect-offsets"
    for side in (source, target):
        side.create_topic(topic, 1)
    target.create_topic(positions, 5, config={"cleanup.policy": "compact"})
    source.produce(topic, [b"%d" % number for number in range(30)])
    target.produce(
        topic,
        [Outgoing(value=r.value, timestamp=r.timestamp) for r in source.read(topic)[0][:20]],
    )
    place = {"cluster": "east", "partition": 0, "topic": topic}
    key = json.dumps(["my-mirror", place], separators=(",", ":")).encode()
    target.produce(positions, [Outgoing(key=key, value=b'{"offset":19}')])
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": source_cluster.bootstrap,
        "target.cluster.bootstrap.servers": target_cluster.bootstrap,
        "replication.policy.class": IDENTITY["replication.policy.class"],
        "topics": topic,
        "replication.factor": 1,
        "sync.topic.acls.enabled": False,
    }
    document = tmp_path / "connectors.json"
    document.write_text(json.dumps({"name": "my-mirror", "config": config} if named else config))
    refused = causeway("plan", document)
    assert refused.code == 2
    assert f"east.bootstrap.servers = {source_cluster.bootstrap}" in refused.err
    file = tmp_path / "mm2.properties"
    assert causeway("convert", document, "-o", file).code == 0
    text = file.read_text().replace("connect-offsets", positions)
    file.write_text(f"{text}\ncauseway.http.port = -1\nspark.master = local[2]\n")

    run_to_end(file)

    assert_same(source, topic, target, topic)
