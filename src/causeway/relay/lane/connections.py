"""A lane's connections. A source broker has two for each link and way of reading, and more if it is
far. A target broker has a few. Helper threads open a connection when the first flow needs it.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.relay.lane import limits
from causeway.relay.lane.clusters import LaneClusters
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.limits import RequestLimits
from causeway.relay.lane.outlet import OutletState
from causeway.relay.lane.reader import SourceConnection, SourceKey, open_source
from causeway.relay.lane.target import TargetConnection, TargetKey, open_target, target_key
from causeway.relay.messages import Assignment, Clusters, Renewed
from causeway.wire import Buffers, Connection

Owner = SourceConnection | TargetConnection
C = TypeVar("C", SourceConnection, TargetConnection)


class Connections:
    """Not thread-safe; belongs to one lane's loop."""

    def __init__(
        self,
        clusters: Clusters,
        helpers: Helpers,
        selector: selectors.BaseSelector,
        buffers: Buffers,
        *,
        on_source: Callable[[SourceConnection, int], None],
        on_target: Callable[[TargetConnection, int], None],
        on_failure: Callable[[Flow, str], None],
    ) -> None:
        self._clusters = LaneClusters(clusters)
        self._settings = self._clusters.settings
        self._per_broker = clusters.connections
        self._in_flight = clusters.in_flight
        self._near_buffer_bytes = clusters.buffer_bytes
        self._far_buffer_bytes = clusters.far_buffer_bytes or clusters.buffer_bytes
        self._buffers = buffers
        self._helpers = helpers
        self._selector = selector
        self._on_source, self._on_target, self._on_failure = on_source, on_target, on_failure
        self._sources: dict[SourceKey, SourceConnection] = {}
        self._targets: dict[TargetKey, TargetConnection] = {}
        self._opening: dict[SourceKey | TargetKey, dict[Flow, None]] = {}
        self._masks: dict[Owner, int] = {}
        self._awaited = selectors.DefaultSelector()  # the sources
        # The least measured round trip of each source broker, by cluster and node.
        self._round_trips: dict[tuple[str, int], float] = {}
        self._limits = RequestLimits(self._settings)
        self._full: set[tuple[str, int]] = set()  # brokers that accepted no more connections
        self._instead: dict[TargetKey, TargetKey] = {}  # a refused connection, and its substitute

    @property
    def sources(self) -> list[SourceConnection]:
        return list(self._sources.values())

    @property
    def targets(self) -> list[TargetConnection]:
        return list(self._targets.values())

    @property
    def buffer_bytes(self) -> int:
        """The most bytes that the lane may hold."""
        return self._buffer(max(map(self._round_trip, self._sources), default=0.0))

    def _buffer(self, round_trip_s: float) -> int:
        far = round_trip_s >= limits.NEAR_S
        return self._far_buffer_bytes if far else self._near_buffer_bytes

    @property
    def waiting(self) -> list[OutletState]:
        """The outlets that have something to send, also those that wait for a connection."""
        waiting = {
            outlet: None
            for key, flows in self._opening.items()
            if isinstance(key, TargetKey)
            for flow in flows
            for outlet in flow.outlets
        }
        for target in self._targets.values():
            waiting |= dict.fromkeys(target.ready)
        return list(waiting)

    @property
    def crowded(self) -> tuple[str, ...]:
        """The brokers with fewer connections than the lane wants, because they accepted no more."""
        brokers = self._full | {(key.cluster, key.node) for key in self._instead}
        return tuple(sorted(f"{self._settings[key].alias} {node}" for key, node in brokers))

    @property
    def small_requests(self) -> tuple[str, ...]:
        """The target brokers whose limit of requests was lowered, each with that limit."""
        return self._limits.lowered

    def cluster(self, key: str) -> Cluster:
        return self._clusters[key]

    def expect(self, assignment: Assignment) -> None:
        """Refuses brokers from now on if their cluster is not the one that the assignment names."""
        for key, cluster_id in (
            (assignment.source, assignment.source_cluster),
            (assignment.target, assignment.target_cluster),
        ):
            if cluster_id is not None:
                self._clusters[key].expect(cluster_id)

    def renew(self, message: Renewed) -> None:
        """Uses the new settings for new connections. Open connections to known clusters stay."""
        self._clusters.renew(message)
        self._close_gone()

    def _close_gone(self) -> None:
        gone = {key for key in self._settings if self._clusters[key].closed.is_set()}
        owners: list[tuple[SourceKey | TargetKey, Owner]] = [*self._sources.items()]
        for owner in [o for k, o in [*owners, *self._targets.items()] if k.cluster in gone]:
            for flow in self.drop(owner):  # its unanswered batches do not count as relayed
                self._on_failure(flow, "its link has ended")
        self._full = {each for each in self._full if each[0] not in gone}

    # -- flows ------------------------------------------------------------------------------------

    def attach(self, flow: Flow) -> None:
        """Begins to fetch `flow` from its leader, and opens the connections that it will need."""
        self._read(flow)
        for outlet in flow.outlets:
            limit = self._limits.of(flow.assignment.target, outlet.node)
            outlet.limit(min(flow.assignment.max_message_bytes, limit.batch_bytes))
            target_key = self._target_key(flow, outlet)
            if target_key not in self._targets:
                self._open_target(target_key, flow)

    def _read(self, flow: Flow) -> None:
        """Reads over the connection with the fewest flows. A flow stays with its connection: the
        order of responses from two connections is not known."""
        base = self._source_key(flow)
        count = limits.sessions(self._round_trip(base))
        keys = [replace(base, slot=slot) for slot in range(count)]
        if base.broker in self._full:
            keys = [key for key in self._sources if key.base == base] or [base]
        key = min(keys, key=self._load)
        if source := self._sources.get(key):
            first = not source.flows
            source.add(flow)
            if first:
                self._share_out(base)
        else:
            self._open_source(key, flow)

    def _load(self, key: SourceKey) -> int:
        source = self._sources.get(key)
        return len(self._opening.get(key, ()) if source is None else source.flows)

    def _round_trip(self, key: SourceKey) -> float:
        return self._round_trips.get(key.broker, 0.0)

    def _share_out(self, base: SourceKey) -> None:
        """Shares the bytes in flight from this broker among all connections that read from it."""
        reading = [
            (key, source)
            for key, source in self._sources.items()
            if source.flows and key.broker == base.broker
        ]
        share = limits.answer_bytes(self._buffer(self._round_trip(base)), len(reading))
        for key, source in reading:
            source.most_bytes = min(key.max_bytes, share)  # from the next request on
            source.session.max_bytes = min(source.session.max_bytes, source.most_bytes)

    def detach(self, flow: Flow) -> None:
        """Fetches and sends nothing more of `flow`."""
        self.fetch_no_more(flow)
        for waiting in self._opening.values():
            waiting.pop(flow, None)
        for target in self._targets.values():
            for outlet in flow.outlets:
                target.withdraw(outlet)

    def fetch_no_more(self, flow: Flow) -> None:
        for source in self._sources.values():
            source.remove(flow)
        for key, waiting in self._opening.items():
            if isinstance(key, SourceKey):
                waiting.pop(flow, None)

    def offer(self, flow: Flow, outlet: OutletState) -> None:
        """`outlet` has batches to send."""
        key = self._target_key(flow, outlet)
        if target := self._targets.get(key):
            target.offer(flow, outlet)
        else:
            self._open_target(key, flow)

    def _source_key(self, flow: Flow) -> SourceKey:
        assignment = flow.assignment
        return SourceKey(
            assignment.link,
            assignment.source,
            flow.source_node,
            assignment.read_committed,
            assignment.max_wait_ms,
            assignment.min_bytes,
            assignment.max_bytes,
        )

    def _target_key(self, flow: Flow, outlet: OutletState) -> TargetKey:
        # A partition always uses the same connection of its broker: its batches stay in order.
        slot = outlet.share % self._per_broker
        key = target_key((flow.assignment.target, outlet.node, slot))
        return self._instead.get(key, key) if self._instead else key

    # -- opening ----------------------------------------------------------------------------------

    def _open_source(self, key: SourceKey, flow: Flow) -> None:
        def opened(source: SourceConnection, waiting: Iterable[Flow]) -> None:
            broker = key.broker
            if not any(other.broker == broker for other in self._sources):
                self._full.discard(broker)  # it may have been restarted, and accept more
            self._sources[key] = source
            source.connection.share(self._buffers)
            self._watch(source, partial(self._on_source, source))
            least = min(source.round_trip_s, self._round_trips.get(broker, source.round_trip_s))
            self._round_trips[broker] = source.round_trip_s = least
            for flow in waiting:  # the round trip now gives the number of connections
                self._read(flow)

        open_it = partial(open_source, self._clusters[key.cluster], key)
        self._open(key, flow, open_it, opened)

    def _open_target(self, key: TargetKey, flow: Flow) -> None:
        def opened(target: TargetConnection, waiting: Iterable[Flow]) -> None:
            self._targets[key] = target
            self._watch(target, partial(self._on_target, target))
            self._offer_all(key, waiting)

        open_it = partial(
            open_target,
            self._clusters[key.cluster],
            key.node,
            self._settings[key.cluster].request_timeout_ms,
            self._in_flight,
            self._limits.of(key.cluster, key.node),
        )
        self._open(key, flow, open_it, opened)

    def _offer_all(self, key: TargetKey, flows: Iterable[Flow]) -> None:
        """Offers the batches of `flows` to the connection `key`."""
        for flow in flows:
            for outlet in flow.outlets:
                if outlet.pending and self._target_key(flow, outlet) == key:
                    self._targets[key].offer(flow, outlet)

    def _open(
        self,
        key: SourceKey | TargetKey,
        flow: Flow,
        open_it: Callable[[], C],
        opened: Callable[[C, Iterable[Flow]], None],
    ) -> None:
        if key in self._opening:
            self._opening[key][flow] = None
            return
        self._opening[key] = {flow: None}

        def then(answer: C | CausewayError) -> None:
            waiting = self._opening.pop(key)
            if not isinstance(answer, CausewayError):
                opened(answer, waiting)
                self._close_gone()
            elif not self._makes_do(key, waiting):
                for flow in waiting:
                    self._on_failure(flow, str(answer))

        self._helpers.submit(open_it, then)

    def _makes_do(self, refused: SourceKey | TargetKey, waiting: Iterable[Flow]) -> bool:
        """Uses other connections for `waiting`: brokers may limit them. False if there is none."""
        if isinstance(refused, SourceKey):
            return self._read_over_fewer(refused, waiting)
        others = [key for key in self._targets if key._replace(slot=refused.slot) == refused]
        if not others:
            return False
        # These flows have no batch in flight elsewhere, so their batches stay in order.
        instead = self._instead[refused] = min(others, key=lambda key: key.slot)
        self._offer_all(instead, waiting)
        return True

    def _read_over_fewer(self, refused: SourceKey, waiting: Iterable[Flow]) -> bool:
        """Reads over fewer connections until all connections to this broker are lost. The first
        time, it closes half of them: the driver and recoveries need connections, too."""
        broker = refused.broker
        by_base: dict[SourceKey, list[SourceConnection]] = {}
        for key, source in self._sources.items():
            if key.broker == broker:
                by_base.setdefault(key.base, []).append(source)
        if by_base and (broker not in self._full or refused.base not in by_base):
            self._full.add(broker)
            for reading in by_base.values():
                reading.sort(key=lambda source: len(source.flows))
                for source in reading[: len(reading) // 2]:
                    for flow in self.drop(source):
                        self._on_failure(flow, "its broker takes no more connections")
        if refused.base not in by_base:
            return False
        self._share_out(refused.base)
        for flow in waiting:
            self._read(flow)
        return True

    # -- the selector -----------------------------------------------------------------------------

    def _watch(self, owner: Owner, handler: Callable[[int], None]) -> None:
        self._selector.register(owner.connection, selectors.EVENT_READ, handler)
        self._masks[owner] = selectors.EVENT_READ
        if isinstance(owner, SourceConnection):
            self._awaited.register(owner.connection, selectors.EVENT_READ)

    def watch(self) -> None:
        """Selects for writing only the connections that have bytes to write."""
        for owner, mask in self._masks.items():
            wanted = selectors.EVENT_READ
            if owner.connection.wants_write:
                wanted |= selectors.EVENT_WRITE
            if wanted != mask:
                handler = self._selector.get_key(owner.connection).data
                self._selector.modify(owner.connection, wanted, handler)
                self._masks[owner] = wanted

    def await_source(self, timeout_s: float) -> None:
        """Sleeps until a source broker has sent bytes, or `timeout_s` (in whole milliseconds) is
        over."""
        self._awaited.select(timeout_s)

    def timed_out(self, now: float) -> list[Owner]:
        """The connections whose response is overdue, or whose session is about to expire."""
        late: list[Owner] = []
        for key, source in self._sources.items():
            patience = self._settings[key.cluster].request_timeout_ms + source.session.max_wait_ms
            since = max(source.sent_at, source.throttled_until)
            overdue = source.waiting and now - since > patience / 1000
            if overdue or _expired(source.connection, now):
                late.append(source)
        for other, target in self._targets.items():
            patience = 2 * self._settings[other.cluster].request_timeout_ms
            since = max(target.oldest_sent_at, target.throttled_until)
            overdue = target.waiting and now - since > patience / 1000
            if overdue or (_expired(target.connection, now) and not target.waiting):
                late.append(target)
        return late

    # -- the end ----------------------------------------------------------------------------------

    def drop(self, owner: Owner) -> set[Flow]:
        """Closes a connection. Returns the flows that need recovery because of that.

        For a connection to a target, these are all flows that write to the broker, also idle ones.
        The broker may have been restarted, and may have forgotten their producer ids. Another lane
        may have written the records that an idle flow is about to send.
        """
        if self._masks.pop(owner, None) is None:
            return set()
        self._selector.unregister(owner.connection)
        if isinstance(owner, SourceConnection):
            self._awaited.unregister(owner.connection)
            self._sources = {k: v for k, v in self._sources.items() if v is not owner}
            owner.connection.close()
            return set(owner.flows.values())
        (lost,) = (key for key, target in self._targets.items() if target is owner)
        del self._targets[lost]
        attached = {flow for source in self._sources.values() for flow in source.flows.values()}
        attached.update(*self._opening.values())
        affected = owner.abandon() | {
            flow
            for flow in attached
            if any(self._target_key(flow, outlet) == lost for outlet in flow.outlets)
        }
        self._instead = {key: over for key, over in self._instead.items() if over != lost}
        return affected

    def close(self) -> None:
        for owner in list(self._masks):
            self.drop(owner)
        self._awaited.close()
        self._clusters.close()


def _expired(connection: Connection, now: float) -> bool:
    expires_at = connection.session_expires_at
    return expires_at is not None and now >= expires_at
