"""Both sides of a range as pieces: whole batches that can be compared byte by byte, or parts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from causeway.errors import BrokerError
from causeway.model import TopicPartition
from causeway.operate.verify.ranges import Feed
from causeway.relay.shares import shares
from causeway.relay.source import keep
from causeway.relay.walk import Content, content_of
from causeway.wire.batches import (
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
)
from causeway.wire.cluster import Cluster
from causeway.wire.records import decode, records_of

_MOST_BYTES = 4 * 1024 * 1024
_LEAST_BYTES = 64 * 1024
_MORE = 1.05  # than it takes by what was read so far
Spent = Callable[[int], None]


class Piece:
    """Neighbouring records of one batch. `payload`: of a whole, dense batch, else None."""

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
        """Raises ProtocolError for what cannot be read."""
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
        """Its records from index `start` up to `stop`."""
        load = self._load
        return Piece(
            lambda: load()[start:stop], self.offsets[start:stop], sequence=self.sequence + start
        )


@dataclass(slots=True)
class Seen:
    """What was noticed on the target in passing. `corrupt`: where batches with a wrong CRC lie."""

    others: int = 0
    others_at: int = -1
    timeless: bool = False
    corrupt: list[int] = field(default_factory=list)


class _Room:
    """How much to ask for, so that little is read that lies behind the end."""

    def __init__(self, offset_bytes: float) -> None:
        self._each = offset_bytes
        self._offsets = self._bytes = 0

    def bytes(self, offsets: int) -> int:
        return int(min(_MOST_BYTES, max(_LEAST_BYTES, offsets * self._each * _MORE)))

    def read(self, offsets: int, size: int) -> None:
        self._offsets += offsets
        self._bytes += size
        if self._offsets > 0:
            self._each = self._bytes / self._offsets


def of_source(
    cluster: Cluster, feed: Feed, start: int, end: int, offset_bytes: float, spent: Spent
) -> Iterator[Piece]:
    """The part of the series that comes from source offsets `start` to `end` - 1. `spent` is called
    with the bytes of each answer. Raises CausewayError."""
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
            payload=batch.payload,
            codec=batch.codec,
            base_timestamp=batch.base_timestamp,
        )
        if inside == batch.records:
            yield piece
        elif inside:
            yield piece.part(0, inside)


def _relayed(
    cluster: Cluster, feed: Feed, position: int, end: int, offset_bytes: float, spent: Spent
) -> Iterator[Batch]:
    at, room = feed.source, _Room(offset_bytes)
    while position < end:
        fetched = cluster.fetch(
            at,
            position,
            room.bytes(end - position),
            read_committed=feed.read_committed,
            max_wait_ms=0,
        )
        spent(len(fetched.records))
        aborted = fetched.aborted if feed.read_committed else ()
        kept = keep(memoryview(fetched.records), position, aborted, str(at))
        if kept.position == position:
            raise _behind(at, end, position)
        room.read(kept.position - position, len(fetched.records))
        position = kept.position
        for batch in kept.batches:
            if feed.split is None:
                yield batch
            elif (share := shares(batch, feed.split)[feed.outlet]) is not None:
                yield share


def of_target(
    cluster: Cluster,
    feed: Feed,
    start: int,
    end: int,
    offset_bytes: float,
    seen: Seen,
    spent: Spent,
    others_to: int = 0,
) -> Iterator[Piece]:
    """What was written by the feed's producer at target offsets `start` to `end` - 1; what others
    wrote, also up to `others_to`, is counted in `seen`. Raises CausewayError."""
    at, room, position = feed.target, _Room(offset_bytes), start
    last_of_all = max(end, others_to)
    while position < last_of_all:
        fetched = cluster.fetch(at, position, room.bytes(last_of_all - position), max_wait_ms=0)
        spent(len(fetched.records))
        data, here, before = memoryview(fetched.records), 0, position
        while len(data) - here > MAGIC_AT:
            stop = here + LENGTH_OVERHEAD + int.from_bytes(data[here + 8 : here + 12])
            if stop > len(data):
                break
            raw, here = data[here:stop], stop
            if raw[MAGIC_AT] != MAGIC:
                base = last = int.from_bytes(raw[:8])
                piece = None
                seen.others += 1
            else:
                fields = HEADER.unpack_from(raw)
                base = fields[0]
                last = base + fields[6]
                if last < position:
                    continue
                if base >= last_of_all:
                    return
                piece = _piece(raw, fields, feed, seen)
            position = last + 1
            if piece is None or base >= end:
                continue
            if base < start or last >= end:
                first = bisect_left(piece.offsets, start)
                piece = piece.part(first, bisect_left(piece.offsets, end))
            if piece.count:
                yield piece
        if position == before:
            raise _behind(at, last_of_all, position)
        room.read(position - before, here)


def _piece(raw: memoryview, fields: tuple[Any, ...], feed: Feed, seen: Seen) -> Piece | None:
    base, attributes, last_delta, count = fields[0], fields[5], fields[6], fields[12]
    if attributes & CONTROL or not count:
        return None
    if fields[9] != feed.producer_id:
        seen.others += count
        seen.others_at = base if seen.others_at < 0 else seen.others_at
        return None
    payload = bytes(raw[HEADER_SIZE:])
    if checksum(bytes(raw[CRC_START:HEADER_SIZE]), payload) != fields[4]:
        seen.corrupt.append(base)
    timeless = bool(attributes & LOG_APPEND_TIME)
    seen.timeless |= timeless
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
        f"its leader shows it up to offset {shown} only, though it had reached {end}",
        code=-1,
        name="BEHIND",
        retriable=True,
    )
