"""Failed over and back with one file, which has the same names both ways, by commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.formats import load
from causeway.model import State
from tests.harness.command import causeway
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import fill
from tests.harness.running import mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_one_file_leads_over_and_back(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The way back mirrors nothing before it is told to, also of what B has of its own; the file
    does for each step, and so does the driver that runs all the time."""
    topic, own, alias = prefix + "orders", prefix + "own", prefix.partition("-")[0]
    there, back = f"{alias}->B", f"B->{alias}"
    file = mm2_file(
        tmp_path,
        {alias: source_cluster, "B": target_cluster},
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        f"{there}.enabled = true",
        f"{back}.enabled = true",
        f"{back}.causeway.way.back = true",
        f"topics = {prefix}.*",
        "groups = none",
        "heartbeats.replication.enabled = false",
        "refresh.topics.interval.seconds = 1",
        "causeway.lease.ms = 3000",
    )
    source.create_topic(topic, 1)
    target.create_topic(own, 1)
    fill(source, topic, 50)
    fill(target, own, 5)
    with RunningDaemon(monkeypatch, *load(file).links) as run:
        run.await_state(topic, State.RUNNING)
        await_until(lambda: target.offsets(topic) == {0: 50}, 60, "mirrored")
        shown = causeway("status", file, "--json").json
        assert {each["link"]: len(each["partitions"]) for each in shown["links"]} == {
            there: 1,
            back: 0,
        }
        explained = causeway("explain", file, own, "--link", back, "--json").json
        assert [each["code"] for each in explained["explanations"]] == ["way-back"]
        over = causeway("failover", file, "--link", there, "--yes")
        assert over.code == 0, over.err
        fill(target, topic, 10, first=1000)
        shown = causeway("failback", file, "--link", there, "--json")
        assert (shown.code, shown.json["pending"], shown.json["begun"]) == (2, True, False)
        begun = causeway("failback", file, "--link", there, "--timeout", "60", "--json", "--yes")
        assert begun.code == 0, begun.err
        assert (begun.json["step"], begun.json["unmirrored"]) == ("mirrors back", [])
        await_until(lambda: source.offsets(topic) == {0: 60}, 60, "B's records come to A")
        turned = causeway(
            "failback", file, "--link", there, "--turn-round", "--timeout", "60", "--yes"
        )
        assert turned.code == 0, turned.err
        fill(source, topic, 5, first=2000)
        await_until(lambda: target.offsets(topic) == {0: 65}, 60, "A's records come to B again")
    assert source.digests(topic) == target.digests(topic)
    assert source.offsets(topic) == {0: 65}, "nothing comes back twice"
    assert own not in source.topics(), "it has no cut"
