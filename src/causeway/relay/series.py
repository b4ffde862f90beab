"""The records of a source partition as each of its outlets gets them.

Lanes and recovery agree on it, so that they number the same records alike: a series is a function
of the source's log, and of what its records go through. Without a treatment or a transform they
stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafka.partitioner.default import murmur2

from causeway.errors import DivergedError
from causeway.records import Batch, Record, part_of, records_of
from causeway.relay.messages import Assignment
from causeway.relay.treatment import (
    Topics,
    Treatment,
    TreatmentNotReadyError,
    topics_of,
    treat_batch,
)

# Of batches as they are relayed: the part of each outlet, None where it gets nothing. All that one
# source record becomes for an outlet is in one part. Ends before a record that is refused.
Series = Callable[[Assignment, Iterator[Batch]], Iterator[Sequence[Batch | None]]]


def gone(assignment: Assignment, batches: Iterator[Batch]) -> Iterator[Sequence[Batch | None]]:
    """Of a transform that is no more: raises DivergedError where anybody has to know."""
    raise DivergedError(
        "resume",
        f"{assignment.link} {assignment.source_partition}",
        "what an earlier transform has made of its records cannot be made again",
    )


def as_relayed(
    assignment: Assignment, batches: Iterator[Batch]
) -> Iterator[Sequence[Batch | None]]:
    """Byte for byte, to the only outlet, or by key."""
    if len(assignment.outlets) == 1:
        return ([batch] for batch in batches)
    return (shares(batch, assignment) for batch in batches)


def treated(treatment: Treatment, series: Series) -> Series:
    """`series` of what `treatment` leaves, for a helper's thread: blocks where the treatment has to
    find something out."""

    def both(assignment: Assignment, batches: Iterator[Batch]) -> Iterator[Sequence[Batch | None]]:
        topics = topics_of(assignment)
        left = (_prepared(batch, treatment, topics) for batch in batches)
        return series(assignment, (batch for batch in left if batch is not None))

    return both


def _prepared(batch: Batch, treatment: Treatment, topics: Topics) -> Batch | None:
    while True:
        try:
            return treat_batch(batch, treatment, topics)
        except TreatmentNotReadyError:
            treatment.prepare()


KEYLESS_RUN = 128  # source offsets without a key that stay together, so that batches stay large


def shares(batch: Batch, assignment: Assignment) -> list[Batch | None]:
    """The records for each of the assignment's outlets, as batches in the same codec.

    Below `keys_from` all go to the outlet of the partition's number. From there on each record's
    key decides by the hash of Java's default partitioner; where there is no key, the source offset
    does, so that each lane sends the record to the same place.
    """
    count, keys_from = len(assignment.outlets), assignment.keys_from
    if batch.source_offset(batch.records - 1) < keys_from:
        return [batch if at == assignment.partition else None for at in range(count)]
    parts: list[tuple[list[Record], list[int]]] = [([], []) for _ in range(count)]
    for index, record in enumerate(records_of(batch)):
        offset = batch.source_offset(index)
        by_key = offset >= keys_from
        at = partition_of(record.key, offset, count) if by_key else assignment.partition
        records, offsets = parts[at]
        records.append(record)
        offsets.append(offset)
    return [part_of(batch, *part) if part[0] else None for part in parts]


def partition_of(key: bytes | None, source_offset: int, count: int) -> int:
    if key is None:
        return (source_offset // KEYLESS_RUN) % count
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % count
