"""The progress topic's records, and a store on a cluster that keeps its one log in memory."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import pytest

from causeway.cluster import LATEST
from causeway.errors import BrokerError, ProtocolError
from causeway.link_topics import (
    EVENTS,
    Deletion,
    DirectivesRecord,
    Entry,
    EventRecord,
    LeadershipLostError,
    LeaseRecord,
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    ProgressContents,
    ProgressTopic,
    ProgressWriter,
    TaskRecord,
    Transformed,
    TransformRecord,
    decode_entry,
    encode_entry,
)
from causeway.model import Pair, State, TopicPartition


def outlet(partition: int = 0, sequence: int = 0) -> Outlet:
    return Outlet(
        topic="A.orders",
        partition=partition,
        topic_id="ab" * 16,
        producer_id=7,
        producer_epoch=0,
        pair=Pair(source=10, target=5, sequence=sequence),
    )


def standing(partition: int, position: int = 10) -> PartitionProgress:
    return PartitionProgress(
        topic="orders",
        partition=partition,
        topic_id="cd" * 16,
        leader_epoch=3,
        position=position,
        outlets=(outlet(partition),),
        state=State.STOPPED,
        reason="größer",
    )


ROUTED = outlet(1).replace(topic="A.paid", routed="paid")
LEASE = LeaseRecord(link="A->B", owner="me", producer_id=9, producer_epoch=2, lease_s=10.0)


OFFSETS = OffsetMapRecord(
    topic="orders", partition=3, producer_id=9, points=(Pair(0, 0, 0), Pair(7, 5, 5))
)
TASK = TaskRecord(name="groups", reason="refused", items={"g": "has members"}, written_at=1234)


@pytest.mark.parametrize(
    "entry",
    [
        standing(3).replace(written_at=1234),
        LEASE.replace(progress_lost=True, reached=7, written_at=1234),
        OFFSETS,
        OFFSETS.replace(to=TopicPartition("A.paid", 1), since=17),
        TASK,
        standing(3).replace(gone_at=77, written_at=1234),
        standing(3).replace(transform="12ab", outlets=(outlet(), ROUTED), written_at=1234),
        TransformRecord(
            name="pii",
            identity="12ab",
            counts=Transformed(
                records_in=9,
                records_out=7,
                dropped=1,
                refused=1,
                seen=5,
                without_spark=6,
                through_spark=3,
                found=(2, 0, 1),
                missing=(7,),
            ),
            reason="ValueError",
            written_at=1234,
        ),
        DirectivesRecord(
            link="A->B", topic_id="7" * 32, applied=12, reason="refused", written_at=1234
        ),
        Deletion(source=TopicPartition("orders", 3), of="topic"),
        Deletion(source=TopicPartition("orders", 3), of="offsets"),
        Deletion(source=TopicPartition("orders", 3), of="offsets", to=TopicPartition("A.paid", 1)),
    ],
)
def test_entries_survive_the_format(entry: Entry) -> None:
    key, value = encode_entry(entry, 1234)
    assert decode_entry(key, value) == entry


def test_counts_of_a_transform_that_know_no_ways_are_read() -> None:
    counts = Transformed(records_in=9, records_out=7, dropped=1, refused=1, seen=5)
    record = TransformRecord(name="pii", identity="12ab", counts=counts, written_at=1234)
    key, value = encode_entry(record, 1234)
    assert value is not None
    fields = json.loads(value)
    for name in ("without_spark", "through_spark", "found", "missing"):
        del fields[name]
    assert decode_entry(key, json.dumps(fields).encode()) == record


def test_what_was_written_before_there_were_transforms_is_read() -> None:
    key, value = encode_entry(standing(3), 1234)
    assert value is not None
    fields = json.loads(value)
    del fields["transform"]
    for each in fields["outlets"]:
        del each["routed"]
    assert decode_entry(key, json.dumps(fields).encode()) == standing(3).replace(written_at=1234)


def test_a_reason_that_is_no_utf_8_is_written_all_the_same() -> None:
    key, value = encode_entry(standing(3).replace(reason="no file caf\udce9, größer"), 1234)
    found = decode_entry(key, value)
    assert isinstance(found, PartitionProgress)
    assert found.reason == "no file caf?, größer"


def test_so_is_a_mapping_of_any_class_with_such_a_text() -> None:
    record = TaskRecord(name="groups", items=MappingProxyType({"billing": "caf\udce9"}))
    found = decode_entry(*encode_entry(record, 1234))
    assert isinstance(found, TaskRecord)
    assert found.items == {"billing": "caf?"}


def test_the_key_tells_partitions_apart_and_nothing_else() -> None:
    assert encode_entry(standing(1), 1)[0] == b'{"topic":"orders","partition":1}'
    assert encode_entry(standing(1, 99), 2)[0] == b'{"topic":"orders","partition":1}'


def test_strangers_are_refused() -> None:
    assert decode_entry(b'{"task":"groups"}', None) is None, "nobody misses it"
    deep = b"[" * 200_000
    for key, value in [
        (None, b"{}"),
        (b"k", b"{}"),
        (b'{"topic":"t"}', b'{"v":1}'),
        (b"{}", deep),
        (deep, b"{}"),
    ]:
        with pytest.raises(ProtocolError):
            decode_entry(key, value)
    with pytest.raises(ProtocolError, match="newer version"):
        decode_entry(b'{"lease":"A->B"}', b'{"v":2}')


def test_an_outlet_without_a_word_on_foreign_writers_is_refused() -> None:
    """Every version wrote it. Recovery would take the partition for its own."""
    key, value = encode_entry(standing(3), 1234)
    assert value is not None
    fields = json.loads(value)
    del fields["outlets"][0]["exclusive"]
    with pytest.raises(ProtocolError, match="exclusive"):
        decode_entry(key, json.dumps(fields).encode())


@dataclass
class Fetched:
    records: bytes
    aborted: tuple[tuple[int, int], ...] = ()


@dataclass
class At:
    offset: int


class OneLog:
    """Stands in for `wire.cluster.Cluster`: appends and fetches whole batches."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.errors: list[BrokerError] = []

    def produce_batch(self, at: TopicPartition, batch: bytes, **_: bool) -> int:
        if self.errors:
            raise self.errors.pop(0)
        base, count = self.end, struct.unpack_from(">i", batch, 57)[0]
        self.batches.append(struct.pack(">q", base) + batch[8:])
        self.end += count
        return base

    def fetch(
        self,
        at: TopicPartition,
        offset: int,
        max_bytes: int,
        *,
        read_committed: bool,
        max_wait_ms: int,
    ) -> Fetched:
        found = [b for b in self.batches if self._last(b) >= offset]
        return Fetched(b"".join(found[:2]))

    def _last(self, batch: bytes) -> int:
        return int(struct.unpack_from(">q", batch, 0)[0] + struct.unpack_from(">i", batch, 23)[0])

    def list_offsets(
        self, at: list[TopicPartition], timestamp: int, *, read_committed: bool
    ) -> dict[TopicPartition, At]:
        return {at[0]: At(self.end if timestamp == LATEST else 0)}


def store() -> tuple[OneLog, ProgressTopic]:
    log = OneLog()
    return log, ProgressTopic(cast("Any", log), "__causeway.A.B.progress")


def test_the_newest_record_of_each_partition_is_read() -> None:
    log, topic = store()
    writer = ProgressWriter(topic, 9, 2)
    writer.write([LEASE])
    writer.write([standing(0, 1), standing(1, 1)])
    writer.write([standing(0, 2)])
    contents = topic.read()
    assert contents.end == log.end == 4
    assert {at.partition: p.position for at, p in contents.partitions.items()} == {0: 2, 1: 1}
    assert [lease.owner for lease in contents.leases] == ["me"]
    assert topic.read(3).partitions.keys() == {TopicPartition("orders", 0)}
    assert topic.read(4).partitions == {}


def test_who_wants_no_offset_maps_reads_the_rest() -> None:
    _, topic = store()
    ProgressWriter(topic, 9, 2).write([standing(0), OFFSETS])
    contents = topic.read(maps=False)
    assert contents.partitions
    assert not contents.maps
    assert topic.read().maps


def test_what_was_deleted_is_gone_for_those_who_had_read_it_as_well() -> None:
    _, topic = store()
    writer = ProgressWriter(topic, 9, 2)
    writer.write([standing(0), standing(3), OFFSETS])
    standby = topic.read()
    at = TopicPartition("orders", 3)
    writer.write([Deletion(source=at, of="offsets"), Deletion(source=at, of="topic")])
    standby.update(topic.read(standby.end))
    for contents in (standby, topic.read()):
        assert contents.partitions.keys() == {at._replace(partition=0)}
        assert not contents.maps
    writer.write([standing(3)])
    standby.update(topic.read(standby.end))
    assert at in standby.partitions


def test_many_entries_are_cut_into_batches_with_sequences_in_step() -> None:
    log, topic = store()
    writer = ProgressWriter(topic, 9, 2)
    writer.write([standing(n) for n in range(5000)])
    assert len(log.batches) > 1
    sequence = 0
    for batch in log.batches:
        producer, epoch, first, count = struct.unpack_from(">qhii", batch, 43)
        assert (producer, epoch, first) == (9, 2, sequence)
        assert len(batch) < 1_000_000
        sequence += count
    assert len(topic.read().partitions) == 5000


def test_an_unanswered_batch_is_sent_again_before_the_next() -> None:
    log, topic = store()
    writer = ProgressWriter(topic, 9, 2)
    log.errors = [BrokerError("produce", code=7, name="REQUEST_TIMED_OUT", retriable=True)]
    with pytest.raises(BrokerError):
        writer.write([standing(0, 1)])
    log.errors = [BrokerError("produce", code=46, name="DUPLICATE_SEQUENCE_NUMBER")]
    writer.write([standing(0, 2)])
    assert [struct.unpack_from(">i", batch, 53)[0] for batch in log.batches] == [1]


def test_a_fenced_writer_says_so() -> None:
    log, topic = store()
    log.errors = [BrokerError("produce", code=47, name="INVALID_PRODUCER_EPOCH")]
    with pytest.raises(LeadershipLostError):
        ProgressWriter(topic, 9, 1).write([LEASE])


def test_each_outlet_has_an_offset_map_of_its_own() -> None:
    _, topic = store()
    writer = ProgressWriter(topic, 9, 2)
    paid = TopicPartition("A.paid", 1)
    routed = OFFSETS.replace(producer_id=10, to=paid)
    writer.write([OFFSETS, routed])
    standby = topic.read()
    assert standby.maps == {OFFSETS.source: {None: OFFSETS, paid: routed}}

    writer.write([Deletion(source=OFFSETS.source, of="offsets", to=paid)])
    standby.update(topic.read(standby.end))
    for contents in (standby, topic.read()):
        assert contents.maps == {OFFSETS.source: {None: OFFSETS}}


def test_who_reads_on_keeps_no_more_events_than_there_are() -> None:
    """As a standby does, for as long as another leads."""
    contents = ProgressContents()
    for number in range(3 * EVENTS):
        more = ProgressContents(end=number + 1)
        more.take(EventRecord(number=number, at=1, level="info", event="resume", about={}))
        contents.update(more)
    assert sorted(contents.events) == list(range(2 * EVENTS, 3 * EVENTS))
