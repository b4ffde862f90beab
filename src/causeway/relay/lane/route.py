"""What of a fetch answer is relayed, and which target partition each record goes to."""

from __future__ import annotations

from kafka.partitioner.default import murmur2

from causeway.relay.lane.flow import Flow, OutletState
from causeway.relay.messages import Assignment
from causeway.relay.source import Kept, keep
from causeway.wire.batches import Batch
from causeway.wire.fetch import Fetched
from causeway.wire.records import UNPACKED_BYTES, Record, build, records_of
from causeway.wire.unpack import unpacked_total

KEYLESS_RUN = 128  # source offsets without a key that stay together, so that batches stay large


def take(flow: Flow, fetched: Fetched) -> tuple[Kept, list[OutletState]]:
    """Put what `fetched` brings to the outlets it is for: what was kept, and those outlets.

    As `keep`, it leaves what follows to the next fetch once UNPACKED_BYTES have been unpacked.
    Raises what `keep` does.
    """
    aborted = fetched.aborted if flow.assignment.read_committed else ()
    kept = keep(fetched.records, flow.position, aborted, flow.subject)
    touched: list[OutletState] = []
    most_unpacked = unpacked_total() + UNPACKED_BYTES
    for batch in kept.batches:
        touched += route(flow, batch)
        if unpacked_total() >= most_unpacked:
            return Kept(batch.next, kept.batches, batch.leader_epoch), touched
    return kept, touched


def route(flow: Flow, batch: Batch) -> list[OutletState]:
    """Put `batch` to the outlets it is for; those that have something new.

    With one outlet it goes as it is; with several see `shares`.
    """
    outlets = flow.outlets
    if len(outlets) == 1:
        outlets[0].put(batch)
        return outlets
    touched = []
    for outlet, part in zip(outlets, shares(batch, flow.assignment), strict=True):
        part_from_start = None if part is None else _from(part, outlet.start)
        if part_from_start is not None:
            outlet.put(part_from_start)
            touched.append(outlet)
    return touched


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
    return [_batch(part, batch) if part else None for part in parts]


def partition_of(key: bytes | None, source_offset: int, count: int) -> int:
    if key is None:
        return (source_offset // KEYLESS_RUN) % count
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % count


def _from(batch: Batch, start: int) -> Batch | None:
    """The records from source offset `start` on: an outlet may be further on than the others."""
    if batch.first >= start:
        return batch
    kept = [
        (record, offset)
        for index, record in enumerate(records_of(batch))
        if (offset := batch.source_offset(index)) >= start
    ]
    return _batch(kept, batch) if kept else None


def _batch(share: list[tuple[Record, int]], whole: Batch) -> Batch:
    return build(
        [record for record, _ in share],
        codec=whole.codec,
        first=share[0][1],
        next=whole.next,
        leader_epoch=whole.leader_epoch,
        offsets=[offset for _, offset in share],
    )
