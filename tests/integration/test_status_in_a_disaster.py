"""One of two clusters is gone: what is known of each link is shown, and what is not is said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from causeway.cli.main import main
from causeway.dev import Ports
from causeway.formats import load
from causeway.model import State
from tests.harness.black_hole import black_hole
from tests.harness.command import Ended
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import fill
from tests.harness.running import mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_what_can_be_known_of_each_link_is_shown(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A is gone. Where A->B stands is known to B; of B->A, whose progress is on A, nothing is."""

    def causeway(*arguments: str | Path) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code=int(ended.value.code or 0), out=said.out, err=said.err)

    topic, group, a, b = (prefix + name for name in ("orders", "readers", "a", "b"))
    c = prefix + "c"
    mirror, there, back = f"{a}.{topic}", f"{a}->{b}", f"{b}->{a}"
    lines = [f"{there}.enabled = true", f"{back}.enabled = true", f"topics = {prefix}.*"]
    source.create_topic(topic, 1)
    fill(source, topic, 50)
    before = mm2_file(tmp_path, {a: source_cluster, b: target_cluster}, *lines)
    with RunningDaemon(monkeypatch, *load(before).links) as run:
        run.await_state(topic, State.RUNNING)
        await_until(lambda: target.offsets(mirror) == {0: 50}, 60, "mirrored")
    target.commit_group(group, {(mirror, 0): 5})
    ports = Ports()
    nobody = f"127.0.0.1:{ports.take()}"
    lines.append(f"{a}.admin.request.timeout.ms = 2000")
    file = mm2_file(tmp_path, {a: nobody, b: target_cluster}, *lines)

    status = causeway("status", file, "--json")
    assert status.code == 3, status.err
    first, second = status.json["links"]
    assert (first["link"], first["state"], first["error"]) == (there, "source unavailable", None)
    assert [(one["topic"], one["mirrored_to"]) for one in first["partitions"]] == [(topic, 50)]
    assert (second["link"], second["state"], second["driver"]) == (back, "unknown", None)
    assert nobody in second["error"]
    shown = causeway("status", file)
    assert shown.code == 3
    assert f"{there}: 1 topic, 1 partition" in shown.out
    assert f"{back}: unknown reach cluster {a}" in shown.out
    alone = causeway("status", file, "--check")
    assert alone.code == 9, "no driver runs A->B: that is known"

    topics = causeway("topics", file, "--json")
    assert topics.code == 3, topics.err
    assert [(one["link"], one["topic"]) for one in topics.json["topics"]] == [(there, topic)]
    assert [one["link"] for one in topics.json["errors"]] == [back]

    events = causeway("events", file)
    assert events.code == 3
    assert events.err.startswith(f"causeway: error: {back}: reach cluster {a}")

    groups = causeway("groups", file, "--match", prefix, "--json")
    assert groups.code == 3, "A's groups are not known"
    assert [(one["link"], one["name"]) for one in groups.json["groups"]] == [(back, group)]
    assert nobody in str(groups.json["groups"][0]["unknown"])
    assert [one["link"] for one in groups.json["errors"]] == [there]

    explained = causeway("explain", file, topic, "--json")
    assert explained.code == 0, explained.err
    assert there in {one["link"] for one in explained.json["explanations"]}

    waited = causeway("wait", file, "--timeout", "5")
    assert waited.code == 3, waited.err
    assert nobody in waited.err
    ports.release()

    with black_hole() as nobody:
        clusters: dict[str, LocalCluster | str] = {a: nobody, b: target_cluster, c: source_cluster}
        lines[-1] = f"{a}.admin.request.timeout.ms = 5000"
        file = mm2_file(tmp_path, clusters, *lines, f"{c}->{b}.enabled = true")
        took: dict[str, float] = {}

        def timed(command: str, *arguments: str) -> Ended:
            begun = time.monotonic()
            ended = causeway(command, file, *arguments, "--json")
            took[command] = time.monotonic() - begun
            return ended

        assert timed("status").code == 3
        planned = timed("plan")
        assert planned.code == 3, planned.err
        assert [nobody in str(one["error"]) for one in planned.json["links"]] == [True, True, False]
        assert [one["topic"] for one in planned.json["links"][2]["mirrored"]] == [topic]
        paused = timed("pause", "--no-wait")
        assert paused.code == 3, paused.err
        first, second, third = paused.json["links"]
        assert third["changed"]
        assert (first["link"], first["changed"], first["error"]) == (there, True, None)
        assert (second["link"], second["changed"]) == (back, False)
        assert nobody in second["error"]
        over = timed("failover", "--topic", topic)
        first, second, _ = over.json["failed_over"]
        assert (first["link"], first["left"]) == (there, None)
        assert nobody in first["source_reason"]
        assert nobody in second["left"]
        # The time-out is five seconds: neither clusters nor links are waited for in turn.
        assert max(took.values()) < 10, took
