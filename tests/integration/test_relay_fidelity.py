"""What arrives is what was there: every codec and every odd record, over real brokers.

The source is written, and both sides are read, by an independent client. A lane runs without Spark
(tests/harness/lanes.py); it is given the assignments that a driver would make.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from causeway.cluster import Cluster, content_of, log_reader
from causeway.model import State, TopicPartition
from causeway.records import HEADER_SIZE, PlainRecord, build, header, records_of
from causeway.relay.lane import responses
from tests.harness.broken_logs import flip_bit
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import WHOLE_BATCHES, KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import FOREVER, Mirror
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

YEARS_AGO = 1_262_304_000_000  # 2010
ZSTD = 4
ODD = [
    Outgoing(value=b"plain", key=b"key"),
    Outgoing(value=b"no key", key=None),
    Outgoing(value=None, key=b"tombstone"),
    Outgoing(value=b"", key=b""),
    Outgoing(value=None, key=None),
    Outgoing(value=b"old", timestamp=YEARS_AGO),
    Outgoing(value=b"oldest", timestamp=0),
    Outgoing(value=b"not in order of time", timestamp=YEARS_AGO + 5),
    Outgoing(
        value=b"headers",
        headers=[("b", b"1"), ("a", b""), ("b", None), ("b", b"1"), ("", b"\0\xff"), ("é", b"2")],
    ),
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


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_odd_record_in_every_codec(mirror: Mirror, codec: str) -> None:
    """Once with large batches, which go as they are, once a record a batch, which are merged."""
    mirror.create()
    mirror.source.produce(mirror.topic, ODD, codec=codec, settings=WHOLE_BATCHES)
    mirror.source.produce(mirror.topic, ODD, codec=codec, settings={"batch.num.messages": 1})

    mirror.run()

    assert len(mirror.assert_same()[0]) == 2 * len(ODD)
    sizes = _batches(mirror.driver.target, mirror.name)
    assert max(count for _, count in sizes) >= 200
    assert sum(count == 1 for _, count in sizes) < 20, "small neighbours were not merged"
    names = ["none", "gzip", "snappy", "lz4", "zstd"]
    assert {names[c] for c, count in sizes if count > 100} == {codec}, "the codec changed"


def _batches(cluster: Cluster, topic: str) -> list[tuple[int, int]]:
    """Codec and record count of each batch of partition 0."""
    place, found, at = TopicPartition(topic, 0), [], 0
    end = cluster.list_offsets([place], -1)[place].offset  # type: ignore[union-attr]
    while at < end:
        data = cluster.fetch(place, at, 1 << 24).records
        while len(data) > 61:
            size = 12 + int.from_bytes(data[8:12], "big")
            if size > len(data):
                break
            found.append((data[22] & 7, int.from_bytes(data[57:61], "big")))
            at = int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big") + 1
            data = data[size:]
    return found


@pytest.mark.parametrize("read_committed", [True, False])
def test_transactions(mirror: Mirror, read_committed: bool) -> None:
    """Markers are never mirrored; aborted records only by a link that reads uncommitted ones. The
    mirror itself has no transactions: both kinds of its readers see the same."""
    mirror.create()
    with (
        mirror.source.transactional(mirror.topic + "1", codec="lz4") as one,
        mirror.source.transactional(mirror.topic + "2") as two,
    ):
        for turn in range(12):
            one.begin()
            two.begin()
            one.send(mirror.topic, *(b"one %d %d" % (turn, i) for i in range(turn * 20)))
            one.flush()
            two.send(mirror.topic, b"two %d" % turn)
            two.flush()
            mirror.source.produce(mirror.topic, [b"plain %d" % turn])
            one.send(mirror.topic, b"one again %d" % turn)
            (two.abort if turn % 3 else two.commit)()
            (one.abort if turn % 2 else one.commit)()
    mirror.source.await_transactions(mirror.topic)

    mirror.run(read_committed=read_committed)

    found = mirror.assert_same(read_committed=read_committed)
    assert any(r.value == b"two 1" for r in found[0]) != read_committed


def test_an_open_transaction_holds_a_committed_link_back(mirror: Mirror) -> None:
    mirror.create()
    mirror.claim()
    mirror.driver.start_lane(0)
    with mirror.source.transactional(mirror.topic) as transactions:
        mirror.source.produce(mirror.topic, [b"before"])
        transactions.begin()
        transactions.send(mirror.topic, b"open")
        transactions.flush()
        mirror.source.produce(mirror.topic, [b"after"])
        mirror.driver.await_position({(mirror.topic, 0): 1})
        assert [r.value for r in mirror.target.read(mirror.name)[0]] == [b"before"]
        await_until(
            lambda: mirror.driver.reports["A->B", mirror.topic, 0].high_watermark == 3,
            what="a report of what lies behind it",
        )
        assert mirror.driver.reports["A->B", mirror.topic, 0].source_end == 1
        transactions.commit()
    mirror.source.await_transactions(mirror.topic)

    mirror.await_mirrored()

    values = [r.value for r in mirror.assert_same()[0]]
    assert values == [b"before", b"open", b"after"]


def relayed(cluster: Cluster, topic: str) -> list[tuple[object, ...]]:
    """What partition 0 holds, of which no client need be able to read all."""
    batches = log_reader.relayed(cluster, TopicPartition(topic, 0), 0, read_committed=False)
    return [content_of(record) for batch in batches for record in records_of(batch)]


@pytest.mark.parametrize("append_times", [False, True])
def test_a_header_name_that_is_not_utf_8(mirror: Mirror, append_times: bool) -> None:
    """In large batches, of which some have gaps or append times, and in small ones."""
    kind = "LogAppendTime" if append_times else "CreateTime"
    mirror.create(config=FOREVER | {"message.timestamp.type": kind})
    at = TopicPartition(mirror.topic, 0)
    for size in (3000, 1, 1):
        odd = Rec(offset=0, value=b"v" * size, headers=[("\udcff\udc80", b"1"), ("é", None)])
        mirror.driver.source.produce_batch(at, raw_batch([odd, replace(odd, offset=1)]))

    mirror.run()

    found = relayed(mirror.driver.target, mirror.name)
    assert found == relayed(mirror.driver.source, mirror.topic)
    assert [one[3] for one in found] == [(("\udcff\udc80", b"1"), ("é", None))] * 6


def test_times_further_apart_than_64_bits_tell(mirror: Mirror) -> None:
    """Of small neighbours, and within batches that go as they are."""
    taken = FOREVER | {"message.timestamp.after.max.ms": str(2**63 - 1)}
    mirror.create(config=taken, target_config=taken)
    at, now = TopicPartition(mirror.topic, 0), responses.wall_ms()
    none, first, last = -1, -(2**63), 2**63 - 1
    for value in (b"v", b"v" * 3000):
        for times in ((none,), (last,), (now,), (first,), (none, last), (first, now, last)):
            batch = [Rec(offset=n, timestamp=time, value=value) for n, time in enumerate(times)]
            mirror.driver.source.produce_batch(at, raw_batch(batch))

    mirror.run()

    assert relayed(mirror.driver.target, mirror.name) == relayed(mirror.driver.source, mirror.topic)


def test_batches_that_hold_much_more_than_they_weigh(mirror: Mirror) -> None:
    """Each record is 20 MiB of zeros in 700 bytes: they are relayed, and their lane stays small."""
    mirror.create()
    at = TopicPartition(mirror.topic, 0)
    for _ in range(20):
        batch = build(
            [Rec(offset=0, value=b"\0" * 20 * 1024 * 1024)],
            codec=4,
            first=0,
            next=1,
            leader_epoch=0,
            offsets=None,
        )
        mirror.driver.source.produce_batch(at, header(batch, -1, -1, -1) + batch.payload)

    mirror.claim()
    lane = mirror.driver.start_lane(0)
    mirror.await_mirrored()
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{lane.pid}/status").read_text())
    mirror.driver.drain(0)

    def payloads(cluster: Cluster, topic: str) -> list[bytes]:
        there = TopicPartition(topic, 0)
        return [bytes(raw[HEADER_SIZE:]) for raw in log_reader.raw_batches(cluster, there, 0, 20)]

    found = payloads(mirror.driver.target, mirror.name)
    assert found == payloads(mirror.driver.source, mirror.topic)
    assert sum(map(len, found)) < 20_000
    assert int(peak) < 300_000


def test_what_is_too_large_to_be_unpacked_stops_once_all_before_it_is_there(
    mirror: Mirror,
) -> None:
    """40 MiB of zeros in 1,400 bytes, amid append times, which every batch is unpacked for."""
    mirror.create(config={"message.timestamp.type": "LogAppendTime"})
    mirror.source.produce(mirror.topic, [b"%d" % i for i in range(500)])
    batch = build(
        [Rec(offset=0, value=b"\0" * 40 * 1024 * 1024)],
        codec=4,
        first=0,
        next=1,
        leader_epoch=0,
        offsets=None,
    )
    mirror.driver.source.produce_batch(
        TopicPartition(mirror.topic, 0), header(batch, -1, -1, -1) + batch.payload
    )

    mirror.claim()
    mirror.driver.start_lane(0)

    assert "the batch at offset 500: its" in mirror.await_state(State.STOPPED)
    assert mirror.target.offsets(mirror.name) == {0: 500}


@pytest.mark.parametrize("size", [10, 1_000, 10_000], ids=["small", "large", "unread"])
def test_a_bit_that_the_sources_disk_flipped_holds_up_one_partition_until_it_is_mended(
    mirror: Mirror, source_cluster: LocalCluster, size: int
) -> None:
    """What is passed on unread its target refuses; the next try reads it, and says which it is."""
    mirror.create(2)
    now = int(time.time() * 1000)
    for partition in (0, 1):
        for first in (0, 10, 20):
            records = [
                Rec(offset=i, value=b"%d" % (first + i) + b"x" * size, timestamp=now)
                for i in range(10)
            ]
            mirror.driver.source.produce_batch(
                TopicPartition(mirror.topic, partition), raw_batch(records)
            )
    flip_bit(source_cluster, mirror.topic, 0, 10)

    mirror.claim()
    mirror.driver.start_lane(0)

    reason = mirror.await_state(State.FAILED)
    assert f"{mirror.topic}-0: the batch at offset 10 has a wrong CRC" in reason, reason
    mirror.await_mirrored(partitions=[1])
    assert mirror.target.offsets(mirror.name) == {0: 10, 1: 30}

    flip_bit(source_cluster, mirror.topic, 0, 10)

    mirror.await_mirrored()
    mirror.assert_same()


@pytest.mark.slow
def test_compacted_topic_with_gaps(mirror: Mirror) -> None:
    """Gaps inside batches and between them. The mirror is compacted too, as its config would be."""
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "0",
        **FOREVER,
    }
    mirror.create(config=compacted, target_config={**FOREVER, "cleanup.policy": "compact"})
    for turn in range(3):
        mirror.source.produce(
            mirror.topic,
            [Outgoing(key=b"%d" % (i * i % 50), value=b"%d %d" % (turn, i)) for i in range(500)],
            codec="zstd",
        )
    # Only what lies before the newest segment is compacted, and only a new batch begins one.
    feed = iter(range(10_000))

    def cleaned() -> bool:
        mirror.source.produce(mirror.topic, [Outgoing(key=b"feed", value=b"%d" % next(feed))])
        return len(mirror.source.read(mirror.topic)[0]) < 200

    await_until(cleaned, 60, "the source is compacted", poll_s=0.3)
    mirror.source.rest_cleaner(mirror.topic)

    mirror.run()

    records = mirror.assert_same()[0]
    assert records[-1].offset < mirror.source.offsets(mirror.topic)[0] - 1_000


def test_log_start_moved_before_the_start(mirror: Mirror) -> None:
    """DeleteRecords cuts through a batch: its first records must not come back."""
    mirror.create()
    mirror.source.produce(mirror.topic, [b"%d" % i for i in range(1000)], codec="gzip")
    mirror.source.delete_records(mirror.topic, 0, 437)

    mirror.run()

    assert mirror.assert_same()[0][0].value == b"437"


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_append_times_become_the_mirrors_times(mirror: Mirror, codec: str) -> None:
    """The mirror has CreateTime (it must keep other topics' times), with the source's times."""
    mirror.create(config={"message.timestamp.type": "LogAppendTime"})
    mirror.source.produce(mirror.topic, ODD, codec=codec)

    mirror.run()

    wanted = mirror.source.read(mirror.topic)[0]
    found = mirror.target.read(mirror.name)[0]
    assert {r.appended for r in wanted} == {True}
    assert [(r.timestamp, *r.content[2:]) for r in found] == [
        (r.timestamp, *r.content[2:]) for r in wanted
    ]


def test_a_target_that_sets_its_own_times(mirror: Mirror) -> None:
    """A topic that was there before us may have LogAppendTime: only times are lost, and a lane
    that comes back finds its place all the same."""
    mirror.create(target_config={"message.timestamp.type": "LogAppendTime"})
    mirror.source.produce(mirror.topic, ODD)
    mirror.claim()
    claimed = dict(mirror.driver.assignments)
    mirror.run(0)
    mirror.source.produce(mirror.topic, ODD)
    mirror.driver.reports.clear()
    mirror.driver.assignments = claimed

    mirror.run(1)

    wanted = mirror.source.read(mirror.topic)[0]
    found = mirror.target.read(mirror.name)[0]
    assert [r.content[2:] for r in found] == [r.content[2:] for r in wanted]
    report = mirror.driver.reports["A->B", mirror.topic, 0]
    assert report.recoveries <= 2, "a broker's own times were taken for repeats"


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_as_large_as_the_topic_takes(mirror: Mirror, codec: str) -> None:
    limit = {"max.message.bytes": str(3_000_000), **FOREVER}
    mirror.create(config=limit, target_config=limit)
    large = {
        "message.max.bytes": 3_000_000,
        "batch.size": 3_000_000,
        "queue.buffering.max.kbytes": 100_000,
    }
    noise = [bytes((i * 7 + j * j) % 251 for j in range(1000)) for i in range(20)]
    records = [
        b"".join(noise[(i + j) % 20] for j in range(kilobytes))
        for i, kilobytes in enumerate([2_900, 1, 1_000, 900, 999, 5, 2_500])
    ]
    mirror.source.produce(mirror.topic, records, codec=codec, settings=large)
    exact = 3_000_000 - len(raw_batch([Rec(offset=0, value=b"x" * 2_900_000)])) + 2_900_000
    place = TopicPartition(mirror.topic, 0)
    mirror.driver.source.produce_batch(place, raw_batch([Rec(offset=0, value=b"x" * exact)]))

    mirror.run(max_message_bytes=3_000_000)

    mirror.assert_same()


def test_batches_that_are_too_large_for_the_target_are_split(mirror: Mirror) -> None:
    mirror.create(target_config={"max.message.bytes": "20000", **FOREVER})
    mirror.source.produce(mirror.topic, [b"%05d" % i + b"x" * 900 for i in range(500)])
    mirror.source.produce(
        mirror.topic, [b"%05d" % i + b"x" * 900 for i in range(500)], codec="snappy"
    )

    mirror.run(max_message_bytes=20_000)

    mirror.assert_same()


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["uncompressed", "gzip"])
def test_a_batch_that_the_target_packs_anew_is_split_where_that_is_too_large(
    mirror: Mirror, codec: str
) -> None:
    """The batch itself is far below max.message.bytes. The lane is killed amid its parts."""
    limit = {"max.message.bytes": "100000" if codec == "gzip" else "1048588"}
    mirror.create(target_config={"compression.type": codec, **limit, **FOREVER})
    # It repeats itself after more than gzip looks back.
    noise = [random.Random(n).randbytes(600).hex().encode() for n in range(40)]
    values = [b"%05d" % i + noise[i % 40] for i in range(4_000)]
    records = [PlainRecord(i, YEARS_AGO + i, None, value, []) for i, value in enumerate(values)]
    for start in (0, 2_000):
        whole = build(
            records[start : start + 2_000],
            codec=ZSTD,
            first=start,
            next=start + 2_000,
            leader_epoch=-1,
            offsets=None,
        )
        assert whole.size < 100_000
        place = TopicPartition(mirror.topic, 0)
        mirror.driver.source.produce_batch(place, header(whole, -1, -1, -1) + whole.payload)
    mirror.claim(outlets=1, sole_writer=False, max_message_bytes=int(limit["max.message.bytes"]))
    for number in range(2):
        before = mirror.target.offsets(mirror.name)[0]
        mirror.driver.start_lane(number)
        await_until(lambda: mirror.target.offsets(mirror.name)[0] > before, poll_s=0.001)  # noqa: B023
        mirror.driver.kill(number)

    mirror.run(9)

    assert len(mirror.assert_same()[0]) == len(values)


def test_a_batch_above_a_limit_that_nobody_knew_is_split(mirror: Mirror) -> None:
    """Lowered since, or not ours to describe. A single record above it says why it goes no on."""
    mirror.create(target_config={"max.message.bytes": "20000", **FOREVER})
    records = [b"%05d" % i + b"x" * 900 for i in range(500)]
    mirror.source.produce(mirror.topic, records, settings=WHOLE_BATCHES)
    mirror.source.produce(mirror.topic, records, codec="snappy", settings=WHOLE_BATCHES)
    mirror.run()
    mirror.assert_same()

    mirror.source.produce(mirror.topic, [b"small", b"x" * 30_000], settings=WHOLE_BATCHES)
    mirror.driver.start_lane(1)

    assert "MESSAGE_TOO_LARGE" in mirror.await_state(State.FAILED)
    assert mirror.target.offsets(mirror.name) == {0: 1_001}


def test_a_refused_first_batch_holds_back_what_follows(mirror: Mirror) -> None:
    """The broker knows nothing of a new producer id, so it would take any first sequence: if a
    second batch were in flight when the first is refused, it would be appended in its place."""
    far = 4_102_444_800_000  # 2100: later than the target's clock allows
    mirror.create(
        config={"message.timestamp.after.max.ms": str(2**62), **FOREVER},
        target_config={"message.timestamp.after.max.ms": "3600000", **FOREVER},
    )
    mirror.source.produce(mirror.topic, [Outgoing(value=b"far " * 1000, timestamp=far)])
    for number in range(20):
        mirror.source.produce(mirror.topic, [b"%d " % number * 2000])
    mirror.claim()
    mirror.driver.start_lane(0)

    assert "INVALID_TIMESTAMP" in mirror.await_state(State.FAILED)

    assert mirror.target.offsets(mirror.name) == {0: 0}
    mirror.target.set_topic_config(mirror.name, {"message.timestamp.after.max.ms": str(2**62)})
    mirror.await_mirrored()
    mirror.assert_same()


def test_a_lane_goes_on_where_another_ended(mirror: Mirror) -> None:
    mirror.create(2)
    for turn in range(3):
        mirror.source.produce(
            mirror.topic,
            [Outgoing(value=b"%d %d" % (turn, i), partition=i % 2) for i in range(700)],
            codec="lz4",
        )
        mirror.run(turn)

    found = mirror.assert_same()
    assert [len(found[p]) for p in (0, 1)] == [1050, 1050]


@pytest.mark.parametrize("progress", ["newest", "none"])
def test_keys_decide_where_the_partition_counts_differ(mirror: Mirror, progress: str) -> None:
    """3 partitions to 5: every record once, where Java's default partitioner would put it, in
    order per key; also when lanes are killed in the middle, where an outlet may be further on in a
    source batch than the others."""
    mirror.create(3, 5)
    keyed = [
        Outgoing(value=b"%d" % i, key=b"key %d" % (i % 97), partition=i % 97 % 3)
        for i in range(60_000)
    ]
    keyless = [Outgoing(value=b"keyless %d" % i, partition=i % 3) for i in range(600)]
    mirror.source.produce(mirror.topic, [*keyed, *keyless], codec="zstd")
    mirror.claim(outlets=5, sole_writer=False, max_message_bytes=1_000)
    written = 0
    for number in range(4):
        mirror.driver.start_lane(number)

        def writes(before: int = written) -> bool:
            return sum(mirror.target.offsets(mirror.name).values()) > before

        if written < 60_600:
            await_until(writes, what="the lane writes", poll_s=0.001)
        mirror.driver.kill(number)
        written = sum(mirror.target.offsets(mirror.name).values())
        assert number > 0 or written < 60_600, "the lane was killed too late"
        if progress == "none":
            mirror.driver.reports.clear()

    mirror.run(9)

    found = mirror.target.read(mirror.name)
    values = [r.value for records in found.values() for r in records]
    assert len(values) == len(set(values)) == 60_600
    by_key: dict[bytes | None, list[int]] = {}
    for partition, records in found.items():
        for record in records:
            if record.key is None:
                continue
            assert partition == _java_partition(record.key, 5)
            by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def _java_partition(key: bytes, count: int) -> int:
    """Apache Kafka's BuiltInPartitioner.partitionForKey, with Java's int arithmetic spelt out."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return ((h ^ h >> 15) & 0x7FFFFFFF) % count


@pytest.mark.slow
def test_others_may_write_to_the_same_topic(mirror: Mirror) -> None:
    """Foreign records lie between ours, old and new; ours come once and in order, also for a lane
    that starts anew with the first pair while the others go on writing."""
    mirror.create(target_config=FOREVER)
    mirror.target.produce(mirror.name, [b"foreign before"])
    mirror.claim(sole_writer=False)
    written = 0
    for number in range(3):
        for _ in range(5):
            mirror.source.produce(mirror.topic, [b"%d" % (written + i) for i in range(100)])
            mirror.target.produce(mirror.name, [b"foreign"])
            written += 100
        mirror.driver.start_lane(number)
        mirror.await_mirrored()
        mirror.target.produce(mirror.name, [b"foreign"] * 3)
        mirror.driver.kill(number)
        mirror.driver.reports.clear()

    found = [r.value for r in mirror.target.read(mirror.name)[0]]
    assert [v for v in found if not (v or b"").startswith(b"foreign")] == [
        b"%d" % i for i in range(written)
    ]
    assert found.count(b"foreign") == 24


def test_a_foreign_record_stops_a_mirror_that_should_be_ours_alone(mirror: Mirror) -> None:
    mirror.create(2)
    mirror.source.produce(mirror.topic, [Outgoing(value=b"a", partition=p) for p in (0, 1)])
    mirror.claim()
    mirror.driver.start_lane(0)
    mirror.await_mirrored()

    mirror.target.produce(mirror.name, [Outgoing(value=b"foreign", partition=0)])
    mirror.source.produce(mirror.topic, [Outgoing(value=b"b", partition=p) for p in (0, 1)])

    assert "another client" in mirror.await_state(State.STOPPED)
    mirror.await_mirrored(partitions=[1])
    mirror.await_state(State.RUNNING, 1)
