"""Two clusters in a simulated time: what a lane sends them are real Fetch, Produce and
WriteTxnMarkers requests, and each step of theirs is taken when a test says so.

    a lane ── queue, flush ──► under way ──► served ──► answered ── receive ──► the lane
                                  │
                                  └ the connection dies: served as well, lost, or served later

A target's log is idempotent, as Kafka's: see TargetLog. Decoded and encoded by kafka-python. For
questions that wait for their answer, and for transactions, see simulated_cluster.py.
"""

from __future__ import annotations

import random
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import (
    ProduceRequest,
    ProduceResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from causeway.records import HEADER_SIZE
from causeway.wire import SendQueue, apis, codes
from tests.harness.simulated_coordinator import Coordinator
from tests.harness.simulated_logs import Clock, Place, SourceLog, TargetLog

VERSION = 12  # of Fetch and Produce: topics go by name
MARKERS_VERSION = 1
SOURCE = "source"  # the cluster's alias
OUT_OF_RANGE, NOT_LEADER, NOT_ENOUGH_REPLICAS, SESSION_NOT_FOUND = 1, 6, 19, 70
FENCED, UNKNOWN_EPOCH = 74, 75
LATE_S = 25.0  # so long what lies in the socket of a dead connection may be served


class Late(NamedTuple):
    """What a broker has still to read of a connection that is dead."""

    serve: Callable[[Any], object]
    requests: deque[Any]
    until: float


class Brokers:
    """All of both clusters. `faulty`: things go wrong, each as `chance` has it; `refusals`: so
    many appends are refused then; `damage`: so many fetched batches are damaged."""

    def __init__(
        self, chance: random.Random, clock: Clock, *, refusals: float, damage: float = 0.0
    ) -> None:
        self.damage = damage
        self.chance = chance
        self.clock = clock
        self.faulty = True
        self.markers_apart = False  # one is appended though one before it was refused
        self.refusals = refusals
        self.sources: dict[Place, SourceLog] = {}
        self.targets: dict[Place, TargetLog] = {}
        self.coordinator = Coordinator(self.targets, clock, self.happens)
        self.room: dict[tuple[str, int], int] = {}  # connections that a cluster's node takes
        self.connections: list[SourceBrokerConnection | TargetBrokerConnection] = []
        self.late: list[Late] = []
        self.refuses: Callable[[Place, bytes], bool] = self._refuses

    def happens(self, share: float) -> bool:
        return self.faulty and self.chance.random() < share

    def throttle_ms(self) -> int:
        """For a quota. A connection is not muted for it: what is sent all the same is served."""
        return self.chance.choice((200, 5_000, 40_000)) if self.happens(0.01) else 0

    def serve_late(self) -> None:
        """A request of some connection that is dead, in the order of sending; and what the
        coordinator of transactions does by itself."""
        self.coordinator.step()
        self.late = [one for one in self.late if one.requests and self.clock.now < one.until]
        if self.late:
            one = self.chance.choice(self.late)
            one.serve(one.requests.popleft())

    @property
    def live(self) -> list[SourceBrokerConnection | TargetBrokerConnection]:
        return [one for one in self.connections if not one.dead]

    def close(self) -> None:
        """All connections."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def _refuses(self, _: Place, __: bytes) -> bool:
        return self.happens(self.refusals)


class _BrokerConnection:
    """A lane's connection to a broker, and the broker's end of it."""

    client_id_bytes = b"causeway"

    def __init__(self, brokers: Brokers, cluster: str, node: int) -> None:
        self._brokers = brokers
        self.cluster, self.node = cluster, node
        self.session_expires_at: float | None = None
        self.outbox = SendQueue(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.under_way: deque[bytes] = deque()
        self.dead = self.closed = False
        self._queued: deque[bytes] = deque()
        self._answers: list[bytes] = []
        self._correlation_id = 0

    # -- as the lane has it -----------------------------------------------------------------------

    def fileno(self) -> int:
        """Of a socket that nothing comes through, for selectors."""
        return self.outbox._sock.fileno()

    def api_version(self, api_key: int, *_: int) -> int:
        return MARKERS_VERSION if api_key == apis.WRITE_TXN_MARKERS.key else VERSION

    def share(self, _: object) -> None: ...

    def outlast_throttle(self, _: float) -> None: ...

    def next_correlation_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    @property
    def wants_write(self) -> bool:
        return bool(self._queued)

    def queue(self, buffers: Sequence[bytes | memoryview], _: int | None = None) -> None:
        frame = b"".join(buffers)
        self._queued.append(frame)
        self.outbox.size += len(frame)

    def flush(self) -> bool:
        self._check()
        if self.dead:
            raise ConnectionResetError("the broker is gone")
        while self._queued:
            if self._brokers.happens(0.1):
                return False
            self.under_way.append(self._queued.popleft())
        self.outbox.size = 0
        return True

    def receive(self) -> list[memoryview]:
        """Some of what has arrived; a large answer can be written to, as one that a lane's buffers
        hold."""
        self._check()
        count, chance = len(self._answers), self._brokers.chance
        if self._brokers.faulty:
            count = chance.randint(0, count)
        arrived, self._answers = self._answers[:count], self._answers[count:]
        if not arrived and self.dead:
            raise ConnectionResetError("the broker is gone")
        return [memoryview(chance.choice((bytes, bytearray))(answer)) for answer in arrived]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.outbox._sock.close()
            self.die()

    def _check(self) -> None:
        if self.closed:
            raise ConnectionAbortedError("closed by the lane")

    # -- as the broker has it ---------------------------------------------------------------------

    def serve(self, frame: bytes) -> None:
        raise NotImplementedError

    def serve_next(self) -> None:
        if self.under_way:
            self.serve(self.under_way.popleft())

    def die(self) -> None:
        """Some of what is under way is served before, and some of the answers arrive."""
        if self.dead:
            return
        chance = self._brokers.chance
        for _ in range(chance.randint(0, len(self.under_way))):
            self.serve_next()
        self.dead = True
        del self._answers[chance.randint(0, len(self._answers)) :]

    def _answer(self, response: Any, correlation_id: int) -> None:
        response.with_header(correlation_id=correlation_id)
        self._answers.append(bytes(response.encode(header=True)))


class SourceBrokerConnection(_BrokerConnection):
    """Answers Fetch requests, in a session."""

    def __init__(self, brokers: Brokers, cluster: str, node: int) -> None:
        super().__init__(brokers, cluster, node)
        self._session = self._epoch = 0
        # By which leader epoch, from where, and how many bytes at most.
        self._read: dict[Place, tuple[int, int, int]] = {}

    def serve(self, frame: bytes) -> None:
        request = FetchRequest.decode(frame, version=VERSION, header=True, framed=True)
        error = 0 if self._take(request) else SESSION_NOT_FOUND
        kind = FetchResponse.FetchableTopicResponse
        topics: dict[str, list[Any]] = {}
        if not error:
            for (topic, _), part in self._parts(request).items():
                topics.setdefault(topic, []).append(part)
        response = FetchResponse(
            version=VERSION,
            throttle_time_ms=self._brokers.throttle_ms(),
            error_code=error,
            session_id=self._session,
            responses=[kind(topic=topic, partitions=parts) for topic, parts in topics.items()],
        )
        self._answer(response, request.header.correlation_id)

    def _take(self, request: Any) -> bool:
        """Whether it fits the session, which it brings up to date."""
        if request.session_epoch == 0:
            self._session, self._read = self._brokers.chance.randint(1, 1 << 30), {}
        elif not self._session or self._brokers.happens(0.03):
            self._session = 0
            return False
        else:
            expected = self._session, self._epoch + 1
            assert (request.session_id, request.session_epoch) == expected
        self._epoch = request.session_epoch
        for topic in request.topics:
            for part in topic.partitions:
                place = topic.topic, part.partition
                self._read.pop(place, None)
                self._read[place] = (
                    part.current_leader_epoch,
                    part.fetch_offset,
                    part.partition_max_bytes,
                )
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                self._read.pop((topic.topic, partition), None)
        return True

    def _parts(self, request: Any) -> dict[Place, Any]:
        """What is in an answer comes last in the next."""
        kind = FetchResponse.FetchableTopicResponse.PartitionData
        parts: dict[Place, Any] = {}
        room = request.max_bytes
        for place, (epoch, offset, most) in list(self._read.items()):
            log = self._brokers.sources[place]
            known = log.known_by(self.node)
            end = -1 if known is None else known[1]
            error = _refusal(known, epoch, offset, log.start)
            records = b""
            if not error:
                records = self._records(log, offset, end, min(most, room), bool(parts))
            room -= len(records)
            if records or error or request.session_epoch == 0 or self._brokers.happens(0.1):
                self._read[place] = self._read.pop(place)
                parts[place] = kind(
                    partition_index=place[1],
                    error_code=error,
                    high_watermark=end,
                    last_stable_offset=end,
                    log_start_offset=log.start,
                    aborted_transactions=None,
                    preferred_read_replica=-1,
                    records=records,
                )
        return parts

    def _records(self, log: SourceLog, offset: int, end: int, room: int, others: bool) -> bytes:
        """One batch at the least, unless there are `others` in the answer."""
        records = b""
        for offsets, raw in log.batches:
            if offsets.stop <= offset:
                continue
            if offsets.stop > end:
                break
            if len(records) + len(raw) > room and (records or others):
                break
            records += self._damaged(raw) if self._brokers.damage else raw
            if self._brokers.happens(0.2):
                break
        return records

    def _damaged(self, raw: bytes) -> bytes:
        """With the chance of damage, another byte behind the header."""
        if not self._brokers.happens(self._brokers.damage):
            return raw
        at = self._brokers.chance.randrange(HEADER_SIZE, len(raw))
        return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def _refusal(known: tuple[int, int] | None, epoch: int, offset: int, start: int) -> int:
    """Why a broker that leads by `known` does not answer a fetch; 0: it does."""
    if known is None:
        return NOT_LEADER
    if epoch >= 0 and epoch != known[0]:
        return FENCED if epoch < known[0] else UNKNOWN_EPOCH
    return 0 if start <= offset <= known[1] else OUT_OF_RANGE


class TargetBrokerConnection(_BrokerConnection):
    """Answers Produce and WriteTxnMarkers requests."""

    def serve(self, frame: bytes) -> None:
        if int.from_bytes(frame[4:6]) == apis.WRITE_TXN_MARKERS.key:
            self._serve_markers(frame)
        else:
            self._serve_batches(frame)

    def _serve_markers(self, frame: bytes) -> None:
        """The error of a producer in a partition is the one of its last marker. Mostly, a broker
        that refuses one refuses what is behind it, too."""
        request = WriteTxnMarkersRequest.decode(
            frame, version=MARKERS_VERSION, header=True, framed=True
        )
        errors: dict[int, dict[Place, int]] = {}
        refused: set[Place] = set()
        for marker in request.markers:
            for place in (
                (topic.name, index) for topic in marker.topics for index in topic.partition_indexes
            ):
                log = self._brokers.targets[place]
                error = NOT_LEADER
                if log.node == self.node:
                    error = NOT_ENOUGH_REPLICAS
                    if place in refused or self._brokers.refuses(place, b""):
                        if not self._brokers.markers_apart:
                            refused.add(place)
                    else:
                        error = log.mark(marker.producer_id, marker.producer_epoch, late=self.dead)
                errors.setdefault(marker.producer_id, {})[place] = error
        kind = WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic_kind = kind.WritableTxnMarkerTopicResult
        part = topic_kind.WritableTxnMarkerPartitionResult
        response = WriteTxnMarkersResponse(
            version=MARKERS_VERSION,
            markers=[
                kind(
                    producer_id=producer_id,
                    topics=[
                        topic_kind(
                            name=topic, partitions=[part(partition_index=index, error_code=error)]
                        )
                        for (topic, index), error in places.items()
                    ],
                )
                for producer_id, places in errors.items()
            ],
        )
        self._answer(response, request.header.correlation_id)

    def _serve_batches(self, frame: bytes) -> None:
        request = ProduceRequest.decode(frame, version=VERSION, header=True, framed=True)
        kind = ProduceResponse.TopicProduceResponse
        places = [
            (topic.name, part.index)
            for topic in request.topic_data
            for part in topic.partition_data
        ]
        assert len(places) == len(set(places)), "a broker loses the second batch in silence"
        responses = [
            kind(
                name=topic.name,
                partition_responses=[
                    self._append((topic.name, part.index), bytes(part.records))
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        response = ProduceResponse(
            version=VERSION, responses=responses, throttle_time_ms=self._brokers.throttle_ms()
        )
        self._answer(response, request.header.correlation_id)

    def die(self) -> None:
        """What is not served is lost, all of it or what was sent last, or served later."""
        super().die()
        chance, clock = self._brokers.chance, self._brokers.clock
        read = [self.under_way.popleft() for _ in range(chance.randint(0, len(self.under_way)))]
        self.under_way.clear()
        self._brokers.late.append(Late(self.serve, deque(read), clock.now + LATE_S))

    def _append(self, place: Place, raw: bytes) -> Any:
        log = self._brokers.targets[place]
        error, base, append_time = NOT_LEADER, -1, -1
        if log.node == self.node:
            error = self._brokers.chance.choice((NOT_ENOUGH_REPLICAS, codes.INVALID_RECORD))
            if not self._brokers.refuses(place, raw):
                error, base, append_time = log.append(raw, late=self.dead)
        kind = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
        return kind(
            index=place[1], error_code=error, base_offset=base, log_append_time_ms=append_time
        )
