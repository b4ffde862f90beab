"""One connection to a target broker: sends the batches of outlets, and reads the responses.

The broker works on one request of a connection at a time. So a request has a batch of each outlet
that may send, several requests are in flight, and small neighbours are merged first.

A broker that does not know a producer id accepts any first sequence. If it refused the first of
several batches in flight (for its timestamps or size), it would append the next batch in its place.
So an outlet has one batch in flight until the broker has answered a batch: then it knows our
producer.

A broker expires a producer by the newest timestamp in the *last batch that it appended*. So if
others write, this is true at each moment (`remembered_until`):

    several batches in flight  ⟹  all of them are young, and so is the last acknowledged batch

A batch of old records may be sent while young ones before it are in flight. No batch follows it
until all of them are answered. If we are the only writer, old batches may be in flight together:
the offset of the answer, or recovery, would show a hole.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.cluster import REMEMBERED_S, Cluster, is_young
from causeway.errors import ProtocolError
from causeway.records import HEADER_SIZE, SMALL_BATCH, fast_tuple, header
from causeway.relay.lane import limits
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.lease import LeaseGuard
from causeway.relay.lane.limits import PART_BYTES, RequestLimit
from causeway.relay.lane.outlet import OutletState, Sent, next_batch
from causeway.wire import Connection, Part, Produced, Stamped, produce, round_trip_s

REQUEST_BYTES = 4 * 1024 * 1024  # a request of this size gets no more batches
UNANSWERED_BYTES = 24 * 1024 * 1024  # on one connection; a long round trip needs it
# After this time of compression a turn goes on. So the broker gets work, and other partitions and
# the driver do not wait long, even if the level is slow.
COMPRESS_S = 0.02
# On one connection: a broker works on this for some milliseconds.
PLENTY_BYTES = 2 * 1024 * 1024
# The most bytes of small requests in flight. Many responses then share the cost of a turn.
SMALL_BYTES = 8 * 1024 * 1024
PLENTY_REQUESTS = 8  # and at least half of the requests that may be unanswered
# For this part of the time that a broker has work for, its responses may wait for each other.
RESTED = 0.5
# A rest is no longer than a broker needs for this number of bytes: arriving bytes wait in the
# kernel, and if there are many, they leave the CPU caches.
RESTED_BYTES = 6 * 1024 * 1024
FIRST_REST_S = 0.002  # while the speed of the broker is not known
LEAST_REST_S = 0.0005  # a shorter rest is not worth it
MOST_REST_S = 0.02  # records of other brokers may wait this long because of a rest


Unanswered = tuple[Flow, OutletState, Sent]
# The result of each batch of a request.
Answer = Iterator[tuple[Unanswered, Produced]]


class TargetKey(NamedTuple):
    """A plain tuple, because it is looked up for each partition of each answer."""

    cluster: str
    node: int
    slot: int  # the number of the connection to the broker


target_key = fast_tuple(TargetKey)


class _ProduceRequest(NamedTuple):
    """`size`: the bytes of its batches. `framed`: the bytes of the whole request."""

    correlation_id: int
    size: int
    framed: int
    parts: dict[Part, Unanswered]


_request = fast_tuple(_ProduceRequest)


@dataclass(slots=True, eq=False)
class TargetConnection:
    """Not thread-safe; belongs to one lane's loop. `connection` is non-blocking."""

    connection: Connection
    version: int
    timeout_ms: int
    max_requests: int
    most_small_requests: int = 0  # instead of `max_requests`, if all together are below SMALL_BYTES
    limit: RequestLimit = field(default_factory=RequestLimit)
    _ready: OrderedDict[OutletState, Flow] = field(default_factory=OrderedDict)
    _requests: deque[_ProduceRequest] = field(default_factory=deque)
    _unanswered_bytes: int = 0
    _bytes_per_s: float = 0.0  # the broker's last measured speed
    _throttle_s: float = 0.0  # the longest that the broker has announced
    oldest_sent_at: float = 0.0
    _compress_until: float = 0.0  # monotonic
    _compressed_enough: bool = False
    throttled_until: float = 0.0  # monotonic: until then the broker reads no request, by a quota
    _throttled: bool = False  # the last answer said so

    def offer(self, flow: Flow, outlet: OutletState) -> None:
        """`outlet` has batches to send over this connection."""
        self._ready[outlet] = flow

    def withdraw(self, outlet: OutletState) -> None:
        """Sends nothing more of `outlet` until it is offered again."""
        self._ready.pop(outlet, None)

    @property
    def ready(self) -> Collection[OutletState]:
        """The outlets that have something to send."""
        return self._ready.keys()

    @property
    def waiting(self) -> bool:
        return bool(self._requests)

    @property
    def has_plenty(self) -> bool:
        """Whether the broker has so much work that its answers may wait for each other."""
        return self._sent_bytes >= PLENTY_BYTES or (
            not self.connection.wants_write
            and len(self._requests) >= max(PLENTY_REQUESTS, self.max_requests // 2)
        )

    @property
    def _sent_bytes(self) -> int:
        """The bytes of unanswered requests that are completely in the socket. The broker can work
        only on complete requests."""
        left, here = self._unanswered_bytes, self.connection.outbox.size
        for request in reversed(self._requests):
            if here <= 0:
                break
            here -= request.framed
            left -= request.size
        return left

    @property
    def rest_s(self) -> float:
        """How long the lane may sleep while the broker has plenty of work; 0: not at all."""
        if not self._bytes_per_s:
            return FIRST_REST_S
        rest_s = min(RESTED * self._sent_bytes, RESTED_BYTES) / self._bytes_per_s
        return 0.0 if rest_s < LEAST_REST_S else min(rest_s, MOST_REST_S)

    @property
    def lacks(self) -> bool:
        """Whether batches wait, and the broker has not plenty of work."""
        return (bool(self._ready) or self.connection.wants_write) and not self.has_plenty

    @property
    def unfinished(self) -> bool:
        """Whether `send` left batches to the next turn because compression took too long."""
        return self._compressed_enough and bool(self._ready)

    def send(self, lease: LeaseGuard, now: float) -> None:
        """Builds and sends as many requests as may be in flight. Sends nothing after the lease.
        Builds no request after the end of the SASL session: each request must get its response."""
        self._compressed_enough = False
        expires_at = self.connection.session_expires_at
        if not self._ready or now < self.throttled_until:
            return
        if (expires_at is not None and now >= expires_at) or not lease.lasts():
            return
        full = self.connection.wants_write  # then `flush` is called when the socket has room
        queued = False
        self._compress_until = time.monotonic() + COMPRESS_S
        while not self._compressed_enough and self._may_have_more() and self._queue_one(now):
            queued = True
        if queued and not full:
            self.flush(lease)

    def _may_have_more(self) -> bool:
        count, size = len(self._requests), self._unanswered_bytes
        if self._throttled:  # the broker delays each request until the quota allows it
            return not count
        if count >= self.max_requests:
            return count < self.most_small_requests and size < SMALL_BYTES
        return size < UNANSWERED_BYTES

    def flush(self, lease: LeaseGuard) -> None:
        """Sends queued bytes until the socket is full, while the lease lasts."""
        lease.send(self.connection.flush)

    def _queue_one(self, now: float) -> bool:
        """Builds one request with a batch of each outlet that may send. False if no outlet may."""
        stamped: list[Stamped] = []
        parts: dict[Part, Unanswered] = {}
        size = 0
        room = self.limit.batches_bytes
        ready = self._ready
        with_ids = self.version >= produce.WITH_IDS
        for _ in range(len(ready)):
            outlet, flow = ready.popitem(last=False)
            pending = outlet.pending
            if not pending:
                continue
            part = outlet.by_id if with_ids else outlet.by_name
            # Outlets of several source partitions may feed one target partition. A request must
            # have it only once: the broker would silently lose the second batch.
            if part in parts or not outlet.may_send(now):
                ready[outlet] = flow
                continue
            batch = pending[0]
            payload = batch[0]
            length = HEADER_SIZE + len(payload)
            room -= PART_BYTES
            if length > room and stamped:
                self._put_back(outlet, flow)
                break
            keeps_codec = outlet.as_is_codecs >> batch[1] & 1
            alone = length > SMALL_BATCH or len(pending) == 1  # small neighbours are merged
            if keeps_codec and alone and length <= outlet.as_is_bytes:
                pending.popleft()
                outlet.pending_bytes -= length
                if type(payload) is not memoryview:
                    outlet.copied_bytes -= length
            else:
                most = min(flow.assignment.max_message_bytes, self.limit.batch_bytes)
                batch = next_batch(outlet, most)
                if not keeps_codec:
                    self._compressed_enough = time.monotonic() >= self._compress_until
                payload = batch[0]
                length = HEADER_SIZE + len(payload)
                if length > room and stamped:
                    outlet.put_back(batch)
                    self._put_back(outlet, flow)
                    break
            room -= length
            if outlet.idempotent:
                stamp = header(batch, *outlet.producer, outlet.sequence)
            else:
                stamp = header(batch, -1, -1, -1)
            stamped.append((part[0], part[1], stamp, payload))
            parts[part] = flow, outlet, outlet.sent(batch)
            size += length
            if pending:
                ready[outlet] = flow
            if size >= REQUEST_BYTES or self._compressed_enough:
                break
        if not stamped:
            return False
        connection = self.connection
        correlation_id = connection.next_correlation_id()
        buffers, framed = produce.build(
            correlation_id, self.version, connection.client_id_bytes, self.timeout_ms, stamped
        )
        if not self._requests:
            self.oldest_sent_at = now
        self._requests.append(_request((correlation_id, size, framed, parts)))
        self._unanswered_bytes += size
        connection.queue(buffers, framed)
        return True

    def _put_back(self, outlet: OutletState, flow: Flow) -> None:
        """Makes the outlet the first one of the next request."""
        self._ready[outlet] = flow
        self._ready.move_to_end(outlet, last=False)

    def receive(self, now: float) -> Iterator[Answer]:
        """Yields the answers that have arrived. Raises ConnectionError or ProtocolError. Then the
        connection is dead, and `abandon` returns the flows without an answer."""
        begun, had = self.oldest_sent_at, self._unanswered_bytes if self.has_plenty else 0
        requests, remembered_until = self._requests, now + REMEMBERED_S
        for frame in self.connection.receive():
            number, results, throttle_ms = produce.parse(frame, self.version)
            if not requests or requests[0].correlation_id != number:
                raise ProtocolError("produce", "", "an answer to a request that was never sent")
            if throttle_ms:
                self._throttle(throttle_ms / 1000, now)
            elif self._throttled:
                self._throttled = False
                # With the longer time-out, the kernel of a stopped lane would send for longer.
                self.connection.outlast_throttle(0.0)
            _, size, framed, parts = requests[0]
            if framed > self.limit.answered_bytes:
                self.limit.answered(framed)
            try:
                found = list(map(results.__getitem__, parts))
            except KeyError as left_out:
                flow, _, _ = parts[left_out.args[0]]
                cause = "the answer leaves it out"
                raise ProtocolError("produce", flow.subject, cause) from None
            requests.popleft()
            self.oldest_sent_at = now
            self._unanswered_bytes -= size
            for (_, outlet, sent), result in zip(parts.values(), found, strict=True):
                outlet.unanswered -= 1
                if not result[0] and (
                    outlet.exclusive
                    or outlet.remembered_until  # no old batch was sent since it was set
                    or (not outlet.unanswered and is_young(sent.max_timestamp))
                ):
                    outlet.remembered_until = remembered_until
            yield zip(parts.values(), found, strict=True)
        # The speed of a broker can be measured only while it has plenty of work.
        if had > self._unanswered_bytes and now > begun:
            self._bytes_per_s = (had - self._unanswered_bytes) / (now - begun)

    def _throttle(self, seconds: float, now: float) -> None:
        self._throttled = True
        self._throttle_s = max(self._throttle_s, seconds)
        self.throttled_until = now + seconds
        self.connection.outlast_throttle(seconds)

    @property
    def read_by(self) -> float:
        """The time (monotonic) until which a quota may keep the broker from reading unanswered
        requests. The broker may throttle for each request before it reads the next one."""
        return self.throttled_until + self._throttle_s * len(self._requests)

    def held_up(self) -> set[Flow]:
        """The flows that have something to send, or wait for an answer."""
        sent = (flow for request in self._requests for flow, _, _ in request.parts.values())
        return {*sent, *self._ready.values()}

    def closed_by_broker(self) -> str:
        """The broker closed the connection: accounts for the size of unanswered requests. Returns a
        text about that for the reason."""
        return self.limit.lost(max((request.framed for request in self._requests), default=0))

    def abandon(self) -> set[Flow]:
        """Closes the connection. Returns the flows whose batches may or may not have been appended,
        and the flows that had batches to send. Sent batches may still arrive."""
        self.connection.close()
        affected = {flow for outlet, flow in self._ready.items() if outlet.pending}
        self._ready.clear()
        # The broker may throttle for each request before it reads the next one.
        throttled_s = self._throttle_s * len(self._requests)
        late_by = time.monotonic() + self.timeout_ms / 1000 + throttled_s
        for request in self._requests:
            for flow, outlet, _ in request.parts.values():
                outlet.unanswered = 0
                flow.late_by = max(flow.late_by, late_by)
                affected.add(flow)
        self._requests.clear()
        return affected


def open_target(
    cluster: Cluster, node: int, timeout_ms: int, in_flight: int | None, limit: RequestLimit
) -> TargetConnection:
    """Opens a connection. It blocks, so a helper's thread calls it. Raises CausewayError."""
    connection = cluster.open_connection(node)
    version = connection.api_version(
        produce.API_KEY, produce.HIGHEST_VERSION, produce.LOWEST_VERSION
    )
    small = in_flight
    if in_flight is None or small is None:
        in_flight = limits.requests(round_trip_s(connection, limits.NEAR_S))
        small = limits.SMALL_REQUESTS
    return TargetConnection(connection, version, timeout_ms, in_flight, small, limit)
