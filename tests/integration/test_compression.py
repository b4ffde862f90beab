"""Batches that lanes compress, over real brokers: each record arrives once, in the codec that was
asked for, also if lanes are killed and the codec changes meanwhile.

The source is written, and both sides are read, by an independent client, and by Kafka's own console
consumer, in both isolation levels.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from causeway.cluster import Cluster, raw_batches
from causeway.java import find_java
from causeway.model import TopicPartition
from causeway.records import CODEC_MASK, GZIP, LZ4, SNAPPY, ZSTD, BatchHeader
from causeway.relay import Compression
from tests.harness import writers
from tests.harness.battle import SEED, Ground, battle, ground_of
from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.jars import connect_classpath
from tests.harness.kafka.mirror_maker import MirrorMaker2
from tests.harness.kafka_tools import WHOLE_BATCHES, KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import Mirror
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    mm2_file,
    run_to_end,
)
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
YEARS_AGO = 1_262_304_000_000
ODD = [
    Outgoing(value=b"plain", key=b"key"),
    Outgoing(value=None, key=b"tombstone"),
    Outgoing(value=b"", key=b""),
    Outgoing(value=b"old", timestamp=YEARS_AGO),
    Outgoing(value=b"headers", headers=[("b", b"1"), ("a", b""), ("b", None), ("é", b"\0\xff")]),
    *(Outgoing(value=b"%d " % i + b"compressible " * 20, key=b"%d" % (i % 7)) for i in range(300)),
]


@pytest.fixture
def mirror(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
) -> Iterator[Mirror]:
    with LaneDriver(
        client("A", source_cluster.bootstrap), client("B", target_cluster.bootstrap)
    ) as driver:
        yield Mirror(driver, source, target, prefix + "t", "A." + prefix + "t")


def batches(cluster: Cluster, topic: str, partitions: int = 1) -> list[tuple[int, int, int]]:
    """Codec, bytes and record count of each batch."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    ends = cluster.log_ends(places)
    found = []
    for place in places:
        end = ends[place]
        assert isinstance(end, int)
        for raw in raw_batches(cluster, place, 0, end):
            one = BatchHeader.of(raw)
            found.append((one.attributes & CODEC_MASK, len(raw), one.records))
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_what_comes_plain_arrives_compressed(mirror: Mirror, codec: str) -> None:
    """Once with large batches, once a record a batch, which are merged before."""
    mirror.create()
    mirror.source.produce(mirror.topic, ODD, settings=WHOLE_BATCHES)
    mirror.source.produce(mirror.topic, ODD, settings={"batch.num.messages": 1})
    other = "gzip" if codec != "gzip" else "lz4"
    mirror.source.produce(mirror.topic, ODD, codec=other, settings=WHOLE_BATCHES)

    mirror.run(compression=Compression(codec=CODECS[codec]))

    assert len(mirror.assert_same()[0]) == 3 * len(ODD)
    found = batches(mirror.driver.target, mirror.name)
    before = batches(mirror.driver.source, mirror.topic)
    assert {code for code, _, count in found if count > 100} == {CODECS[codec], CODECS[other]}
    assert 3 * sum(size for _, size, _ in found) < sum(size for _, size, _ in before)


@pytest.mark.parametrize("before", ["gzip", "snappy", "lz4", "zstd"])
def test_with_always_each_codec_becomes_another(mirror: Mirror, before: str) -> None:
    codec = "zstd" if before != "zstd" else "snappy"
    mirror.create()
    mirror.source.produce(mirror.topic, ODD, codec=before, settings=WHOLE_BATCHES)

    mirror.run(compression=Compression(codec=CODECS[codec], always=True))

    mirror.assert_same()
    assert {code for code, *_ in batches(mirror.driver.target, mirror.name)} == {CODECS[codec]}


def test_records_that_do_not_shrink_arrive_as_they_came(mirror: Mirror) -> None:
    mirror.create()
    random_values = [Outgoing(value=os.urandom(900)) for _ in range(200)]
    mirror.source.produce(mirror.topic, random_values, settings=WHOLE_BATCHES)

    mirror.run(compression=Compression(codec=LZ4))

    mirror.assert_same()
    assert batches(mirror.driver.target, mirror.name) == batches(mirror.driver.source, mirror.topic)


def test_transactions_and_gaps(mirror: Mirror) -> None:
    mirror.create()
    with mirror.source.transactional(mirror.topic + "x") as writer:
        for turn in range(6):
            writer.begin()
            writer.send(mirror.topic, *(b"%d %d " % (turn, i) + b"x" * 500 for i in range(50)))
            writer.flush()
            (writer.abort if turn % 2 else writer.commit)()
    mirror.source.await_transactions(mirror.topic)

    mirror.run(compression=Compression(codec=ZSTD))

    mirror.assert_same()
    assert {code for code, *_ in batches(mirror.driver.target, mirror.name)} == {ZSTD}


@pytest.mark.parametrize("append_times", [False, True], ids=["create-time", "append-time"])
def test_a_target_topic_with_a_codec_of_its_own_has_the_last_word(
    mirror: Mirror, append_times: bool
) -> None:
    times = {"message.timestamp.type": "LogAppendTime"} if append_times else {}
    mirror.create(target_config={"compression.type": "gzip", "retention.ms": "-1", **times})
    mirror.source.produce(mirror.topic, ODD, settings=WHOLE_BATCHES)

    mirror.run(compression=Compression(codec=ZSTD))

    found = mirror.target.read(mirror.name)[0]
    wanted = mirror.source.read(mirror.topic)[0]
    assert [r.content[2:] for r in found] == [r.content[2:] for r in wanted]
    assert {code for code, *_ in batches(mirror.driver.target, mirror.name)} == {GZIP}


def test_offsets_are_preserved(mirror: Mirror) -> None:
    mirror.create()
    for turn in range(5):
        with mirror.source.transactional(f"{mirror.topic}{turn}") as writer:
            writer.begin()
            writer.send(mirror.topic, *(b"%d %d " % (turn, i) + b"x" * 300 for i in range(40)))
            writer.commit()
    mirror.source.await_transactions(mirror.topic)
    mirror.claim(keeps={}, compression=Compression(codec=LZ4))
    mirror.driver.start_lane(0)
    mirror.await_mirrored()
    mirror.driver.drain(0)

    assert mirror.assert_same_offsets() == 200
    data = [code for code, _, count in batches(mirror.driver.target, mirror.name) if count > 1]
    assert set(data) == {LZ4}


# -- lanes that die --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with ground_of() as made:
        yield made


WAYS = (
    Compression(codec=ZSTD),
    None,
    Compression(codec=LZ4, always=True),
    Compression(codec=GZIP, level=1, always=True),
    Compression(codec=SNAPPY),
)


@pytest.mark.slow
@pytest.mark.parametrize("timestamp", [None, YEARS_AGO], ids=["now", "years-ago"])
def test_lanes_are_killed_and_each_next_one_has_another_codec(
    ground: Ground, prefix: str, timestamp: int | None
) -> None:
    """A killed lane leaves batches in one codec, and requests that may still arrive. The next one
    has to find its place behind them, and goes on in another codec, or in none."""
    chance = random.Random(SEED)
    with battle(ground, prefix, patience_s=2.0) as it:
        it.create(2)
        it.claim(compression=WAYS[0])
        it.driver.forgets = True
        with writers.writing(
            it.source, it.topic, 2, timestamp=timestamp, seed=SEED, pause_s=0.05
        ) as writer:
            for number in range(8):
                way = WAYS[number % len(WAYS)]
                for key, one in list(it.driver.assignments.items()):
                    it.driver.assignments[key] = one.replace(compression=way)
                it.driver.start_lane(number)
                it.await_growth(chance.randint(1, 400))
                it.driver.kill(number)
            await_until(lambda: writer.written > 1_000, what="enough is written")
        it.driver.start_lane(-1)
        it.await_mirrored(timeout=120)
        it.driver.drain(-1)

        it.assert_same(why=f"seed {SEED}")
        codecs = {code for code, *_ in batches(it.driver.target, it.name, 2)}
        assert len(codecs) > 2


# -- the command, with MirrorMaker 2's file --------------------------------------------------------


def console_consumer(bootstrap: str, topic: str, count: int, level: str) -> Sequence[str]:
    """The values that Kafka's own consumer reads from the beginning."""
    command: list[str | Path] = [
        find_java(),
        "-Xmx256m",
        "-cp",
        connect_classpath(),
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--isolation-level", level, "--timeout-ms", "60000"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mirror_maker_2s_file_has_the_codec_that_mirror_maker_2_gives(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
) -> None:
    """MirrorMaker 2 mirrors first, then Causeway with the same file: both write zstd, and nothing
    is lost or doubled."""
    topic = prefix + "t"
    mirror = f"A.{topic}"
    source.create_topic(topic, 1)
    settings = {
        "clusters": "A, B",
        "A.bootstrap.servers": source_cluster.bootstrap,
        "B.bootstrap.servers": target_cluster.bootstrap,
        "A->B.enabled": "true",
        "topics": topic,
        "replication.factor": "1",
        **{
            f"{name}.replication.factor": "1"
            for name in (
                *("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic"),
                *("config.storage", "offset.storage", "status.storage"),
            )
        },
        "offset.flush.interval.ms": "1000",
        "sync.topic.acls.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "A.consumer.isolation.level": "read_committed",
        "B.producer.compression.type": "zstd",
        "B.producer.compression.zstd.level": "6",
    }
    lines = [f"{number} and the words that all records share" for number in range(400)]
    records = [Outgoing(value=line.encode()) for line in lines]
    source.produce(topic, records[:200], settings=WHOLE_BATCHES)
    theirs = MirrorMaker2(settings, tmp_path / "mm2")
    theirs.start()
    await_copied(source, topic, target, mirror)
    theirs.stop(PATIENCE_S)
    source.produce(topic, records[200:], settings=WHOLE_BATCHES)

    with Running("run", theirs.properties_file, directory=tmp_path) as run:
        await_copied(source, topic, target, mirror)
        assert run.stop() == 0
        assert "not acted on" not in run.log

    assert_same(source, topic, target, mirror)
    with Cluster(client("B", target_cluster.bootstrap)) as cluster:
        assert {code for code, *_ in batches(cluster, mirror)} == {ZSTD}
    for level in ("read_committed", "read_uncommitted"):
        assert console_consumer(target_cluster.bootstrap, mirror, 400, level) == lines


@pytest.mark.slow
def test_verify_agrees_with_a_mirror_that_was_compressed_in_one_codec_and_then_in_another(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
) -> None:
    topic = prefix + "t"
    mirror = f"A.{topic}"
    source.create_topic(topic, 1)
    for codec in ("lz4", "gzip", "none"):
        source.produce(topic, ODD, settings=WHOLE_BATCHES)
        file = mm2_file(
            tmp_path,
            {"A": source_cluster, "B": target_cluster},
            "A->B.enabled = true",
            f"A->B.topics = {topic}",
            f"B.producer.compression.type = {codec}",
        )
        run_to_end(file)

    assert_same(source, topic, target, mirror)
    with Cluster(client("B", target_cluster.bootstrap)) as cluster:
        codecs = {code for code, _, count in batches(cluster, mirror) if count > 100}
    assert codecs == {LZ4, GZIP, 0}
    found = causeway("verify", file, "--json", "--topic", topic)
    assert found.code == 0, found.err
    report = json.loads(found.out)
    assert report["agrees"], report
    (one,) = report["partitions"]
    assert one["records"] == 3 * len(ODD)
    assert one["records_byte_by_byte"] < 2 * len(ODD)
