"""Writes records that a transform refuses to a topic of the source cluster, which they never leave.

A letter is the record as it was, with where it came from, which transform refused it and why in
headers that begin with `causeway.`. A lane that dies right after writing one writes it again; its
position tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from causeway.cluster import Cluster
from causeway.link_topics import TopicLog
from causeway.model import TopicPartition
from causeway.records import NO_PRODUCER, Batch, PlainRecord, build, header, records_of
from causeway.transform import Refusal

REPLICATION_FACTOR = 3


def write(
    source: Cluster,
    topic: str,
    at: TopicPartition,
    transform: str,
    batches: Sequence[Batch],
    refused: Sequence[Refusal],
) -> None:
    """Returns once a letter of each of `refused`, records of `batches`, is durably in `topic`; it
    is made where it is missing. Raises CausewayError."""
    log = TopicLog(source, topic)
    log.ensure(REPLICATION_FACTOR, configs={})
    place = TopicPartition(topic, at.partition % log.partitions())
    reasons = {refusal.offset: refusal.reason for refusal in refused}
    for letter in _letters(at, transform, batches, reasons):
        stamped = header(letter, NO_PRODUCER, -1, -1) + letter.payload
        source.produce_batch(place, stamped)


def _letters(
    at: TopicPartition, transform: str, batches: Sequence[Batch], reasons: Mapping[int, str]
) -> Iterator[Batch]:
    for batch in batches:
        records = records_of(batch)
        for index, record in enumerate(records):
            offset = batch.source_offset(index)
            if offset not in reasons:
                continue
            about = {
                "topic": at.topic,
                "partition": at.partition,
                "offset": offset,
                "transform": transform,
                "reason": reasons[offset],
            }
            more = [(f"causeway.{name}", str(value).encode()) for name, value in about.items()]
            time = -1 if record.timestamp is None else record.timestamp
            letter = PlainRecord(0, time, record.key, record.value, [*record.headers, *more])
            yield build(
                [letter],
                codec=batch.codec,
                first=offset,
                next=offset + 1,
                leader_epoch=-1,
                offsets=None,
            )
