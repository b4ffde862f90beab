"""The lanes of this process, and which of them relays which partition.

A partition belongs to one lane at a time. The next lane gets it only after the earlier lane has
reported its end (`final`, Drained), is known to be dead, or has lost its lease by our clock:

    lane    report at its time t ────────────► sends nothing after t + lease
    driver          └► echo of t, at our time u ≥ t: nothing comes after u + lease

Even if this failed, the sequences would protect the target's log: a mistake would only cost both
lanes a recovery.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from causeway.config import ClientSettings, RunSettings
from causeway.daemon import processes
from causeway.daemon.lanes import placing
from causeway.daemon.lanes.placing import RESPLIT_S, Gathering, Rebalancing, StageHomes, Throttling
from causeway.daemon.lanes.tracked import (
    REPORT_INTERVAL_S,
    ConnectedLane,
    Key,
    LaneLookups,
    Listeners,
    OnWaiting,
    ReportedPartition,
    Sink,
    Tracked,
    first_message,
    renewed,
)
from causeway.relay import (
    Assignment,
    Drain,
    Drained,
    LaneConnection,
    LaneReport,
    Lease,
    LookedUp,
    Revoke,
    StageEnded,
    StageSpec,
    StageWanted,
    ToDriver,
    TreatmentStep,
)
from causeway.status import LaneStatus

_log = logging.getLogger("causeway.fleet")
MARGIN = 1.02  # times the lease: the clocks of two machines may differ in speed


class Fleet:
    """Thread-safe. `on_hello`, `on_message`, `on_closed` are the control server's callbacks."""

    def __init__(
        self,
        run: RunSettings,
        clusters: Mapping[str, ClientSettings],
        *,
        local: bool,
        treatments: Mapping[str, tuple[TreatmentStep, ...]] = MappingProxyType({}),
    ) -> None:
        self._run = run
        self._clusters = first_message(run, clusters, treatments)
        self._local = local
        self.lookups = LaneLookups(self._connection_of)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._tracked: dict[Key, Tracked] = {}
        self._waiting: dict[Key, None] = {}
        self._lanes: dict[LaneConnection, ConnectedLane] = {}
        self._listeners = Listeners()
        self._throttling = Throttling()
        self._homes = StageHomes()
        self._gathering = Gathering()
        self._rebalancing = Rebalancing()
        self._resplit_at = 0.0
        self._ticked_at = time.monotonic()
        self._draining = False
        self.trouble: str | None = None  # why the newest lane ended

    def attach(self, link: str, sink: Sink, on_waiting: OnWaiting) -> None:
        """`sink` gets all reports of the link's partitions, `on_waiting` those that lost their
        lane. Both are called with the fleet's lock held: they must be quick and not call back."""
        with self._lock:
            self._listeners.attach(link, sink, on_waiting)

    def detach(self, link: str) -> None:
        """Forgets the link and its limits, after the link has ended."""
        with self._lock:
            self._listeners.detach(link)
            self._limit(link, {})

    def add(self, assignments: Iterable[Assignment], *, held: bool = False) -> None:
        """Assigns partitions to lanes from now on; if `held`, only after they are added again."""
        with self._lock:
            self._rebalancing.note_change()
            for assignment in assignments:
                tracked = self._tracked.setdefault(assignment.key, Tracked(assignment=assignment))
                tracked.assignment, tracked.removed, tracked.held = assignment, False, held
                # If a lane still has it, the next lane gets it after that lane releases it.
                if tracked.lane is None and not held:
                    self._waiting[assignment.key] = None
            self._place()

    def limit(self, link: str, limits: Mapping[str | None, int]) -> None:
        """Sets the limits of `link` in bytes/s, by source topic; the key None has the limit of the
        whole link. Does nothing for a link that has ended."""
        with self._lock:
            if link in self._listeners:
                self._limit(link, limits)

    def _limit(self, link: str, limits: Mapping[str | None, int]) -> None:
        self._throttling.limit(link, limits)
        self._throttling.send_shares(self._usable(), self._tracked)

    def open(self, stages: Iterable[tuple[StageSpec, int]]) -> None:
        """Opens stages, each with its number of lanes. Their partitions wait until this is done."""
        with self._lock:
            for stage, lanes in stages:
                self._homes.open(stage, lanes)
            self._place()

    def remove(self, keys: Collection[Key], timeout_s: float) -> bool:
        """Removes partitions. Returns once no lane has any of them and `sink` has their last
        reports. Returns False if that takes longer than `timeout_s`. Even then it happens later, at
        the latest when the lease of their lane has expired."""
        with self._lock:
            for key in keys:
                if (tracked := self._tracked.get(key)) is not None:
                    tracked.removed = True
                    if tracked.lane is None:
                        self._forget(key)
            return self._revoke(keys, timeout_s)

    def recall(self, keys: Collection[Key], timeout_s: float) -> dict[Key, bool]:
        """Takes partitions from their lanes until they are added again. Unlike after `remove`,
        their counts go on. Returns the partitions that no lane has any more, each with whether its
        lane had no unanswered batch."""
        with self._lock:
            for key in keys:
                if (tracked := self._tracked.get(key)) is not None:
                    tracked.held, tracked.going_to = True, None
                    self._waiting.pop(key, None)
            self._revoke(keys, timeout_s)
            free = self._tracked.keys() & set(keys) - self.on_lanes(keys)
            return {key: self._tracked[key].assignment.settled for key in free}

    def on_lanes(self, keys: Collection[Key]) -> set[Key]:
        """Returns those of `keys` that a lane still has."""
        with self._lock:
            known = ((key, self._tracked.get(key)) for key in keys)
            return {key for key, each in known if each is not None and each.lane is not None}

    def tell(self, ended: StageEnded) -> None:
        """Tells the lane of a stage that the stage has ended."""
        with self._lock:
            for lane in self._lanes.values():
                if ended.key in lane.stages:
                    lane.connection.send(ended)

    def renew(
        self,
        changed: Mapping[str, ClientSettings],
        treatments: Mapping[str, tuple[TreatmentStep, ...]] | None = None,
        gone: Collection[str] = (),
    ) -> None:
        """Gives lanes new settings of clusters (certificates, passwords, new clusters) by key, and
        new `treatments` by link. No partition uses the clusters with the keys `gone` any more."""
        with self._lock:
            self._clusters, message = renewed(self._clusters, changed, treatments, gone)
            for lane in self._working():
                lane.connection.send(message)

    def expect(self, lanes: int) -> None:
        """Sets the number of launched lanes: partitions wait a moment for all of them."""
        self._gathering.expected = lanes

    def on_hello(self, connection: LaneConnection) -> None:
        hello = connection.hello
        assert hello is not None
        here = self._local and hello.host == socket.gethostname()
        with self._lock:
            self._lanes[connection] = ConnectedLane(
                connection=connection,
                number=hello.lane,
                host=hello.host,
                pid=hello.pid,
                process=processes.started_at(hello.pid) if here else None,
                lease_from=time.monotonic(),
            )
            self.trouble = None
            connection.send(self._clusters)
            self._throttling.send_shares(self._usable(), self._tracked)
            if self._draining:
                connection.send(Drain())
            self._place()
            self._rebalancing.soon(time.monotonic() + REPORT_INTERVAL_S)

    def on_message(self, connection: LaneConnection, message: ToDriver) -> None:
        with self._lock:
            lane = self._lanes.get(connection)
            if lane is None or lane.closed:
                return
            lost, reported = list[Key](), list[ReportedPartition]()
            if isinstance(message, LaneReport):
                lane.lease_from = time.monotonic()
                lane.note(message)
                connection.send(Lease(lane_time=message.lane_time))
                now = time.monotonic()
                if message.partitions:
                    self._rebalancing.note_change()
                for report in message.partitions:
                    tracked = self._tracked.get(report.key)
                    if tracked is None or tracked.lane is not lane:
                        continue
                    tracked.take(report, now)
                    reported.append(tracked.reported(report, lane))
                    if report.final:
                        lane.partitions.discard(report.key)
                        self._loosen(report.key)
            elif isinstance(message, LookedUp):
                self.lookups.take(message)
            elif isinstance(message, Drained):
                lane.over = True
                lost = self._release(lane)
            self._listeners.tell(reported, lost)
            self._place()
            self._changed.notify_all()

    def on_closed(self, connection: LaneConnection) -> None:
        with self._lock:
            lane = self._lanes[connection]
            lane.closed = True
            self._rebalancing.note_change()
            self.lookups.lost(connection)
            lost = self._release(lane) if lane.is_over(self._run.lease_s * MARGIN) else []
            self._listeners.tell((), lost)
            self._gathering.begin()
            self._place()
            self._changed.notify_all()

    def on_lane_ended(self, number: int, reason: str, returned: bool) -> None:
        """Notes that a lane's job ended. If its function has `returned`, the lane sends no more."""
        with self._lock:
            if not self._draining:
                self.trouble = f"lane {number} ended: {reason}"
                _log.warning("lane ended", extra={"lane": number, "reason": reason})
            for lane in self._lanes.values():
                if lane.number == number and returned:
                    lane.over = True
                    self._rebalancing.note_change()

    def tick(self) -> None:
        """Call this several times a second."""
        lost: list[Key] = []
        with self._lock:
            now = time.monotonic()
            # After a pause of this process, the time without reports does not count.
            passed = min(now - self._ticked_at, 1.0)
            self._ticked_at = now
            for lane in list(self._lanes.values()):
                if lane.closed:
                    if lane.is_over(self._run.lease_s * MARGIN):
                        lost += self._release(lane)
                    continue
                lane.be_silent(passed, self._run.lease_s * MARGIN)
            self._listeners.tell((), lost)
            self._place()
            if now >= self._resplit_at:
                self._resplit_at = now + RESPLIT_S
                self._throttling.send_shares(self._usable(), self._tracked)
            if not self._draining:
                self._rebalancing.step(now, self._tracked, self._usable())
            self._changed.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Ends all lanes. Returns False if one has not reported its end within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._draining = True
            for connection in self._lanes:
                connection.send(Drain())
            while any(not lane.over for lane in self._lanes.values()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.1))
                self.tick()
        return True

    @property
    def partitions(self) -> int:
        return len(self._tracked)

    def _connection_of(self, key: Key) -> LaneConnection | None:
        with self._lock:
            lane = tracked.lane if (tracked := self._tracked.get(key)) is not None else None
            return None if lane is None or lane.closed else lane.connection

    @property
    def connected(self) -> int:
        """The number of connected lanes."""
        with self._lock:
            return sum(not lane.closed for lane in self._lanes.values())

    def lanes(self) -> tuple[LaneStatus, ...]:
        with self._lock:
            return tuple(
                lane.status(sum(self._tracked[key].bytes_per_s for key in lane.partitions))
                for lane in sorted(self._lanes.values(), key=lambda lane: lane.number)
                if not lane.closed
            )

    def stages(self) -> dict[str, StageWanted]:
        """Returns the stages that lanes want now, by their keys."""
        with self._lock:
            return {key: stage for lane in self._working() for key, stage in lane.stages.items()}

    def _revoke(self, keys: Collection[Key], timeout_s: float) -> bool:
        """Returns once no lane has any of `keys`. Returns False if that takes longer."""
        deadline = time.monotonic() + timeout_s
        by_lane = defaultdict[ConnectedLane, list[Key]](list)
        for key in keys:
            tracked = self._tracked.get(key)
            if tracked is not None and tracked.lane is not None and not tracked.leaving:
                tracked.leaving = True
                by_lane[tracked.lane].append(key)
        for lane, revoked in by_lane.items():
            lane.connection.send(Revoke(keys=tuple(revoked)))
        while any((t := self._tracked.get(key)) is not None and t.lane is not None for key in keys):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._changed.wait(left)
        return True

    def _release(self, lane: ConnectedLane) -> list[Key]:
        """Takes all partitions from a lane that is over. Returns those that wait for another
        lane."""
        self._rebalancing.note_change()
        lost = [key for key in lane.partitions if self._loosen(key)]
        lane.partitions.clear()
        if lane.closed:
            self._lanes.pop(lane.connection, None)
        return lost

    def _loosen(self, key: Key) -> bool:
        """Handles a partition without a lane. Returns True if it waits for the next lane."""
        tracked = self._tracked[key]
        tracked.settle()
        if tracked.removed:
            self._forget(key)
        elif not tracked.held:
            self._waiting[key] = None
            return True
        return False

    def _forget(self, key: Key) -> None:
        self._rebalancing.note_change()
        self._tracked.pop(key, None)
        self._waiting.pop(key, None)

    def _place(self) -> None:
        """Gives waiting partitions to lanes."""
        if not self._waiting or self._draining:
            return
        lanes = self._usable()
        if self._gathering.waits_for_more(len(lanes)):
            return
        self._rebalancing.note_change()
        placed = placing.place(self._waiting, self._tracked, lanes, self._homes)
        by_lane = defaultdict[int, list[Assignment]](list)
        for key, number in placed.items():
            tracked = self._tracked[key]
            tracked.lane, tracked.going_to = lanes[number], None
            lanes[number].partitions.add(key)
            by_lane[number].append(tracked.assignment)
            del self._waiting[key]
        for number, assignments in by_lane.items():
            placing.hand_over(lanes[number], assignments, self._homes)

    def _usable(self) -> dict[int, ConnectedLane]:
        """Returns the connected lanes by number. A newer lane wins over a closing one."""
        return {lane.number: lane for lane in self._working()}

    def _working(self) -> list[ConnectedLane]:
        return [lane for lane in self._lanes.values() if not (lane.closed or lane.over)]
