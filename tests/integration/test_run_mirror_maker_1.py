"""`kafka-mirror-maker` with MirrorMaker 1's files, in MirrorMaker 1's place."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.by_key import LOCAL, await_mirrored, check_keys, values
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, assert_same, await_copied
from tests.harness.writers import writing

pytestmark = pytest.mark.integration

SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


class LocalProducer(threading.Thread):
    """Writes to `topic` on the target, as an application there does, with the mirror's keys."""

    def __init__(self, target: KafkaTools, topic: str) -> None:
        super().__init__(daemon=True)
        self._target, self._topic = target, topic
        self._ended = threading.Event()
        self.written: list[bytes] = []

    def run(self) -> None:
        while not self._ended.wait(0.2):
            values = [LOCAL + b"%d" % (len(self.written) + n) for n in range(20)]
            records = [Outgoing(value=v, key=b"%d" % (n % 50)) for n, v in enumerate(values)]
            self._target.produce(self._topic, records)
            self.written += values

    def end(self) -> None:
        self._ended.set()
        self.join(120)
        assert not self.is_alive()


@contextmanager
def local_producer(target: KafkaTools, topic: str) -> Iterator[LocalProducer]:
    thread = LocalProducer(target, topic)
    thread.start()
    try:
        yield thread
    finally:
        thread.end()


def starter(
    source: LocalCluster, target: LocalCluster, directory: Path, group: str, topics: list[str]
) -> Callable[..., Running]:
    """Starts `kafka-mirror-maker` with these topics and, if any, more options."""
    consumer, producer = directory / "consumer.properties", directory / "producer.properties"
    consumer.write_text(
        f"""bootstrap.servers={source.bootstrap}
group.id={group}
auto.offset.reset=earliest
metadata.max.age.ms=1000
"""
    )
    producer.write_text(
        f"""bootstrap.servers={target.bootstrap}
acks=all
spark.master=local[2]
causeway.lease.ms=3000
"""
    )

    def start(*options: str) -> Running:
        return Running(
            *("--consumer.config", consumer, "--producer.config", producer, "--num.streams", "2"),
            *("--whitelist", ",".join(topics), *options),
            directory=directory,
            script="kafka-mirror-maker",
        )

    return start


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_keys_decide_while_others_write_and_the_mirror_is_killed(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Three partitions go to five, by key; a topic that the target lacks gets the source's count;
    one that appears later is picked up; one that the group has read before goes on there."""
    orders, plain, late, resumed = (
        prefix + name for name in ("orders", "plain", "late", "resumed")
    )
    group = f"{prefix}group"
    source.create_topic(orders, 3)
    source.create_topics([plain, resumed], 2)
    target.create_topic(orders, 5)
    source.produce(plain, [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(100)])
    source.produce(resumed, [Outgoing(value=b"%d" % n, partition=0) for n in range(10)])
    source.commit_group(group, {(resumed, 0): 6})
    start = starter(source_cluster, target_cluster, tmp_path, group, [orders, plain, late, resumed])
    run = start()
    try:
        with (
            writing(source, orders, 3, seed=SEED) as writer,
            local_producer(target, orders) as local,
        ):
            await_copied(source, plain, target, plain)
            run.kill()
            run = start()
            source.create_topic(late, 2)
            source.produce(late, [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(100)])
            await_copied(source, late, target, late)
            run.kill_driver()
            run = start()
            await_mirrored(source, target, orders)
        await_mirrored(source, target, orders)
        assert run.stop() == 0, run.log
    finally:
        run.kill()

    assert writer.written > 1_000
    assert_same(source, plain, target, plain)
    assert_same(source, late, target, late)
    assert [r.value for r in target.read(resumed)[0]] == [b"6", b"7", b"8", b"9"]

    target.add_partitions(late, 3)  # keys go elsewhere from now on: a person must agree
    source.produce(late, [b"more %d" % n for n in range(100)])
    with start("--until-caught-up", "--adopt") as run:
        assert run.wait() == 0, run.log
    assert sorted(values(target, late)) == sorted(values(source, late))

    theirs = check_keys(source, target, orders)
    assert sorted(theirs) == sorted(local.written), "others' records are as they were"


@pytest.mark.timeout(600)
def test_a_source_that_outgrows_its_target_goes_by_key(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Two partitions go to two, each to the one of its number, which is where keys belong. The
    source grows, once before the mirror's eyes and once while it is away: its keys now lie in
    other partitions of the source, and still go where they went."""
    seen, away = prefix + "seen", prefix + "away"
    for tools in (source, target):
        tools.create_topics([seen, away], 2)
    start = starter(source_cluster, target_cluster, tmp_path, f"{prefix}group", [seen, away])

    def write(topic: str, what: str) -> None:
        source.produce(
            topic,
            [
                Outgoing(value=b"%s %d" % (what.encode(), n), key=b"%d" % (n % 50))
                for n in range(400)
            ],
        )

    run = start()
    try:
        for topic in (seen, away):
            write(topic, "before")
            await_mirrored(source, target, topic)
        source.add_partitions(seen, 5)
        run.await_log(f"partition={seen}-1 from_offset=")
        run.await_log(f"partition={seen}-0 from_offset=")
        write(seen, "after")
        await_mirrored(source, target, seen)
        run.kill()
        source.add_partitions(away, 3)
        write(seen, "later")
        run = start()
        run.await_log(f"partition={away}-0 from_offset=")
        run.await_log(f"partition={away}-1 from_offset=")
        write(away, "after")
        for topic in (seen, away):
            await_mirrored(source, target, topic)
        assert run.stop() == 0, run.log
    finally:
        run.kill()
    for topic in (seen, away):
        assert check_keys(source, target, topic) == []
