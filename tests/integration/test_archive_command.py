"""`causeway archive` and `causeway restore` as a person runs them, and kills them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.command import causeway, command_environment
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_restore_that_is_killed_and_run_again_gives_each_record_once(
    source: KafkaTools, target: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    """Killed while it has records in the target's log that are not committed yet. What restores and
    archives refuse is seen in test_archive.py, without a Spark for each."""
    topic, path = prefix + "t", tmp_path / "archive"
    source.create_topic(topic, 2)
    source.produce(
        topic,
        [Outgoing(value=b"%d " % n + b"x" * 200, key=b"%d" % n) for n in range(60_000)],
        codec="zstd",
    )
    file = tmp_path / "causeway.properties"
    file.write_text(
        f"clusters = A, B\nA->B.enabled = true\nA->B.topics = {topic}\nspark.master = local[2]\n"
        f"A.bootstrap.servers = {source.bootstrap}\nB.bootstrap.servers = {target.bootstrap}\n"
    )
    before = os.umask(0o077)
    try:
        done = causeway("archive", file, "--to", path)
    finally:
        os.umask(before)
    assert done.code == 0, done.err
    assert "60,000 records" in done.out or "60000 records" in done.out
    for each in path.rglob("*"):
        assert each.stat().st_mode & 0o077 == 0, f"{each} is for others to read"
    arguments = ["restore", str(file), "--from", str(path), "--cluster", "B"]
    with (tmp_path / "restore.log").open("w") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "causeway", *arguments],
            env=command_environment(),
            stdout=log,
            stderr=log,
        )
    await_until(
        lambda: (
            running.poll() is not None
            or (topic in target.topics() and max(target.offsets(topic).values()) > 0)
        ),
        timeout_s=PATIENCE_S,
        what="a first record",
        poll_s=0.01,
    )
    assert running.poll() is None, (tmp_path / "restore.log").read_text()
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = causeway(*arguments)
    assert done.code == 0, done.err
    assert "counts and digests of each partition agree" in done.out
    target.await_transactions(topic)
    assert target.digests(topic, read_committed=True) == source.digests(topic)
    assert causeway("archive", file, "--to", path, "--cluster", "C").code == 2
