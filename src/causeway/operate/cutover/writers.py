"""The producers of a stretch of the source's log, by the headers of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from causeway.cluster import Cluster, raw_batches, transactional_ids
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.operate.cutover.values import Producer, Stretch
from causeway.records import CONTROL, HEADER, MAGIC, MAGIC_AT, NO_PRODUCER

_MOST_BYTES: Final = 32 * 1024 * 1024  # of a partition: enough to find the producers


@dataclass(slots=True)
class _Wrote:
    topics: set[str] = field(default_factory=set)
    records: int = 0
    last_ms: int = -1


def writers(source: Cluster, stretches: Mapping[TopicPartition, Stretch]) -> tuple[Producer, ...]:
    """One for each producer id, and one for all producers without an id. A partition that cannot be
    read adds none."""
    found: dict[int | None, _Wrote] = {}
    for at, stretch in stretches.items():
        try:
            _read(source, at, stretch, found)
        except CausewayError:
            continue
    named = _named(source, [each for each in found if each is not None])
    return tuple(
        Producer(
            topics=tuple(sorted(wrote.topics)),
            producer_id=producer,
            transactional_id=None if producer is None else named.get(producer),
            last_ms=wrote.last_ms,
            records=wrote.records,
        )
        for producer, wrote in sorted(found.items(), key=lambda item: item[0] or -1)
    )


def _read(
    source: Cluster, at: TopicPartition, stretch: Stretch, found: dict[int | None, _Wrote]
) -> None:
    read = 0
    for batch in raw_batches(source, at, stretch.start, stretch.end, every_format=True):
        producer, records, last_ms = _header(batch)
        if records:
            wrote = found.setdefault(producer, _Wrote())
            wrote.topics.add(at.topic)
            wrote.records += records
            wrote.last_ms = max(wrote.last_ms, last_ms)
        read += len(batch)
        if read > _MOST_BYTES:
            return


def _header(batch: memoryview) -> tuple[int | None, int, int]:
    """A batch's producer id, its number of records, and the newest one's time. The markers that a
    broker writes at the end of a transaction do not count as records."""
    if batch[MAGIC_AT] < MAGIC:
        return None, 1, -1
    fields = HEADER.unpack_from(batch)
    attributes, last_ms, producer, records = fields[5], fields[8], fields[9], fields[12]
    if attributes & CONTROL:
        return None, 0, -1
    return None if producer == NO_PRODUCER else producer, records, last_ms


def _named(source: Cluster, producers: list[int]) -> Mapping[int, str]:
    if not producers:
        return {}
    try:
        return transactional_ids(source, producers)
    except CausewayError:
        return {}  # Kafka before 3.0, or no permission: the ids must suffice
