"""Flows of a lane, and connections without a broker."""

from __future__ import annotations

import selectors
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from kafka.protocol.producer import ProduceRequest, ProduceResponse

from causeway.link_topics import Outlet
from causeway.model import Pair, State
from causeway.records import Batch
from causeway.relay import Assignment, Clusters
from causeway.relay.lane import clock
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.lease import LeaseGuard
from causeway.relay.lane.outlet import (
    OutletState,
    Sent,
)
from causeway.relay.lane.relay import Relay
from causeway.relay.lane.stages import LaneStages
from causeway.relay.lane.target import (
    TargetConnection,
)
from causeway.wire import Connection, Produced, SendQueue

VERSION = 12  # topics by name


@contextmanager
def open_relay(buffer_bytes: int = 64 << 20) -> Iterator[Relay]:
    """A relay without clusters."""
    clusters = Clusters(
        clusters={},
        lease_s=10.0,
        report_interval_s=1.0,
        connections=1,
        in_flight=5,
        buffer_bytes=buffer_bytes,
    )
    helpers, selector = Helpers(1), selectors.DefaultSelector()
    stages = LaneStages("127.0.0.1", "secret", helpers, selector)
    found = Relay(clusters, LeaseGuard(), helpers, selector, stages, on_done=lambda: None)
    yield found
    found.close()
    helpers.close()
    selector.close()


class Bench:
    """A connection and the flows that use it."""

    def __init__(self, requests: int = 5, small_requests: int = 0) -> None:
        self.wire = FakeConnection()
        self.target = TargetConnection(
            cast(Connection, self.wire), VERSION, 30_000, requests, small_requests
        )
        self.lease = LeaseGuard()
        self.lease.renew(clock() + 3600)
        self.now = 1000.0

    def flow(self, partition: int = 0, *targets: int, producer_id: int = 7) -> Flow:
        return Flow.of(
            Assignment(
                link="A->B",
                source="a",
                target="b",
                topic="t",
                partition=partition,
                topic_id="a" * 32,
                leader_epoch=-1,
                outlets=tuple(
                    Outlet(
                        topic="A.t",
                        partition=p,
                        topic_id="b" * 32,
                        producer_id=producer_id + i if producer_id >= 0 else -1,
                        producer_epoch=3 if producer_id >= 0 else -1,
                        pair=Pair(source=0, target=0, sequence=2**31 - 2),
                    )
                    for i, p in enumerate(targets or (partition,))
                ),
            )
        )

    def offer(self, flow: Flow, outlet: OutletState, *batches: Batch) -> None:
        for batch in batches:
            outlet.put(batch)
        self.target.offer(flow, outlet)

    def send(self) -> list[dict[tuple[str, int], bytes]]:
        """The requests that this makes: the batch for each partition."""
        before = len(self.wire.requests)
        self.target.send(self.lease, self.now)
        return [
            {(t.name, p.index): bytes(p.records) for t in r.topic_data for p in t.partition_data}
            for r in self.wire.requests[before:]
        ]

    def receive(self) -> list[tuple[Flow, OutletState, Sent, Produced]]:
        return [
            (*part, result) for answer in self.target.receive(self.now) for part, result in answer
        ]


class FakeConnection:
    """Keeps what is sent; answers what it is told to."""

    def __init__(self) -> None:
        self.client_id_bytes = b"c"
        self.closed = False
        self.session_expires_at: float | None = None
        self.queued: list[Any] = []
        self.outbox = SendQueue(cast(Any, None))  # for its size
        self.full = False  # the socket takes nothing
        self.flushes = 0
        self.borne_s = 0.0
        self.requests: list[Any] = []
        self.frames: list[memoryview] = []
        self._ids = iter(range(1, 1000))

    def next_correlation_id(self) -> int:
        return next(self._ids)

    @property
    def wants_write(self) -> bool:
        return bool(self.queued)

    def queue(self, buffers: Sequence[bytes], size: int) -> None:
        frame = b"".join(buffers)
        assert size == len(frame)
        self.outbox.size += len(frame)
        self.queued.append(ProduceRequest.decode(frame, version=VERSION, header=True, framed=True))

    def flush(self) -> bool:
        self.flushes += 1
        if self.full:
            return False
        self.requests += self.queued
        self.queued.clear()
        self.outbox.size = 0
        return True

    def receive(self) -> Iterator[memoryview]:
        frames, self.frames = self.frames, []
        return iter(frames)

    def outlast_throttle(self, seconds: float) -> None:
        self.borne_s = seconds

    def close(self) -> None:
        self.closed = True

    def answer(
        self,
        request: Any,
        *,
        error: int = 0,
        leave_out: int | None = None,
        throttle_ms: int = 0,
    ) -> None:
        kind = ProduceResponse.TopicProduceResponse
        part = kind.PartitionProduceResponse
        response = ProduceResponse(
            version=VERSION,
            responses=[
                kind(
                    name=topic.name,
                    partition_responses=[
                        part(
                            index=p.index,
                            error_code=error,
                            base_offset=100,
                            log_append_time_ms=-1,
                        )
                        for p in topic.partition_data
                        if p.index != leave_out
                    ],
                )
                for topic in request.topic_data
            ],
            throttle_time_ms=throttle_ms,
        )
        response.with_header(correlation_id=request.header.correlation_id)
        self.frames.append(memoryview(bytes(response.encode(header=True))))


def flow(partition: int = 0, *, topic: str = "orders", lag: bool = True, **more: Any) -> Flow:
    outlet = Outlet(
        topic=f"A.{topic}",
        partition=partition,
        topic_id="bb" * 16,
        producer_id=1,
        producer_epoch=0,
        pair=Pair(0, 0, 0),
    )
    found = Flow.of(
        Assignment(
            link="A->B",
            source="A/0",
            target="B/1",
            topic=topic,
            partition=partition,
            topic_id="aa" * 16,
            leader_epoch=-1,
            outlets=(outlet,),
            **more,
        )
    )
    found.state = State.RUNNING
    found.source_end = 1_000_000 if lag else 0
    return found


class Wire:
    """Takes requests, and tells what they ask for."""

    wants_write = False

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def next_correlation_id(self) -> int:
        return len(self.sent)

    def queue(self, parts: list[bytes]) -> None:
        self.sent += parts

    def flush(self) -> None: ...
