"""Reads both logs of a range as pieces: whole batches that are compared byte by byte, or parts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

from causeway.cluster import Cluster, Content, FetchedPartition, content_of
from causeway.errors import BrokerError
from causeway.model import TopicPartition
from causeway.operate.verify.outcome import (
    Difference,
    DifferenceKind,
    PartitionFeed,
    RangeOutcome,
)
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
    Batch,
    checksum,
    decode,
    keep,
    read,
    records_of,
)
from causeway.relay import Topics, shares, treat_batch, treatment_of


class Piece:
    """Neighbouring records of one batch. `payload`: the bytes of a whole, dense batch, else
    None."""

    __slots__ = ("_load", "base_timestamp", "codec", "count", "offsets", "payload", "sequence")

    def __init__(
        self,
        load: Callable[[], list[Content]],
        offsets: Sequence[int],
        *,
        payload: bytes | None = None,
        codec: int = 0,
        base_timestamp: int = 0,
        sequence: int = 0,
    ) -> None:
        self._load = load
        self.offsets = offsets
        self.count = len(offsets)
        self.payload = payload
        self.codec = codec
        self.base_timestamp = base_timestamp
        self.sequence = sequence

    def contents(self) -> list[Content]:
        """Raises ProtocolError if the batch cannot be read."""
        return self._load()

    def same_bytes(self, other: Piece) -> bool:
        return (
            self.payload is not None
            and self.count == other.count
            and self.base_timestamp == other.base_timestamp
            and self.codec == other.codec
            and self.payload == other.payload
        )

    def part(self, start: int, stop: int | None = None) -> Piece:
        """The records from index `start` up to `stop`."""
        load = self._load
        return Piece(
            lambda: load()[start:stop], self.offsets[start:stop], sequence=self.sequence + start
        )


def of_source(
    cluster: Cluster, feed: PartitionFeed, start: int, end: int, offset_bytes: float, spent: Spent
) -> Iterator[Piece]:
    """The series from source offsets `start` to `end` - 1. `spent` is called with the bytes of each
    answer. Raises CausewayError."""
    for batch in _relayed(cluster, feed, start, end, offset_bytes, spent):
        inside = batch.records
        if batch.next > end:
            inside = (
                max(0, min(end - batch.first, batch.records))
                if batch.offsets is None
                else bisect_left(batch.offsets, end)
            )
        piece = Piece(
            lambda batch=batch: [content_of(record) for record in records_of(batch)],  # type: ignore[misc]
            range(batch.first, batch.first + batch.records)
            if batch.offsets is None
            else batch.offsets,
            payload=read(batch),
            codec=batch.codec,
            base_timestamp=batch.base_timestamp,
        )
        if inside == batch.records:
            yield piece
        elif inside:
            yield piece.part(0, inside)


def _relayed(
    cluster: Cluster,
    feed: PartitionFeed,
    position: int,
    end: int,
    offset_bytes: float,
    spent: Spent,
) -> Iterator[Batch]:
    at = feed.source
    treatment = treatment_of(feed.steps) if feed.steps else None
    topics = Topics(at.topic, feed.target.topic)
    with Fetching(
        cluster, at, end, offset_bytes, spent, read_committed=feed.read_committed
    ) as fetching:
        while position < end:
            fetched = fetching.get(position)
            aborted = fetched.aborted if feed.read_committed else ()
            kept = keep(memoryview(fetched.records), position, aborted, str(at))
            if kept.position == position:
                raise _behind(at, end, position)
            position = kept.position
            for relayed in kept.batches:
                batch = relayed if treatment is None else treat_batch(relayed, treatment, topics)
                if batch is None:
                    continue
                if feed.split is None:
                    yield batch
                elif (share := shares(batch, feed.split)[feed.outlet]) is not None:
                    yield share


def of_target(
    cluster: Cluster,
    feed: PartitionFeed,
    start: int,
    end: int,
    offset_bytes: float,
    found: RangeOutcome,
    spent: Spent,
    others_to: int = 0,
) -> Iterator[Piece]:
    """The records of the feed's producer at target offsets `start` to `end` - 1. Records of other
    producers, also up to `others_to`, are counted in `found`. Raises CausewayError."""
    at, position = feed.target, start
    last_of_all = max(end, others_to)
    with Fetching(cluster, at, last_of_all, offset_bytes, spent, read_committed=False) as fetching:
        while position < last_of_all:
            before = position
            records = fetching.get(position).records
            for base, last, whole in _pieces(records, position, last_of_all, feed, found):
                position = last + 1
                if whole is None or base >= end:
                    continue
                inside = base >= start and last < end
                piece = whole if inside else _inside(whole, start, end)
                if piece.count:
                    yield piece
            if position == before:
                raise _behind(at, last_of_all, position)


def _inside(piece: Piece, start: int, end: int) -> Piece:
    return piece.part(bisect_left(piece.offsets, start), bisect_left(piece.offsets, end))


def _pieces(
    records: bytes, position: int, end: int, feed: PartitionFeed, found: RangeOutcome
) -> Iterator[tuple[int, int, Piece | None]]:
    """The first and last offset of each whole batch from `position` on, with its piece if the
    feed's producer wrote it, up to the first batch that begins at `end` or later."""
    data, at = memoryview(records), 0
    while len(data) - at > MAGIC_AT:
        stop = at + LENGTH_OVERHEAD + int.from_bytes(data[at + 8 : at + LENGTH_OVERHEAD])
        if stop > len(data):
            return
        raw, at = data[at:stop], stop
        base = int.from_bytes(raw[:8])
        if base >= end:
            yield base, base, None  # compaction may have removed the batches right before
            return
        if raw[MAGIC_AT] != MAGIC:
            found.others += 1
            found.others_at = base if found.others_at < 0 else found.others_at
            yield base, base, None
            continue
        fields = HEADER.unpack_from(raw)
        last = base + fields[6]
        if last >= position:
            yield base, last, _piece(raw, fields, feed, found)


def _piece(
    raw: memoryview, fields: tuple[Any, ...], feed: PartitionFeed, found: RangeOutcome
) -> Piece | None:
    base, attributes, last_delta, count = fields[0], fields[5], fields[6], fields[12]
    if attributes & CONTROL or not count:
        return None
    if fields[9] != feed.producer_id:
        found.others += count
        found.others_at = base if found.others_at < 0 else found.others_at
        return None
    payload = bytes(raw[HEADER_SIZE:])
    if checksum(bytes(raw[CRC_START:HEADER_SIZE]), payload) != fields[4]:
        found.differs = True
        found.differences += (
            Difference(
                kind=DifferenceKind.CORRUPT,
                source=-1,
                target=base,
                detail="the CRC of the target's batch is wrong: consumers refuse it",
            ),
        )
    timeless = bool(attributes & LOG_APPEND_TIME)
    found.timeless |= timeless
    dense = count == last_delta + 1

    def load() -> list[Content]:
        return [content_of(record) for record in decode(raw)]

    return Piece(
        load,
        range(base, base + count) if dense else [record.offset for record in decode(raw)],
        payload=payload if dense else None,
        codec=attributes & CODEC_MASK,
        base_timestamp=fields[7],
        sequence=fields[11],
    )


def _behind(at: TopicPartition, end: int, shown: int) -> BrokerError:
    return BrokerError(
        "compare",
        str(at),
        f"its leader shows offsets up to {shown} only, but it had reached {end}",
        code=-1,
        name="BEHIND",
        retriable=True,
    )


_MOST_BYTES = 4 * 1024 * 1024
_LEAST_BYTES = 64 * 1024
_MORE = 1.05  # times the estimate from the bytes read so far
_TO_LAST_DELTA = 27  # bytes of a batch up to the end of its last offset delta
Spent = Callable[[int], None]


class Fetching:
    """Fetches offsets up to `end`, one answer ahead: the broker prepares the next answer while the
    current one is compared. `offset_bytes`: estimated bytes per offset. `spent` is called with the
    bytes of each answer. A context manager."""

    def __init__(
        self,
        cluster: Cluster,
        at: TopicPartition,
        end: int,
        offset_bytes: float,
        spent: Spent,
        *,
        read_committed: bool,
    ) -> None:
        self._cluster, self._at, self._end, self._spent = cluster, at, end, spent
        self._read_committed = read_committed
        self._each = offset_bytes
        self._offsets = self._bytes = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="fetch ahead")
        self._next: tuple[int, Future[FetchedPartition]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def get(self, position: int) -> FetchedPartition:
        """The answer from `position` on. Raises CausewayError."""
        waiting, self._next = self._next, None
        if waiting is not None and waiting[0] == position:
            fetched = waiting[1].result()
        else:
            fetched = self._fetch(position)
        self._spent(len(fetched.records))
        following = _following(memoryview(fetched.records), position)
        self._offsets += following - position
        self._bytes += len(fetched.records)
        if self._offsets:
            self._each = self._bytes / self._offsets
        if position < following < self._end:
            self._next = following, self._pool.submit(self._fetch, following)
        return fetched

    def _fetch(self, position: int) -> FetchedPartition:
        # Limits how much is read beyond the end.
        wanted = (self._end - position) * self._each * _MORE
        return self._cluster.fetch(
            self._at,
            position,
            int(min(_MOST_BYTES, max(_LEAST_BYTES, wanted))),
            read_committed=self._read_committed,
            max_wait_ms=0,
        )


def _following(data: memoryview, position: int) -> int:
    """The offset after the last whole batch; `position` if there is none."""
    at, end = 0, len(data)
    last = -1
    while end - at >= _TO_LAST_DELTA:
        stop = at + LENGTH_OVERHEAD + int.from_bytes(data[at + 8 : at + LENGTH_OVERHEAD])
        if stop > end:
            break
        last = at
        at = stop
    if last < 0:
        return position
    base = int.from_bytes(data[last : last + 8])
    modern = data[last + MAGIC_AT] == MAGIC
    return base + 1 + (int.from_bytes(data[last + 23 : last + _TO_LAST_DELTA]) if modern else 0)
