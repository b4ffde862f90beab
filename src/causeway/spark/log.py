"""Reads ranges of partitions as records: resolves the offsets to read, cuts them into tasks, and
decodes the records that a consumer would get."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from causeway.cluster import EARLIEST, LATEST, Cluster, TopicMetadata, bytes_an_offset
from causeway.errors import BrokerError, CausewayError, ConfigError, ProtocolError
from causeway.model import TopicPartition
from causeway.patterns import compile_pattern
from causeway.records import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    Record,
    decode,
    decode_legacy,
    unpacked_total,
)
from causeway.spark.options import Bound, ReadOptions
from causeway.wire import Deadline, codes

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """Offsets `start` up to, not including, `end`."""

    tp: TopicPartition
    start: int
    end: int


def partitions_of(cluster: Cluster, options: ReadOptions) -> list[TopicPartition]:
    """Returns the partitions that `options` select, in order. Raises CausewayError for a named
    topic that does not exist or may not be described."""
    if options.partitions is not None:
        return sorted(options.partitions)
    if options.topics is not None:
        found = cluster.metadata(options.topics).topics
        topics = [found[name] for name in options.topics]
    else:
        pattern, _ = compile_pattern(options.pattern or "")
        topics = [
            topic
            for name, topic in cluster.metadata().topics.items()
            if not topic.internal and pattern.matches(name)
        ]
    return sorted(tp for topic in topics for tp in _of_topic(topic))


def _of_topic(topic: TopicMetadata) -> list[TopicPartition]:
    if topic.error is not None:
        raise topic.error
    return [TopicPartition(topic.name, index) for index in topic.partitions]


def looked_up(
    cluster: Cluster, tps: Collection[TopicPartition], timestamp: int, read_committed: bool
) -> Offsets:
    """Returns the offset of each partition at `timestamp` (ms, EARLIEST or LATEST), -1 if all
    records are earlier. Raises the first CausewayError."""
    found: Offsets = {}
    for tp, answer in cluster.list_offsets(tps, timestamp, read_committed).items():
        if isinstance(answer, CausewayError):
            raise answer
        found[tp] = answer.offset
    return found


def resolved(
    cluster: Cluster, tps: Collection[TopicPartition], bound: Bound, options: ReadOptions
) -> Offsets:
    """Returns the offset of `bound` in each of `tps`. Raises ConfigError if the option names other
    partitions than those that are read, or not all of them."""
    committed = options.read_committed
    given = dict.fromkeys(tps, bound.at) if isinstance(bound.at, int) else dict(bound.at)
    if odd := sorted(set(given) ^ set(tps)):
        what = "is not read" if odd[0] in given else "is missing"
        raise ConfigError("use", f"option {bound.name}", f"{odd[0]} {what}: name each partition")
    found = dict(given)
    for at in {*given.values()}:
        if (at >= 0) == bound.timed:
            found |= looked_up(cluster, [tp for tp in tps if given[tp] == at], at, committed)
    late = [tp for tp, at in found.items() if at < 0]
    if late and bound.name.startswith("starting") and not options.late_start_is_end:
        raise ConfigError(
            "use",
            f"option {bound.name}",
            f"{late[0]} has no record as late as that",
            remedy="set option startingOffsetsByTimestampStrategy to latest to begin at its end",
        )
    found.update(looked_up(cluster, late, LATEST, committed))
    return found


def split(ranges: Collection[ReadRange], least: int | None) -> list[ReadRange]:
    """Returns at least `least` ranges of about equal length, or one for each offset."""
    ranges = [part for part in ranges if part.end > part.start]
    if least is None or len(ranges) >= least:
        return list(ranges)
    total = sum(part.end - part.start for part in ranges)
    parts = []
    for whole in ranges:
        length = whole.end - whole.start
        count = min(length, max(1, math.ceil(length * least / total)))
        cuts = [whole.start + length * i // count for i in range(count + 1)]
        parts += [
            ReadRange(tp=whole.tp, start=cuts[i], end=cuts[i + 1])
            for i in range(count)
            if cuts[i + 1] > cuts[i]
        ]
    return parts


def limited(start: Mapping[TopicPartition, int], end: Offsets, most: int) -> Offsets:
    """Returns `end`, or lower offsets so that about `most` offsets are read. Each partition has its
    share of them."""
    sizes = {tp: max(0, at - start[tp]) for tp, at in end.items()}
    total = sum(sizes.values())
    if total <= most:
        return end
    shares = {}
    for tp, size in sizes.items():
        share = most * size / total
        # At least one offset, otherwise a small partition next to large ones would never be read.
        shares[tp] = start[tp] + min(size, math.ceil(share) if share < 1 else math.floor(share))
    return shares


def limited_by_bytes(
    cluster: Cluster, start: Mapping[TopicPartition, int], end: Offsets, most: int
) -> Offsets:
    """Returns `end`, or lower offsets so that about `most` bytes of the log are read, but at least
    one offset of each partition. Estimates the bytes of an offset from the first SAMPLE_BYTES of
    each partition."""
    behind = {tp: end[tp] - start[tp] for tp in end if end[tp] > start[tp]}
    each = {tp: bytes_an_offset(cluster, tp, start[tp]) for tp in behind}
    total = sum(behind[tp] * each[tp] for tp in behind)
    if total <= most:
        return end
    cut = dict(end)
    for tp, size in behind.items():
        cut[tp] = start[tp] + max(1, math.floor(size * most / total))
    return cut


FETCH_BYTES = 4 * 1024 * 1024
_OFFSET_AND_LENGTH = Struct(">qi")
_CONTROL_KEY = Struct(">hh")  # version, type
_ABORT = 0
CREATE_TIME, APPEND_TIME, NO_TIME = 0, 1, -1  # Kafka's TimestampType


class Run(NamedTuple):
    """Records of one batch. `size`: their bytes, about. `next`: the offset after the batch.
    `timestamp_type`: Kafka's number."""

    records: Sequence[Record]
    size: int
    next: int
    timestamp_type: int


def read_range(
    cluster: Cluster,
    tp: TopicPartition,
    start: int,
    end: int,
    *,
    read_committed: bool,
    fail_on_data_loss: bool,
) -> Iterator[Run]:
    """Returns the records at offsets `start` up to, not including, `end`, which the log has
    reached.

    Holds one fetch answer and one unpacked batch in memory. If the log no longer has the whole
    range, raises CausewayError, or without `fail_on_data_loss` reads the rest."""
    position = start
    deadline = Deadline(cluster.timeout_s)
    while position < end:
        try:
            fetched = cluster.fetch(
                tp, position, FETCH_BYTES, read_committed=read_committed, max_wait_ms=200
            )
        except BrokerError as error:
            if error.code != codes.OFFSET_OUT_OF_RANGE:
                raise
            position = _after_loss(cluster, tp, position, end, fail_on_data_loss)
            continue
        before = position
        data = memoryview(fetched.records)
        aborted = fetched.aborted if read_committed else ()
        for run in runs(data, position, end, aborted, str(tp)):
            position = run.next
            if run.records:
                yield run
        if position > before:
            deadline = Deadline(cluster.timeout_s)
        elif deadline.passed():
            shown = fetched.last_stable if read_committed else fetched.high_watermark
            cause = f"its leader shows it up to offset {shown} only, though it had reached {end}"
            raise BrokerError("read", str(tp), cause, code=-1, name="BEHIND", retriable=True)


def _after_loss(
    cluster: Cluster, tp: TopicPartition, position: int, end: int, fail_on_data_loss: bool
) -> int:
    """Returns the next offset to read if offset `position` is not in the log."""
    ends = [cluster.list_offsets([tp], which)[tp] for which in (EARLIEST, LATEST)]
    for answer in ends:
        if isinstance(answer, CausewayError):
            raise answer
    first, last = (answer.offset for answer in ends if not isinstance(answer, CausewayError))
    if first <= position <= last:
        return position  # the leader has changed meanwhile
    if fail_on_data_loss:
        raise BrokerError(
            "read",
            f"{tp} on {cluster} at offset {position}",
            f"its log now goes from {first} to {last}: records were deleted before they were read",
            code=codes.OFFSET_OUT_OF_RANGE,
            name="OFFSET_OUT_OF_RANGE",
            remedy="set option failOnDataLoss to false to read the remaining records",
        )
    return min(first, end) if position < first else end


def runs(
    data: memoryview, position: int, end: int, aborted: Sequence[tuple[int, int]], subject: str
) -> Iterator[Run]:
    """Returns the records of a Fetch answer at the offsets `position` up to `end`. Leaves out a
    batch that is cut off at the end. A batch without such records gives an empty run. Raises
    ProtocolError."""
    upcoming = deque(sorted(aborted, key=lambda transaction: transaction[1]))
    aborting: set[int] = set()
    at, stop_at = 0, len(data)
    while stop_at - at > MAGIC_AT and position < end:
        base, length = _OFFSET_AND_LENGTH.unpack_from(data, at)
        stop = at + LENGTH_OVERHEAD + length
        if stop > stop_at or base >= end:
            if base >= end and stop <= stop_at:
                yield Run((), 0, end, NO_TIME)
            return
        raw = data[at:stop]
        at = stop
        where = f"{subject}, the batch at offset {base}"
        if raw[MAGIC_AT] != MAGIC:
            records = decode_legacy(raw, raw[MAGIC_AT], where)
            last = records[-1].offset if records else base
            kind = CREATE_TIME if raw[MAGIC_AT] else NO_TIME
            yield _run(records, position, end, last, len(raw), kind)
            position = max(position, last + 1)
            continue
        fields = HEADER.unpack_from(raw)
        attributes, producer, count, last = fields[5], fields[9], fields[12], base + fields[6]
        if last < position:
            continue
        if crc32c(bytes(raw[CRC_START:])) != fields[4]:
            raise ProtocolError("read", subject, f"the batch at offset {base} has a wrong CRC")
        while upcoming and upcoming[0][1] <= last:
            aborting.add(upcoming.popleft()[0])
        kind = APPEND_TIME if attributes & LOG_APPEND_TIME else CREATE_TIME
        if attributes & CONTROL:
            if producer in aborting and _is_abort(decode(raw)):
                aborting.discard(producer)
            yield Run((), 0, min(last + 1, end), kind)
        elif not count or (attributes & TRANSACTIONAL and producer in aborting):
            yield Run((), 0, min(last + 1, end), kind)
        else:
            unpacked = unpacked_total()
            records = decode(raw, where)
            size = unpacked_total() - unpacked if attributes & CODEC_MASK else len(raw)
            yield _run(records, position, end, last, max(size, len(raw) - HEADER_SIZE), kind)
        position = last + 1


def _run(records: list[Record], position: int, end: int, last: int, size: int, kind: int) -> Run:
    if records and (records[0].offset < position or last >= end):
        records = [record for record in records if position <= record.offset < end]
    return Run(records, size, min(max(position, last + 1), end), kind)


def _is_abort(records: Sequence[Record]) -> bool:
    key = records[0].key if records else None
    return key is not None and bool(_CONTROL_KEY.unpack_from(key)[1] == _ABORT)
