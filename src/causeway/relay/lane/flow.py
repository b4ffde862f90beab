"""The state of one source partition on a lane, and of each target partition it feeds.

               assign
                 │
           ┌─ RECOVERING ◄───────────┐  any doubt: a lost connection with unanswered batches,
retriable  │     │ found its place   │  a refused sequence, a time-out, a new leader
error,     ▼     ▼                   │
back-off FAILED RUNNING ─────────────┘
                 │ stop_at reached         no safe way on
                DONE                       STOPPED
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.cluster import is_young
from causeway.link_topics import Outlet
from causeway.model import Loss, Pair, State
from causeway.records import HEADER_SIZE, SEQUENCE_SPACE, Batch, fast_tuple
from causeway.relay.lane.distance import PARTITION_BYTES
from causeway.relay.lane.figures import Figures
from causeway.relay.lane.on_the_way import OnTheWay
from causeway.relay.lane.waiting import Waiting
from causeway.relay.messages import Assignment, PartitionReport, Trace, Want, sayable
from causeway.relay.recovery.damage import Damage
from causeway.relay.treatment import Treatment

UNKNOWN = -1
MAX_MESSAGE_BYTES = 1_048_588  # Kafka's default
MOST_BREAKS = 64  # between two reports; fewer only make a translation slower


class Sent(NamedTuple):
    """A batch that was sent and not answered yet. `expected`: the base offset it must get where
    nobody else writes, UNKNOWN elsewhere. `first`, `last`: the source offsets of its first and last
    record; `next`: of what comes after it; `of_last`: how many the last source record became."""

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
    """Whether it lies in the answer that it came with."""
    return type(batch[0]) is memoryview


@dataclass(slots=True, eq=False)
class OutletState:
    """What a lane knows of one target partition of a flow.

    `pair` is the newest true statement. `sequence` is the next to send; `end` the target offset it
    should get, while exclusive. Records below source offset `start` are in the target already.
    `append_times`: the target sets the times (LogAppendTime).
    Several batches may be in flight up to `remembered_until` (monotonic; see target.py): the broker
    knows our last sequence.
    `pending_bytes`: of the batches that wait, `copied_bytes` of which lie in no answer.
    `breaks`: where the difference of the offsets changed since the last report, both ends of each
    gap; `straight_to`: up to where it has not changed since. `resumed`: where it went on since the
    last report after its place was looked for, the lowest such pair. `newest`: source and target
    offset of the newest record acknowledged, of the first where one became several.
    `as_is_bytes`: batches up to this size go as they are. `most_unpacked`: without compression a
    batch may be no larger, as the target refused a larger one; None: any size.
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
    most_unpacked: int | None = None
    breaks: list[Pair] = field(default_factory=list)
    straight_to: Pair | None = None
    resumed: Pair | None = None
    newest: tuple[int, int] | None = None
    idempotent: bool = field(init=False)
    producer: tuple[int, int] = field(init=False)  # id and epoch
    by_name: tuple[bytes, int] = field(init=False)  # the target partition in a Produce request
    by_id: tuple[bytes, int] = field(init=False)

    def __post_init__(self) -> None:
        # Looked up for each batch, where `spec`, a message, is slow.
        self.idempotent = self.spec.producer_id >= 0
        self.producer = self.spec.producer_id, self.spec.producer_epoch
        self.by_name = self.spec.topic.encode(), self.spec.partition
        self.by_id = bytes.fromhex(self.spec.topic_id), self.spec.partition

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

    def may_send(self, now: float) -> bool:
        return not self.unanswered or now < self.remembered_until or not self.idempotent

    def limit(self, most_bytes: int) -> None:
        """Batches may have so many bytes, as they are sent."""
        self.as_is_bytes = most_bytes if self.most_unpacked is None else 0

    def put(self, batch: Batch) -> None:
        self.put_all((batch,))

    def put_all(self, batches: Sequence[Batch]) -> None:
        self.pending.extend(batches)
        self.pending_bytes += sum([len(batch[0]) for batch in batches]) + HEADER_SIZE * len(batches)
        if copied := [len(each[0]) for each in batches if type(each[0]) is not memoryview]:
            self.copied_bytes += sum(copied) + HEADER_SIZE * len(copied)

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
        """What is pending no longer lies in one of these buffers, by `id`."""
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

    def sent(self, batch: Batch) -> Sent:
        """Account for `batch` as sent with the current sequence."""
        payload, codec, _, max_timestamp, records, first, following, leader_epoch, offsets, _ = (
            batch
        )
        last, of_last = first + records - 1, 1
        if offsets is not None:
            last = offsets[-1]
            of_last = records - bisect_left(offsets, last)
        sequence, end = self.sequence, self.end
        self.unanswered += 1
        # The broker expires a producer by the time of its last batch, however young the one before.
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
                following,
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
        """Its place was looked for, and is at `pair`: what was acknowledged after that is lost."""
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
        return self.spec.replace(pair=self.pair, exclusive=self.exclusive)

    def trace(self) -> Trace:
        """What the offset map has to learn since the last report."""
        breaks, self.breaks = tuple(self.breaks), []
        resumed, self.resumed = self.resumed, None
        return Trace(breaks=breaks, resumed=resumed, newest=self.newest)


class Diverging(NamedTuple):
    """The source's log has no entry for leader epoch `epoch`; `before`: the newest one below that
    it has an entry for."""

    epoch: int
    before: int


@dataclass(slots=True, eq=False)
class Flow:
    """One source partition on this lane. `position`: the next source offset to fetch; `through`:
    all below is with the outlets or rightly dropped; the same where nothing is transformed."""

    assignment: Assignment
    outlets: list[OutletState]
    position: int
    through: int
    leader_epoch: int  # of the batch before `position`
    relayed_epoch: int  # of the last acknowledged batch
    state: State = State.RECOVERING
    reason: str | None = None
    diverging: Diverging | None = None  # since its place was found
    lacks: Diverging | None = None  # the source leader's answer before that, if it still leads
    damage: Damage | None = None  # the last batch that could not be mirrored
    damaged_times: int = 0  # how often in a row
    loss: Loss | None = None  # why it stopped, if the source lost the next records
    source_node: int = UNKNOWN  # the leader of the source partition, with its epoch:
    source_epoch: int = UNKNOWN
    led_at: float = 0.0  # when that was last confirmed, monotonic
    answer_bytes: int = PARTITION_BYTES  # the most of it in one answer of its source
    source_end: int = UNKNOWN
    end_before: int = UNKNOWN  # the source's, when our place was found: no lane before read more
    high_watermark: int = UNKNOWN  # of the source
    # The newest time in the last batch that was kept, since its place was found; see `newest`.
    newest_kept: int = UNKNOWN
    unreadable_at: int = UNKNOWN  # what lies there cannot be kept: it is fetched again when idle
    last_timestamp: int = UNKNOWN
    records: int = 0
    bytes: int = 0
    # Since the last report, ms: of what was fetched, and of what was acknowledged.
    ages: Figures = field(default_factory=Figures)
    latencies: Figures = field(default_factory=Figures)
    waiting: Waiting = field(default_factory=Waiting)  # the times of fetched batches
    recoveries: int = 0
    failures: int = 0
    retry_at: float = 0.0
    # Until then (monotonic) a request may still arrive whose connection is gone; see late.py.
    late_by: float = 0.0
    sought_at: float = 0.0  # monotonic: the last look for its place began
    throttled_until: float = 0.0  # monotonic: until then its requests may wait for a quota
    unsettled: bool = True  # batches without an answer may have reached the target
    recovering: bool = False  # a recovery job has it
    leaving: bool = False  # revoked or draining: nothing new is sent
    changed: bool = True
    on_the_way: OnTheWay | None = None  # where records are transformed
    wants: tuple[Want, ...] = ()  # outlets that it lacks: it waits for them
    treatment: Treatment | None = None  # of its records, before all else
    waits: str | None = None  # for its transform, and since when, if that takes long
    unprepared: bool = False  # the treatment has to find something out before it goes on
    subject: str = field(init=False)  # for errors

    def __post_init__(self) -> None:
        self.subject = f"{self.assignment.link} {self.assignment.source_partition}"

    @classmethod
    def of(cls, assignment: Assignment) -> Flow:
        outlets = [OutletState.of(spec) for spec in assignment.outlets]
        for outlet in outlets:
            outlet.as_is_bytes = assignment.max_message_bytes
        start = min(outlet.start for outlet in outlets)
        return cls(
            assignment=assignment,
            outlets=outlets,
            position=start,
            through=start,
            leader_epoch=assignment.leader_epoch,
            relayed_epoch=assignment.leader_epoch,
            unsettled=not assignment.settled,
            answer_bytes=assignment.max_partition_bytes or PARTITION_BYTES,
        )

    @property
    def compared_epoch(self) -> int:
        """The leader epoch that the source's leader compares with its log: of the batch before
        `position`, or the one below that, if its log has no entry for the first. Another leader's
        log may have that entry, and then end the epoch below it before our position."""
        lacks = self.lacks
        return lacks.before if lacks and lacks.epoch == self.leader_epoch else self.leader_epoch

    @property
    def pending_bytes(self) -> int:
        transformed = self.on_the_way.size if self.on_the_way else 0
        return sum(outlet.pending_bytes for outlet in self.outlets) + transformed

    @property
    def idle(self) -> bool:
        """Nothing fetched waits to be sent, nothing sent waits for its answer."""
        if self.on_the_way is not None and not self.on_the_way.idle:
            return False
        return not any(outlet.pending or outlet.unanswered for outlet in self.outlets)

    @property
    def unanswered(self) -> int:
        return sum(outlet.unanswered for outlet in self.outlets)

    def leave(self) -> None:
        """From now on nothing new is sent, and what waits to be sent never will be; but see
        Relay.let_go for what is transformed."""
        self.settle()
        self.leaving = True

    def note_ends(self, source_end: int, high_watermark: int) -> None:
        self.changed |= (source_end, high_watermark) != (self.source_end, self.high_watermark)
        self.source_end, self.high_watermark = source_end, high_watermark

    def look_at_wait(self) -> None:
        """Notes whether it waits for its transform, to be reported."""
        running = self.state is State.RUNNING and self.on_the_way is not None
        waits = self.on_the_way.waits(time.time()) if running and self.on_the_way else None
        self.changed |= waits != self.waits
        self.waits = waits

    def settle(self) -> None:
        """Move the pairs of a running flow's idle outlets up to where all is with the outlets: what
        lies between was dropped, so the statement stays true and recovery has less to read.

        Not of one that leaves: its outlets are idle because what they had to send was let go,
        unless a transform had led it to them. Nor where their requests were given up unanswered.
        """
        if self.state is not State.RUNNING or self.unsettled:
            return
        if self.leaving and self.on_the_way is None:
            return
        moved = False
        for outlet in self.outlets:
            if not outlet.pending and not outlet.unanswered and outlet.pair.source < self.through:
                outlet.pair = Pair(
                    source=self.through,
                    target=outlet.pair.target,
                    sequence=outlet.pair.sequence,
                )
                moved = self.changed = True
        if self.idle:
            self.relayed_epoch = self.leader_epoch
        elif moved and self.on_the_way is None:
            # Recovery relies on it: no pair lies behind a batch of a later epoch.
            self.relayed_epoch = max(self.relayed_epoch, self.leader_epoch)

    def _first_unmirrored(self, position: int) -> int:
        if position < self.source_end:
            return self.waiting.first(position)
        self.waiting.clear()  # the next record may be much later than the last one
        return UNKNOWN

    def report(self, *, final: bool = False) -> PartitionReport:
        self.settle()
        self.changed = False
        assignment = self.assignment
        position = min(outlet.pair.source for outlet in self.outlets)
        traces = tuple(outlet.trace() for outlet in self.outlets)
        only = traces[0] if len(traces) == 1 else Trace()
        return PartitionReport(
            link=assignment.link,
            topic=assignment.topic,
            partition=assignment.partition,
            state=self.state,
            reason=self.waits if self.reason is None else sayable(self.reason),
            position=position,
            leader_epoch=self.relayed_epoch,
            source_end=self.source_end,
            high_watermark=self.high_watermark,
            last_timestamp=self.last_timestamp,
            first_unmirrored=self._first_unmirrored(position),
            outlets=tuple(outlet.report() for outlet in self.outlets),
            breaks=only.breaks,
            resumed=only.resumed,
            newest=only.newest,
            traces=traces if len(traces) > 1 else (),
            wants=self.wants,
            transformed=self.on_the_way.counts if self.on_the_way else None,
            ages=self.ages.take(),
            latencies=self.latencies.take(),
            records=self.records,
            bytes=self.bytes,
            recoveries=self.recoveries,
            loss=self.loss,
            final=final,
            settled=final
            and not self.unsettled
            and not self.unanswered
            and time.monotonic() >= self.late_by,
            throttled_s=max(0.0, self.throttled_until - time.monotonic()),
        )
