"""Lanes on the executors of a real Spark cluster, as docs/how-to/spark.md has it."""

from __future__ import annotations

import os
import sys
import tarfile
import time
import urllib.request
from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import (
    PATIENCE_S,
    Running,
    arguments_of,
    assert_same,
    await_copied,
    mm2_file,
)
from tests.harness.spark_cluster import spark_cluster
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration

SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_lanes_on_two_workers_of_which_one_dies(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Where executors cannot import Causeway, the run says so. With the environment shipped to
    them, each worker runs a lane. One worker is killed with all below it; the other lane takes its
    partitions over. The key of the control socket stands in no argument, page or file."""
    topic, mirror = prefix + "t", f"S.{prefix}t"
    source.create_topic(topic, 4)
    (tmp_path / "spark").mkdir()
    with (
        spark_cluster(tmp_path / "spark") as spark,
        writing(source, topic, 4, seed=SEED) as writer,
    ):
        common = (
            "S->T.enabled = true",
            f"topics = {prefix}.*",
            "spark.driver.host = 127.0.0.1",
            "spark.executor.cores = 1",
            "spark.executor.memory = 512m",
            "spark.cores.max = 2",
            "causeway.lanes = 2",
            "causeway.lease.ms = 5000",
        )
        clusters = {"S": source_cluster, "T": target_cluster}
        bare = Path(sys.base_prefix) / "bin" / "python3"  # this version, without any package
        file = mm2_file(
            tmp_path, clusters, *common, f"spark.pyspark.python = {bare}", spark=spark.master
        )
        ended = causeway("run", file, timeout_s=4 * PATIENCE_S)
        assert ended.code == 6, ended.err
        assert "cannot import causeway" in ended.err
        assert "docs/how-to/spark.md" in ended.err

        file = mm2_file(
            tmp_path,
            clusters,
            *common,
            f"spark.archives = {packed_environment(tmp_path)}#environment",
            "spark.pyspark.python = ./environment/bin/python",
            spark=spark.master,
        )
        with Running("run", file, directory=tmp_path) as run:
            await_until(
                lambda: spark.python_workers(0) and spark.python_workers(1),
                PATIENCE_S,
                "a lane on each worker",
                poll_s=0.5,
            )
            await_copied(source, topic, target, mirror)
            worker = spark.python_workers(0)[0]
            key = worker.environ()["CAUSEWAY_CONTROL_SECRET"]
            everyone = [*run.processes(), *spark.below(0), *spark.below(1)]
            seen = {arguments_of(p) for p in everyone}
            for page in spark.pages:
                with urllib.request.urlopen(page, timeout=60) as answer:
                    seen.add(answer.read().decode())
            assert not [text for text in seen if key in text]

            spark.kill(1)
            await_copied(source, topic, target, mirror)
            writer.end()
            await_copied(source, topic, target, mirror)
            assert spark.python_workers(0), "the other worker's lane goes on"
            assert run.stop() == 0, run.log
        # Both sides are compared there as well.
        verified = causeway("verify", file, "--strict", timeout_s=4 * PATIENCE_S)
        assert verified.code == 0, verified.out + verified.err
        written = [path for path in (tmp_path / "spark").rglob("*") if path.is_file()]
        assert written
        assert not [path for path in written if key.encode() in path.read_bytes()]

    assert key not in run.log
    assert writer.written > 1_000
    assert_same(source, topic, target, mirror)


def packed_environment(directory: Path) -> Path:
    """Stands in for what venv-pack makes: its `bin/python` is the one that runs this test."""
    python = directory / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    archive = directory / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(python, "bin/python")
    return archive
