"""A lane: one Spark task's loop that relays many partitions, in one thread.

    the driver: assign, revoke, lease, drain ──► flows ──► relay.py: brokers ──► reports

The loop blocks in `select` only: helper threads open connections and recover flows. A lane can be
killed at any instant: correctness never depends on a later action of the lane.
"""

from __future__ import annotations

import gc
import os
import resource
import selectors
import signal
import socket
import time

from causeway.records import keep_freed_memory
from causeway.relay.control import SECRET_VARIABLE, ControlClient
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers, LookupQueue
from causeway.relay.lane.lease import LeaseGuard, clock
from causeway.relay.lane.relay import Relay
from causeway.relay.lane.stages import LaneStages
from causeway.relay.messages import (
    Assign,
    Assignment,
    Clusters,
    Drain,
    Drained,
    FlowReport,
    Hello,
    LaneReport,
    Lease,
    Lookup,
    Renewed,
    Revoke,
    StageEnded,
    Throttle,
)
from causeway.relay.messages import StageSpecs as StagesMessage

HELPER_THREADS = 8
TICK_S = 0.25  # at least this often: timeouts, retries, the lease
DRAIN_S = 10.0  # how long a lane that should end waits for the responses of brokers
GOODBYE_S = 5.0  # how long a lane at its end waits until the driver has read that


def run_lane(lane: int, host: str, port: int) -> None:
    """Runs lane number `lane` of the driver that listens at `host`:`port`, from its start to its
    end.

    Returns after a drain, or when the driver is gone.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # LeaseGuard needs the default action
    keep_freed_memory()
    gc.freeze()  # loaded modules never become garbage, but each collection of them takes 40 ms
    gc.set_threshold(10_000, 10, 10)  # waiting batches need no collection: they are in no cycle
    secret = os.environ[SECRET_VARIABLE]
    control = ControlClient(host, port, secret)
    try:
        LaneLoop(lane, control, secret).run()
    finally:
        control.close()


class LaneLoop:
    def __init__(self, number: int, control: ControlClient, secret: str) -> None:
        self._number = number
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._helpers = Helpers(HELPER_THREADS)
        self._stages = LaneStages(control.address, secret, self._helpers, self._selector)
        self._lookups = LookupQueue(self._helpers, control.send)
        self._relay: Relay | None = None
        self._flows: dict[tuple[str, str, int], Flow] = {}
        self._lease = LeaseGuard()
        self._lease_s = 0.0
        self._report_interval_s = 1.0
        self._report_at = 0.0
        self._draining_until: float | None = None
        self._left = False  # some flow is leaving
        self._ended = False

    def run(self) -> None:
        self._selector.register(self._control, selectors.EVENT_READ, self._on_control)
        self._selector.register(
            self._helpers, selectors.EVENT_READ, lambda _: self._helpers.finish()
        )
        self._control.send(Hello(lane=self._number, pid=os.getpid(), host=socket.gethostname()))
        try:
            while not self._ended:
                if self._relay is not None:
                    self._relay.rest()
                self._take_in()
                if self._relay is not None:
                    self._turn(self._relay, time.monotonic())
        except ConnectionError:
            pass  # the driver is gone; a successor recovers from the target's log
        finally:
            if self._relay is not None:
                self._relay.close()
            self._helpers.close()
            self._selector.close()

    # -- the driver -------------------------------------------------------------------------------

    def _on_control(self, _: int) -> None:
        for message in self._control.receive():
            match message:
                case Clusters():
                    self._start(message)
                case Renewed() if self._relay is not None:
                    self._relay.renew(message)
                case StagesMessage():
                    self._stages.define(message.stages)
                case StageEnded():
                    self._stages.ended(message)
                case Assign():
                    for assignment in message.assignments:
                        self._leave(self._flows.get(assignment.key))  # the new flow replaces it
                        self._take_over(assignment)
                case Revoke():
                    for key in message.keys:
                        self._leave(self._flows.get(key))
                case Lease():
                    self._lease.renew(message.lane_time + self._lease_s)
                case Lookup():
                    self._look_up(message)
                case Throttle() if self._relay is not None:
                    self._relay.throttle(message)
                case Drain():
                    self._draining_until = time.monotonic() + DRAIN_S
                    for flow in self._flows.values():
                        self._leave(flow)
                case _:
                    pass

    def _start(self, clusters: Clusters) -> None:
        self._lease_s = clusters.lease_s
        self._report_interval_s = clusters.report_interval_s
        self._relay = Relay(
            clusters,
            self._lease,
            self._helpers,
            self._selector,
            self._stages,
            on_done=self._report_soon,
        )

    def _take_over(self, assignment: Assignment) -> None:
        before = self._flows.get(assignment.key)
        flow = self._flows[assignment.key] = Flow.of(assignment)
        if self._relay is not None:
            if before is not None:
                self._relay.forget(before)
            self._relay.take_over(flow)
        if assignment.transform is not None:
            self._report_soon()  # the report names the stages that the driver has to start

    def _leave(self, flow: Flow | None) -> None:
        """Sends nothing new of `flow`. The flow is removed when all its responses have arrived."""
        if flow is not None and not flow.leaving:
            flow.leave()
            self._left = True
            if self._relay is not None:
                self._relay.let_go(flow)

    def _look_up(self, message: Lookup) -> None:
        flow = self._flows.get(message.key)
        look = None
        if flow is not None and self._relay is not None:
            look = self._relay.look_for(message, flow)
        if look is None:
            self._lookups.refuse(message.id)
        else:
            self._lookups.add(message.id, look)

    def _report_soon(self) -> None:
        self._report_at = 0.0

    def _report(self, relay: Relay, now: float) -> None:
        leaving = [flow for flow in self._flows.values() if flow.leaving] if self._left else []
        final = [flow for flow in leaving if self._is_quiet(flow)]
        reports: list[FlowReport] = [flow.report(final=True) for flow in final]
        for flow in final:
            del self._flows[flow.assignment.key]
            relay.forget(flow)
        self._left = len(final) < len(leaving)
        relay.close_unused_stages()
        touched, round_s = relay.take_touched(self._report_interval_s)
        for flow in touched:
            if self._flows.get(flow.assignment.key) is flow:
                flow.settle()
                if flow.changed:
                    reports.append(flow.report())
        self._report_at = now + self._report_interval_s
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._control.send(
            LaneReport(
                lane_time=clock(),
                partitions=tuple(reports),
                round_s=round_s,
                rss_bytes=_resident_bytes(),
                cpu_s=usage.ru_utime + usage.ru_stime,
                stages=self._stages.wanted,
                crowded=relay.connections.crowded,
                small_requests=relay.connections.small_requests,
            )
        )

    def _is_quiet(self, flow: Flow) -> bool:
        return flow.all_sent and not flow.recovering

    # -- one turn of the loop ---------------------------------------------------------------------

    def _take_in(self) -> None:
        """Handles the events of one tick. If the events take longer than a tick, messages of the
        driver are handled between them."""
        events = self._selector.select(self._timeout())
        until = time.monotonic() + TICK_S
        # A connection may have been closed since `select`; its handler then does nothing.
        for key, mask in events:
            key.data(mask)
            if self._relay is not None and time.monotonic() > until:
                self._on_control(selectors.EVENT_READ)
                self._turn(self._relay, time.monotonic())
                if self._ended:
                    return
                until = time.monotonic() + TICK_S

    def _timeout(self) -> float:
        if self._relay is None:  # nothing to report before the driver has sent the clusters
            return TICK_S
        if self._relay.unfinished:
            return 0.0
        due_at = min(self._report_at, self._relay.due_at)
        return max(0.0, min(TICK_S, due_at - time.monotonic()))

    def _turn(self, relay: Relay, now: float) -> None:
        relay.turn(self._flows.values(), now)
        leaving = [f for f in self._flows.values() if f.leaving] if self._left else []
        quiet = [flow for flow in leaving if self._is_quiet(flow)]
        if self._draining_until is not None and (
            now >= self._draining_until or len(quiet) == len(leaving)
        ):
            self._end(relay, now)
        # The driver waits for the last flow that it revoked, so one report for all is enough.
        elif now >= self._report_at or (quiet and len(quiet) == len(leaving)):
            self._report(relay, now)
        self._control.flush()

    def _end(self, relay: Relay, now: float) -> None:
        relay.abandon()
        for flow in self._flows.values():
            flow.recovering = False
        self._report(relay, now)
        self._control.send(Drained())
        self._ended = True
        # The driver closes the connection when it has read Drained. If the lane closed first, with
        # unread bytes in its socket, the connection would be reset, and the last report could be
        # lost.
        deadline = time.monotonic() + GOODBYE_S
        # Nothing reads the responses of brokers any more: a wait for them would end at once.
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._control, selectors.EVENT_READ)
            try:
                while time.monotonic() < deadline:
                    self._control.flush()
                    self._control.receive()
                    waiting.select(TICK_S)
            except ConnectionError:
                pass


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
