"""A target partition of a flow, with the batches that wait and the batches without a response."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from causeway.cluster import is_young
from causeway.errors import ProtocolError
from causeway.link_topics import Outlet
from causeway.model import Pair
from causeway.records import (
    ANY_CODEC,
    HEADER_SIZE,
    MERGED_BYTES,
    MERGED_RECORDS,
    SEQUENCE_SPACE,
    SMALL_BATCH,
    Batch,
    Gap,
    cut,
    fast_tuple,
    merge,
    repack,
    unpacked_size,
)
from causeway.relay.lane.gaps import Gaps
from causeway.relay.messages import Compression, Trace

UNKNOWN = -1
MAX_MESSAGE_BYTES = 1_048_588  # Kafka's default
MOST_BREAKS = 64  # between two reports; with fewer breaks, translations only take longer


class Sent(NamedTuple):
    """A batch that was sent and has no response yet. `expected`: the base offset that it must get
    if no other client writes, else UNKNOWN. `first`, `last`: the source offsets of its first and
    last record. `next`: the source offset at which the series goes on. `of_last`: how many records
    the last source record became."""

    sequence: int
    records: int
    expected: int
    first: int
    last: int
    next: int
    leader_epoch: int
    max_timestamp: int
    size: int
    of_last: int = 1
    codec: int = 0


_sent, _pair = fast_tuple(Sent), fast_tuple(Pair)


def is_view(batch: Batch) -> bool:
    """Whether its payload is a view of the response that it came with."""
    return type(batch[0]) is memoryview


@dataclass(slots=True, eq=False)
class OutletState:
    """The state of one target partition of a flow.

    `pair`: the newest pair. Records below source offset `start` are in the target already.
    `sequence`: the next sequence to send. `end`: the offset that it should get, if `exclusive`.
    `exclusive`: no other client writes. `append_times`: the target sets times (LogAppendTime).
    `remembered_until` (monotonic): several batches may be in flight until then, because the broker
    knows our last sequence (see target.py).
    `pending_bytes`: the size of waiting batches. `copied_bytes`: the part without views.
    `breaks`: where the difference of the offsets changed since the last report, both ends of each
    gap. `straight_to`: from the last break to here, the difference is the same.
    `resumed`: the lowest pair from which a recovery has resumed since the last report.
    `newest`: source and target offset of the newest acknowledged record. If a source record became
    several, it is the first of these.
    `as_is_bytes`, `as_is_codecs` (a bit each): batches up to this size, in these codecs, are sent
    as they are. `compression`: how other batches are compressed; None if they keep their codec.
    `most_unpacked`: the most bytes of a batch without compression, after the target refused a
    larger batch; None for any size. `gaps`: set if the outlet keeps the source's offsets.
    """

    spec: Outlet
    pair: Pair
    sequence: int
    start: int
    end: int
    exclusive: bool
    node: int = UNKNOWN
    pending: deque[Batch] = field(default_factory=deque)
    pending_bytes: int = 0
    copied_bytes: int = 0
    unanswered: int = 0
    remembered_until: float = 0.0
    append_times: bool = False
    as_is_bytes: int = MAX_MESSAGE_BYTES
    as_is_codecs: int = ANY_CODEC
    compression: Compression | None = None
    most_unpacked: int | None = None
    breaks: list[Pair] = field(default_factory=list)
    straight_to: Pair | None = None
    resumed: Pair | None = None
    newest: tuple[int, int] | None = None
    gaps: Gaps | None = None
    idempotent: bool = field(init=False)
    producer: tuple[int, int] = field(init=False)  # id and epoch
    by_name: tuple[bytes, int] = field(init=False)  # the target partition in a Produce request
    by_id: tuple[bytes, int] = field(init=False)
    share: int = field(init=False)  # decides on the connection to its broker

    def __post_init__(self) -> None:
        # These are read for each batch. The attributes of `spec`, a message, are slower.
        self.idempotent = self.spec.producer_id >= 0
        self.producer = self.spec.producer_id, self.spec.producer_epoch
        self.by_name = self.spec.topic.encode(), self.spec.partition
        self.by_id = bytes.fromhex(self.spec.topic_id), self.spec.partition
        self.share = int(self.spec.topic_id[:8], 16) + self.spec.partition

    @classmethod
    def of(cls, spec: Outlet) -> OutletState:
        pair = spec.pair
        return cls(
            spec=spec,
            pair=pair,
            sequence=pair.sequence,
            start=pair.source,
            end=pair.target,
            exclusive=spec.exclusive,
        )

    def compressed(self, batch: Batch) -> Batch:
        """`batch` in the codec in which it is sent."""
        compression = self.compression
        if compression is None or self.as_is_codecs >> batch.codec & 1:
            return batch
        return repack(batch, compression.codec, compression.level)

    def may_send(self, now: float) -> bool:
        return not self.unanswered or now < self.remembered_until or not self.idempotent

    def limit(self, most_bytes: int) -> None:
        """Sets the most bytes of a batch that the target accepts."""
        self.as_is_bytes = most_bytes if self.most_unpacked is None else 0

    def put(self, batch: Batch) -> None:
        self.put_all((batch,))

    def put_all(self, batches: Sequence[Batch]) -> None:
        self.pending.extend(batches)
        for batch in batches:
            size = HEADER_SIZE + len(batch[0])  # the payload; an index is faster than a name here
            self.pending_bytes += size
            if type(batch[0]) is not memoryview:
                self.copied_bytes += size

    def put_runs(self, runs: Iterable[Batch | Gap]) -> None:
        """`put_all` for an outlet that keeps offsets. Batches behind a gap wait until the gap is
        filled."""
        gaps = self.gaps
        assert gaps is not None
        for run in runs:
            if isinstance(run, Gap) or gaps.queue:
                gaps.put(run)
            else:
                self.put(run)

    def filled(self, end: int) -> None:
        """The first gap is filled up to offset `end`."""
        gaps = self.gaps
        assert gaps is not None
        self.end = self.start = end
        self.pair = self.straight_to = Pair(max(end, self.pair.source), end, self.sequence)
        self.put_all(gaps.filled_to(end))

    @property
    def idle(self) -> bool:
        """Whether nothing waits here, and each sent batch has its response."""
        return not (self.pending or self.unanswered or (self.gaps and self.gaps.queue))

    def put_back(self, batch: Batch) -> None:
        self.pending.appendleft(batch)
        self.pending_bytes += batch.size
        if not is_view(batch):
            self.copied_bytes += batch.size

    def take(self) -> Batch:
        batch = self.pending.popleft()
        self.pending_bytes -= batch.size
        if not is_view(batch):
            self.copied_bytes -= batch.size
        return batch

    def copy_out(self, lies_in: Container[int]) -> None:
        """Copies pending payloads out of these receive buffers. `lies_in` has the `id` of each
        buffer."""
        pending = self.pending
        for _ in range(len(pending)):
            batch = pending.popleft()
            payload = batch.payload
            if isinstance(payload, memoryview) and id(payload.obj) in lies_in:
                batch = batch._replace(payload=bytes(payload))
                self.copied_bytes += batch.size
            pending.append(batch)

    def drop_pending(self) -> None:
        self.pending.clear()
        self.pending_bytes = self.copied_bytes = 0
        if self.gaps is not None:
            self.gaps.clear()

    def sent(self, batch: Batch) -> Sent:
        """Accounts for `batch` as sent with the current sequence."""
        payload, codec, _, max_timestamp, records, first, after, leader_epoch, offsets, _ = batch
        last, of_last = first + records - 1, 1
        if offsets is not None:
            last = offsets[-1]
            of_last = records - bisect_left(offsets, last)
        sequence, end = self.sequence, self.end
        self.unanswered += 1
        # The broker expires a producer by the timestamp of its last batch alone.
        if not self.exclusive and not is_young(max_timestamp):
            self.remembered_until = 0.0
        if self.idempotent:
            self.sequence = (sequence + records) % SEQUENCE_SPACE
        self.end = end + records
        return _sent(
            (
                sequence,
                records,
                end if self.exclusive else UNKNOWN,
                first,
                last,
                after,
                leader_epoch,
                max_timestamp,
                HEADER_SIZE + len(payload),
                of_last,
                codec,
            )
        )

    def acknowledged(self, sent: Sent, base_offset: int) -> None:
        start, records, _, first, last, following, _, _, _, of_last, _ = sent
        end = base_offset + records
        self.newest = last, end - of_last
        if not self.idempotent:
            self.pair = Pair(following, end, 0)
            return
        pair = self.pair = _pair((following, end, (start + records) % SEQUENCE_SPACE))
        behind = pair if following == last + 1 else pair._replace(source=last + 1)
        if first + records == last + 1 and self.straight_to == (first, base_offset, start):
            self.straight_to = behind
        else:
            self._note_breaks(Pair(first, base_offset, start), behind, records)

    def resume(self, pair: Pair) -> None:
        """Resumes at `pair` after a recovery. Acknowledged records behind it are lost."""
        self.pair = self.straight_to = pair
        self.breaks = [b for b in self.breaks if b.source <= pair.source]
        if self.resumed is None or pair.source < self.resumed.source:
            self.resumed = pair

    def _note_breaks(self, start: Pair, end: Pair, records: int) -> None:
        if start != self.straight_to:
            if self.straight_to is not None:
                self.breaks.append(self.straight_to)
            self.breaks.append(start)
        if end.source - start.source != records:  # gaps inside
            self.breaks += (start, end)
        self.straight_to = end
        if len(self.breaks) > MOST_BREAKS:
            del self.breaks[1::2]

    def report(self) -> Outlet:
        epoch = max(self.producer[1], self.spec.producer_epoch)
        return self.spec.replace(pair=self.pair, exclusive=self.exclusive, producer_epoch=epoch)

    def trace(self) -> Trace:
        """The changes for the offset map since the last report."""
        breaks, self.breaks = tuple(self.breaks), []
        resumed, self.resumed = self.resumed, None
        return Trace(breaks=breaks, resumed=resumed, newest=self.newest)


LEAST_BATCH_BYTES: Final = 1024  # batches become no smaller than this after refusals


def next_batch(outlet: OutletState, max_message_bytes: int) -> Batch:
    """Returns the outlet's next batch, in the codec in which it is sent. If the batch can be cut,
    it is no larger than `max_message_bytes`, and without compression no larger than
    `outlet.most_unpacked`.

    A single record that is too large is sent as it is: the broker refuses it with the reason. A
    batch that cannot be unpacked is sent as it is, too.
    """
    batch = outlet.take()
    if batch.size <= SMALL_BATCH and outlet.pending:
        batch = _merged(outlet, batch, max_message_bytes)
    compressed = outlet.compressed(batch)
    if compressed.size > max_message_bytes >= batch.size:
        compressed = batch  # it is small enough in its own codec
    # The batch is cut before compression, so each part is compressed once, at the right level.
    if parts := _parts(outlet, batch, compressed.size, max_message_bytes):
        for part in reversed(parts):
            outlet.put_back(part)
        return next_batch(outlet, max_message_bytes)
    return compressed


def send_smaller(outlet: OutletState, refused: Sent, max_message_bytes: int) -> bool:
    """Makes `outlet` send smaller batches after the target refused a batch as too large. Returns
    False if batches cannot be smaller.

    There are two causes. The target compresses batches again, and this batch grew beyond
    `max_message_bytes`. Or the target's limit is lower than `max_message_bytes`. So the limit
    without compression becomes `max_message_bytes`. Each further refusal halves it.
    """
    if refused.first == refused.last:
        return False
    if outlet.most_unpacked is not None:
        before, most = outlet.most_unpacked, outlet.most_unpacked // 2
    elif refused.codec:
        before, most = sys.maxsize, max_message_bytes
    else:
        before, most = refused.size, refused.size // 2
    most = max(most, LEAST_BATCH_BYTES)
    if most >= before:
        return False
    outlet.as_is_bytes, outlet.most_unpacked = 0, most
    return True


def _parts(outlet: OutletState, batch: Batch, size: int, max_message_bytes: int) -> list[Batch]:
    """The parts in which `batch` must be sent; an empty list if it is sent as a whole. `size` is
    its size in the codec in which it is sent."""
    if batch.records < 2:
        return []
    count = -(-size // max_message_bytes)
    try:
        if (most := outlet.most_unpacked) is not None:
            count = max(count, -(-unpacked_size(batch) // most))
        if count < 2 or not (indexes := _cuts(batch, count)):
            return []
        return cut(batch, indexes)
    except ProtocolError:
        return []


def _cuts(batch: Batch, count: int) -> list[int]:
    """The indexes that cut a batch into `count` parts with about the same number of records.

    All records that one source record became stay together, so there may be fewer parts.
    """
    even = {batch.records * number // count for number in range(1, count)} - {0}
    offsets = batch.offsets
    if offsets is None:
        return sorted(even)
    allowed = [at for at in range(1, batch.records) if offsets[at] != offsets[at - 1]]
    if not allowed:
        return []
    last = len(allowed) - 1
    return sorted({allowed[min(bisect_left(allowed, at), last)] for at in even})


def _merged(outlet: OutletState, batch: Batch, max_message_bytes: int) -> Batch:
    """Merges `batch` with the small batches behind it, as far as one batch can have them."""
    room = min(MERGED_BYTES, max_message_bytes)
    if outlet.most_unpacked is not None:
        if batch.codec:  # a merged batch may be too large without compression, and be cut again
            return batch
        room = min(room, outlet.most_unpacked)
    room -= batch.size
    run, count = [batch], batch.records
    while outlet.pending:
        following = outlet.pending[0]
        room -= following.size - HEADER_SIZE
        count += following.records
        if (
            following.size > SMALL_BATCH
            or following.codec != batch.codec
            or room < 0
            or count > MERGED_RECORDS
        ):
            break
        run.append(outlet.take())
    if len(run) == 1:
        return batch
    merged, taken = merge(run)
    # A merged batch may be larger than its parts: compression may be worse, and deltas from the
    # first record take more bytes. If it were cut, its parts would be merged again.
    most = max_message_bytes if outlet.most_unpacked is None else outlet.most_unpacked
    if merged.size > min(most, max_message_bytes):
        merged, taken = batch, 1
    for one in reversed(run[taken:]):
        outlet.put_back(one)
    return merged
