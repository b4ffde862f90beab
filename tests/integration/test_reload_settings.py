"""A running driver takes over each kind of setting. Real processes, real brokers; the lanes of
partitions that a change does not concern keep their processes, and never let go of them."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from causeway.relay.treatment import ORIGIN
from tests.harness.by_key import await_mirrored, check_keys
from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.receiver import PATH, receiving
from tests.harness.reloads import PARTITIONS, ChangingFile, await_homes, homes
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied
from tests.harness.same_offsets import assert_same_offsets, await_same_ends
from tests.harness.waiting import await_until
from tests.harness.writers import write_transactions, writing

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
HOUR, DAY = "3600000", "86400000"
RARELY, OFTEN = "interval.seconds = 3600", "interval.seconds = 1"
ON_ONE_LANE = ("causeway.http.port = 0", "causeway.lanes = 1")  # none moves to another lane


@pytest.mark.timeout(1200)
def test_intervals_switches_groups_and_the_webhook_change(
    changing: ChangingFile, prefix: str
) -> None:
    """The tasks of a flow begin with each change, so an interval counts from the second run on."""
    source, target, steady, other = (
        changing.source,
        changing.target,
        changing.steady,
        changing.other,
    )
    mirror, late = f"A.{other}", f"{prefix}late"
    inside, outside, third = (f"{prefix}{name}" for name in ("inside", "outside", "third"))
    source.produce(other, [Outgoing(value=b"%d" % n, partition=0) for n in range(100)])

    def standing(group: str) -> int | None:
        return target.group_offsets(group).get((mirror, 0))

    def commit(group: str, offset: int) -> None:
        source.commit_group(group, {(other, 0): offset})

    def await_commit(group: str, offset: int) -> None:
        what = f"{group} at {offset} on the target"
        await_until(lambda: standing(group) == offset, PATIENCE_S, what, poll_s=0.3)

    def await_retention(ms: str) -> None:
        def there() -> bool:
            return target.topic_config(mirror)["retention.ms"] == ms

        await_until(there, PATIENCE_S, f"{mirror} keeps its records for {ms} ms")

    with receiving() as first, receiving() as second:
        changing.write(
            *ON_ONE_LANE,
            f"A->B.topics = {prefix}.*",
            f"refresh.topics.{RARELY}",
            "sync.topic.acls.enabled = false",
            "sync.topic.configs.enabled = false",
            f"sync.topic.configs.{RARELY}",
            f"groups = {prefix}.*",
            f"groups.exclude = {outside}",
            f"emit.checkpoints.{OFTEN}",
            "sync.group.offsets.enabled = false",
            f"sync.group.offsets.{RARELY}",
            f"causeway.webhook.url = {first.url}",
        )
        with (
            changing.running() as run,
            writing(source, steady, PARTITIONS, seed=SEED) as writer,
        ):
            changing.await_copied(steady)
            changing.await_copied(other)
            before = await_homes(run, steady)

            commit(inside, 10)
            changing.put(
                ("sync.group.offsets.enabled = false", "sync.group.offsets.enabled = true")
            )
            await_commit(inside, 10)
            changing.put((f"sync.group.offsets.{RARELY}", f"sync.group.offsets.{OFTEN}"))
            for offset in (20, 30):
                commit(inside, offset)
                await_commit(inside, offset)

            commit(outside, 5)
            changing.put((f"groups.exclude = {outside}", f"groups.exclude = {inside}"))
            commit(inside, 40)
            for offset in (6, 7):
                commit(outside, offset)
                await_commit(outside, offset)
            assert standing(inside) == 30
            changing.put((f"groups = {prefix}.*", f"groups = {third}"))
            commit(outside, 8)
            for offset in (1, 2):
                commit(third, offset)
                await_commit(third, offset)
            assert standing(outside) == 7

            source.set_topic_config(other, {"retention.ms": HOUR})
            assert target.topic_config(mirror)["retention.ms"] != HOUR
            off, on = (f"sync.topic.configs.enabled = {each}" for each in ("false", "true"))
            changing.put((off, on))
            await_retention(HOUR)
            changing.put((f"sync.topic.configs.{RARELY}", f"sync.topic.configs.{OFTEN}"))
            for ms in (DAY, HOUR):
                source.set_topic_config(other, {"retention.ms": ms})
                await_retention(ms)
            changing.put((on, off))
            source.set_topic_config(other, {"retention.ms": DAY})
            for offset in (3, 4):  # meanwhile another task runs, as often
                commit(third, offset)
                await_commit(third, offset)
            assert target.topic_config(mirror)["retention.ms"] == HOUR

            changing.put((f"refresh.topics.{RARELY}", f"refresh.topics.{OFTEN}"))
            source.create_topic(late, PARTITIONS)
            changing.produce(late, "late")
            changing.await_copied(late)

            await_until(first.events, PATIENCE_S, "the first receiver has events")
            assert PATH not in changing.put((first.url, second.url))
            asked = causeway("pause", changing.path, "--topic", late)
            assert asked.code == 0, asked.err
            await_until(lambda: "directive" in second.events(), PATIENCE_S, "the second has it")
            assert "directive" not in first.events()

            writer.end()
            changing.await_copied(steady)
            assert homes(run, steady) == before
            assert PATH not in run.log
            assert run.stop() == 0
    changing.assert_same(steady)
    changing.assert_same(late)


@pytest.mark.timeout(1200)
def test_what_decides_the_records_follows_the_rules_of_a_start(
    changing: ChangingFile, prefix: str, tmp_path: Path
) -> None:
    """A flow keeps offsets and translates them again, marks records with their origin and does so
    no more, and gives its topic another name. Records of another flow go on meanwhile."""
    source, target, topic = changing.source, changing.target, changing.other
    mirror, renamed, back = f"A.{topic}", f"{prefix}renamed", f"{prefix}back"
    target.create_topic(back, PARTITIONS)
    changing.write(
        *ON_ONE_LANE,
        f"A->B.topics = {topic}",
        "sync.topic.acls.enabled = false",
        "B->A.enabled = true",
        f"B->A.topics = {back}",
    )
    plain = "A->B.topics"

    def with_line(line: str) -> tuple[str, str]:
        return plain, f"A->B.{line}\n{plain}"

    def without(line: str) -> tuple[str, str]:
        return f"A->B.{line}\n", ""

    with (
        changing.running() as run,
        writing(target, back, PARTITIONS, seed=SEED) as writer,
    ):
        changing.produce(topic, "first")
        changing.await_copied(topic)
        before = await_homes(run, back)

        preserve = "causeway.offsets = preserve"
        changing.put(with_line(preserve))
        write_transactions(source, topic, 20, SEED)
        await_same_ends(source, [topic], target, "A.", PATIENCE_S)
        assert_same_offsets(source, topic, target, mirror)
        changing.put(without(preserve))
        write_transactions(source, topic, 20, SEED + 1)
        await_records(changing, topic)
        ends = source.offsets(topic)
        assert all(end < ends[partition] for partition, end in target.offsets(mirror).items())

        marks = "causeway.provenance = header"
        changing.put(with_line(marks))
        changing.produce(topic, "marked")
        await_records(changing, topic)
        changing.put(without(marks))
        changing.produce(topic, "plain")
        await_records(changing, topic)
        assert_marked(changing, topic, mirror)

        rename = f"causeway.rename = {topic} => {renamed}"
        changing.put(with_line(rename))
        stopped = await_until(partial(reasons_of, run, topic), PATIENCE_S, "it stops")
        assert all("and the file calls its mirror" in each for each in stopped.values())
        changing.produce(topic, "plain meanwhile")
        changing.put(without(rename))
        await_records(changing, topic)
        assert_marked(changing, topic, mirror)
        changing.put(with_line(rename))
        stopped = await_until(partial(reasons_of, run, topic), PATIENCE_S, "it stops again")
        assert homes(run, back) == before
        assert run.stop() == 0

        with changing.running() as run:
            again = await_until(partial(reasons_of, run, topic), PATIENCE_S, "it stops at a start")
            assert again == stopped
            asked = causeway("restart", changing.path, "--topic", topic, "--adopt")
            assert asked.code == 0, asked.err
            source.produce(topic, [b"renamed %d" % n for n in range(60)])
            await_until(lambda: len(values(target, renamed)) >= 60, PATIENCE_S, "it goes on")
            writer.end()
            await_copied(target, back, source, f"B.{back}")
            assert run.stop() == 0
    assert_same(target, back, source, f"B.{back}")
    assert sorted(values(target, renamed)) == sorted(b"renamed %d" % n for n in range(60))


def await_records(changing: ChangingFile, topic: str) -> None:
    """Until the mirror has as many records as are committed in `topic`. Offsets may have gaps."""

    def counts(tools: KafkaTools, name: str) -> dict[int, int]:
        return {p: len(found) for p, found in tools.read(name, read_committed=True).items()}

    wanted = counts(changing.source, topic)
    await_until(
        lambda: counts(changing.target, f"A.{topic}") == wanted,
        PATIENCE_S,
        f"A.{topic} has {wanted} records",
        poll_s=0.5,
    )


def assert_marked(changing: ChangingFile, topic: str, mirror: str) -> None:
    """The mirror has each record once and in order; those that begin with `marked`, and no others,
    have a header that names their origin."""
    found = changing.target.read(mirror, read_committed=True)
    for partition, records in changing.source.read(topic, read_committed=True).items():
        assert [each.value for each in found[partition]] == [each.value for each in records]
        for each in found[partition]:
            is_marked = any(name == ORIGIN for name, _ in each.headers)
            assert is_marked == (each.value or b"").startswith(b"marked"), each


def reasons_of(run: Running, topic: str) -> dict[int, str] | None:
    """Why the partitions of `topic` are stopped, once all are."""
    items: list[Any] = run.api(f"partitions?topic={topic}")["items"]
    found = {each["partition"]: each["reason"] for each in items if each["state"] == "stopped"}
    return found if len(found) == PARTITIONS else None


def values(tools: KafkaTools, topic: str) -> list[bytes]:
    if tools.partition_count(topic) is None:
        return []
    return [each.value or b"" for records in tools.read(topic).values() for each in records]


@pytest.mark.timeout(900)
def test_partitions_that_go_by_key_stay_with_their_keys(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """MirrorMaker 1's files. The target has fewer partitions, so keys decide. With another interval
    no lane lets go of a partition, and a source that outgrows its target goes by key. With another
    wait of the reader, all partitions are taken up again, and their keys stay."""
    keyed, grown = f"{prefix}keyed", f"{prefix}grown"
    source.create_topics([keyed, grown], 3)
    target.create_topic(keyed, 2)
    target.create_topic(grown, 3)
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={source_cluster.bootstrap}\ngroup.id={prefix}group\n"
        "auto.offset.reset=earliest\nmetadata.max.age.ms=3600000\n"
    )
    producer.write_text(
        f"bootstrap.servers={target_cluster.bootstrap}\nspark.master=local[2]\n"
        "causeway.http.port=0\n"
    )

    def write(text: str) -> None:
        for topic in (keyed, grown):
            source.produce(
                topic,
                [
                    Outgoing(value=b"%s %d" % (text.encode(), n), key=b"%d" % (n % 50))
                    for n in range(400)
                ],
            )
        for topic in (keyed, grown):
            await_mirrored(source, target, topic)

    def put(before: str, after: str, many: int) -> None:
        consumer.write_text(consumer.read_text().replace(before, after))
        os.kill(run.pid, signal.SIGHUP)
        await_until(
            lambda: run.log.count("file applied") == many, PATIENCE_S, "the file is in force"
        )

    with Running(
        *("--consumer.config", consumer, "--producer.config", producer, "--num.streams", "1"),
        *("--whitelist", f"{keyed},{grown}"),
        directory=tmp_path,
        script="kafka-mirror-maker",
    ) as run:
        write("first")
        before = await_homes(run, keyed, 3)
        put("metadata.max.age.ms=3600000", "metadata.max.age.ms=1000", 1)
        source.add_partitions(grown, 5)
        for partition in range(3):
            run.await_log(f"partition={grown}-{partition} from_offset=")
        write("second")
        assert homes(run, keyed) == before
        put("group.id", "fetch.max.wait.ms=200\ngroup.id", 2)
        run.await_log("take up again")
        write("third")
        after = homes(run, keyed)
        assert {pid for pid, _ in after.values()} == {pid for pid, _ in before.values()}
        assert run.stop() == 0
    for topic in (keyed, grown):
        assert check_keys(source, target, topic) == []
