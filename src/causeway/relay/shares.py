"""Which target partition each record goes to, where one source partition feeds several."""

from __future__ import annotations

from kafka.partitioner.default import murmur2

from causeway.records import Batch, Record, build, records_of
from causeway.relay.messages import Assignment

KEYLESS_RUN = 128  # source offsets without a key that stay together, so that batches stay large


def shares(batch: Batch, assignment: Assignment) -> list[Batch | None]:
    """The records for each of the assignment's outlets, as batches in the same codec.

    Below `keys_from` all go to the outlet of the partition's number. From there on each record's
    key decides by the hash of Java's default partitioner; where there is no key, the source offset
    does, so that whoever relays the record sends it to the same place.
    """
    count, keys_from = len(assignment.outlets), assignment.keys_from
    if batch.source_offset(batch.records - 1) < keys_from:
        return [batch if at == assignment.partition else None for at in range(count)]
    parts: list[list[tuple[Record, int]]] = [[] for _ in range(count)]
    for index, record in enumerate(records_of(batch)):
        offset = batch.source_offset(index)
        by_key = offset >= keys_from
        at = partition_of(record.key, offset, count) if by_key else assignment.partition
        parts[at].append((record, offset))
    return [part_of(batch, part) if part else None for part in parts]


def partition_of(key: bytes | None, source_offset: int, count: int) -> int:
    if key is None:
        return (source_offset // KEYLESS_RUN) % count
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % count


def part_of(whole: Batch, records: list[tuple[Record, int]]) -> Batch:
    """A batch of some of its records, each with its source offset, in the same codec."""
    return build(
        [record for record, _ in records],
        codec=whole.codec,
        first=records[0][1],
        next=whole.next,
        leader_epoch=whole.leader_epoch,
        offsets=[offset for _, offset in records],
    )
