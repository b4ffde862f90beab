"""A transform of a running driver changes: each record goes through one version (real Spark)."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.reloads import PARTITIONS, ChangingFile, await_homes
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    mm2_file,
)
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

    topics = f"A->B.topics = {changing}, {steady}\nA->B.causeway.transforms = mark\n"
    file.write_text(base + topics + transform("mark", changing, "one"))
    with (
        Running("run", file, directory=tmp_path) as run,
        writing(source, steady, 2, seed=SEED) as writer,
        writing(source, changing, 2, seed=SEED + 1) as other,
        writing(source, added, 2, seed=SEED + 2) as third,
    ):
        await_copied(source, changing, target, mirror)
        await_until(lambda: has_passed(target, mirror, "one "), PATIENCE_S, "records of one")
        wrong = transform("mark", changing, "one").replace("FROM records", "FROM nowhere")
        assert "mark" in put(topics + wrong, 2)
        put(topics + transform("mark", changing, "two"))
        await_until(lambda: has_passed(target, mirror, "two "), PATIENCE_S, "records of two")
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
    assert_versions(source, changing, target, mirror, ("one ", "two ", ""))
    renamed = target.read(f"{prefix}renamed")
    for partition, before in source.read(added, read_committed=True).items():
        values = [record.value or b"" for record in renamed[partition]]
        assert values == [b"new " + (one.value or b"") for one in before[: len(values)]]


def has_passed(target: KafkaTools, mirror: str, version: str) -> bool:
    """Whether records have come through this version, in each partition."""
    if target.partition_count(mirror) is None:
        return False
    return all(
        any((one.value or b"").startswith(version.encode()) for one in records)
        for records in target.read(mirror).values()
    )


def assert_versions(
    source: KafkaTools, topic: str, target: KafkaTools, mirror: str, versions: tuple[str, ...]
) -> None:
    """Each record came through one version, none is lost or doubled, and in each partition the
    versions follow one another. A version is the start that it gives a value."""
    starts = [each.encode() for each in versions]
    wanted = source.read(topic, read_committed=True)
    for partition, records in target.read(mirror).items():
        values = [record.value or b"" for record in records]
        passed = [next(each for each in starts if value.startswith(each)) for value in values]
        assert sorted(passed, key=starts.index) == passed
        assert {each for each in starts if each} <= set(passed)
        found = [v.removeprefix(each) for v, each in zip(values, passed, strict=True)]
        assert found == [record.value for record in wanted[partition]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_driver_that_is_killed_while_a_transform_changes_loses_and_doubles_nothing(
    changing: ChangingFile,
) -> None:
    """All of it is killed at a random moment after the change, and started with the changed file.
    If records of the earlier version were under way, a partition stops and says that the earlier
    file ends them. A driver that has no earlier record under way goes on by itself."""
    chance = random.Random(SEED)
    source, target, topic = changing.source, changing.target, changing.other
    mirror = f"A.{topic}"
    words = ("one", "two", "three")
    lines = (
        "causeway.http.port = 0",
        "causeway.lease.ms = 3000",
        f"A->B.topics = {topic}",
        "A->B.causeway.transforms = mark",
    )
    files = {word: changing.write(*lines, transform("mark", topic, word)) for word in words}
    changing.path = changing.write(*lines, transform("mark", topic, words[0]))
    with writing(source, topic, PARTITIONS, seed=SEED, pause_s=1.0) as writer:
        for before, after in pairwise(words):
            with changing.running() as run:
                await_homes(run, topic)
                come = partial(has_passed, target, mirror, f"{before} ")
                await_until(come, PATIENCE_S, f"records of {before}", poll_s=1)
                changing.change((f"'{before} '", f"'{after} '"))
                os.kill(run.pid, signal.SIGHUP)
                time.sleep(chance.uniform(0, 4))  # the moment is the test
                run.kill()
            for _ in range(3):
                if not (reasons := reasons_to_stop(changing, after)):
                    break
                assert all("--finish-in-flight" in each for each in reasons)
                ended = causeway("run", files[before], "--finish-in-flight", timeout_s=PATIENCE_S)
                # 7: of a partition that is under the later version already.
                assert ended.code in (0, 7), ended.err
        writer.end()
        with changing.running() as run:
            changing.await_copied(topic)
            assert run.stop() == 0
    assert_versions(source, topic, target, mirror, tuple(f"{word} " for word in words))


def reasons_to_stop(changing: ChangingFile, version: str) -> list[str]:
    """Why partitions stop in a run of the changed file, which is killed in the end. None stop if
    records come through the new version in each partition."""
    reasons: list[str] = []
    topic, target = changing.other, changing.target

    def is_decided(run: Running) -> bool:
        items = run.api(f"partitions?topic={topic}")["items"]
        reasons[:] = [each["reason"] for each in items if each["state"] == "stopped"]
        return bool(reasons) or has_passed(target, f"A.{topic}", f"{version} ")

    with changing.running() as run:
        what = f"records of {version}, or a stop"
        await_until(partial(is_decided, run), PATIENCE_S, what, poll_s=1)
        run.kill()
    return reasons
