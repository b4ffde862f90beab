"""The state of each partition: its progress record, and its figures for the status."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from causeway.control import Held, MirroredTopic, Transform, claim_checks, open_transactions
from causeway.daemon.lanes import ReportedPartition
from causeway.daemon.partitions.tally import Recent, with_more
from causeway.link_topics import (
    Entry,
    Filled,
    Maps,
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    Transformed,
    offset_maps_of,
)
from causeway.model import ENDED, HELD, Dated, Loss, State, TopicPartition, age_ms
from causeway.relay import FlowReport, OutletWanted
from causeway.status import PartitionStatus, Preserving, lag

# These states are short; the next start does not need them.
NOT_WRITTEN = frozenset({State.WAITING, State.RECOVERING})
_LATE_S = 2.0  # a report may be later than its lane says by this time
AT_REST = frozenset({State.STOPPED, State.DONE})  # such partitions do not continue by themselves


@dataclass(slots=True)
class _Hold:
    """The source's last stable offset has been `stable` since `since` (monotonic), with records
    behind it. `reason`: None until the task `open transactions` knows it."""

    stable: int
    since: float
    reason: str | None = None


@dataclass(slots=True)
class Row:
    topic: MirroredTopic
    progress: PartitionProgress
    first: int
    stop_at: int | None = None
    transform: Transform | None = None
    transformed: Transformed | None = None
    wants: tuple[OutletWanted, ...] = ()  # the outlets that its transform waits for
    lack: str | None = None  # why these outlets are not possible yet
    passing: bool = False  # the next look takes it up again behind its loss
    begun: bool = False  # claimed just now: no record can be in flight
    lane: int | None = None
    placed: bool = False  # a lane has recovered it in this term: its topics are the same
    dirty: bool = False
    failed_at: float | None = None  # since when it has been FAILED (monotonic)
    failures: int = 0  # how often it became FAILED
    recoveries: int = 0
    records: int = 0
    bytes: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    heard_at: float = 0.0
    round_s: float = 0.0  # the time after which its lane reports it again if it moves
    high_watermark: int = -1
    hold: _Hold | None = None
    maps: Maps = field(default_factory=dict)
    rewinds_written: int = 0  # rewinds of the maps that the progress topic contains
    filled: Filled | None = None
    filling: tuple[float, int] | None = None  # since (monotonic) and from which offset on
    newest: tuple[int, int] | None = None  # source and target offset of a record on both sides
    ages: Recent | None = None  # ms
    latencies: Recent | None = None

    @classmethod
    def stopped(
        cls, topic: MirroredTopic, before: PartitionProgress, reason: str, loss: Loss | None = None
    ) -> Row:
        """Returns the row of a partition that stops before a lane has it."""
        after = claim_checks.stopped(before, reason, loss)
        return cls(topic=topic, progress=after, first=after.position, dirty=True)

    def take_report(self, reported: ReportedPartition) -> None:
        report, before = reported.report, self.progress
        if _producers(report.outlets) != _producers(before.outlets):
            return  # the report is about a claim that another leader has replaced
        # Stopped and held rows keep their state, even if their lane reports another one.
        kept = before.state is State.STOPPED and report.state is not State.STOPPED
        kept |= before.state in HELD and report.state not in AT_REST
        kept |= before.state in ENDED
        self.wants = report.wants
        if self.wants and self.lack is not None:
            report = report.replace(state=State.FAILED, reason=self.lack)
        self.progress = before.replace(
            leader_epoch=report.leader_epoch,
            # Only a lane that has recovered may report an earlier position than before: the target
            # can lose acknowledged records, and then they are sent again.
            position=report.position
            if report.state in (State.RUNNING, State.DONE)
            else max(report.position, before.position),
            outlets=report.outlets,
            state=before.state if kept else report.state,
            reason=before.reason if kept else report.reason,
            loss=before.loss if kept else report.loss,
            source_end=report.source_end if report.source_end >= 0 else before.source_end,
            last_timestamp=_newest(report.last_timestamp, before.last_timestamp),
            dated=before.dated
            if report.first_unmirrored < 0
            else Dated(max(report.position, before.offsets_from), report.first_unmirrored),
        )
        if self.progress.state not in NOT_WRITTEN and self.progress != before:
            self.dirty = True
        self.placed |= self.progress.state in (State.RUNNING, State.DONE)
        self._note_failure()
        self.lane = None if kept else reported.lane
        self.records, self.bytes = reported.records, reported.bytes
        self.recoveries, self.transformed = reported.recoveries, reported.transformed
        self.records_per_s, self.bytes_per_s = reported.records_per_s, reported.bytes_per_s
        self.heard_at, self.round_s = time.monotonic(), reported.round_s
        self._note_offsets(report)
        self.filled = reported.filled
        if not self.progress.begins:
            self.filling = None
        elif self.filling is None:
            self.filling = self.heard_at, report.position
        self.high_watermark = report.high_watermark
        if report.high_watermark <= report.source_end:
            self.hold = None
        elif self.hold is None or self.hold.stable != report.source_end:
            self.hold = _Hold(report.source_end, self.heard_at)
        self.ages = with_more(self.ages, report.ages, self.heard_at)
        self.latencies = with_more(self.latencies, report.latencies, self.heard_at)

    def _preserving(self) -> Preserving | None:
        per_s = None
        if self.filling is not None and self.heard_at > self.filling[0]:
            since, first = self.filling
            per_s = (self.progress.position - first) / (self.heard_at - since)
        return Preserving.of(self.progress, per_s=per_s, filled=self.filled)

    def _note_offsets(self, report: FlowReport) -> None:
        if report.traces:
            self.newest = report.traces[0].newest or self.newest
        if self.progress.preserves:
            for outlet in report.outlets:
                if (known := self.maps.get(outlet.at)) is not None:
                    known.reach(outlet.pair)
            return
        # Partitions that go by key have no maps.
        for outlet, trace in zip(report.outlets, report.traces, strict=False):
            if (known := self.maps.get(outlet.at)) is None:
                continue
            if trace.resumed is not None:
                known.rewind(trace.resumed)
            for point in trace.breaks:
                known.add(point)
            known.reach(outlet.pair)

    def held(self, now: float) -> Held | None:
        """Returns the records that an open transaction holds back, after HELD_MS; None before."""
        since_ms = self._held_ms(now)
        if self.hold is None or since_ms < open_transactions.HELD_MS:
            return None
        return Held(self.hold.stable, self.high_watermark, since_ms)

    def _held_ms(self, now: float) -> int:
        hold = self.hold  # reports may replace it meanwhile
        if hold is None or self.progress.state is not State.RUNNING:
            return 0  # the lane's last report is out of date
        return round(1000 * (now - hold.since))

    @property
    def is_mapped(self) -> bool:
        return self.progress.is_mapped

    def grow(self, progress: PartitionProgress) -> list[Entry]:
        """Applies `progress`, which has more outlets. Returns the records to write before a lane
        uses the new outlets."""
        known = offset_maps_of(progress, {}, since=self._since())
        self.progress = progress
        new = known.keys() - self.maps.keys()
        self.maps = {**known, **self.maps}
        # A partition can have so many outlets that all maps are too much for each new outlet.
        rewound = self.rewinds != self.rewinds_written
        return [progress, *(each for each in self.map_records() if rewound or each.to in new)]

    def _since(self) -> int | None:
        """Returns the source offset from which on this claim has sent all records; None if
        unknown."""
        first = self.maps.get(self.progress.outlets[0].at)
        if first is None or not first.points:
            return None
        return first.points[0].source if first.since is None else first.since

    @property
    def rewinds(self) -> int:
        """The number of rewinds of all its offset maps."""
        return sum(known.rewinds for known in self.maps.values())

    def map_records(self, *, changed: bool = False) -> list[OffsetMapRecord]:
        """Returns the records of all offset maps, or of those that changed since the last write. If
        offsets are preserved, there is nothing to write."""
        if self.progress.preserves:
            return []
        return [
            OffsetMapRecord(
                topic=self.progress.topic,
                partition=self.progress.partition,
                producer_id=outlet.producer_id,
                points=tuple(known.points),
                to=outlet.at if index else None,
                since=known.since,
            )
            for index, outlet in enumerate(self.progress.outlets)
            if (known := self.maps.get(outlet.at)) is not None and (known.changed or not changed)
        ]

    def pass_over(self) -> None:
        """The partition passes over its loss without an acknowledgement."""
        self.passing = True
        self.progress = self.progress.replace(state=State.RECOVERING)

    def wait(self) -> None:
        """Notes that its lane is gone. Another lane gets it soon."""
        if self.progress.state not in AT_REST | HELD:
            self.progress = self.progress.replace(state=State.WAITING, reason=None)
        self.lane = None
        self.records_per_s = self.bytes_per_s = 0.0

    def finish(self) -> None:
        """Ends it, because everything that a bounded run wants is mirrored already."""
        self.placed = True
        self.progress = self.progress.replace(state=State.DONE, reason=None)

    def put_on_hold(self, state: State, reason: str) -> None:
        """Puts it on hold by a directive. `state` is one of HELD."""
        if state in ENDED and self.progress.state is State.STOPPED:
            reason = f"{reason}; it had stopped: {self.progress.reason}"
        self.progress = self.progress.replace(state=state, reason=reason)
        self.lane, self.wants, self.lack = None, (), None
        self.dirty = True
        self.records_per_s = self.bytes_per_s = 0.0
        self._note_failure()

    @property
    def is_undated(self) -> bool:
        """Whether it lags and no lane knows the time of the first record that is not mirrored."""
        progress = self.progress
        return (
            0 <= progress.mirrored_to < progress.source_end
            and progress.first_unmirrored < 0
            and progress.state not in NOT_WRITTEN | ENDED
        )

    @property
    def is_unwatched(self) -> bool:
        """Whether it has stopped or failed. Then no lane reads its end, which may grow."""
        return self.progress.state in (State.STOPPED, State.FAILED) and self.progress.gone_at < 0

    def note_end(self, end: int, high_watermark: int) -> None:
        """Notes the source's answer, unless a lane mirrors the partition and knows a newer end."""
        if self.progress.state not in HELD and not self.is_unwatched:
            return
        # A failover takes the number of missing records from the progress topic.
        self.dirty |= self.is_unwatched and end != self.progress.source_end
        self.progress = self.progress.replace(source_end=end)
        self.high_watermark = high_watermark

    def date(self, dated: Dated) -> None:
        """Notes the source's answer, unless the position has moved meanwhile."""
        if dated.offset == self.progress.mirrored_to and self.is_undated:
            self.progress = self.progress.replace(dated=dated)
            self.dirty = True

    def resume(self) -> None:
        self.progress = self.progress.replace(state=State.WAITING, reason=None)
        self.dirty = True  # otherwise its record would stay PAUSED until a lane has it

    def note_lack(self, reason: str) -> None:
        """Notes why the outlets of its transform are not possible yet."""
        self.lack = reason
        self.progress = self.progress.replace(state=State.FAILED, reason=reason)
        self.dirty = True
        self._note_failure()

    def claim(self, progress: PartitionProgress) -> None:
        """Applies `progress`, a durable claim with more or changed outlets. No lane may have the
        partition."""
        self.grow(progress)
        self.wants, self.lack = (), None
        self._note_failure()

    def stop(self, progress: PartitionProgress) -> None:
        """Stops it by the driver's decision. `progress` contains the reason."""
        self.progress = progress
        self.lane, self.wants = None, ()
        self.dirty = True
        self.records_per_s = self.bytes_per_s = 0.0

    def _note_failure(self) -> None:
        if self.progress.state is not State.FAILED:
            self.failed_at = None
        elif self.failed_at is None:
            self.failed_at = time.monotonic()
            self.failures += 1

    def is_settled(self, now: float, for_good_s: float) -> bool:
        """Returns whether a bounded run need not wait for it: it is done, stopped or held, or has
        failed for `for_good_s`."""
        if self.progress.state in AT_REST | HELD:
            return True
        return self.failed_at is not None and now - self.failed_at > for_good_s

    def status(self, now: float, now_ms: int, silent_since: int | None = None) -> PartitionStatus:
        """Returns its status at `now` (monotonic), which is `now_ms`. `silent_since`: when the
        source last answered (ms); None if it answers. 100,000 rows take 0.3 to 0.6 s of CPU."""
        # A lane does not report unchanged partitions: if no report comes, no record moves.
        still = now - self.heard_at > self.round_s + _LATE_S
        progress, hold = self.progress, self.hold
        held_ms = self._held_ms(now)
        left = lag.lag_records(progress.source_end, progress.mirrored_to)
        preserving = self._preserving()
        if progress.state in ENDED:
            silent_since = None  # no record is missing
        # A bounded run without records to copy never asked for the source's end.
        behind = 0 if progress.state is State.DONE and left is None else left
        return PartitionStatus(
            topic=progress.topic,
            partition=progress.partition,
            target_topic=self.topic.target,
            state=progress.state,
            reason=progress.reason
            or (hold.reason if hold and held_ms else None)
            or claim_checks.note(progress)
            or (preserving.note if preserving else None),
            source_end=_known(progress.source_end),
            high_watermark=_known(self.high_watermark),
            mirrored_to=_known(progress.mirrored_to),
            lag_records=left,
            lag_ms=lag.lag_ms(behind, progress.first_unmirrored, now_ms, silent_since),
            lost=progress.lost,
            unacknowledged=claim_checks.unacknowledged(progress),
            transform=None if self.transform is None else self.transform.name,
            preserving=preserving,
            lane=self.lane,
            first=max(self.first, progress.offsets_from),
            stop_at=self.stop_at,
            newest_record_ms=_known(progress.last_timestamp),
            records=self.records,
            bytes=self.bytes,
            records_per_s=0.0 if still else self.records_per_s,
            bytes_per_s=0.0 if still else self.bytes_per_s,
            held_ms=held_ms,
            recoveries=self.recoveries,
            failures=self.failures,
            map_points=sum([len(known.points) for known in self.maps.values()]),
            ages=None if self.ages is None else self.ages.timing(now),
            latencies=None if self.latencies is None else self.latencies.timing(now),
            transformed=self.transformed,
            others=tuple(
                [
                    TopicPartition(outlet.topic, outlet.partition)
                    for outlet in progress.outlets
                    if outlet.routed is not None
                ]
            ),
        )


def _known(figure: int) -> int | None:
    return figure if figure >= 0 else None


def _producers(outlets: Sequence[Outlet]) -> list[int]:
    return [outlet.producer_id for outlet in outlets]


def _newest(reported: int, before: int) -> int:
    """Returns the newer time. Older versions also stored times that give no age: a new time
    replaces them in any case."""
    dated = age_ms(before, int(time.time() * 1000)) is not None
    return max(reported, before) if dated or reported < 0 else reported
