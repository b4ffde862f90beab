"""A running driver puts a changed file in force, as a whole or not at all. Real processes, real
brokers; nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, mm2_file
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


def change(file: Path, *pairs: tuple[str, str]) -> None:
    """Replaces texts of the file in one step, as an editor that renames does."""
    text = file.read_text()
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after)
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def hang_up(run: Running) -> None:
    os.kill(run.pid, signal.SIGHUP)


def produce(tools: KafkaTools, topic: str, text: str, count: int = 60) -> None:
    tools.produce(topic, [Outgoing(value=b"%s %d" % (text.encode(), n)) for n in range(count)])


@pytest.mark.timeout(900)
def test_topics_come_and_go_by_a_signal(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A topic is added, excluded, added again, and renamed, while transactions go on in another
    one, whose lane keeps it. A file with a mistake changes nothing, nor does one
    that needs a restart."""
    steady, added = prefix + "steady", prefix + "added"
    source.create_topics([steady, added], 2)
    produce(source, added, "first")
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"A->B.topics = {steady}",
    )
    with (
        Running("run", file, directory=tmp_path) as run,
        writing(source, steady, 2, seed=SEED) as writer,
    ):
        await_copied(source, steady, target, f"A.{steady}")
        change(file, (f"topics = {steady}", f"topics = {steady}, {added}"))
        hang_up(run)
        await_copied(source, added, target, f"A.{added}")
        run.await_log("file applied")

        change(file, (f", {added}", ""))
        hang_up(run)
        await_until(lambda: run.log.count("file applied") == 2, PATIENCE_S, "it is excluded")
        run.await_log("take up again")
        produce(source, added, "meanwhile")

        change(file, (f"topics = {steady}", f"topics = {steady}, {added}, ("))
        hang_up(run)
        run.await_log("file not in force")
        change(file, (f", {added}, (", ""), ("A->B.enabled", "causeway.lanes = 1\nA->B.enabled"))
        hang_up(run)
        run.await_log("needs a restart")
        await_copied(source, steady, target, f"A.{steady}")

        change(file, ("causeway.lanes = 1\n", ""), (steady, f"{steady}, {added}"))
        hang_up(run)
        await_copied(source, added, target, f"A.{added}")
        writer.end()
        await_copied(source, steady, target, f"A.{steady}")
        assert run.stop() == 0
    assert_same(source, steady, target, f"A.{steady}")
    assert_same(source, added, target, f"A.{added}")
