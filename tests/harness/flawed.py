"""A mirror that was made with flaws: what no lane does, a disk or a broken broker might."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from causeway.cluster import EARLIEST, LATEST, Cluster, OffsetAt, relayed
from causeway.config import LinkSettings
from causeway.link_topics import (
    Entry,
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    ProgressTopic,
    encode_entry,
    topic_log,
)
from causeway.model import Pair, State, TopicPartition
from causeway.records import Batch, PlainRecord, build, header, records_of

TIME_MS = 1_767_225_600_000  # 2026-01-01
# Of the records of one batch, from the index of one of them on.
Flaw = Callable[[list[PlainRecord], int], None]


def flip(records: list[PlainRecord], at: int) -> None:
    value = bytearray(records[at].value or b"")
    value[len(value) // 2] ^= 1
    records[at] = records[at]._replace(value=bytes(value))


def drop(records: list[PlainRecord], at: int) -> None:
    del records[at]


def double(records: list[PlainRecord], at: int) -> None:
    records.insert(at, records[at])


def swap(records: list[PlainRecord], at: int) -> None:
    """With its neighbour in the same batch: the next one, where there is one."""
    other = at + 1 if at + 1 < len(records) else at - 1
    records[at], records[other] = records[other], records[at]


def mirror(
    link: LinkSettings,
    topic: str,
    flaws: Mapping[tuple[int, int], Flaw],
    partitions: int,
    *,
    source: Cluster,
    target: Cluster,
    begin: int = 0,
    claimed: Callable[[list[Entry]], list[Entry]] = lambda entries: entries,
) -> dict[int, int]:
    """Copies `topic`, whose mirror is there and empty, as a lane would, but for `flaws` at (source
    partition, source offset), and claims it as a driver would, but for what `claimed` changes. The
    ends of the mirror. `begin`: the source offset to begin at, behind what the target has."""
    mirrored = link.decide_topic(topic).target_name
    assert mirrored is not None
    ids = (
        source.metadata([topic]).topics[topic].topic_id,
        target.metadata([mirrored]).topics[mirrored].topic_id,
    )
    producers = target.init_producer_ids(partitions)
    claims: list[Entry] = []
    ends = {}
    for number in range(partitions):
        at, there = TopicPartition(topic, number), TopicPartition(mirrored, number)
        producer, epoch = producers[number]
        first = source.list_offsets([at], EARLIEST)[at]
        assert isinstance(first, OffsetAt)
        before = target.list_offsets([there], LATEST)[there]
        assert isinstance(before, OffsetAt)
        base = before.offset
        sequence, position = 0, max(begin, first.offset)
        claim = Pair(position, base, 0)
        own = {offset: flaw for (of, offset), flaw in flaws.items() if of == number}
        for batch in relayed(source, at, position):
            sent = _flawed(batch, own)
            stamped = header(sent, producer, epoch, sequence) + sent.payload
            target.produce_batch(there, stamped)
            sequence, position = sequence + sent.records, batch.next
        pair = Pair(source=position, target=base + sequence, sequence=sequence)
        ends[number] = sequence
        claims += [
            PartitionProgress(
                topic=topic,
                partition=number,
                topic_id=ids[0],
                leader_epoch=0,
                position=position,
                outlets=(
                    Outlet(
                        topic=mirrored,
                        partition=number,
                        topic_id=ids[1],
                        producer_id=producer,
                        producer_epoch=epoch,
                        pair=pair,
                    ),
                ),
                state=State.RUNNING,
            ),
            OffsetMapRecord(
                topic=topic,
                partition=number,
                producer_id=producer,
                points=(claim, pair),
            ),
        ]
    progress = ProgressTopic(target, link.progress_topic)
    progress.ensure(1)
    now_ms = int(time.time() * 1000)
    entries = [encode_entry(one, now_ms) for one in claimed(claims)]
    for raw, _ in topic_log.build(entries, now_ms=now_ms):
        progress.append(raw)
    return {
        one.partition: one.outlets[0].pair.target
        for one in claims
        if isinstance(one, PartitionProgress)
    }


def _flawed(batch: Batch, flaws: Mapping[int, Flaw]) -> Batch:
    places = [
        (index, flaw)
        for offset, flaw in flaws.items()
        if (index := offset - batch.first) in range(batch.records)
    ]
    if not places:
        return batch
    records = [
        PlainRecord(one.offset, one.timestamp or 0, one.key, one.value, list(one.headers))
        for one in records_of(batch)
    ]
    for index, flaw in sorted(places, reverse=True, key=lambda place: place[0]):
        flaw(records, index)
    return build(
        records,
        codec=batch.codec,
        first=batch.first,
        next=batch.next,
        leader_epoch=batch.leader_epoch,
        offsets=range(batch.first, batch.first + len(records)),
    )


def fill(cluster: Cluster, at: TopicPartition, count: int, *, per_batch: int = 5_000) -> None:
    """Writes so many records of some 100 bytes, each like no other, quicker than a producer."""
    padding = b"." * 80
    for first in range(0, count, per_batch):
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 2**31 - 1)
        for index in range(min(per_batch, count - first)):
            number = first + index
            key, value = b"%d" % (number % 1_000), b"%d%s" % (number, padding)
            builder.append(index, TIME_MS + number, key, value, [])
        cluster.produce_batch(at, bytes(builder.build()))
