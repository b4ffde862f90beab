"""Compaction of one replica's log (Kafka's Cleaner): the newest record of each key remains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from causeway.records import (
    CODEC_MASK,
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL,
    Record,
    decode,
)
from tests.simulation.cluster.log import LogBatch, with_checksum

if TYPE_CHECKING:
    from tests.simulation.cluster.replica import Replica

_NO_LIMIT: Final = (1 << 31) - 1


def compact(replica: Replica, *, below: int | None = None) -> int:
    """Cleans what is below the last stable offset, and below `below` if given (Kafka leaves the
    active segment alone, so the last batch always stays). Returns the number of records that it
    removed."""
    log = replica.log
    end = min(replica.last_stable, log.batches[-1].base if log.batches else 0)
    end = end if below is None else min(end, below)
    first = log.index_of(log.start)
    stop = first
    while stop < len(log.batches) and log.batches[stop].last < end:
        stop += 1
    dirty = log.batches[first:stop]
    aborted = _aborted(replica, dirty)
    newest: dict[bytes, int] = {}
    records: dict[int, list[Record]] = {}
    for batch in dirty:
        if not batch.is_control and batch.header.records and batch.base not in aborted:
            records[batch.base] = decode(batch.raw)
            newest.update({r.key: r.offset for r in records[batch.base] if r.key is not None})
    last_of_producer = {
        entry.producer_id: entry.batches[-1].base
        for entry in log.producers.entries.values()
        if entry.batches
    }
    retention_ms = replica.topic.number("delete.retention.ms")
    oldest_tombstone = replica.node.now_ms() - retention_ms
    kept: list[LogBatch] = []
    removed = 0
    for batch in dirty:
        found = records.get(batch.base, [])
        left = [
            record
            for record in found
            if record.key is not None
            and newest[record.key] == record.offset
            and (record.value is not None or batch.header.max_timestamp > oldest_tombstone)
        ]
        is_whole = batch.base in records and len(left) == len(found)
        if batch.is_control or is_whole:
            kept.append(batch)
        else:
            removed += batch.header.records - len(left)
            if left or last_of_producer.get(batch.header.producer_id) == batch.base:
                kept.append(_thinned(batch, left))
    log.replace(first, stop, kept)
    replica.node.world.trace(f"{replica}: compaction removes {removed} records below {end}")
    return removed


def _aborted(replica: Replica, batches: list[LogBatch]) -> set[int]:
    """The base offsets of batches of aborted transactions; only asked about, never iterated."""
    return {
        batch.base
        for batch in batches
        if batch.header.attributes & TRANSACTIONAL
        and not batch.is_control
        and any(
            each.producer_id == batch.header.producer_id and each.first <= batch.base < each.last
            for each in replica.log.aborted
        )
    }


def _thinned(batch: LogBatch, records: list[Record]) -> LogBatch:
    """With these records alone. Offsets, the producer and the sequence of the batch remain."""
    header = batch.header
    codec = header.attributes & CODEC_MASK
    payload, times = b"", (header.base_timestamp, header.max_timestamp)
    if records:
        builder = DefaultRecordBatchBuilder(MAGIC, codec, False, -1, -1, 0, _NO_LIMIT)
        for record in records:
            delta = record.offset - header.base
            builder.append(delta, record.timestamp, record.key, record.value, record.headers)
        built = bytes(builder.build())
        payload = built[HEADER_SIZE:]
        of_built = LogBatch.of(built).header
        codec = of_built.attributes & CODEC_MASK
        times = of_built.base_timestamp, of_built.max_timestamp
    fields = header._replace(
        attributes=header.attributes & ~CODEC_MASK | codec,
        base_timestamp=times[0],
        max_timestamp=times[1],
        records=len(records),
    )
    return LogBatch.of(with_checksum(fields, payload))
