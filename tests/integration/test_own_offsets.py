"""examples/own-offsets: a consumer with its offsets in SQLite moves to the target and back, while
producers go on, with transactions that make the offsets differ: nothing lost, nothing doubled."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.command import command_environment
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, await_copied

pytestmark = pytest.mark.integration

EXAMPLE = Path(__file__).parents[2] / "examples" / "own-offsets"


class Script:
    """The example's scripts, on one database."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.database = directory / "shop.db"
        self._environment = {**command_environment(), **environment}

    def run(self, script: str, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, EXAMPLE / script, self.database, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def seen(self) -> list[str]:
        with closing(sqlite3.connect(self.database)) as database:
            return [value for (value,) in database.execute("SELECT value FROM seen ORDER BY rowid")]

    def offsets(self) -> dict[tuple[str, int], int]:
        with closing(sqlite3.connect(self.database)) as database:
            rows = database.execute("SELECT topic, partition, next FROM offsets")
            return {(topic, partition): offset for topic, partition, offset in rows}


def write(source: KafkaTools, topic: str, rounds: range) -> None:
    chance = random.Random(rounds.start)
    with source.transactional(f"{topic}-shop") as transactions:
        for number in rounds:
            transactions.begin()
            for index in range(chance.randint(1, 12)):
                partition = chance.randrange(2)
                value = b"%d-%d-%d" % (partition, number, index)
                transactions.send(topic, Outgoing(value=value, partition=partition))
            if number % 4 == 3:
                transactions.abort()
            else:
                transactions.commit()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_over_and_back(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    topic, mirror = prefix + "orders", f"A.{prefix}orders"
    addresses = {"A": source_cluster.bootstrap, "B": target_cluster.bootstrap}
    script = Script(tmp_path, addresses)
    file = tmp_path / "mm2.properties"
    text = (EXAMPLE / "mm2.properties").read_text().replace("topics = .*", f"topics = {topic}")
    quiet = "spark.master = local[1]\ncauseway.http.port = -1\nemit.heartbeats.enabled = false\n"
    file.write_text(f"{text}\n{quiet}")
    source.create_topic(topic, 2)
    write(source, topic, range(40))
    with Running("run", file, directory=tmp_path, environment=addresses):
        await_copied(source, topic, target, mirror)
        script.run("consumer.py", addresses["A"], topic, "--records", "70")
        before = script.offsets()
        moved = script.run("move.py", str(file))
        for (_, partition), offset in before.items():
            assert f"{topic}-{partition} at {offset} -> {mirror} at " in moved
        over = script.offsets()
        assert {name for name, _ in over} == {mirror}
        assert sum(over.values()) < sum(before.values()), "offsets differ"

        # Twice is refused, and changes nothing.
        refused = script.run("move.py", str(file), code=1)
        assert "there is no topic of that name" in refused
        assert script.offsets() == over

        script.run("consumer.py", addresses["B"], mirror, "--records", "60")
        write(source, topic, range(40, 60))
        await_copied(source, topic, target, mirror)
        script.run("consumer.py", addresses["B"], mirror)
        script.run("move.py", str(file), "--back")
        write(source, topic, range(60, 70))
        script.run("consumer.py", addresses["A"], topic)

        # On and over again, right at the end.
        await_copied(source, topic, target, mirror)
        script.run("move.py", str(file))
        assert script.run("consumer.py", addresses["B"], mirror).startswith("0 records")

    written = {
        partition: [(record.value or b"").decode() for record in records]
        for partition, records in source.read(topic, read_committed=True).items()
    }
    seen = script.seen()
    assert Counter(seen) == Counter(value for values in written.values() for value in values)
    for partition, values in written.items():
        assert [value for value in seen if value.startswith(f"{partition}-")] == values
