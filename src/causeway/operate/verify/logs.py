"""Reads both logs of a range as pieces: whole batches that are compared byte by byte, or parts."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from causeway.cluster import Cluster, Content, FetchedPartition, content_of
from causeway.errors import BrokerError, ProtocolError
from causeway.model import TopicPartition
from causeway.operate.verify.outcome import (
    Difference,
    DifferenceKind,
    Range,
    RangeOutcome,
    size_of,
)
from causeway.records import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    Batch,
    checksum,
    decode,
    frames,
    keep,
    read,
    records_of,
)
from causeway.relay import Topics, shares, treat_batch, treatment_of

_MOST_BYTES = 4 * 1024 * 1024
_LEAST_BYTES = 64 * 1024
_MORE = 1.05  # times the estimate from the bytes read so far

Spent = Callable[[int], None]  # called with the bytes of each answer of either side
# Returns the answer from an offset on; raises CausewayError.
Fetch = Callable[[int], FetchedPartition]


@dataclass(slots=True)
class Piece:
    """Neighbouring records of one batch. `contents` raises ProtocolError if the batch cannot be
    read. `payload`: the bytes of a whole, dense batch, otherwise None."""

    contents: Callable[[], list[Content]]
    offsets: Sequence[int]
    payload: bytes | None = None
    codec: int = 0
    base_timestamp: int = 0
    sequence: int = 0

    @property
    def count(self) -> int:
        return len(self.offsets)

    def same_bytes(self, other: Piece) -> bool:
        return (
            self.payload is not None
            and self.count == other.count
            and self.base_timestamp == other.base_timestamp
            and self.codec == other.codec
            and self.payload == other.payload
        )

    def part(self, start: int, stop: int) -> Piece:
        """Returns the records from index `start` up to `stop`."""
        if (start, stop) == (0, self.count):
            return self
        return Piece(
            lambda: self.contents()[start:stop],
            self.offsets[start:stop],
            sequence=self.sequence + start,
        )


def of_source(cluster: Cluster, part: Range, spent: Spent) -> Iterator[Piece]:
    """Yields the series of the range on the source. Raises CausewayError."""
    for batch in _relayed(cluster, part, spent):
        inside = _kept_piece(batch, part.end.source)
        if inside.count:
            yield inside


def _kept_piece(batch: Batch, end: int) -> Piece:
    """Returns the records of `batch` below offset `end`."""
    piece = Piece(
        lambda: [content_of(record) for record in records_of(batch)],
        range(batch.first, batch.first + batch.records) if batch.offsets is None else batch.offsets,
        payload=read(batch),
        codec=batch.codec,
        base_timestamp=batch.base_timestamp,
    )
    return piece.part(0, batch.below(end))


def of_visible(
    cluster: Cluster, found: RangeOutcome, start: int, end: int, spent: Spent
) -> Iterator[Piece]:
    """Yields the records that a read_committed consumer reads on the target, from offset `start` up
    to `end`, of all writers. Raises CausewayError."""
    part = found.range
    at = part.feed.target
    ahead = _ahead(cluster, at, end, part.offset_bytes, spent, read_committed=True)
    with ahead as fetch:
        position = start
        while position < end:
            fetched = fetch(position)
            data = memoryview(fetched.records)
            found.timeless |= any(
                raw[MAGIC_AT] == MAGIC and HEADER.unpack_from(raw)[5] & LOG_APPEND_TIME
                for raw in frames(data)
            )
            kept = keep(data, position, fetched.aborted, str(at))
            if kept.position == position:
                raise _behind(at, end, position)
            position = kept.position
            for batch in kept.batches:
                inside = _kept_piece(batch, end)
                if inside.count:
                    yield inside


def _relayed(cluster: Cluster, part: Range, spent: Spent) -> Iterator[Batch]:
    feed, position, end = part.feed, part.source_from, part.end.source
    treatment = treatment_of(feed.steps) if feed.steps else None
    topics = Topics(feed.source.topic, feed.target.topic)
    ahead = _ahead(
        cluster,
        feed.source,
        end,
        part.offset_bytes,
        spent,
        read_committed=feed.read_committed,
    )
    with ahead as fetch:
        while position < end:
            fetched = fetch(position)
            aborted = fetched.aborted if feed.read_committed else ()
            kept = keep(memoryview(fetched.records), position, aborted, str(feed.source))
            if kept.position == position:
                raise _behind(feed.source, end, position)
            position = kept.position
            for relayed in kept.batches:
                batch = relayed if treatment is None else treat_batch(relayed, treatment, topics)
                if batch is None:
                    continue
                if feed.split is None:
                    yield batch
                elif (share := shares(batch, feed.split)[feed.outlet]) is not None:
                    yield share


def of_target(cluster: Cluster, found: RangeOutcome, spent: Spent) -> Iterator[Piece]:
    """Yields the records of the feed's producer in the range on the target. Counts records of other
    producers in `found`, also those after the range. Raises CausewayError."""
    part = found.range
    at, start, end = part.feed.target, part.target_from, part.target_to
    position, last_of_all = start, max(end, part.others_to)
    ahead = _ahead(cluster, at, last_of_all, part.offset_bytes, spent, read_committed=False)
    with ahead as fetch:
        while position < last_of_all:
            before = position
            for base, last, whole in _pieces(fetch(position).records, position, last_of_all, found):
                position = last + 1
                if whole is None or base >= end:
                    continue
                piece = whole.part(
                    bisect_left(whole.offsets, start), bisect_left(whole.offsets, end)
                )
                if piece.count:
                    yield piece
            if position == before:
                raise _behind(at, last_of_all, position)


def _pieces(
    records: bytes, position: int, end: int, found: RangeOutcome
) -> Iterator[tuple[int, int, Piece | None]]:
    """Yields the first and last offset of each whole batch from `position` on, with its piece if
    the feed's producer wrote it. Ends with the first batch that begins at `end` or later."""
    for raw in frames(memoryview(records)):
        base = int.from_bytes(raw[:8])
        if base >= end:
            yield base, base, None  # compaction may have removed the batches right before
            return
        if raw[MAGIC_AT] != MAGIC:
            found.foreign(1, base)
            yield base, base, None
            continue
        fields = HEADER.unpack_from(raw)
        last = base + fields[6]
        if last >= position:
            yield base, last, _piece(raw, fields, found)


def _piece(raw: memoryview, fields: tuple[Any, ...], found: RangeOutcome) -> Piece | None:
    base, attributes, last_delta, count = fields[0], fields[5], fields[6], fields[12]
    if attributes & CONTROL or not count:
        return None
    if fields[9] != found.range.feed.producer_id:
        found.foreign(count, base)
        return None
    payload = bytes(raw[HEADER_SIZE:])
    if checksum(bytes(raw[CRC_START:HEADER_SIZE]), payload) != fields[4]:
        found.differs = True
        found.differences += (
            Difference(
                kind=DifferenceKind.CORRUPT,
                source=None,
                target=base,
                detail="the CRC of the target's batch is wrong: consumers refuse it",
            ),
        )
    found.timeless |= bool(attributes & LOG_APPEND_TIME)
    dense = count == last_delta + 1
    return Piece(
        lambda: [content_of(record) for record in decode(raw)],
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


@contextmanager
def _ahead(
    cluster: Cluster,
    at: TopicPartition,
    end: int,
    offset_bytes: float,
    spent: Spent,
    *,
    read_committed: bool,
) -> Iterator[Fetch]:
    """Fetches offsets up to `end`, one answer ahead: the broker prepares the next answer while the
    current one is compared. `offset_bytes`: estimated bytes per offset, until some are read."""
    waiting: tuple[int, Future[FetchedPartition]] | None = None
    offsets = size = 0

    def fetch(position: int) -> FetchedPartition:
        each = size / offsets if offsets else offset_bytes
        wanted = (end - position) * each * _MORE  # limits the bytes read beyond the end
        most = int(min(_MOST_BYTES, max(_LEAST_BYTES, wanted)))
        return cluster.fetch(at, position, most, read_committed=read_committed, max_wait_ms=0)

    def get(position: int) -> FetchedPartition:
        nonlocal waiting, offsets, size
        if waiting is not None and waiting[0] == position:
            fetched = waiting[1].result()
        else:
            fetched = fetch(position)
        waiting = None
        spent(len(fetched.records))
        following = _following(memoryview(fetched.records), position)
        offsets += following - position
        size += len(fetched.records)
        if position < following < end:
            waiting = following, pool.submit(fetch, following)
        return fetched

    pool = ThreadPoolExecutor(1, thread_name_prefix="fetch ahead")
    try:
        yield get
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _following(data: memoryview, position: int) -> int:
    """Returns the offset after the last whole batch; `position` if there is none."""
    for last in deque(frames(data), maxlen=1):
        base = int.from_bytes(last[:8])
        return base + 1 + (int.from_bytes(last[23:27]) if last[MAGIC_AT] == MAGIC else 0)
    return position


# Replaces the headers of records in a batch that cannot be unpacked. It equals no other headers.
UNREADABLE: dict[str, tuple[tuple[str, bytes | None], ...]] = {
    "source": (("of the source", None),),
    "target": (("of the target", None),),
}


class LogSide:
    """One side of a comparison. `contents` and `offsets`: of the records that are unpacked and not
    passed yet. `index`: the number of records dropped before them. `end`: the offset after the last
    record."""

    def __init__(self, pieces: Iterator[Piece], name: str, end: int) -> None:
        self._pieces = pieces
        self.end = end
        self._next: Piece | None = None
        self._unreadable: Content = (None, None, None, UNREADABLE[name])
        self.contents: list[Content] = []
        self.offsets: list[int] = []
        self.index = 0
        self.ended = False

    def offset(self, place: int) -> int:
        """Returns the offset of the record at index `place`, or the end."""
        return self.offsets[place] if place < len(self.offsets) else self.end

    def piece(self) -> Piece | None:
        """Returns the next whole piece; None at the end. Call it only if no unpacked record is
        left."""
        piece, self._next = self._next, None
        if piece is None:
            piece = next(self._pieces, None)
        self.ended = piece is None
        return piece

    def back(self, piece: Piece | None) -> None:
        """Takes back a piece from `piece()`, to be unpacked."""
        self._next = piece

    def more(self, count: int, most_bytes: int) -> None:
        """Unpacks until there are `count` records or `most_bytes`, or until the log ends."""
        size = 0
        while len(self.contents) < count and size < most_bytes:
            piece = self.piece()
            if piece is None:
                break
            try:
                contents = piece.contents()
            except ProtocolError:
                contents = [self._unreadable] * piece.count
            self.contents += contents
            self.offsets += piece.offsets
            size += sum(map(_memory_of, contents))

    def rest(self) -> int:
        """Passes all remaining records, and returns their number."""
        count = len(self.contents) + sum(piece.count for piece in self._pieces)
        self.drop(len(self.contents))
        self.ended = True
        return count

    def drop(self, count: int) -> None:
        self.index += count
        del self.contents[:count]
        del self.offsets[:count]


def _memory_of(content: Content) -> int:
    """Returns the bytes with those of headers, which may be the larger part."""
    return size_of(content) + sum(len(name) + len(value or b"") for name, value in content[3])
