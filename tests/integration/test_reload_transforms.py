"""A transform of a running driver changes: each record goes through one version (real Spark)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, mm2_file
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


def transform(name: str, topic: str, word: str) -> str:
    start = f"A->B.causeway.transform.{name}"
    return (
        f"{start}.topics = {topic}\n"
        f"{start}.value.format = string\n"
        f"{start}.sql = SELECT concat('{word} ', value) AS value FROM records\n"
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_record_goes_through_one_version_of_a_transform(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """While transactions go on, a transform changes, another topic with a transform and a name of
    its own is added, and the first transform is taken away. A transform that Spark refuses changes
    nothing. In each partition, the versions follow one another without a gap."""
    changing, steady, added = prefix + "changing", prefix + "steady", prefix + "added"
    source.create_topics([changing, steady, added], 2)
    file = mm2_file(tmp_path, {"A": source_cluster, "B": target_cluster})
    base = file.read_text() + "A->B.enabled = true\n"
    mirror = f"A.{changing}"

    def put(text: str, code: int = 0) -> str:
        file.write_text(base + text)
        ended = causeway("reload", file)
        assert ended.code == code, (ended.out, ended.err)
        return ended.out

    def passed(word: str) -> None:
        """Until records have come through this version, in each partition."""
        await_until(
            lambda: all(
                any((one.value or b"").startswith(word.encode()) for one in records)
                for records in target.read(mirror).values()
            ),
            PATIENCE_S,
            f"records of {word}",
        )

    topics = f"A->B.topics = {changing}, {steady}\nA->B.causeway.transforms = mark\n"
    file.write_text(base + topics + transform("mark", changing, "one"))
    with (
        Running("run", file, directory=tmp_path) as run,
        writing(source, steady, 2, seed=SEED) as writer,
        writing(source, changing, 2, seed=SEED + 1) as other,
        writing(source, added, 2, seed=SEED + 2) as third,
    ):
        await_copied(source, changing, target, mirror)
        passed("one")
        wrong = transform("mark", changing, "one").replace("FROM records", "FROM nowhere")
        assert "mark" in put(topics + wrong, 2)
        put(topics + transform("mark", changing, "two"))
        passed("two")
        more = (
            f"A->B.topics = {changing}, {steady}, {added}\nA->B.causeway.transforms = mark, new\n"
            f"A->B.causeway.rename = {added} => {prefix}renamed\n"
        )
        put(more + transform("mark", changing, "two") + transform("new", added, "new"))
        await_copied(source, added, target, f"{prefix}renamed")
        put(f"A->B.topics = {changing}, {steady}\n")
        for each in (writer, other, third):
            each.end()
        await_copied(source, changing, target, mirror)
        await_copied(source, steady, target, f"A.{steady}")
        assert run.stop() == 0
    assert_same(source, steady, target, f"A.{steady}")
    wanted = source.read(changing, read_committed=True)
    for partition, records in target.read(mirror).items():
        values = [record.value or b"" for record in records]
        versions = [
            next((word for word in (b"one ", b"two ") if value.startswith(word)), b"")
            for value in values
        ]
        assert sorted(versions, key=[b"one ", b"two ", b""].index) == versions
        assert {b"one ", b"two "} <= set(versions)
        found = [v.removeprefix(word) for v, word in zip(values, versions, strict=True)]
        assert found == [record.value for record in wanted[partition]]
    renamed = target.read(f"{prefix}renamed")
    for partition, before in source.read(added, read_committed=True).items():
        values = [record.value or b"" for record in renamed[partition]]
        assert values == [b"new " + (one.value or b"") for one in before[: len(values)]]
