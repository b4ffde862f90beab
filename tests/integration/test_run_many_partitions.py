"""Hundreds of partitions in one run: all of them begin, none waits for ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, assert_same, mm2_file, status_of
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

TOPICS, PARTITIONS = 5, 64
# What a machine may bring about that has much else to do.
SLOW = re.compile("timed out|in time|fell silent|does not answer|up to date")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_320_partitions_all_run(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A few records in each; every partition must reach its end and say that it runs."""
    topics = [f"{prefix}{number}" for number in range(TOPICS)]
    source.create_topics(topics, PARTITIONS)
    for topic in topics:
        source.produce(
            topic, [Outgoing(value=b"%d" % n, partition=n % PARTITIONS) for n in range(500)]
        )
    file = mm2_file(
        tmp_path,
        {"M": source_cluster, "N": target_cluster},
        "M->N.enabled = true",
        f"topics = {prefix}.*",
    )

    with Running("run", file, directory=tmp_path) as run:
        try:
            await_until(lambda: _unfinished(file) == [], PATIENCE_S, "all run", poll_s=1)
        except AssertionError as error:
            error.add_note(f"unfinished: {_unfinished(file)}")
            raise
        assert run.stop() == 0, run.log
    warned = [line for line in run.log.splitlines() if "warning" in line]
    assert [line for line in warned if not SLOW.search(line)] == []

    for topic in topics:
        assert_same(source, topic, target, f"M.{topic}")


def _unfinished(file: Path) -> list[tuple[str, int, str, str | None]] | None:
    """The partitions that do not run, or have something left to copy; None before the start."""
    partitions = status_of(file)["M->N"]["partitions"]
    if len(partitions) < TOPICS * PARTITIONS:
        return None
    return [
        (one["topic"], one["partition"], one["state"], one["reason"])
        for one in partitions
        if (one["state"], one["lag_records"]) != ("running", 0)
    ]
