"""A connection to a broker: requests of a batch for each partition, and their answers in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.errors import ProtocolError
from causeway.producer.outlet import Outlet
from causeway.records import header
from causeway.wire import Connection, Produced, produce

_REQUEST_BYTES = 1 << 20


class _Request(NamedTuple):
    correlation_id: int
    size: int
    sent_at: float
    parts: Mapping[tuple[bytes, int], Outlet]


@dataclass(slots=True, eq=False)
class Broker:
    """`ready`: outlets that may have something to send. `unanswered`: bytes. `silent_until`: it
    reads nothing before, for a quota."""

    node: int
    connection: Connection
    version: int
    requests: deque[_Request] = field(default_factory=deque)
    ready: dict[Outlet, None] = field(default_factory=dict)
    unanswered: int = 0
    silent_until: float = 0.0

    def oldest_sent_at(self, now: float) -> float:
        """Of the requests that are not answered; `now` where all are."""
        return self.requests[0].sent_at if self.requests else now

    def queue_one(self, producer: tuple[int, int], timeout_ms: int, now: float) -> bool:
        """One request with a batch of each outlet that may send; False where none may. Raises
        Unsure."""
        producer_id, epoch = producer
        with_ids = self.version >= produce.WITH_IDS
        stamped: list[tuple[bytes, int, bytes, bytes | memoryview]] = []
        parts: dict[tuple[bytes, int], Outlet] = {}
        size = 0
        for outlet in list(self.ready):
            if outlet.leader != self.node or not outlet.has_more():
                del self.ready[outlet]
                continue
            if not outlet.may_send(now):
                continue
            del self.ready[outlet]
            sending = outlet.take()
            batch = sending.batch
            topic = bytes.fromhex(outlet.topic_id) if with_ids else outlet.topic.encode()
            stamp = header(batch, producer_id, epoch, sending.sequence)
            stamped.append((topic, outlet.partition, stamp, batch.payload))
            parts[topic, outlet.partition] = outlet
            size += len(stamp) + len(batch.payload)
            if outlet.has_more():
                self.ready[outlet] = None  # behind the others
            if size >= _REQUEST_BYTES:
                break
        if not stamped:
            return False
        connection = self.connection
        correlation_id = connection.next_correlation_id()
        buffers, framed = produce.build(
            correlation_id, self.version, connection.client_id_bytes, timeout_ms, stamped
        )
        connection.queue(buffers, framed)
        self.requests.append(_Request(correlation_id, size, now, parts))
        self.unanswered += size
        return True

    def answers(self, now: float) -> Iterator[tuple[Outlet, Produced]]:
        """Those that have arrived. Raises ConnectionError and ProtocolError."""
        for frame in self.connection.receive():
            number, results, throttle_ms = produce.parse(frame, self.version)
            if not self.requests or self.requests[0].correlation_id != number:
                raise ProtocolError("produce", "", "an answer to a request that was never sent")
            parts = self.requests[0].parts
            if not parts.keys() <= results.keys():
                raise ProtocolError("produce", "", "the answer leaves a partition out")
            self.unanswered -= self.requests.popleft().size
            if throttle_ms:
                self.silent_until = now + throttle_ms / 1000
            for key, outlet in parts.items():
                yield outlet, results[key]
