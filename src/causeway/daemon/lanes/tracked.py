"""The known facts about each lane and each partition, and questions to lanes."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from msgspec import structs

from causeway.config import ClientSettings, RunSettings, to_wire
from causeway.daemon import processes
from causeway.errors import CausewayError
from causeway.link_topics import Filled, Transformed, Value
from causeway.relay import (
    Assignment,
    Clusters,
    FlowReport,
    LaneConnection,
    LaneReport,
    LookedUp,
    Lookup,
    Renewed,
    Sought,
    StageWanted,
    TreatmentStep,
)
from causeway.status import LaneStatus

_log = logging.getLogger("causeway.fleet")
C = TypeVar("C", Transformed, Filled)
Key = tuple[str, str, int]  # link, topic and partition of the source
_CROWDED = (  # the broker accepts fewer connections than the lane wants
    "broker takes no more connections of this machine: goes on with fewer (max.connections.per.ip?)"
)
_SMALL_REQUESTS = (
    "broker closes connections after large requests: sends it smaller ones "
    "(socket.request.max.bytes? set producer.max.request.size of its cluster)"
)
REPORT_INTERVAL_S = 1.0  # a quarter of the lease if that is shorter
_BUFFER_BYTES = 64 << 20  # of a lane
_FAR_BUFFER_BYTES = 256 << 20  # of a lane whose source is far away
_SMOOTHING = 0.3  # weight of a new rate in the average, per second
FLOOR = 20_000.0  # bytes/s: the weight of an idle partition
_STAGED = 2.0  # the records of a stage pass their lane twice: to the stage and back


def first_message(
    run: RunSettings,
    clusters: Mapping[str, ClientSettings],
    treatments: Mapping[str, tuple[TreatmentStep, ...]],
) -> Clusters:
    """Returns the first message to a lane."""
    return Clusters(
        clusters={key: to_wire(settings) for key, settings in clusters.items()},
        lease_s=run.lease_s,
        report_interval_s=min(REPORT_INTERVAL_S, run.lease_s / 4),
        connections=run.connections,
        in_flight=run.in_flight,
        buffer_bytes=run.lane_buffer_bytes or _BUFFER_BYTES,
        far_buffer_bytes=run.lane_buffer_bytes or _FAR_BUFFER_BYTES,
        treatments=treatments,
    )


def renewed(
    before: Clusters,
    changed: Mapping[str, ClientSettings],
    treatments: Mapping[str, tuple[TreatmentStep, ...]] | None,
    gone: Collection[str],
) -> tuple[Clusters, Renewed]:
    """Returns the new first message to a lane, and the message for the lanes that got `before`."""
    news = {key: to_wire(settings) for key, settings in changed.items()}
    known = {**before.clusters, **news}
    after = structs.replace(
        before,
        clusters={key: each for key, each in known.items() if key not in gone},
        treatments=before.treatments if treatments is None else treatments,
    )
    return after, Renewed(clusters=news, treatments=treatments, gone=tuple(gone))


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
    filled: Filled | None = None
    round_s: float = 0.0  # of the lane's reports


@dataclass(slots=True, eq=False)
class ConnectedLane:
    connection: LaneConnection
    number: int
    host: str
    pid: int
    process: str | None  # when it started, if it runs on this machine
    lease_from: float  # our clock, at the last echo
    partitions: set[Key] = field(default_factory=set)
    known_stages: set[str] = field(default_factory=set)  # their keys
    stages: Mapping[str, StageWanted] = field(default_factory=dict)  # by their keys
    closed: bool = False  # no longer connected: its partitions wait for `is_over`
    over: bool = False  # it sends nothing any more
    silent_s: float = 0.0
    round_s: float = 0.0  # in this time it reports each partition that moves
    rss_bytes: int = 0
    cpu_s: float = 0.0
    crowded: frozenset[str] = frozenset()
    small_requests: frozenset[str] = frozenset()

    def note(self, report: LaneReport) -> None:
        """Keeps the figures of the lane itself. Logs each broker for which the lane has
        newly reduced its connections or requests."""
        self.silent_s = 0.0
        self.rss_bytes, self.cpu_s = report.rss_bytes, report.cpu_s
        self.stages = {stage.key: stage for stage in report.stages}
        self.round_s = report.round_s
        for brokers, known, text in (
            (report.crowded, self.crowded, _CROWDED),
            (report.small_requests, self.small_requests, _SMALL_REQUESTS),
        ):
            for broker in sorted(set(brokers) - known):
                _log.warning(text, extra={"lane": self.number, "broker": broker})
        self.crowded = frozenset(report.crowded)
        self.small_requests = frozenset(report.small_requests)

    def is_over(self, lease_s: float) -> bool:
        """Returns whether this lane, which is no longer connected, can send nothing any more."""
        return (
            self.over
            or not self.partitions
            or time.monotonic() > self.lease_from + lease_s
            or (self.process is not None and processes.is_gone(self.pid, self.process))
        )

    def be_silent(self, passed_s: float, most_s: float) -> None:
        """Adds `passed_s` seconds without a report. After `most_s` in all, drops the connection and
        ends the process."""
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
    records: int = 0  # that earlier lanes relayed
    bytes: int = 0
    recoveries: int = 0
    transformed: Transformed | None = None
    filled: Filled | None = None
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

    def reported(self, report: FlowReport, lane: ConnectedLane) -> ReportedPartition:
        return ReportedPartition(
            report=report,
            lane=lane.number,
            records=self.records + report.records,
            bytes=self.bytes + report.bytes,
            records_per_s=self.records_per_s,
            bytes_per_s=self.bytes_per_s,
            recoveries=self.recoveries + report.recoveries,
            transformed=plus(self.transformed, report.transformed),
            filled=plus(self.filled, report.filled),
            round_s=lane.round_s,
        )

    def settle(self) -> None:
        """Its lane has released it. The next lane continues from the last report."""
        self.lane, self.leaving = None, False
        if self.report is None:
            # The lane never reported: the driver does not know what the lane has sent.
            self.assignment = self.assignment.replace(settled=False)
            return
        self.records += self.report.records
        self.bytes += self.report.bytes
        self.recoveries += self.report.recoveries
        self.transformed = plus(self.transformed, self.report.transformed)
        self.filled = plus(self.filled, self.report.filled)
        self.assignment = _with_newest(self.assignment, self.report)
        self.report = None


def plus(one: C | None, other: C | None) -> C | None:
    """Returns the sum of both counts."""
    return one or other if one is None or other is None else one.plus(other)


def _with_newest(assignment: Assignment, report: FlowReport) -> Assignment:
    """Returns `assignment` with the pairs of `report`, unless there is a new claim since then."""
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


class Listeners:
    """The links that get reports of their own partitions, see Fleet.attach. Not thread-safe."""

    def __init__(self) -> None:
        self._by_link: dict[str, tuple[Sink, OnWaiting]] = {}

    def __contains__(self, link: str) -> bool:
        return link in self._by_link

    def attach(self, link: str, sink: Sink, on_waiting: OnWaiting) -> None:
        self._by_link[link] = sink, on_waiting

    def detach(self, link: str) -> None:
        self._by_link.pop(link, None)

    def tell(self, reported: Iterable[ReportedPartition], lost: Iterable[Key]) -> None:
        news = defaultdict[str, tuple[list[ReportedPartition], list[Key]]](lambda: ([], []))
        for each in reported:
            news[each.report.link][0].append(each)
        for key in lost:
            news[key[0]][1].append(key)
        for link in news.keys() & self._by_link.keys():
            (sink, on_waiting), (reports, waiting) = self._by_link[link], news[link]
            if reports:
                sink(reports)
            if waiting:
                on_waiting(waiting)


LOOKUP_S = 300.0

_Answer = dict[int, int] | CausewayError


class LaneLookups:
    """Asks lanes for target offsets of transformed partitions: only a lane can compute such a
    series again, through its stage. An answer may take a while. Late answers are dropped.

    Thread-safe. `connect` returns the lane that has a partition; None if no lane has it."""

    def __init__(self, connect: Callable[[Key], LaneConnection | None]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._ids = count(1)
        self._asked: dict[int, tuple[LaneConnection, Future[_Answer]]] = {}

    def find(self, key: Key, sought: Sought, patience_s: float = LOOKUP_S) -> dict[int, int]:
        """See relay.offset_lookup.find. Waits for the answer. Raises CausewayError."""
        connection = self._connect(key)
        if connection is None:
            raise _error("no lane has the partition now", sought.source)
        future: Future[_Answer] = Future()
        with self._lock:
            number = next(self._ids)
            self._asked[number] = connection, future
        if self._connect(key) is not connection:
            # `lost` may have been called right before this question.
            self._settle(number, _error("its lane has ended", sought.source))
        connection.send(
            Lookup(
                id=number,
                key=key,
                producer_id=sought.producer_id,
                start=sought.span.start,
                end=sought.span.end,
                offsets=tuple(sought.offsets),
                floor=sought.floor,
                patience_s=patience_s,
            )
        )
        try:
            answer = future.result(patience_s)
        except NotInTimeError:
            answer = _error("its lane did not answer in time", sought.source)
        finally:
            with self._lock:
                self._asked.pop(number, None)
        if isinstance(answer, CausewayError):
            raise answer
        return answer

    def take(self, message: LookedUp) -> None:
        """Takes a lane's answer."""
        self._settle(
            message.id,
            dict(message.places) if message.reason is None else _error(message.reason),
        )

    def lost(self, connection: LaneConnection) -> None:
        """Fails the questions to a lane that has ended."""
        with self._lock:
            gone = [number for number, (lane, _) in self._asked.items() if lane is connection]
        for number in gone:
            self._settle(number, _error("its lane has ended"))

    def _settle(self, number: int, answer: _Answer) -> None:
        with self._lock:
            _, future = self._asked.pop(number, (None, None))
        if future is not None:
            future.set_result(answer)


def _error(cause: str, place: object = "the source") -> CausewayError:
    return CausewayError("look up offsets in", str(place), cause, retriable=True)
