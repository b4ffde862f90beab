"""The state of one source partition on a lane.

               assign
                 │
           ┌─ RECOVERING ◄───────────┐  needs recovery: a lost connection with unanswered batches,
retriable  │     │ found position    │  a refused sequence, a time-out, a new leader
error,     ▼     ▼                   │
back-off FAILED RUNNING ─────────────┘
                 │ stop_at reached         no safe way on
                DONE                       STOPPED
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from causeway.link_topics import Transformed
from causeway.model import Loss, Pair, Spread, State
from causeway.records import Batch, dense_runs
from causeway.relay.lane.chunks import WorkResult
from causeway.relay.lane.gaps import Gaps
from causeway.relay.lane.limits import PARTITION_BYTES
from causeway.relay.lane.outlet import UNKNOWN, OutletState
from causeway.relay.lane.stage import Stage
from causeway.relay.messages import Assignment, FlowReport, OutletWanted, sayable
from causeway.relay.recovery import Damage
from causeway.relay.treatment import Treatment

STEP_MS: Final = 1000
_UNKNOWN: Final = -1
_NEVER: Final = -(1 << 62)


class FetchedTimes:
    """Finds the timestamp of a flow's first record that is not mirrored, from the batches that were
    fetched. Not thread-safe.

        fetched   [12:00:00][12:00:00][12:07:41][12:07:42]…      of each batch: its first timestamp
        noted      12:00:00            12:07:41 12:07:42         only if it differs by a second
        position            ▲          the first record not mirrored is of 12:00:00

    A batch costs one comparison. A note for each batch would cost too much.
    """

    __slots__ = ("_last", "_notes")

    def __init__(self) -> None:
        self._notes: deque[tuple[int, int]] = deque()  # source offset, ms
        self._last = _NEVER

    def note(self, batches: Sequence[Batch]) -> None:
        """Notes batches that were fetched, in order."""
        last = self._last
        for batch in batches:
            stamp = batch[2]  # base_timestamp; an index is faster than a name here
            if not -STEP_MS < stamp - last < STEP_MS:
                self._notes.append((batch[5], stamp))  # first
                last = stamp
        self._last = last

    def clear(self) -> None:
        self._notes.clear()
        self._last = _NEVER

    def first(self, position: int) -> int:
        """The timestamp of the record at source offset `position`, to within STEP_MS. -1 if that
        record was not fetched. If all fetched batches are below `position`, the timestamp of the
        last batch, because the next record follows it. Drops older notes."""
        notes = self._notes
        while len(notes) > 1 and notes[1][0] <= position:
            notes.popleft()
        return notes[0][1] if notes and notes[0][0] <= position else _UNKNOWN


class Figures:
    """A figure that a lane notes for each batch, summed up for its next report. Not thread-safe."""

    __slots__ = ("_least", "_most", "_seen", "_total")

    def __init__(self) -> None:
        self._seen = self._total = self._least = self._most = 0

    def note(self, figure: int) -> None:
        if not self._seen:
            self._least = self._most = figure
        elif figure < self._least:
            self._least = figure
        elif figure > self._most:
            self._most = figure
        self._seen += 1
        self._total += figure

    def take(self) -> Spread | None:
        """The figures that were noted since the last call; None if there are none."""
        if not self._seen:
            return None
        spread = Spread(self._seen, self._total, self._least, self._most)
        self._seen = self._total = 0
        return spread


SAID_S = 5.0  # a partition that waits for its transform longer than this says so


@dataclass(slots=True, eq=False)
class OnTheWay:
    """The records of a flow that are in its transform's stage, or that came back and are not in the
    outlets yet. `size`: the bytes that were fetched for them. `halt`: why the flow stops when all
    earlier records are relayed. `writing`: dead letters are being written. `since`: when the oldest
    chunk without an answer was sent, in seconds since 1970."""

    stage: Stage
    chunks: int = 0
    size: int = 0
    pieces: deque[WorkResult] = field(default_factory=deque)
    halt: str | None = None
    writing: bool = False
    since: float = 0.0
    counts: Transformed = field(default_factory=Transformed)

    @property
    def idle(self) -> bool:
        return not self.chunks and not self.pieces

    def waits(self, now: float) -> str | None:
        """The reason to show if the stage takes long to answer. `now` is in seconds since 1970."""
        if not self.chunks or now - self.since < SAID_S:
            return None
        since = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"waiting for its transform since {since}"

    def take(self) -> WorkResult:
        """Takes the first piece. It goes to the outlets, which count its bytes from then on."""
        piece = self.pieces.popleft()
        self.size -= piece.size
        return piece

    def cancel(self, flow: Flow) -> None:
        """Forgets all records. `flow` is the flow that they belong to."""
        self.stage.cancel(flow)
        self.chunks = self.size = 0
        self.pieces.clear()
        self.halt, self.writing = None, False


class Diverging(NamedTuple):
    """The source's log has no entry for leader epoch `epoch`. `before` is the newest lower epoch
    that it has an entry for."""

    epoch: int
    before: int


@dataclass(slots=True, eq=False)
class Flow:
    """One source partition on this lane. `position` is the next source offset to fetch. All records
    below `through` are in the outlets or were rightly dropped. Without a transform, both are the
    same."""

    assignment: Assignment
    outlets: list[OutletState]
    position: int
    through: int
    leader_epoch: int  # of the batch before `position`
    relayed_epoch: int  # of the last acknowledged batch
    state: State = State.RECOVERING
    reason: str | None = None
    diverging: Diverging | None = None  # since its last recovery
    lacks: Diverging | None = None  # the source leader's answer before that, if it still leads
    damage: Damage | None = None  # the last batch that could not be mirrored
    damaged_times: int = 0  # how often in a row
    loss: Loss | None = None  # why it stopped, if the source lost the next records
    source_node: int = UNKNOWN  # the leader of the source partition
    source_epoch: int = UNKNOWN  # the epoch of that leader
    led_at: float = 0.0  # when the leader was last confirmed, monotonic
    answer_bytes: int = PARTITION_BYTES  # the most bytes of the flow in one answer
    source_end: int = UNKNOWN
    end_before: int = UNKNOWN  # the source's end at the last recovery: no earlier lane read further
    high_watermark: int = UNKNOWN  # of the source
    # The newest timestamp in the last batch that was kept since the last recovery; see `newest`.
    newest_kept: int = UNKNOWN
    # The batch at this offset cannot be kept: it is fetched again when the flow is idle.
    unreadable_at: int = UNKNOWN
    last_timestamp: int = UNKNOWN
    records: int = 0
    bytes: int = 0
    # Both in ms, since the last report.
    ages: Figures = field(default_factory=Figures)  # of fetched batches
    latencies: Figures = field(default_factory=Figures)  # of acknowledged batches
    waiting: FetchedTimes = field(default_factory=FetchedTimes)  # the times of fetched batches
    recoveries: int = 0
    failures: int = 0
    retry_at: float = 0.0
    # Monotonic: until then a request of a closed connection may still arrive; see must_wait.
    late_by: float = 0.0
    # Monotonic: until then another lane may fill offsets. Its lease is over at that time.
    rival_by: float = 0.0
    sought_at: float = 0.0  # monotonic: the last recovery began
    throttled_until: float = 0.0  # monotonic: until then its requests may wait for a quota
    unsettled: bool = True  # batches without an answer may have reached the target
    recovering: bool = False  # a recovery job works on the flow
    leaving: bool = False  # revoked or draining: nothing new is sent
    changed: bool = True
    reported: State | None = None  # its state in the last report
    on_the_way: OnTheWay | None = None  # None if records are not transformed
    wants: tuple[OutletWanted, ...] = ()  # missing outlets that the flow waits for
    treatment: Treatment | None = None
    waits: str | None = None  # the reason to show if its transform takes long
    unprepared: bool = False  # its treatment has to prepare before it continues
    subject: str = field(init=False)  # for errors

    def __post_init__(self) -> None:
        self.subject = f"{self.assignment.link} {self.assignment.source_partition}"

    @classmethod
    def of(cls, assignment: Assignment) -> Flow:
        outlets = [OutletState.of(spec) for spec in assignment.outlets]
        if assignment.preserve is not None:
            outlets[0].gaps = Gaps(assignment.preserve)
        for outlet in outlets:
            outlet.as_is_bytes = assignment.max_message_bytes
            if assignment.compression is not None:
                outlet.compression = assignment.compression
                outlet.as_is_codecs = assignment.compression.as_is_codecs
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
        """The leader epoch that the source's leader compares with its log: the epoch of the batch
        before `position`. If the leader's log has no entry for that epoch, it is the next lower
        epoch in the log. Another leader's log may have the entry, and its lower epoch may end
        before our position."""
        lacks = self.lacks
        return lacks.before if lacks and lacks.epoch == self.leader_epoch else self.leader_epoch

    @property
    def pending_bytes(self) -> int:
        # Each request looks at this for each of its flows, so it makes no generator.
        total = self.on_the_way.size if self.on_the_way else 0
        for outlet in self.outlets:
            total += outlet.pending_bytes
            if outlet.gaps is not None:
                total += outlet.gaps.size
        return total

    @property
    def gaps(self) -> Gaps | None:
        """The gaps of its outlet; None if the flow does not keep offsets."""
        return self.outlets[0].gaps

    @property
    def doubtful(self) -> bool:
        """Whether a request that was given up before the last recovery may still take an offset."""
        return self.gaps is not None and self.gaps.doubtful

    @property
    def follows_others(self) -> bool:
        """Whether batches of earlier claims may still arrive at the next offsets. They have other
        producer ids, so our sequences do not make the broker refuse them."""
        outlet, gaps = self.outlets[0], self.gaps
        return (
            gaps is not None
            and gaps.doubtful
            and bool(outlet.spec.earlier)
            and not outlet.sequence
            and outlet.end > gaps.settings.begin
        )

    def put_runs(self, batches: Sequence[Batch], through: int) -> list[OutletState]:
        """For a flow that keeps offsets: puts `batches`, its series below source offset `through`,
        into the outlet. Returns the outlet if it has something to send. Raises the errors of
        `dense_runs`."""
        (outlet,) = self.outlets
        outlet.put_runs(dense_runs(batches, self.through, through))
        return [outlet] if outlet.pending else []

    @property
    def all_sent(self) -> bool:
        """Whether no batch waits in an outlet, and each sent batch has its response."""
        return all(outlet.idle for outlet in self.outlets)

    @property
    def idle(self) -> bool:
        """Whether no fetched batch waits to be sent, and each sent batch has its response."""
        return self.all_sent and (self.on_the_way is None or self.on_the_way.idle)

    @property
    def keeps_running(self) -> bool:
        """Whether it has been running since its last report, which may then be a while ago."""
        return self.state is State.RUNNING is self.reported

    @property
    def unanswered(self) -> int:
        return sum(outlet.unanswered for outlet in self.outlets)

    def leave(self) -> None:
        """Sends nothing from now on, not even the waiting batches. For transformed records see
        Relay.let_go."""
        self.settle()
        self.leaving = True

    def note_ends(self, source_end: int, high_watermark: int) -> None:
        self.changed |= (source_end, high_watermark) != (self.source_end, self.high_watermark)
        self.source_end, self.high_watermark = source_end, high_watermark

    def look_at_wait(self) -> None:
        """Notes for the next report whether the flow waits for its transform."""
        running = self.state is State.RUNNING and self.on_the_way is not None
        waits = self.on_the_way.waits(time.time()) if running and self.on_the_way else None
        self.changed |= waits != self.waits
        self.waits = waits

    def settle(self) -> None:
        """Moves the pairs of a running flow's idle outlets up to `through`. The records between
        were dropped, so the pairs stay true, and recovery has less to read.

        Pairs do not move if requests were given up without a response. They do not move either if
        the flow leaves and has no transform: its outlets are idle because their batches were
        dropped.
        """
        if self.state is not State.RUNNING or self.unsettled:
            return
        if self.leaving and self.on_the_way is None:
            return
        if self.gaps is not None:  # its pair is at the target's end; filled gaps move it on
            if self.idle:
                self.relayed_epoch = self.leader_epoch
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
            # Recovery relies on this: no pair lies after a batch of a later epoch.
            self.relayed_epoch = max(self.relayed_epoch, self.leader_epoch)

    def _first_unmirrored(self, position: int) -> int:
        if position < self.source_end:
            return self.waiting.first(position)
        self.waiting.clear()  # the next record may be much later than the last record
        return UNKNOWN

    def report(self, *, final: bool = False) -> FlowReport:
        self.settle()
        self.changed, self.reported = False, self.state
        assignment = self.assignment
        position = min(outlet.pair.source for outlet in self.outlets)
        return FlowReport(
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
            traces=tuple(outlet.trace() for outlet in self.outlets),
            wants=self.wants,
            transformed=self.on_the_way.counts if self.on_the_way else None,
            filled=None if self.gaps is None else self.gaps.filled,
            ages=self.ages.take(),
            latencies=self.latencies.take(),
            records=self.records,
            bytes=self.bytes,
            recoveries=self.recoveries,
            loss=self.loss,
            final=final,
            settled=final
            and not self.unsettled
            and not self.doubtful
            and not self.unanswered
            and time.monotonic() >= self.late_by,
            throttled_s=max(0.0, self.throttled_until - time.monotonic()),
        )
