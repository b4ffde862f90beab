"""Fills the gaps of flows that keep offsets, so that the next record gets its source offset.

data before it is acknowledged ──► fence, if earlier requests may arrive ──► fill ──► go on
                                                     markers: over a connection
                                                     otherwise: in a helper's thread
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from causeway.cluster import LATEST, OffsetAt, Transaction, filling
from causeway.cluster import transactions as txn
from causeway.errors import CausewayError
from causeway.model import State, TopicPartition
from causeway.records import Gap
from causeway.relay.lane.connections import Connections
from causeway.relay.lane.fences import (
    TRANSACTION_MS,
    ends_elsewhere,
    expect_end,
    failed,
    fence,
    fill_id,
)
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.gaps import Gaps, Way
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.lease import LeaseGuard
from causeway.relay.lane.marker_connection import (
    SLOW_S,
    MarkerConnection,
    SentMarkers,
    open_markers,
    unknown_and_written,
)
from causeway.relay.lane.outlet import OutletState
from causeway.relay.lane.recovery_queue import RecoveryQueue
from causeway.relay.lane.responses import NeedsRecovery, StopPartition
from causeway.wire import codes

EMPTY_TRANSACTIONS = 50  # between two reports of the position
RETRY_S = 0.2
HIGHEST_EPOCH = 32_000  # of a producer, a 16-bit number

T = TypeVar("T")
_Broker = tuple[str, int]  # a cluster's key, and a node


class GapFiller:
    """Not thread-safe; belongs to one lane's loop."""

    def __init__(
        self,
        connections: Connections,
        helpers: Helpers,
        selector: selectors.BaseSelector,
        lease: LeaseGuard,
        recovery: RecoveryQueue,
        touched: dict[Flow, None],
    ) -> None:
        self._connections, self._helpers, self._selector = connections, helpers, selector
        self._lease, self._recovery, self._touched = lease, recovery, touched
        self._open: dict[_Broker, MarkerConnection] = {}
        self._opening: dict[_Broker, dict[OutletState, Flow]] = {}
        # The partitions that a helper's thread works for, also if the flow has left.
        self._under_way: set[tuple[str, str, int]] = set()
        self._holding: dict[Flow, None] = {}  # flows that have batches behind gaps

    @property
    def waiting(self) -> bool:
        """Whether a marker has no response yet."""
        return any(each.waiting for each in self._open.values())

    @property
    def size(self) -> int:
        """The bytes of batches that wait behind gaps."""
        sizes = {flow: flow.gaps.size for flow in self._holding if flow.gaps is not None}
        self._holding = dict.fromkeys(flow for flow, size in sizes.items() if size)
        return sum(sizes.values())

    def look(self, flow: Flow) -> None:
        """Fills the first gap of `flow` if its turn has come."""
        gaps, outlet = flow.gaps, flow.outlets[0]
        if gaps is None or flow.state is not State.RUNNING or flow.leaving:
            return
        if gaps.size:
            self._holding[flow] = None
        gap = gaps.first
        if gap is None or outlet.pending or outlet.unanswered:
            return
        try:
            self._fill(flow, outlet, gaps, gap)
        except StopPartition as halt:
            self._recovery.stop(flow, str(halt))
        except NeedsRecovery as needed:
            self._recovery.start_recovery(flow, needed)

    def _fill(self, flow: Flow, outlet: OutletState, gaps: Gaps, gap: Gap) -> None:
        if gap.start != outlet.end:
            what = f"a gap begins at offset {gap.start}, and the target ends at {outlet.end}"
            raise StopPartition(f"internal error: {what}")
        way = gaps.way(gap)
        if way is None:
            raise StopPartition(
                f"the source has no records from offset {gap.start} to {gap.stop - 1}: so large a "
                "gap is filled with records that read_uncommitted consumers see, if the file has "
                "causeway.offsets.filler = allow"
            )
        if flow.assignment.key in self._under_way:  # for an earlier assignment
            raise NeedsRecovery(
                "an earlier request to fill offsets has not ended",
                unsettled=True,
                failure=False,
                not_before=time.monotonic() + RETRY_S,
            )
        if gaps.doubtful:
            self._fence(flow, outlet, gaps, way)
        elif way == "markers":
            self._offer(flow, outlet)
        else:
            self._submit(flow, outlet, gaps, gap, way)

    # -- after a recovery -------------------------------------------------------------------------

    def _fence(self, flow: Flow, outlet: OutletState, gaps: Gaps, way: Way) -> None:
        """Fences requests from before the last recovery, which may still arrive. The first marker
        has a higher epoch, so the broker refuses these requests after it. Nothing refuses them
        before it, so the marker is sent only when none of them can arrive.

        If transactions fill the gap, the epoch of the data stays. A higher epoch would be in the
        log with the first batch only: a successor could not know it, nor refuse that batch.
        """
        settled_at = max(flow.late_by, flow.rival_by)
        if flow.sought_at < settled_at:
            raise NeedsRecovery(
                f"offset {outlet.end} has no record: waits until no earlier request can arrive",
                unsettled=True,
                failure=False,
                not_before=settled_at,
            )
        producer_id, epoch = outlet.producer
        if epoch + 1 >= HIGHEST_EPOCH:
            raise StopPartition(
                f"its producer has used all {HIGHEST_EPOCH} epochs (`causeway restart --refill "
                f"{flow.assignment.source_partition.topic}` copies the topic again, with another "
                "producer)"
            )

        def fenced(answer: Transaction | CausewayError | None) -> None:
            self._touched[flow] = None
            if flow.state is not State.RUNNING or flow.leaving:
                return
            if isinstance(answer, CausewayError):
                self._recovery.start_recovery(flow, failed(answer))
                return
            gaps.doubtful, gaps.transaction = False, answer
            if way == "markers":
                outlet.producer = producer_id, epoch + 1
                outlet.sequence = 0
                outlet.pair = outlet.straight_to = outlet.pair._replace(sequence=0)
            self.look(flow)

        cluster = self._connections.cluster(flow.assignment.target)
        fence_it = partial(fence, cluster, outlet.spec.at, outlet.end, fill_id(flow))
        self._help(flow, fence_it, fenced)

    def _help(
        self, flow: Flow, work: Callable[[], T], then: Callable[[T | CausewayError], None]
    ) -> None:
        """Does `work` in a helper's thread. Meanwhile it counts as a request without a response."""
        key, outlet = flow.assignment.key, flow.outlets[0]

        def done(answer: T | CausewayError) -> None:
            self._under_way.discard(key)
            outlet.unanswered -= 1
            then(answer)

        self._under_way.add(key)
        outlet.unanswered += 1
        self._helpers.submit(work, done)

    # -- markers ----------------------------------------------------------------------------------

    def _offer(self, flow: Flow, outlet: OutletState) -> None:
        broker = flow.assignment.target, outlet.node
        if broker in self._open:
            self._open[broker].ready[outlet] = flow
            return
        if broker in self._opening:
            self._opening[broker][outlet] = flow
            return
        self._opening[broker] = {outlet: flow}

        def opened(answer: MarkerConnection | CausewayError) -> None:
            waiting = self._opening.pop(broker)
            if isinstance(answer, CausewayError):
                for each in waiting.values():
                    self._recovery.start_recovery(each, NeedsRecovery(str(answer)))
                return
            self._open[broker] = answer
            answer.ready |= waiting
            on_event = partial(self._on_event, broker, answer)
            self._selector.register(answer.connection, selectors.EVENT_READ, on_event)

        cluster = self._connections.cluster(broker[0])
        self._helpers.submit(partial(open_markers, cluster, broker[1]), opened)

    def turn(self, now: float) -> None:
        """Sends the markers that may be sent. Gives up requests that got no response in time."""
        for broker, connection in list(self._open.items()):
            cluster = self._connections.cluster(broker[0])
            if connection.waiting and now - connection.sent_at > 2 * cluster.timeout_s:
                self._lose(broker, "no answer in time")
            elif connection.several and now - connection.asked_at > SLOW_S:
                connection.asked_at = now
                self._ask(broker, connection)
            elif not connection.waiting and (cluster.closed.is_set() or connection.expired(now)):
                self._close(broker)
                for outlet, flow in connection.ready.items():
                    self._offer(flow, outlet)
            elif connection.ready:
                self._guard(broker, partial(connection.send, self._lease, now))

    def _ask(self, broker: _Broker, connection: MarkerConnection) -> None:
        """Looks for a partition that the broker does not know: then there is never an answer."""
        sent = connection.sent

        def found(ends: Mapping[TopicPartition, OffsetAt | CausewayError] | CausewayError) -> None:
            if isinstance(ends, CausewayError) or connection.sent != sent:
                return
            unknown, written = unknown_and_written(sent, ends)
            if unknown is None or self._open.get(broker) is not connection:
                return
            connection.settle(written)
            self._lose(broker, f"no answer: the broker does not know {unknown}")
            for flow, outlet, count in written:
                self._take(flow, outlet, "markers", outlet.end + count)

        cluster = self._connections.cluster(broker[0])
        places = [outlet.spec.at for _, outlet, _ in sent]
        self._helpers.submit(partial(cluster.list_offsets, places, LATEST), found)

    def _on_event(self, broker: _Broker, connection: MarkerConnection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE and self._open.get(broker) is connection:
            self._guard(broker, partial(connection.flush, self._lease))
        if mask & selectors.EVENT_READ and self._open.get(broker) is connection:
            self._guard(broker, partial(self._receive, connection))

    def _receive(self, connection: MarkerConnection) -> None:
        unproved: list[SentMarkers] = []
        for sent, error in connection.receive():
            flow, outlet, count = sent
            if error:
                topic, needs = outlet.spec.at, "CLUSTER_ACTION on the cluster"
                why = codes.broker_error(error, "write markers to", str(topic), needs=needs)
                self._take(flow, outlet, "markers", why)
            elif count > 1 or not outlet.sequence:
                outlet.unanswered += 1
                unproved.append(sent)
            else:
                self._take(flow, outlet, "markers", outlet.end + count)
        if unproved:
            self._prove(unproved)

    def _prove(self, written: list[SentMarkers]) -> None:
        """Asks for the ends of the logs before data follows. One answer for several markers does
        not prove that each of them was appended. If the epoch is new, a marker of an earlier epoch
        may have been appended before."""

        def ended(ends: Mapping[TopicPartition, int | CausewayError] | CausewayError) -> None:
            for flow, outlet, count in written:
                outlet.unanswered -= 1
                at, due = outlet.spec.at, outlet.end + count
                end = ends if isinstance(ends, CausewayError) else ends[at]
                if not isinstance(end, CausewayError) and end != due:
                    end = ends_elsewhere(at, end, due)
                self._take(flow, outlet, "markers", end)

        cluster = self._connections.cluster(written[0].flow.assignment.target)
        places = [outlet.spec.at for _, outlet, _ in written]
        self._helpers.submit(partial(cluster.log_ends, places), ended)

    def _guard(self, broker: _Broker, act: Callable[[], None]) -> None:
        try:
            act()
        except (OSError, CausewayError) as error:
            self._lose(broker, str(error))
            return
        connection = self._open[broker].connection
        wanted = selectors.EVENT_READ
        if connection.wants_write:
            wanted |= selectors.EVENT_WRITE
        key = self._selector.get_key(connection)
        if key.events != wanted:
            self._selector.modify(connection, wanted, key.data)

    def _lose(self, broker: _Broker, reason: str) -> None:
        connection = self._open[broker]
        ready = set(connection.ready.values())
        sent = self._close(broker)
        late_by = time.monotonic() + self._connections.cluster(broker[0]).timeout_s
        for flow in sent:
            flow.late_by = max(flow.late_by, late_by)
            flow.unsettled = True
        for flow in sent | ready:
            unsettled = flow in sent
            self._recovery.start_recovery(flow, NeedsRecovery(reason, unsettled=unsettled))

    def _close(self, broker: _Broker) -> set[Flow]:
        """Closes a connection. Returns the flows whose markers may or may not have been written."""
        connection = self._open.pop(broker)
        self._selector.unregister(connection.connection)
        return connection.abandon()

    def abandon(self, reason: str = "the lease ran out") -> None:
        """Closes the connections: queued markers must not be sent."""
        for broker in list(self._open):
            self._lose(broker, reason)

    # -- transactions -----------------------------------------------------------------------------

    def _submit(self, flow: Flow, outlet: OutletState, gaps: Gaps, gap: Gap, way: Way) -> None:
        cluster = self._connections.cluster(flow.assignment.target)
        at, keyed = outlet.spec.at, gaps.settings.filler_from is not None
        mark = flow.recoveries

        def goes_on(end: int) -> bool:
            if flow.recoveries != mark or flow.state is not State.RUNNING or flow.leaving:
                return False
            if gap.start < end < gap.stop:
                self._helpers.post(lambda: self._take(flow, outlet, way, end))
            return self._lease.lasts()

        def fill() -> int:
            if not goes_on(gap.start):
                return gap.start
            if way != "transactions":
                delete = way == "beginning"
                transaction = txn.begin(cluster, fill_id(flow), TRANSACTION_MS)
                return filling.fill(
                    cluster,
                    transaction,
                    at,
                    gap.start,
                    gap.stop,
                    keyed=keyed,
                    delete=delete,
                    on_step=goes_on,
                )
            if gaps.transaction is None:
                # The process may have been stopped until now: another lane may be further on.
                gaps.transaction = fence(cluster, at, gap.start, fill_id(flow))
            count = min(EMPTY_TRANSACTIONS, gap.stop - gap.start)
            filling.fill_with_markers(cluster, gaps.transaction, at, count)
            # A coordinator that takes over while a transaction ends may write the marker twice.
            expect_end(cluster, at, gap.start + count)
            return gap.start + count

        self._help(flow, fill, partial(self._take, flow, outlet, way))

    def _take(self, flow: Flow, outlet: OutletState, way: Way, answer: int | CausewayError) -> None:
        """Accounts for the new end of the target's log."""
        self._touched[flow] = None
        gaps = outlet.gaps
        assert gaps is not None
        runs = flow.state is State.RUNNING and not flow.leaving
        gap = gaps.first  # None if the flow was paused meanwhile
        why: NeedsRecovery | None = None
        if isinstance(answer, CausewayError):
            flow.unsettled = True
            why = failed(answer)
        elif answer == outlet.end and (gap is None or gap.stop > answer):
            # The lease is over, so the fill has not begun.
            not_before = time.monotonic() + RETRY_S
            why = NeedsRecovery("the lease ran out", failure=False, not_before=not_before)
        else:
            gaps.note(way, answer - outlet.end, whole=gap is not None and answer == gap.stop)
            outlet.filled(answer)
            # No pair may lie behind a batch of a later epoch, for example a marker of the source.
            flow.relayed_epoch = max(
                flow.relayed_epoch, gaps.epoch_of_next(outlet.pending, flow.leader_epoch)
            )
            flow.changed = True
        if not runs:
            return
        if why is not None:
            self._recovery.start_recovery(flow, why)
            return
        flow.failures = 0
        if outlet.pending:
            self._connections.offer(flow, outlet)
        elif gaps.first is not None:
            self.look(flow)
        else:
            self._recovery.done(flow)
