"""Many transforms of rules: one direct worker, and a stage for the one that meets an odd record."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from causeway.dev.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, arguments_of, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

TRANSFORMS, EACH = 9, 40
ODD = b'{"n": %d, "name": "\\u0041da"}'  # as any JSON may be written; the shortcut leaves it


def _values(first: int, *odd: int) -> list[bytes]:
    return [
        ODD % n if n in odd else b'{"n": %d, "name": "Ada"}' % n for n in range(first, first + EACH)
    ]


def test_processes_that_die_while_a_late_stage_begins_lose_and_double_nothing(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Plain records need no stage. Then one that is odd, among others, has its transform's stage
    begin; meanwhile the direct worker is killed, and all of Spark's workers are."""
    topics = [f"{prefix}t{number}" for number in range(TRANSFORMS)]
    source.create_topics(topics, 1)
    names = [f"t{number}" for number in range(TRANSFORMS)]
    lines = ["A->B.causeway.transforms = " + ", ".join(names)]
    for name in names:
        lines += [
            f"A->B.causeway.transform.{name}.topics = {prefix}{name}",
            f"A->B.causeway.transform.{name}.rules = mask value.$.name keep first 1",
        ]
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}t.*",
        "causeway.lanes = 1",
        *lines,
    )

    def write(values: list[bytes], *to: str) -> None:
        for topic in to:
            source.produce(topic, [Outgoing(value=value, partition=0) for value in values])

    def arrived(count: int, *of: str) -> bool:
        return all(
            target.partition_count(f"A.{topic}") is not None
            and target.offsets(f"A.{topic}") == {0: count}
            for topic in of
        )

    write(_values(0), *topics)
    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: arrived(EACH, *topics), 120, "plain records")
        assert len(run.workers()) == 1, "the lane's"
        _kill([p for p in run.processes() if "direct_worker" in arguments_of(p)])
        write(_values(EACH, EACH + 7, EACH + 8), topics[0])
        write(_values(EACH), *topics[1:])
        await_until(lambda: len(run.workers()) > 1, 120, "the stage's workers")
        _kill(run.workers())
        await_until(lambda: arrived(2 * EACH, *topics), 180, "all records")
        await_until(lambda: len(run.workers()) == 3, 60, "the lane's, and one stage's two")
        assert run.stop() == 0, run.log
    for topic in topics:
        (records,) = target.read(f"A.{topic}").values()
        found = [json.loads(record.value or b"") for record in records]
        assert found == [{"n": n, "name": "A**"} for n in range(2 * EACH)], topic


def _kill(processes: list[psutil.Process]) -> None:
    assert processes
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
