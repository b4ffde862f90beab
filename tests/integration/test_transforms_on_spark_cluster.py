"""A transform's stage on the executors of a real Spark cluster, as docs/how-to/spark.md has it."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import sys
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import (
    PATIENCE_S,
    Running,
    arguments_of,
    assert_same,
    await_copied,
    mm2_file,
)
from tests.harness.spark_cluster import SparkCluster, spark_cluster
from tests.harness.spark_pages import spark_shows
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.timeout(1200)
def test_a_stage_on_an_executor_that_is_killed(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A lane and a stage on an executor each, which talk over TCP. The stage's executor is killed,
    and another one goes on: each record comes out once, in order. What the transform must keep
    secret, and the key of the sockets, are in no argument, page, event log, file or line."""
    pepper = f"Pepper{uuid.uuid4().hex}"
    plain, personal = prefix + "plain", prefix + "personal"
    source.create_topics([plain, personal], 2)
    events = tmp_path / "events"
    events.mkdir()
    (tmp_path / "spark").mkdir()
    with spark_cluster(tmp_path / "spark") as spark:
        file = mm2_file(
            tmp_path,
            {"A": source_cluster, "B": target_cluster},
            "A->B.enabled = true",
            f"topics = {prefix}.*",
            "A->B.causeway.transforms = pii",
            f"A->B.causeway.transform.pii.topics = {personal}",
            "A->B.causeway.transform.pii.rules = "
            "mask value.$.card keep last 4; hash value.$.name with pepper",
            "A->B.causeway.transform.pii.secret.pepper = ${env:PEPPER}",
            f"spark.driver.host = {_own_address()}",
            f"spark.pyspark.python = {sys.executable}",
            "spark.executor.cores = 1",
            "spark.executor.memory = 512m",
            "spark.cores.max = 2",
            "spark.ui.enabled = true",
            "spark.ui.port = 0",
            "spark.eventLog.enabled = true",
            "spark.eventLog.compress = false",
            f"spark.eventLog.dir = file:{events}",
            spark=spark.master,
        )
        with Running("run", file, directory=tmp_path, environment={"PEPPER": pepper}) as run:
            for part in (0, 1):
                for topic in (plain, personal):
                    source.produce(topic, [_customer(n + 200 * part) for n in range(200)])
                if part:
                    _kill_executor(spark, _stages_at(spark))
                await_copied(source, plain, target, f"A.{plain}")
                await_copied(source, personal, target, f"A.{personal}")
            workers = spark.python_workers(_stages_at(spark))
            # Records did not wait for these two: a direct worker has treated them.
            await_until(
                lambda: all(_own_address() in _peers(worker) for worker in workers),
                PATIENCE_S,
                "workers that talk to their lane over TCP",
            )
            key = workers[0].environ()["CAUSEWAY_CONTROL_SECRET"]
            shown = dict(spark_shows(run))
            for page in spark.pages:
                with urllib.request.urlopen(page, timeout=60) as answer:
                    shown[page] = answer.read().decode()
            for process in (*run.processes(), *spark.below(0), *spark.below(1)):
                shown[f"arguments of {process.pid}"] = arguments_of(process)
            assert run.stop() == 0, run.log
        shown["the log"] = run.log
        files = [*(tmp_path / "spark").rglob("*"), *events.rglob("*")]
        shown |= {str(p): p.read_bytes().decode(errors="replace") for p in files if p.is_file()}
    assert any(str(events) in where for where in shown)
    assert not [where for where, text in shown.items() if pepper in text or key in text]

    assert_same(source, plain, target, f"A.{plain}")
    wanted = source.read(personal)
    for read_committed in (False, True):
        found = target.read(f"A.{personal}", read_committed=read_committed)
        for partition, records in wanted.items():
            assert [json.loads(r.value or b"") for r in found[partition]] == [
                _treated(json.loads(r.value or b""), pepper) for r in records
            ]


def _customer(number: int) -> Outgoing:
    card = f"4111-1111-1111-{number:04}"
    value = json.dumps({"id": number, "name": f"Ada {number}", "card": card}).encode()
    return Outgoing(value=value, partition=number % 2)


def _treated(customer: dict[str, Any], pepper: str) -> dict[str, Any]:
    name = hmac.new(pepper.encode(), customer["name"].encode(), hashlib.sha256).hexdigest()
    return {**customer, "name": name, "card": "****-****-****-" + customer["card"][-4:]}


def _own_address() -> str:
    """Not the loopback's, if there is one: by that, lanes take it that all is on one machine."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not each.address.startswith("127."):
                return each.address
    return "127.0.0.1"


def _peers(process: psutil.Process) -> set[str]:
    return {each.raddr.ip for each in process.net_connections("tcp") if each.raddr}


def _stages_at(spark: SparkCluster) -> int:
    """The worker whose executor runs the stage: with two Python workers, where a lane has one."""
    counts = [0, 0]

    def known() -> bool:
        counts[:] = [len(spark.python_workers(number)) for number in (0, 1)]
        return sorted(counts) == [1, 2]

    await_until(known, PATIENCE_S, "a lane's worker and a stage's two", poll_s=0.5)
    return counts.index(2)


def _kill_executor(spark: SparkCluster, worker: int) -> None:
    """The executor alone: its worker starts another one, as a cluster's manager does."""
    (executor,) = [process for process in spark.below(worker) if process.name() == "java"]
    executor.kill()
    await_until(lambda: not executor.is_running(), PATIENCE_S, "its end", poll_s=0.1)
