"""What the fleet knows of each lane and each partition, and which links hear of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from causeway.daemon import processes
from causeway.link_topics import Transformed, Value
from causeway.relay import Assignment, FlowReport, LaneConnection, StageWanted
from causeway.status import LaneStatus

_log = logging.getLogger("causeway.fleet")
Key = tuple[str, str, int]  # link, topic and partition of the source
_SMOOTHING = 0.3  # weight of a new rate in the average, per second
FLOOR = 20_000.0  # bytes/s: the weight of an idle partition
_STAGED = 2.0  # records of a stage pass their lane twice, to the stage and back


class ReportedPartition(Value):
    """A lane's report of one partition, with counts of the whole run and rates."""

    report: FlowReport
    lane: int
    records: int
    bytes: int
    records_per_s: float
    bytes_per_s: float
    recoveries: int
    transformed: Transformed | None = None


@dataclass(slots=True, eq=False)
class ConnectedLane:
    connection: LaneConnection
    number: int
    host: str
    pid: int
    process: str | None  # when it started, where it runs on this machine
    lease_from: float  # our clock, at the last echo
    partitions: set[Key] = field(default_factory=set)
    known_stages: set[str] = field(default_factory=set)  # their keys
    stages: Mapping[str, StageWanted] = field(default_factory=dict)  # by their keys
    closed: bool = False  # no longer connected: its partitions wait for `is_over`
    over: bool = False  # it sends nothing any more
    silent_s: float = 0.0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    crowded: frozenset[str] = frozenset()
    small_requests: frozenset[str] = frozenset()

    def note_crowded(self, brokers: Collection[str]) -> None:
        """`brokers`: those that accept fewer connections than wanted. Logs each new one."""
        for broker in sorted(set(brokers) - self.crowded):
            _log.warning(
                "broker takes no more connections of this machine: goes on with fewer "
                "(max.connections.per.ip?)",
                extra={"lane": self.number, "broker": broker},
            )
        self.crowded = frozenset(brokers)

    def note_small_requests(self, brokers: Collection[str]) -> None:
        """`brokers`: those that close connections after large requests, each with its limit.
        Logs each new one."""
        for broker in sorted(set(brokers) - self.small_requests):
            _log.warning(
                "broker closes connections after large requests: sends it smaller ones "
                "(socket.request.max.bytes? set producer.max.request.size of its cluster)",
                extra={"lane": self.number, "broker": broker},
            )
        self.small_requests = frozenset(brokers)

    def is_over(self, lease_s: float) -> bool:
        """Whether the lane, which is no longer connected, can send nothing any more."""
        return (
            self.over
            or not self.partitions
            or time.monotonic() > self.lease_from + lease_s
            or (self.process is not None and processes.is_gone(self.pid, self.process))
        )

    def be_silent(self, passed_s: float, most_s: float) -> None:
        """Notes `passed_s` more seconds without a report. After `most_s` in all, drops the
        connection and ends the process."""
        self.silent_s += passed_s
        if self.silent_s > most_s:
            _log.warning("lane fell silent", extra={"lane": self.number, "pid": self.pid})
            self.silent_s = 0.0
            self.connection.drop()
            if self.process is not None:
                processes.kill(self.pid, self.process)  # it occupies a slot of this machine

    def status(self, bytes_per_s: float) -> LaneStatus:
        return LaneStatus(
            lane=self.number,
            host=self.host,
            pid=self.pid,
            partitions=len(self.partitions),
            bytes_per_s=bytes_per_s,
            rss_bytes=self.rss_bytes,
            cpu_s=self.cpu_s,
        )


@dataclass(slots=True)
class Tracked:
    assignment: Assignment
    lane: ConnectedLane | None = None
    leaving: bool = False  # revoked; the fleet waits for the last report
    going_to: int | None = None  # the lane that it was revoked for
    removed: bool = False  # no lane gets it next
    held: bool = False  # no lane gets it before it is added again
    report: FlowReport | None = None
    reported_at: float = 0.0
    records: int = 0  # of lanes before this one
    bytes: int = 0
    recoveries: int = 0
    transformed: Transformed | None = None
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0

    @property
    def weight(self) -> float:
        weight = FLOOR + self.bytes_per_s
        return weight if self.assignment.transform is None else _STAGED * weight

    def take(self, report: FlowReport, now: float) -> None:
        """Keeps a report and updates the rates."""
        before, passed = self.report, now - self.reported_at
        self.report, self.reported_at = report, now
        if before is None or passed <= 0:
            return
        # A partition that did not change is not reported, so a long time may have passed.
        first = not self.records_per_s and not self.bytes_per_s
        share = 1.0 if first else 1 - (1 - _SMOOTHING) ** passed
        records, size = report.records - before.records, report.bytes - before.bytes
        self.records_per_s += share * (records / passed - self.records_per_s)
        self.bytes_per_s += share * (size / passed - self.bytes_per_s)

    def standing(self, report: FlowReport, lane: ConnectedLane) -> ReportedPartition:
        return ReportedPartition(
            report=report,
            lane=lane.number,
            records=self.records + report.records,
            bytes=self.bytes + report.bytes,
            records_per_s=self.records_per_s,
            bytes_per_s=self.bytes_per_s,
            recoveries=self.recoveries + report.recoveries,
            transformed=plus(self.transformed, report.transformed),
        )

    def settle(self) -> None:
        """Its lane has let go of it. The next lane continues from the last report."""
        self.lane, self.leaving = None, False
        if self.report is None:
            # The lane never reported: the driver does not know what the lane has sent.
            self.assignment = self.assignment.replace(settled=False)
            return
        self.records += self.report.records
        self.bytes += self.report.bytes
        self.recoveries += self.report.recoveries
        self.transformed = plus(self.transformed, self.report.transformed)
        self.assignment = _with_newest(self.assignment, self.report)
        self.report = None


def plus(one: Transformed | None, other: Transformed | None) -> Transformed | None:
    """The sum of both counts."""
    return one or other if one is None or other is None else one.plus(other)


def _with_newest(assignment: Assignment, report: FlowReport) -> Assignment:
    """`assignment` with the pairs of `report`, unless it has been claimed again since."""
    before = [outlet.producer_id for outlet in assignment.outlets]
    if [outlet.producer_id for outlet in report.outlets] != before:
        return assignment
    return assignment.replace(
        outlets=report.outlets,
        leader_epoch=report.leader_epoch,
        settled=report.settled,
        throttled_s=report.throttled_s,
    )


Sink = Callable[[Sequence[ReportedPartition]], None]
OnWaiting = Callable[[Collection[Key]], None]


class Sinks:
    """The listeners of each link. Not thread-safe."""

    def __init__(self) -> None:
        self._sinks: dict[str, tuple[Sink, OnWaiting]] = {}

    def attach(self, link: str, sink: Sink, on_waiting: OnWaiting) -> None:
        self._sinks[link] = (sink, on_waiting)

    def tell(self, standings: Sequence[ReportedPartition], lost: Collection[Key]) -> None:
        """Informs each link about its own partitions. Drops reports of links without a listener."""
        by_link: dict[str, list[ReportedPartition]] = {}
        for standing in standings:
            by_link.setdefault(standing.report.link, []).append(standing)
        waiting: dict[str, list[Key]] = {}
        for key in lost:
            waiting.setdefault(key[0], []).append(key)
        for link, heard in by_link.items():
            if link in self._sinks:
                self._sinks[link][0](heard)
        for link, keys in waiting.items():
            if link in self._sinks:
                self._sinks[link][1](keys)
