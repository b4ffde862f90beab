"""`causeway plan --running` beside a real run: all that the changed file would change."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, await_copied, mm2_file

pytestmark = pytest.mark.integration
TOKEN = "token-of-the-running-mirror"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_changed_file_beside_the_running_mirror(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    port: int,
) -> None:
    """The mirror runs with the first file. The same file has no differences. The second one has
    other topics, an interval and a setting of Spark; the third one another token, with which the
    driver does not answer. The second file without the setting of Spark takes the place of the
    first; from then on the running mirror has no other settings. After the run, the command says
    that no mirror answers."""
    kept, ended, begun = f"{prefix}kept", f"{prefix}ended", f"{prefix}begun"
    for topic in (kept, ended, begun):
        source.create_topic(topic, 1)
        source.produce(topic, [Outgoing(key=b"key", value=b"value")])

    def file(name: str, topics: str, *more: str, token: str = TOKEN) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        return mm2_file(
            directory,
            {"A": source_cluster, "B": target_cluster},
            "A->B.enabled = true",
            f"topics = {topics}",
            f"groups = {prefix}.*",
            f"causeway.http.port = {port}",
            f"causeway.http.token = {token}",
            *more,
        )

    def compared(path: Path) -> dict[str, Any]:
        done = causeway("plan", "--running", "--json", path)
        assert done.code == 0, done.err
        assert TOKEN not in done.out
        found: dict[str, Any] = done.json
        return found

    running = file("running", f"{kept}, {ended}")
    changed = file(
        "changed",
        f"{kept}, {begun}",
        "refresh.topics.interval.seconds = 7",
        "spark.ui.showConsoleProgress = false",
    )
    with Running("run", running, directory=tmp_path) as run:
        run.await_log(f"address=http://127.0.0.1:{port}")
        await_copied(source, kept, target, f"A.{kept}")
        await_copied(source, ended, target, f"A.{ended}")

        same = compared(running)
        assert (same["settings"], same["needs_restart"]) == ([], False)
        assert [each["topics"] for each in same["links"]] == [[]]

        found = compared(changed)
        assert found["needs_restart"]
        assert {each["key"]: (each["before"], each["after"]) for each in found["settings"]} == {
            "spark.ui.showConsoleProgress": (None, "false"),
            "topics": (f"{kept},{ended}", f"{kept},{begun}"),
            "refresh.topics.interval.seconds": ("600", "7"),
        }
        (flow,) = found["links"]
        assert [(each["topic"], each["change"]) for each in flow["topics"]] == [
            (begun, "begins"),
            (ended, "ends"),
        ]
        (shown,) = found["plan"]["links"]
        assert [each["topic"] for each in shown["changes"]] == [f"A.{begun}"]
        assert f"A.{begun}" not in target.topics()

        told = causeway("plan", "--running", changed)
        assert told.code == 0
        assert "restart needed for spark.ui.showConsoleProgress" in told.out

        stranger = causeway(
            "plan", "--running", file("stranger", kept, token="another-token-it-is")
        )
        assert stranger.code == 4
        assert "causeway.http.token of the file must be that of the driver" in stranger.err

        text = changed.read_text().replace("spark.ui.showConsoleProgress = false\n", "")
        running.write_text(text)
        assert not compared(running)["needs_restart"]
        os.kill(run.pid, signal.SIGHUP)
        run.await_log("file applied")
        await_copied(source, begun, target, f"A.{begun}")
        same = compared(running)
        assert (same["settings"], [each["topics"] for each in same["links"]]) == ([], [[]])
        assert run.stop() == 0

    gone = causeway("plan", "--running", changed)
    assert gone.code == 9
    assert "Connection refused" in gone.err
