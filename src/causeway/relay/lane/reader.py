"""One connection to a source broker: a fetch session over flows that it leads.

One request is outstanding at a time; while the broker prepares the next answer, the lane works on
the last one. A broker has several (connections.py), each with flows of its own: what is fetched of
a flow always follows the records that were taken before.
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
    FetchPosition,
    FetchSession,
    Place,
    fetch,
    round_trip_s,
)


@dataclass(frozen=True, slots=True)
class SourceKey:
    """Links share no connection: several links may read one partition, each at its own position,
    and a fetch session holds a partition once."""

    link: str
    cluster: str
    node: int
    read_committed: bool
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    slot: int = 0  # which of the connections to that broker

    @property
    def base(self) -> SourceKey:
        """The key without its slot: equal for all connections that read alike from that broker."""
        return replace(self, slot=0)

    @property
    def broker(self) -> tuple[str, int]:
        return self.cluster, self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """`room`: whether anything may be asked for now; `ask`: how many bytes of a flow, 0 where it is
    held back; `wait_ms`: so long the others' poll may last then; `by_turns`: each flow is asked
    about each time, and those that are held back come first next."""

    room: bool
    ask: Callable[[Flow], int]
    wait_ms: Callable[[], int]
    by_turns: bool = False


@dataclass(slots=True, eq=False)
class SourceConnection:
    """Not thread-safe; belongs to one lane's loop. `connection` is non-blocking.

    A request looks at the flows to which something happened since the last one, and at those that
    were held back: if thousands are idle, there are none.

    `most_bytes`: of an answer; `round_trip_s`: to the broker and back, once.
    """

    connection: Connection
    session: FetchSession
    most_bytes: int
    round_trip_s: float = 0.0
    flows: dict[Place, Flow] = field(default_factory=dict)
    sent_at: float = 0.0
    throttled_until: float = 0.0  # monotonic: until then the broker reads no request, by a quota
    # Monotonic: until then a request would bring little. 0 after an answer of a busy session.
    paced_until: float = 0.0
    _correlation_id: int | None = None
    _news: dict[Place, None] = field(default_factory=dict)  # to be looked at by the next request
    _by_turns: bool = False  # the last request was

    def add(self, flow: Flow) -> None:
        key = self._key(flow)
        self.flows[key] = flow
        self._news[key] = None

    def remove(self, flow: Flow) -> None:
        # Another link's flow may read the same partition, over a connection of its own.
        if self.flows.get(key := self._key(flow)) is flow:
            del self.flows[key]
            self._news[key] = None

    def _key(self, flow: Flow) -> Place:
        assignment = flow.assignment
        if self.session.version >= fetch.HIGHEST_VERSION:
            return bytes.fromhex(assignment.topic_id), assignment.partition
        return assignment.topic.encode(), assignment.partition

    def held_up(self) -> Iterator[Flow]:
        """The flows that have unread records, as far as is known."""
        for flow in self.flows.values():
            if flow.source_end < 0 or flow.position < flow.source_end:
                yield flow

    @property
    def waiting(self) -> bool:
        return self._correlation_id is not None

    def request(self, allowance: Allowance, now: float) -> None:
        """Fetches the next records of the flows, as far as allowed, unless a response is due."""
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
        """Bring the session up to date with the flows `keys`, and those that are gone: which are
        asked for, and whether others are held back."""
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
                # A leader of another epoch refuses the fetch: its epoch or ours is out of date.
                self.session.read(
                    FetchPosition(*key, flow.source_epoch, flow.position, flow.compared_epoch, most)
                )
                asked.append(key)
            else:
                self.session.leave(key)
                held_back = True
            if not most or flow.on_the_way is not None:  # a stage brings what holds it back
                self._news[key] = None
        return asked, held_back

    def receive(self) -> Iterator[tuple[int, list[tuple[Flow, Fetched]]]]:
        """The answer, if it has arrived whole: its error code and, for each flow that still reads
        here, what was fetched. A flow that was sent elsewhere meanwhile (recovery found another
        place) is left out: this answer would make it skip. Raises ConnectionError, ProtocolError.
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
    """Opens a connection, for a helper's thread: blocks. Raises CausewayError."""
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
