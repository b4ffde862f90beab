"""One connection to a target broker: takes batches from its outlets, sends them, reads answers.

The broker works on one request of a connection at a time. So a request takes a batch from each
outlet that has one, several requests are in flight, and small neighbours are merged first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.errors import ProtocolError
from causeway.relay.flow import Flow, OutletState, Sent
from causeway.wire import produce
from causeway.wire.batches import HEADER_SIZE, Batch, header
from causeway.wire.connection import Connection
from causeway.wire.produce import Produced, Stamped
from causeway.wire.records import MERGED_BYTES, MERGED_RECORDS, SMALL_BATCH, merge, split

REQUEST_BYTES = 4 * 1024 * 1024  # a request is closed once it holds this much
UNANSWERED_BYTES = 24 * 1024 * 1024  # on one connection: what a long round trip needs


class Answer(NamedTuple):
    flow: Flow
    outlet: OutletState
    sent: Sent
    produced: Produced


class _Request(NamedTuple):
    correlation_id: int
    size: int
    parts: dict[tuple[bytes, int], tuple[Flow, OutletState, Sent]]


@dataclass(slots=True, eq=False)
class TargetConnection:
    """Not thread-safe; belongs to one lane's loop. `connection` is non-blocking."""

    connection: Connection
    version: int
    timeout_ms: int
    max_requests: int
    _ready: deque[tuple[Flow, OutletState]] = field(default_factory=deque)
    _is_ready: set[OutletState] = field(default_factory=set)
    _requests: deque[_Request] = field(default_factory=deque)
    _unanswered_bytes: int = 0
    oldest_sent_at: float = 0.0

    def offer(self, flow: Flow, outlet: OutletState) -> None:
        """`outlet` has batches to send over this connection."""
        if outlet not in self._is_ready:
            self._is_ready.add(outlet)
            self._ready.append((flow, outlet))

    @property
    def pending_bytes(self) -> int:
        return sum(outlet.pending_bytes for outlet in self._is_ready)

    @property
    def waiting(self) -> bool:
        return bool(self._requests)

    def send(self, may_send: Callable[[], bool], now: float) -> None:
        """Build and send as many requests as may be in flight. `may_send` is asked right before
        each goes to the socket; when it says no, nothing more leaves this process."""
        while (
            self._ready
            and len(self._requests) < self.max_requests
            and self._unanswered_bytes < UNANSWERED_BYTES
        ):
            if not may_send():
                return
            self._send_one(now)
        if self.connection.wants_write and may_send():
            self.connection.flush()

    def _send_one(self, now: float) -> None:
        stamped: list[Stamped] = []
        parts: dict[tuple[bytes, int], tuple[Flow, OutletState, Sent]] = {}
        size = 0
        for _ in range(len(self._ready)):
            flow, outlet = self._ready.popleft()
            if not outlet.pending:
                self._is_ready.discard(outlet)
                continue
            batch = next_batch(outlet, flow.assignment.max_message_bytes)
            spec = outlet.spec
            topic = self.topic_key(outlet)
            producer = (spec.producer_id, spec.producer_epoch) if outlet.idempotent else (-1, -1)
            sequence = outlet.sequence if outlet.idempotent else -1
            stamped.append(
                Stamped(topic, spec.partition, header(batch, *producer, sequence), batch.payload)
            )
            parts[topic, spec.partition] = (flow, outlet, outlet.sent(batch))
            size += batch.size
            if outlet.pending:
                self._ready.append((flow, outlet))
            else:
                self._is_ready.discard(outlet)
            if size >= REQUEST_BYTES:
                break
        if not stamped:
            return
        correlation_id = self.connection.next_correlation_id()
        buffers = produce.build(
            correlation_id, self.version, self.connection.client_id_bytes, self.timeout_ms, stamped
        )
        if not self._requests:
            self.oldest_sent_at = now
        self._requests.append(_Request(correlation_id, size, parts))
        self._unanswered_bytes += size
        self.connection.queue(buffers)
        self.connection.flush()

    def topic_key(self, outlet: OutletState) -> bytes:
        if self.version >= produce.WITH_IDS:
            return bytes.fromhex(outlet.spec.topic_id)
        return outlet.spec.topic.encode()

    def receive(self, now: float) -> Iterator[Answer]:
        """The answers that have arrived. Raises ConnectionError or ProtocolError; then the
        connection is dead, and `abandon` names what stays unanswered."""
        for frame in self.connection.receive():
            correlation_id = int.from_bytes(frame[:4], "big", signed=True)
            if not self._requests or self._requests[0].correlation_id != correlation_id:
                raise ProtocolError("produce", "", "an answer to a request that was never sent")
            request = self._requests.popleft()
            self.oldest_sent_at = now
            self._unanswered_bytes -= request.size
            results = {
                (produced.topic, produced.partition): produced
                for produced in produce.parse(frame, self.version)
            }
            for key, (flow, outlet, sent) in request.parts.items():
                if key not in results:
                    raise ProtocolError("produce", flow.subject, "the answer leaves it out")
                outlet.unanswered -= 1
                yield Answer(flow, outlet, sent, results[key])

    def abandon(self) -> set[Flow]:
        """Close without a word; the flows whose batches may or may not have been appended, and
        those that had some to send."""
        self.connection.close()
        doubtful = {flow for flow, outlet in self._ready if outlet.pending}
        self._ready.clear()
        self._is_ready.clear()
        for request in self._requests:
            for flow, outlet, _ in request.parts.values():
                outlet.unanswered = 0
                doubtful.add(flow)
        self._requests.clear()
        return doubtful


def next_batch(outlet: OutletState, max_message_bytes: int) -> Batch:
    """The outlet's next batch: a run of small neighbours as one, one that is too large in parts.

    A single record that is too large goes out as it is: the broker's refusal names the reason.
    """
    batch = outlet.take()
    if batch.size > max_message_bytes and batch.records > 1:
        middle = batch.records // 2
        outlet.put_back(split(batch, middle, batch.records))
        outlet.put_back(split(batch, 0, middle))
        return next_batch(outlet, max_message_bytes)
    if batch.size > SMALL_BATCH or not outlet.pending:
        return batch
    run, count = [batch], batch.records
    room = min(MERGED_BYTES, max_message_bytes) - batch.size
    while outlet.pending:
        following = outlet.pending[0]
        room -= following.size - HEADER_SIZE
        count += following.records
        if (
            following.size > SMALL_BATCH
            or following.codec != batch.codec
            or room < 0
            or count > MERGED_RECORDS
        ):
            break
        run.append(outlet.take())
    return merge(run) if len(run) > 1 else batch
