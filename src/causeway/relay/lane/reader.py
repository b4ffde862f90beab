"""One connection to a source broker: a fetch session over the flows that it leads.

One request is outstanding at a time; while the broker prepares the next answer, the lane works on
the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from causeway.errors import ProtocolError
from causeway.relay.lane.flow import Flow
from causeway.wire.connection import Connection
from causeway.wire.fetch import HIGHEST_VERSION, Cursor, Fetched, FetchSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """`ask`: how many bytes of a flow may be asked for now, 0 where it is held back; `wait_ms`: so
    long the others' poll may last then; `by_turns`: those that are held back come first next."""

    ask: Callable[[Flow], int]
    wait_ms: Callable[[], int]
    by_turns: bool = False


@dataclass(slots=True, eq=False)
class SourceConnection:
    """Not thread-safe; belongs to one lane's loop. `connection` is non-blocking."""

    connection: Connection
    session: FetchSession
    flows: dict[tuple[bytes, int], Flow] = field(default_factory=dict)
    sent_at: float = 0.0
    _correlation_id: int | None = None
    _asked: dict[tuple[bytes, int], int] = field(default_factory=dict)  # offsets asked for

    def add(self, flow: Flow) -> None:
        self.flows[self._key(flow)] = flow

    def remove(self, flow: Flow) -> None:
        # Another link's flow may read the same partition, over a connection of its own.
        if self.flows.get(key := self._key(flow)) is flow:
            del self.flows[key]

    def _key(self, flow: Flow) -> tuple[bytes, int]:
        assignment = flow.assignment
        if self.session.version >= HIGHEST_VERSION:
            return bytes.fromhex(assignment.topic_id), assignment.partition
        return assignment.topic.encode(), assignment.partition

    @property
    def waiting(self) -> bool:
        return self._correlation_id is not None

    def request(self, allowance: Allowance, now: float) -> None:
        """Ask for the next records of the flows, as far as allowed, unless an answer is due."""
        if self._correlation_id is not None:
            if self.connection.wants_write:
                self.connection.flush()
            return
        cursors = {
            key: Cursor(
                key[0],
                key[1],
                -1,
                flow.position,
                flow.leader_epoch,
                most,
            )
            for key, flow in self.flows.items()
            if (most := allowance.ask(flow))
        }
        if not cursors:
            return
        self._asked = {key: cursor.offset for key, cursor in cursors.items()}
        held_back = len(cursors) < len(self.flows)
        self._correlation_id = self.connection.next_correlation_id()
        self.sent_at = now
        wait_ms = self.session.max_wait_ms
        if held_back:
            wait_ms = min(wait_ms, allowance.wait_ms())
            if allowance.by_turns:
                for key in cursors:
                    self.flows[key] = self.flows.pop(key)
        self.connection.queue([self.session.build(self._correlation_id, cursors, wait_ms=wait_ms)])
        self.connection.flush()

    def receive(self) -> Iterator[tuple[int, list[tuple[Flow, Fetched]]]]:
        """The answer, if it has arrived whole: its error code and, for each flow that still reads
        here, what was fetched. A flow that was sent elsewhere meanwhile (recovery found another
        place) is left out: this answer would make it skip. Raises ConnectionError, ProtocolError.
        """
        for frame in self.connection.receive():
            if int.from_bytes(frame[:4], "big", signed=True) != self._correlation_id:
                raise ProtocolError("fetch", "", "an answer to a request that was never sent")
            self._correlation_id = None
            error, partitions = self.session.parse(frame)
            yield (
                error,
                [
                    (flow, fetched)
                    for fetched in partitions
                    if (flow := self.flows.get(key := (fetched.topic, fetched.partition)))
                    and self._asked.get(key) == flow.position
                ],
            )
