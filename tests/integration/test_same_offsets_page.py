"""docs/how-to/use-cases/same-offsets.md: its Spark job and its consumer move between the clusters
by their address, over gaps, and also if the job was killed amid a batch: no order is lost or
doubled."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pyarrow.parquet as parquet
import pytest

from tests.harness.command import command_environment
from tests.harness.kafka_tools import KafkaTools
from tests.harness.pages import files_of
from tests.harness.running import PATIENCE_S, Running
from tests.harness.same_offsets import await_same_ends
from tests.harness.waiting import await_until
from tests.harness.writers import write_transactions

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-cases" / "same-offsets.md"
QUIET = "spark.master = local[1]\ncauseway.http.port = -1\nemit.heartbeats.enabled = false\n"
Places = list[tuple[int, int, bytes | None]]  # partition, offset, value


class Move:
    """The page's files and a running mirror; its programs are run on one cluster or the other."""

    def __init__(self, clusters: dict[str, KafkaTools], topic: str, folder: Path) -> None:
        self.clusters, self.topic, self.folder = clusters, topic, folder
        self._round = 0
        for name, content in files_of(PAGE).items():
            text = content.replace('"orders"', f'"{topic}"').replace("= orders", f"= {topic}")
            (folder / name).write_text(text + (QUIET if name == "same.properties" else ""))

    def write(self) -> None:
        """Transactions on A, a quarter of them aborted; returns once B has them."""
        self._round += 1
        a, b = self.clusters["A"], self.clusters["B"]
        write_transactions(a, self.topic, 30, seed=self._round)
        a.await_transactions(self.topic)
        await_same_ends(a, [self.topic], b, "", PATIENCE_S)

    def words(self, program: str, name: str) -> list[str | Path]:
        count = len(self.records())
        address = self.clusters[name].bootstrap
        return [sys.executable, self.folder / program, address, str(count)]

    def run(self, program: str, name: str) -> None:
        """To its end; it checks the number of records by itself."""
        done = subprocess.run(
            self.words(program, name),
            cwd=self.folder,
            env=command_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{program} on {name}: {done.stdout}{done.stderr[-3000:]}"

    def records(self) -> Places:
        """What is committed on A."""
        read = self.clusters["A"].read(self.topic, read_committed=True)
        return sorted((p, r.offset, r.value) for p, records in read.items() for r in records)


@pytest.fixture
def move(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
) -> Iterator[Move]:
    topic = prefix + "orders"
    source.create_topic(topic, 2)
    found = Move({"A": source, "B": target}, topic, tmp_path)
    environment = {name: tools.bootstrap for name, tools in found.clusters.items()}
    file = tmp_path / "same.properties"
    with Running("run", file, directory=tmp_path, environment=environment):
        found.write()
        yield found


def test_a_consumer_with_its_offsets_in_sqlite(move: Move) -> None:
    for name in ("A", "B", "A", "B", "B", "A"):
        move.run("reader.py", name)
        move.write()
    move.run("reader.py", "A")
    with closing(sqlite3.connect(move.folder / "shop.db")) as database:
        rows = database.execute("SELECT partition, offset, value FROM orders").fetchall()
    assert sorted(rows) == move.records()


@pytest.mark.slow
def test_a_spark_job_with_its_offsets_in_a_checkpoint(move: Move) -> None:
    """The first batch is planned on A, killed, and run again on B."""
    planned = move.folder / "checkpoint" / "offsets" / "0"
    with (move.folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            move.words("job.py", "A"),
            cwd=move.folder,
            env=command_environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        await_until(
            lambda: planned.exists() or job.poll() is not None,
            PATIENCE_S,
            "a planned batch",
            poll_s=0.001,
        )
        assert planned.exists(), (move.folder / "job.log").read_text()[-3000:]
    finally:
        kill(job.pid)
        job.wait(60)
    assert not (move.folder / "checkpoint" / "commits" / "0").exists(), "killed too late"
    move.write()
    move.run("job.py", "B")
    move.write()
    move.run("job.py", "A")
    assert written(move.folder / "orders.parquet") == move.records()


def kill(pid: int) -> None:
    """SIGKILL to a process and all that it has started."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in processes:
        process.kill()
    psutil.wait_procs(processes, 60)


def written(folder: Path) -> Places:
    """The rows of the files that Spark has committed."""
    files = {
        json.loads(line)["path"].rpartition("/")[2]
        for manifest in (folder / "_spark_metadata").iterdir()
        if not manifest.name.startswith(".")
        for line in manifest.read_text().splitlines()[1:]
    }
    return sorted(
        (row["partition"], row["offset"], row["value"])
        for name in files
        for row in parquet.read_table(folder / name).to_pylist()
    )
