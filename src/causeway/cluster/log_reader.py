"""Reads logs from an offset on: the relayed batches, or all batches. Not for the fast path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from causeway.cluster.cluster import Cluster
from causeway.cluster.metadata import each_value, value_of
from causeway.cluster.offsets import EARLIEST
from causeway.errors import BrokerError, CausewayError
from causeway.model import TopicPartition
from causeway.records import MAGIC, MAGIC_AT, Batch, BatchHeader, Record, frames, keep

_READ_BYTES = 8 * 1024 * 1024

# Timestamp (ms), key, value, headers. Two records with the same content are equal.
Content = tuple[int | None, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def content_of(record: Record) -> Content:
    return record.timestamp, record.key, record.value, tuple(record.headers)


def relayed(
    cluster: Cluster,
    at: TopicPartition,
    position: int,
    *,
    read_committed: bool = True,
    end: int = 0,
    stop: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Batch]:
    """Yields the relayed series from offset `position` to the end of the log (for committed reads,
    its last stable offset) at that time. `end`: the log must reach at least this offset. `stop`: no
    fetch begins at this offset or behind it. `check` is called before each fetch, and may raise an
    error. Raises CausewayError."""
    while stop is None or position < stop:
        check()
        fetched = cluster.fetch(
            at, position, _READ_BYTES, read_committed=read_committed, max_wait_ms=0
        )
        aborted = fetched.aborted if read_committed else ()
        kept = keep(memoryview(fetched.records), position, aborted, str(at))
        yield from kept.batches
        if kept.position == position:
            if position < end:
                raise _behind(at, end, position)
            return
        position = kept.position


def _behind(at: TopicPartition, end: int, shown: int) -> BrokerError:
    """Returns the error for a log that seems too short: a new leader may not yet know up to which
    offset its log is committed."""
    return BrokerError(
        "read",
        str(at),
        f"its leader shows it up to offset {shown} only, though it ended at {end} before",
        code=-1,
        name="BEHIND",
        retriable=True,
    )


def raw_batches(
    cluster: Cluster,
    at: TopicPartition,
    position: int,
    end: int,
    check: Callable[[], None] = lambda: None,
    *,
    every_format: bool = False,
) -> Iterator[memoryview]:
    """Yields whole batches, with headers, from `position` (or the log's start) up to `end` - 1.
    With `every_format`, also yields messages of older formats, which have no producer ids. `check`:
    see `relayed`. Raises CausewayError."""
    if position >= end:
        return
    position = max(position, value_of(cluster.list_offsets([at], EARLIEST)[at]).offset)
    while position < end:
        check()
        fetched = cluster.fetch(at, position, _READ_BYTES, max_wait_ms=0)
        data = memoryview(fetched.records)
        before = position
        for raw in frames(data, str(at)):
            offset = int.from_bytes(raw[:8])
            if offset >= end:
                return  # this batch was appended after the caller asked for the end
            is_modern = raw[MAGIC_AT] >= MAGIC
            last = BatchHeader.of(raw).last if is_modern else offset
            if last >= position:
                if is_modern or every_format:
                    yield raw
                position = last + 1
        if position == before:
            if fetched.high_watermark < end:
                raise _behind(at, end, fetched.high_watermark)
            return


def offsets_at(
    cluster: Cluster,
    places: Collection[TopicPartition],
    timestamp: int,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int | CausewayError]:
    answers = cluster.list_offsets(list(places), timestamp, read_committed=read_committed)
    return each_value(answers, lambda answer: answer.offset)
