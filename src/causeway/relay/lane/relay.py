"""Relays the batches of a lane's flows, from source brokers to target brokers.

    fetch (reader.py) → keep (causeway.records) → route → header, send (target.py) → responses

A flow whose position in the target is not certain goes through recovery (recovery_queue.py).
"""

from __future__ import annotations

import errno
import math
import random
import selectors
import time
from collections.abc import Callable, Collection
from typing import TypeVarTuple, Unpack

from causeway.errors import CausewayError
from causeway.model import State
from causeway.relay.lane import responses
from causeway.relay.lane.connections import Connections
from causeway.relay.lane.filling import GapFiller
from causeway.relay.lane.flow import Flow, OnTheWay
from causeway.relay.lane.helpers import Helpers, Look, look_for
from causeway.relay.lane.lease import LeaseGuard
from causeway.relay.lane.memory import LaneMemory
from causeway.relay.lane.reader import Allowance, SourceConnection
from causeway.relay.lane.recovery_queue import RecoveryQueue
from causeway.relay.lane.responses import NeedsRecovery, StopPartition
from causeway.relay.lane.stages import LaneStages, series_of
from causeway.relay.lane.target import TargetConnection
from causeway.relay.lane.throttle import Quotas, Throttles, whole
from causeway.relay.lane.transforming import Transforming
from causeway.relay.lane.watches import IdlePairs, Leaders
from causeway.relay.messages import Clusters, Lookup, Renewed, Throttle
from causeway.relay.treatment import Treatments
from causeway.wire import SESSION_ERRORS, Fetched, codes

HELD_BACK_WAIT_MS = 10  # a flow that is held back must not wait for the others' long poll
# A flow is not fetched while it has more unsent bytes than FLOW_BYTES, or than two of its answers
# if these are larger. Two answers count up to the lane's buffer / FLOW_SHARE: a flow with a slow
# target must leave room for the others.
FLOW_BYTES = 8 * 1024 * 1024
FLOW_SHARE = 4
PACED_REST_S = 0.003  # a near broker answers within this time, so answers are handled together
LOOK_S = 0.1  # how often to look for overdue responses
# Each partition in a report takes up to 60 us of CPU, in the driver (with the progress record) and
# in the lane. So reports take a small part of a core, however many partitions get a few records.
REPORT_PARTITION_S = 0.004
MOST_ROUND_S = 10.0  # the status of a partition that moves is no older than that
_Given = TypeVarTuple("_Given")


class Relay:
    """The data path of one lane. It is not thread-safe and belongs to the lane's loop. `on_done` is
    called when a flow of a bounded run has reached its end.

    The cost of a turn depends on the number of flows with events, not on the number of flows.
    """

    def __init__(
        self,
        clusters: Clusters,
        lease: LeaseGuard,
        helpers: Helpers,
        selector: selectors.BaseSelector,
        stages: LaneStages,
        on_done: Callable[[], None],
    ) -> None:
        self._stages = stages
        self._treatments = Treatments(clusters.treatments)
        self._memory = LaneMemory(clusters.buffer_bytes)
        self._lease = lease
        self.connections = Connections(
            clusters,
            helpers,
            selector,
            self._memory.buffers,
            on_source=self._on_source,
            on_target=self._on_target,
            on_failure=lambda flow, why: self._recovery.start_recovery(flow, NeedsRecovery(why)),
        )
        self._touched: dict[Flow, None] = {}
        self._transformed: dict[Flow, None] = {}
        self._recovery = RecoveryQueue(
            self.connections,
            helpers,
            self._touched,
            on_done,
            on_resumed=lambda flow: self._filling.look(flow),  # noqa: PLW0108 - it is made below
        )
        self._idle_pairs = IdlePairs(helpers)
        self._leaders = Leaders(helpers, self._recovery.start_recovery)
        self._throttles = Throttles()
        self._quotas = Quotas(self._touched)
        self._look_at = 0.0
        self.due_at = float("inf")  # monotonic: a request that was put off is due then
        self._filling = GapFiller(
            self.connections, helpers, selector, lease, self._recovery, self._touched
        )
        self._transforming = Transforming(
            self.connections, helpers, self._recovery, self._filling.look
        )

    def renew(self, message: Renewed) -> None:
        """Uses the new settings from now on. Flows and open connections keep their old settings."""
        self.connections.renew(message)
        if message.treatments is not None:
            self._treatments.renew(message.treatments)

    def turn(self, flows: Collection[Flow], now: float) -> None:
        """Does all work for `flows` that does not block."""
        if self._lease.lasts():
            self._recovery.find(self._transformed, now)
        else:
            self._hold(flows)
        # Sends come first: targets wait for them, and a fetch takes longer than a send.
        for target in self.connections.targets:
            self._guard(target, target.send, self._lease, now)
        self._filling.turn(now)
        sources = self.connections.sources
        if self._throttles:  # in a fixed order, the first source would use up a shared rate
            random.shuffle(sources)
        self.due_at = float("inf")
        for source in sources:
            if not source.waiting and now < source.paced_until:
                self.due_at = min(self.due_at, source.paced_until)
                continue
            free = not source.waiting and now >= source.throttled_until
            if free or source.connection.wants_write:
                self._guard(source, source.request, self._allowance(now), now)
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            for dead in self.connections.timed_out(now):
                self._lose(dead, "no answer in time")
            self._quotas.look([*sources, *self.connections.targets], now)
        self.connections.watch()
        self._touched.update(self._idle_pairs.look(flows, self.connections.cluster, now))
        self._leaders.look(flows, self.connections.cluster, now)
        self._stages.turn(now)

    def rest(self) -> None:
        """Sleeps while each target broker that gets records has enough work, and while all
        partitions get only a few records. Then the lane handles all events together in one turn.
        It does not sleep so long that a broker runs out of work."""
        targets, sources = self.connections.targets, self.connections.sources
        if self._filling.waiting or any(target.lacks for target in targets):
            return
        if sources and all(source.paced_until for source in sources):
            rest_s = PACED_REST_S
            awaits_records = bool(self._transformed) or any(source.waiting for source in sources)
            if not awaits_records and self.due_at < math.inf:
                # Only responses of targets can arrive. No record waits for them.
                rest_s = max(rest_s, self.due_at - time.monotonic())
            time.sleep(rest_s)
            return
        busy = [target for target in targets if target.has_plenty]
        rest_s = min((target.rest_s for target in busy), default=0.0)
        if not rest_s:
            return
        if all(target.ready for target in busy):
            time.sleep(rest_s)
        else:
            self.connections.await_source(rest_s)

    @property
    def unfinished(self) -> bool:
        """Whether the next turn has work even if nothing arrives."""
        return any(target.unfinished for target in self.connections.targets)

    def take_over(self, flow: Flow) -> None:
        """Takes over a flow from another lane. Requests of that lane may still arrive."""
        self.connections.expect(flow.assignment)
        self._recovery.lost(flow)
        if flow.unsettled:
            patience_s = self.connections.cluster(flow.assignment.target).timeout_s
            flow.late_by = time.monotonic() + patience_s + flow.assignment.throttled_s
        try:
            if flow.assignment.treated:
                flow.treatment = self._treatments.get(flow.assignment.link)
            if flow.assignment.transform is not None:
                flow.on_the_way = OnTheWay(self._stages.get(flow.assignment.transform))
                self._transformed[flow] = None
        except CausewayError as error:
            self._recovery.stop(flow, str(error))

    def forget(self, flow: Flow) -> None:
        """Forgets a flow that this lane has given up."""
        self._transformed.pop(flow, None)

    def close_unused_stages(self) -> None:
        transforms = (flow.assignment.transform for flow in self._transformed)
        self._stages.keep(transform for transform in transforms if transform is not None)

    def take_touched(self, interval_s: float) -> tuple[list[Flow], float]:
        """The flows to report now, if reports come every `interval_s`: flows that may have changed
        since their last report. If many of them keep running, these take turns. Also returns the
        time in which each of these has its turn."""
        for flow in self._transformed:
            flow.look_at_wait()
        touched = self._touched
        touched.update(self._transformed)
        round_s = max(interval_s, min(len(touched) * REPORT_PARTITION_S, MOST_ROUND_S))
        most = math.ceil(len(touched) * interval_s / round_s)
        later = dict.fromkeys([flow for flow in touched if flow.keeps_running][most:])
        taken = [flow for flow in touched if flow not in later]
        for flow in taken:
            del touched[flow]
        return taken, round_s

    def throttle(self, message: Throttle) -> None:
        self._throttles.set(message.rates, time.monotonic())

    def let_go(self, flow: Flow) -> None:
        """Fetches and sends nothing more of the flow. If its outlets have transformed records,
        these are still sent: then all outlets end at the same position, and another transform can
        begin there."""
        self._throttles.forget(flow)
        keeps = flow.gaps is not None
        if flow.on_the_way is not None and not keeps and flow.state is State.RUNNING:
            self.connections.fetch_no_more(flow)
            flow.on_the_way.cancel(flow)
        else:
            self._recovery.pause(flow)

    def look_for(self, message: Lookup, flow: Flow) -> Look | None:
        """The look-up that `message` asks for. A helper's thread runs it. None if `flow` has no
        such outlet."""
        cluster, spec = self.connections.cluster, flow.assignment
        return look_for(message, spec, series_of(flow), cluster(spec.source), cluster(spec.target))

    def abandon(self) -> None:
        """Closes all connections to targets: queued batches must not be sent."""
        self._filling.abandon()
        for target in self.connections.targets:
            for flow in self.connections.drop(target):
                flow.unsettled = True

    def close(self) -> None:
        self._stages.close()
        self.connections.close()

    def _hold(self, flows: Collection[Flow]) -> None:
        """Holds all flows after the lease ran out: another lane may have taken over."""
        self.abandon()
        for flow in flows:
            if flow.state is State.RUNNING:
                self._recovery.start_recovery(
                    flow, NeedsRecovery("the lease ran out", failure=False)
                )

    def _allowance(self, now: float) -> Allowance:
        outboxes = [target.connection.outbox for target in self.connections.targets]
        self._memory.most_bytes = buffer_bytes = self.connections.buffer_bytes
        besides = self._stages.size + self._filling.size
        room = self._memory.has_room(besides, self.connections.waiting, outboxes)
        share = buffer_bytes // FLOW_SHARE
        throttles, throttled = self._throttles, bool(self._throttles)
        full = False  # a flow waits for its target, so its source should answer soon

        def ask(flow: Flow) -> int:
            nonlocal full
            stop_at = flow.assignment.stop_at
            if not (
                flow.pending_bytes < max(FLOW_BYTES, min(share, 2 * flow.answer_bytes))
                and (flow.position != flow.unreadable_at or flow.idle)
                and (stop_at is None or flow.position < stop_at)
                and (flow.on_the_way is None or flow.on_the_way.halt is None)
            ):
                full = True
                return 0
            return throttles.ask(flow, now) if throttled else flow.answer_bytes

        def wait_ms() -> int:
            ready_in = None if full else throttles.ready_in(now)
            return max(HELD_BACK_WAIT_MS, round(1000 * (ready_in or 0.0)))

        return Allowance(room=room, ask=ask, wait_ms=wait_ms, by_turns=throttled)

    # -- trouble ----------------------------------------------------------------------------------

    def _guard(
        self,
        connection: SourceConnection | TargetConnection,
        act: Callable[[Unpack[_Given]], None],
        *given: *_Given,
    ) -> None:
        try:
            act(*given)
        except (OSError, CausewayError) as error:
            more = ""
            # The kernel gives up a connection with ETIMEDOUT.
            timed_out = isinstance(error, OSError) and error.errno == errno.ETIMEDOUT
            closed = isinstance(error, OSError) and not timed_out
            if isinstance(connection, TargetConnection) and closed:
                more = connection.closed_by_broker()
            self._lose(connection, f"{error}{more}")

    def _lose(self, connection: SourceConnection | TargetConnection, reason: str) -> None:
        unsettled = isinstance(connection, TargetConnection)
        for flow in self.connections.drop(connection):
            self._recovery.start_recovery(flow, NeedsRecovery(reason, unsettled=unsettled))

    # -- arrivals ---------------------------------------------------------------------------------

    def _on_source(self, source: SourceConnection, mask: int) -> None:
        if mask & selectors.EVENT_READ:
            self._guard(source, self._read_source, source)

    def _read_source(self, source: SourceConnection) -> None:
        for error, fetched in source.receive():
            if error and error not in SESSION_ERRORS:
                self._lose(source, codes.name(error))
                return
            for flow, part in fetched:
                if self._throttles:
                    self._throttles.took(flow, whole(part.records))
                self._on_fetched(flow, part)

    def _on_fetched(self, flow: Flow, fetched: Fetched) -> None:
        if flow.state is not State.RUNNING or flow.leaving:
            return
        self._touched[flow] = None
        try:
            kept, touched = responses.take_in(flow, fetched)
        except StopPartition as halt:
            self._recovery.stop(flow, str(halt))
            return
        except NeedsRecovery as needed:
            self._recovery.start_recovery(flow, needed)
            return
        for outlet in touched:
            self.connections.offer(flow, outlet)
        if flow.on_the_way is not None:
            self._transforming.send(flow, flow.on_the_way, kept)
        elif flow.gaps is not None:
            self._filling.look(flow)
        if len(fetched.records) and not touched:
            self._recovery.done(flow)

    def _on_target(self, target: TargetConnection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._guard(target, target.flush, self._lease)
        if mask & selectors.EVENT_READ:
            self._guard(target, self._read_target, target)

    def _read_target(self, target: TargetConnection) -> None:
        now_ms = responses.wall_ms()
        touched, running, account = self._touched, State.RUNNING, responses.account
        for answer in target.receive(time.monotonic()):
            accounted: dict[Flow, None] = {}
            for (flow, outlet, sent), produced in answer:
                if flow.state is not running:
                    continue  # its recovery reads the result from the log
                touched[flow] = None
                try:
                    account(flow, outlet, sent, produced, now_ms)
                except NeedsRecovery as needed:
                    self._recovery.start_recovery(flow, needed)
                except StopPartition as halt:
                    self._recovery.stop(flow, str(halt))
                else:
                    if (
                        outlet.gaps is not None
                        or flow.on_the_way is not None
                        or flow.assignment.stop_at is not None
                    ):
                        accounted[flow] = None
            # Not earlier: the response may contain several outlets of a flow. Only when the whole
            # response is accounted for, none of these outlets has an unanswered batch.
            for flow in accounted:
                if flow.state is running:
                    self._filling.look(flow)
                    self._transforming.look(flow)
