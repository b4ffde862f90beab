"""A file that mirrors two topics, and that a test changes while a driver works by it."""

from __future__ import annotations

from pathlib import Path

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, mm2_file
from tests.harness.waiting import await_until

PARTITIONS = 2


class ChangingFile:
    """`path`: the file, once it was written. `steady` and `other`: topics of the source. Their
    mirrors have the source's alias, A, as a prefix, unless a call has another name."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, prefix: str, directory: Path
    ) -> None:
        self.source, self.target = KafkaTools(source.bootstrap), KafkaTools(target.bootstrap)
        self.clusters: dict[str, LocalCluster | str] = {"A": source, "B": target}
        self.directory = directory
        self.steady, self.other = prefix + "steady", prefix + "other"
        self.source.create_topics([self.steady, self.other], PARTITIONS)
        self.path = directory / "none"

    def write(self, *lines: str) -> Path:
        """A file of the flow from A to B, with these lines."""
        self.path = mm2_file(self.directory, self.clusters, "A->B.enabled = true", *lines)
        return self.path

    def running(self) -> Running:
        return Running("run", self.path, directory=self.directory)

    def change(self, *pairs: tuple[str, str]) -> None:
        """Replaces texts of the file in one step, as an editor that renames does."""
        text = self.path.read_text()
        for before, after in pairs:
            assert before in text, before
            text = text.replace(before, after)
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    def reload(self, code: int = 0) -> str:
        """`causeway reload FILE`, which must end with `code`. Returns what it printed."""
        ended = causeway("reload", self.path)
        assert ended.code == code, (ended.out, ended.err)
        return ended.out

    def put(self, *pairs: tuple[str, str]) -> str:
        """Changes the file, and has the driver take the change over."""
        self.change(*pairs)
        return self.reload()

    def produce(self, topic: str, text: str, count: int = 60) -> None:
        records = [Outgoing(value=b"%s %d" % (text.encode(), n)) for n in range(count)]
        self.source.produce(topic, records)

    def await_copied(self, topic: str, mirror: str = "") -> None:
        await_copied(self.source, topic, self.target, mirror or f"A.{topic}")

    def assert_same(self, topic: str, mirror: str = "") -> None:
        assert_same(self.source, topic, self.target, mirror or f"A.{topic}")


def homes(run: Running, topic: str) -> dict[int, tuple[int, int]]:
    """Of each partition of `topic`: the process of its lane, and how often it has recovered. Both
    stay as long as its lane never lets go of it."""
    pids = {lane["lane"]: lane["pid"] for lane in run.api("lanes")["items"]}
    return {
        each["partition"]: (pids[each["lane"]], each["recoveries"])
        for each in run.api(f"partitions?topic={topic}")["items"]
        if each["lane"] is not None
    }


def await_homes(
    run: Running, topic: str, partitions: int = PARTITIONS
) -> dict[int, tuple[int, int]]:
    """The homes of the partitions of `topic`, once all run."""

    def all_run() -> bool:
        items = run.api(f"partitions?topic={topic}")["items"]
        return [each["state"] for each in items] == ["running"] * partitions

    await_until(all_run, PATIENCE_S, f"all of {topic} runs")
    return homes(run, topic)
