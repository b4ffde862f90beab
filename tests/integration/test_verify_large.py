"""Four flaws among ten million records: one byte, one record too few, one too many, two swapped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.cluster import Cluster
from causeway.formats import load
from causeway.model import TopicPartition
from tests.harness import flawed
from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, mm2_file
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

FOREVER = {"retention.ms": "-1"}
EACH = 2_500_000  # records of a partition
TOPIC = "ten-million"


@pytest.mark.timeout(1500)
def test_four_flaws_among_ten_million_records(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    """As a Spark job of two lanes, by the command. Each flaw is told with both offsets, and nothing
    else, by a call that goes on where another one was killed; the page names them too. What agrees
    is remembered, so that one more call looks at the ranges with flaws alone."""
    file = mm2_file(
        tmp_path,
        {"large": source_cluster, "there": target_cluster},
        "large->there.enabled = true",
        f"large->there.topics = {TOPIC}",
    )
    source.create_topic(TOPIC, 4, config=FOREVER)
    target.create_topic(f"large.{TOPIC}", 4, config=FOREVER)
    (link,) = load(file).links
    with Cluster(link.source) as one, Cluster(link.target) as other:
        for partition in range(4):
            flawed.fill(one, TopicPartition(TOPIC, partition), EACH)
        flawed.mirror(
            link,
            TOPIC,
            {
                (0, 1_234_567): flawed.flip,
                (1, 500_001): flawed.drop,
                (1, 2_000_001): flawed.double,
                (2, 77_777): flawed.swap,
            },
            4,
            source=one,
            target=other,
        )
    page, state = tmp_path / "verify.html", tmp_path / "state"
    with Running(
        "verify", file, "--state", state, "--throttle", "200MB", directory=tmp_path
    ) as begun:
        await_until(lambda: _lines(state) > 3, PATIENCE_S, "some of it agrees")
        begun.kill()
    options = ("--json", "--html", page, "--state", state)

    found = causeway("verify", file, *options, timeout_s=900)

    assert found.code == 13, found.err
    report = json.loads(found.out)
    assert any(one["records_before"] for one in report["partitions"])
    assert [one["verdict"] for one in report["partitions"]] == ["differs"] * 3 + ["agrees"]
    told = [
        (
            one["partition"],
            each["kind"],
            each["source_offset"],
            each["target_offset"],
            each["records"],
            each["other"],
        )
        for one in report["partitions"]
        for each in one["differences"]
    ]
    assert told == [
        (0, "changed", 1_234_567, 1_234_567, 1, None),
        (1, "missing", 500_001, 500_001, 1, None),
        (1, "doubled", 2_000_001, 2_000_001, 1, [2_000_001, 2_000_000]),
        (2, "swapped", 77_777, 77_777, 2, [77_778, 77_778]),
    ]
    assert report["records"] == 4 * EACH - 4  # changed, missing, and two that are swapped
    assert "1,234,567" in page.read_text()

    again = json.loads(causeway("verify", file, *options, timeout_s=900).out)
    assert again["partitions"][3]["records_before"] == EACH
    assert again["partitions"][0]["records_before"] > EACH // 2
    assert [one["differences"] for one in again["partitions"]] == [
        one["differences"] for one in report["partitions"]
    ]


def _lines(state: Path) -> int:
    return len(state.read_text().splitlines()) if state.exists() else 0
