"""One connection to a source broker: a fetch session over flows that the broker leads.

One request is outstanding at a time. While the broker prepares the next answer, the lane works on
the last answer. A lane has several connections to a broker (connections.py), and each flow belongs
to one of them. So the records that are fetched of a flow always follow the records before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from causeway.cluster import Cluster
from causeway.errors import ProtocolError
from causeway.relay.lane import limits
from causeway.relay.lane.flow import Flow
from causeway.wire import (
    Connection,
    Fetched,
    FetchSession,
    Place,
    fetch,
    round_trip_s,
)


@dataclass(frozen=True, slots=True)
class SourceKey:
    """Identifies a connection. Links share no connection: several links may read the same
    partition, each at its own position, but a fetch session has each partition only once."""

    link: str
    cluster: str
    node: int
    read_committed: bool
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    slot: int = 0  # the number of the connection to the broker

    @property
    def base(self) -> SourceKey:
        """The key with slot 0. It is equal for all connections to the broker with the same
        settings."""
        return replace(self, slot=0)

    @property
    def broker(self) -> tuple[str, int]:
        return self.cluster, self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much may be fetched now. `room`: whether anything may be fetched. `ask`: how many bytes
    of a flow may be fetched, 0 if the flow is held back. `wait_ms`: the longest poll of the other
    flows while a flow is held back. `by_turns`: each request looks at all flows, and flows that
    were held back come first in the next request."""

    room: bool
    ask: Callable[[Flow], int]
    wait_ms: Callable[[], int]
    by_turns: bool = False


@dataclass(slots=True, eq=False)
class SourceConnection:
    """Not thread-safe; belongs to one lane's loop. `connection` is non-blocking.

    A request looks only at flows that had an event since the last request, and at flows that were
    held back. So idle flows cost nothing, even if there are thousands.

    `most_bytes` limits an answer. `round_trip_s` is the time of one round trip to the broker.
    """

    connection: Connection
    session: FetchSession
    most_bytes: int
    round_trip_s: float = 0.0
    flows: dict[Place, Flow] = field(default_factory=dict)
    sent_at: float = 0.0
    throttled_until: float = 0.0  # monotonic: a quota makes the broker read no request until then
    # Monotonic: a request before that would bring little. 0 after an answer of a busy session.
    paced_until: float = 0.0
    _correlation_id: int | None = None
    _news: dict[Place, None] = field(default_factory=dict)  # the next request looks at these flows
    _by_turns: bool = False  # of the last request

    def add(self, flow: Flow) -> None:
        key = self._key(flow)
        self.flows[key] = flow
        self._news[key] = None

    def remove(self, flow: Flow) -> None:
        # A flow of another link may read the same partition over its own connection.
        if self.flows.get(key := self._key(flow)) is flow:
            del self.flows[key]
            self._news[key] = None

    def _key(self, flow: Flow) -> Place:
        assignment = flow.assignment
        if self.session.version >= fetch.HIGHEST_VERSION:
            return bytes.fromhex(assignment.topic_id), assignment.partition
        return assignment.topic.encode(), assignment.partition

    def held_up(self) -> Iterator[Flow]:
        """The flows that have unread records, or whose end is not known."""
        for flow in self.flows.values():
            if flow.source_end < 0 or flow.position < flow.source_end:
                yield flow

    @property
    def waiting(self) -> bool:
        return self._correlation_id is not None

    def request(self, allowance: Allowance, now: float) -> None:
        """Sends a fetch for the next records of the flows, as far as `allowance` lets it. Does
        nothing if a response is outstanding, except to send the rest of its request."""
        if self._correlation_id is not None:
            if self.connection.wants_write:
                self.connection.flush()
            return
        if not allowance.room:
            return
        keys = list(self.flows) if allowance.by_turns or self._by_turns else list(self._news)
        self._by_turns = allowance.by_turns
        asked, held_back = self._look(keys, allowance)
        if not len(self.session):
            return
        wait_ms = self.session.max_wait_ms
        if held_back:
            wait_ms = min(wait_ms, allowance.wait_ms())
            if allowance.by_turns:
                for key in asked:
                    self.flows[key] = self.flows.pop(key)
        self._correlation_id = self.connection.next_correlation_id()
        self.sent_at = now
        self.connection.queue([self.session.build(self._correlation_id, wait_ms=wait_ms)])
        self.connection.flush()

    def _look(self, keys: Iterable[Place], allowance: Allowance) -> tuple[list[Place], bool]:
        """Updates the session for the flows `keys`, and for flows that are gone. Returns the keys
        that are fetched, and whether a flow is held back."""
        for key in self._news:
            if key not in self.flows:
                self.session.leave(key)
        self._news.clear()
        asked, held_back = [], False
        most_bytes = limits.partition_bytes(
            self.round_trip_s, self.session.max_bytes, len(self.flows)
        )
        for key in keys:
            flow = self.flows.get(key)
            if flow is None:
                continue
            if flow.assignment.max_partition_bytes is None:
                flow.answer_bytes = most_bytes
            if most := allowance.ask(flow):
                # A leader with another epoch refuses the fetch: its epoch or ours is out of date.
                self.session.read(
                    fetch.position(
                        (*key, flow.source_epoch, flow.position, flow.compared_epoch, most)
                    )
                )
                asked.append(key)
            else:
                self.session.leave(key)
                held_back = True
            if not most or flow.on_the_way is not None:  # results of a stage can hold a flow back
                self._news[key] = None
        return asked, held_back

    def receive(self) -> Iterator[tuple[int, list[tuple[Flow, Fetched]]]]:
        """Yields the answer if all bytes of it have arrived: its error code, and the fetched part
        of each flow that still reads at this position. If recovery has moved a flow since the
        request, its part is left out, because the flow would skip records. Raises ConnectionError
        and ProtocolError.
        """
        for frame in self.connection.receive():
            if int.from_bytes(frame[:4], "big", signed=True) != self._correlation_id:
                raise ProtocolError("fetch", "", "an answer to a request that was never sent")
            self._correlation_id = None
            session = self.session
            session.max_bytes = limits.next_answer_bytes(
                session.max_bytes,
                self.most_bytes,
                len(frame),
                time.monotonic() - self.sent_at,
                self.round_trip_s,
            )
            self.paced_until = limits.paced_until(self.sent_at, len(session), len(frame))
            error, partitions = self.session.parse(frame)
            if session.throttle_ms:
                self.throttled_until = time.monotonic() + session.throttle_ms / 1000
            taken = []
            for fetched in partitions:
                key = fetched.topic, fetched.partition
                flow = self.flows.get(key)
                if flow is not None and self.session.asked(key) == flow.position:
                    self._news[key] = None
                    taken.append((flow, fetched))
            yield error, taken


def open_source(cluster: Cluster, key: SourceKey) -> SourceConnection:
    """Opens a connection. It blocks, so a helper's thread calls it. Raises CausewayError."""
    connection = cluster.open_connection(key.node)
    version = connection.api_version(fetch.API_KEY, fetch.HIGHEST_VERSION, fetch.LOWEST_VERSION)
    session = FetchSession(
        version=version,
        client_id=connection.client_id_bytes,
        max_wait_ms=key.max_wait_ms,
        min_bytes=key.min_bytes,
        max_bytes=limits.FIRST_ANSWER_BYTES,
        read_committed=key.read_committed,
    )
    return SourceConnection(connection, session, 0, round_trip_s(connection, limits.NEAR_S))
