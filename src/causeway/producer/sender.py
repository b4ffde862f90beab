"""Our own client of one side: batches to the leaders of their partitions, idempotent, in order.

    send() ─► outlet of a partition ─► poll(): a request with a batch of each, up to 5 at once
                    ▲                    │         ▲
                    │ leader             ▼         │ connection
                    └─── maintain(), on the side's own thread: what may block

What goes wrong is sent again with the sequences that it had; what that cannot mend ends this client
(`failed`), and the side looks at the log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from causeway.cluster import ClusterClient, Leader, TopicMetadata, init_producer_ids
from causeway.errors import AuthorizationError, BrokerError, CausewayError
from causeway.model import TopicPartition
from causeway.producer.broker import Broker
from causeway.producer.client import Owner, Sending
from causeway.producer.journal import Record
from causeway.producer.lanes import SideLane
from causeway.producer.outlet import Outlet, Unsure
from causeway.producer.refusals import REFUSALS, kafka_error
from causeway.producer.wire_settings import WireSettings
from causeway.records import Batch
from causeway.wire import Connection, codes, produce

_UNANSWERED_BYTES = 16 << 20  # on one connection
_QUEUED_BYTES = 64 << 20  # more is read from the spool again
_BEFORE_IT = 45  # OUT_OF_ORDER_SEQUENCE_NUMBER
_THERE_ALREADY = 46  # DUPLICATE_SEQUENCE_NUMBER
# After these the broker has surely not appended it. It says of one that it has appended that it
# does not lead any more, or does not know the topic, where that came to be while replicas were
# awaited.
_NOT_THERE = frozenset((2, 19, _BEFORE_IT)) | REFUSALS
_RETRIED = codes.RETRIABLE | {-1}
_UNKNOWN = frozenset((3, 100))
_LEAST_PAUSE_S = 0.1


class Sender:
    """`lock`: the owner's; whatever does not say otherwise is called with it."""

    def __init__(
        self, settings: WireSettings, reader: Mapping[str, Any], lock: threading.RLock, owner: Owner
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._lock = lock
        self._owner = owner
        self._cluster = ClusterClient(settings.client)
        self._producer: tuple[int, int] | None = None
        self._outlets: dict[TopicPartition, Outlet] = {}
        self._homeless: dict[Outlet, None] = {}
        self._brokers: dict[int, Broker] = {}
        self._records = self._bytes = 0
        self._failures = 0
        self._not_before = 0.0
        self._closed = False

    def __len__(self) -> int:
        """Records that it has, and nobody has answered for."""
        return self._records

    def __bool__(self) -> bool:
        return True

    def send(self, on: SideLane, batch: Batch, records: list[Record] | None) -> None:
        """Takes a batch of one partition; they go in the order in which they are taken. Raises
        BufferError where too much waits, KafkaException where it has given up."""
        if self._closed:
            raise KafkaException(KafkaError(KafkaError._STATE, "the client has ended"))
        size = len(batch.payload)
        if self._records and (
            self._records + batch.records > self._settings.most_records
            or self._bytes + size > min(self._settings.most_bytes, _QUEUED_BYTES)
        ):
            raise BufferError("Local: Queue full")
        where = TopicPartition(on.lane.topic, on.lane.partition)
        outlet = self._outlets.get(where)
        if outlet is None:
            outlet = self._outlets[where] = Outlet(*where)
        outlet.waiting.append(Sending(on, batch, records, size))
        self._records += batch.records
        self._bytes += size
        self._offer(outlet)

    def poll(self, timeout_s: float = 0) -> None:
        """Sends what may be sent, and hears what was answered; never waits."""
        now = time.monotonic()
        for node, broker in list(self._brokers.items()):
            if self._closed:
                return
            try:
                self._receive(broker, now)
                self._send(broker, now)
            except (OSError, CausewayError) as error:
                self._lose(node, error, now)
            except Unsure as unsure:
                self._give_up(None, KafkaError(KafkaError._STATE, str(unsure)))

    def interrupt(self) -> None:
        """Ends the waits of `maintain`. Without the lock."""
        self._cluster.close()

    def end(self) -> None:
        """Nothing more is sent, and no answer heard. Without the lock."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._closed = True
        self._records = self._bytes = 0
        self._cluster.close()
        for broker in list(self._brokers.values()):
            broker.connection.close()

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """As confluent-kafka's. Without the lock."""
        admin = AdminClient(dict(self._reader))
        return admin.list_topics(topic, timeout) if topic else admin.list_topics(timeout=timeout)

    # On the side's own thread, without the lock

    def maintain(self) -> float | None:
        """Finds leaders for what has none, and connects to them, which may block; in how many
        seconds to come again, None where nothing is wanting. Raises BrokerError where the broker's
        protocol is too old for us."""
        with self._lock:
            now = time.monotonic()
            if self._closed or not self._homeless:
                return None
            if now < self._not_before:
                return self._not_before - now
            wanted = {
                TopicPartition(outlet.topic, outlet.partition): outlet for outlet in self._homeless
            }
        try:
            if self._producer is None:
                (self._producer,) = init_producer_ids(self._cluster, 1)
            topics = self._cluster.metadata({tp.topic for tp in wanted}).topics
            leaders = self._cluster.leaders(list(wanted))
            failure = self._settle_in(wanted, leaders, topics)
        except CausewayError as error:
            failure = error
        if isinstance(failure, BrokerError) and failure.code == KafkaError.UNSUPPORTED_VERSION:
            raise failure
        with self._lock:
            if self._closed:
                return None
            if failure is None:
                self._failures = 0
                if not self._homeless:
                    self._owner.troubled(None)
            else:
                self._failures += 1
                self._owner.troubled(kafka_error(failure))
            if not self._homeless:
                return None
            pause_s = self._pause_s(self._failures)
            self._not_before = time.monotonic() + pause_s
            return pause_s

    def _settle_in(
        self,
        wanted: Mapping[TopicPartition, Outlet],
        leaders: Mapping[TopicPartition, Leader | CausewayError],
        topics: Mapping[str, TopicMetadata],
    ) -> CausewayError | None:
        """Each of them to its leader; why not, of one that has none."""
        failure: CausewayError | None = None
        by_leader: dict[Leader, list[Outlet]] = {}
        now = time.monotonic()
        for tp, outlet in wanted.items():
            found = leaders[tp]
            if isinstance(found, CausewayError):
                if self._is_final(outlet, found, now):
                    with self._lock:
                        self._give_up(outlet.topic, kafka_error(found))
                    return found
                failure = found
                continue
            topic_id = topics[tp.topic].topic_id if tp.topic in topics else outlet.topic_id
            if outlet.topic_id and topic_id != outlet.topic_id:
                error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "it was made anew")
                with self._lock:
                    self._give_up(outlet.topic, error)
                return None
            outlet.topic_id = topic_id
            outlet.unknown_since = 0.0
            by_leader.setdefault(found._replace(epoch=0), []).append(outlet)
        for leader, outlets in by_leader.items():
            try:
                self._connect(leader)
            except CausewayError as error:
                failure = error
                continue
            with self._lock:
                broker = self._brokers.get(leader.node_id)
                for outlet in outlets if broker is not None else ():
                    outlet.leader = leader.node_id
                    self._homeless.pop(outlet, None)
                    self._offer(outlet)
        return failure

    def _is_final(self, outlet: Outlet, error: CausewayError, now: float) -> bool:
        if isinstance(error, AuthorizationError):
            return True
        if not isinstance(error, BrokerError) or error.code not in _UNKNOWN:
            return not error.retriable
        outlet.unknown_since = outlet.unknown_since or now
        return now - outlet.unknown_since >= self._settings.unknown_s

    def _connect(self, leader: Leader) -> None:
        if (known := self._brokers.get(leader.node_id)) is not None and not known.connection.closed:
            return
        connection = Connection.open(
            self._settings.client,
            leader.host,
            leader.port,
            user_timeout_s=self._settings.answer_timeout_s + 5,
        )
        try:
            version = connection.api_version(
                produce.API_KEY, produce.HIGHEST_VERSION, produce.LOWEST_VERSION
            )
        except CausewayError:
            connection.close()
            raise
        connection.set_nonblocking()
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._brokers[leader.node_id] = Broker(leader.node_id, connection, version)

    # Inside, with the lock

    def _offer(self, outlet: Outlet) -> None:
        broker = self._brokers.get(outlet.leader) if outlet.leader is not None else None
        if broker is not None:
            broker.ready[outlet] = None
        else:
            self._leave_home(outlet)

    def _leave_home(self, outlet: Outlet) -> None:
        outlet.leader = None
        if outlet not in self._homeless:
            self._homeless[outlet] = None
            self._owner.wake()

    def _send(self, broker: Broker, now: float) -> None:
        connection = broker.connection
        if not broker.ready:
            if connection.wants_write:
                connection.flush()
            return
        expires_at = connection.session_expires_at
        if expires_at is not None and now >= expires_at:
            if not broker.requests:
                raise ConnectionResetError("its session ends")
        elif now >= broker.silent_until:
            assert self._producer is not None
            while (
                len(broker.requests) < self._settings.most_requests
                and broker.unanswered < _UNANSWERED_BYTES
                and broker.queue_one(self._producer, self._settings.request_timeout_ms, now)
            ):
                pass
        if connection.wants_write:
            connection.flush()

    def _receive(self, broker: Broker, now: float) -> None:
        for outlet, produced in broker.answers(now):
            self._answered(broker, outlet, produced, now)
            if self._closed:
                return
        waits_since = max(broker.oldest_sent_at(now), broker.silent_until)
        if now - waits_since > self._settings.answer_timeout_s:
            raise TimeoutError("no answer in time")

    def _answered(
        self, broker: Broker, outlet: Outlet, produced: produce.Produced, now: float
    ) -> None:
        code = produced.error
        if code in (0, _THERE_ALREADY) and not outlet.failed:
            sending = outlet.done(now)
            self._forget(sending)
            base = produced.base_offset
            known = not code and base >= 0
            self._owner.arrived(
                sending, range(base, base + sending.batch.records) if known else None
            )
            return
        if code in (0, _THERE_ALREADY):
            raise Unsure("a batch has arrived, and not the one before it")
        first = not outlet.failed
        if code in REFUSALS:
            outlet.way[0].refusal = KafkaError(code, produced.message or None)
        elif not (code in _RETRIED or (code == _BEFORE_IT and not first)):
            self._give_up(outlet.topic, KafkaError(code, produced.message or None))
            return
        outlet.fail(doubtful=code not in _NOT_THERE)
        if code in codes.STALE_METADATA and outlet.leader == broker.node:
            self._leave_home(outlet)
        self._settle(outlet, now)

    def _settle(self, outlet: Outlet, now: float) -> None:
        given_up = outlet.settle(now + self._pause_s(outlet.failures + 1))
        if given_up is not None:
            self._forget(given_up)
            self._owner.refused_alone(given_up, given_up.refusal)
        if outlet.has_more():
            self._offer(outlet)

    def _lose(self, node: int, error: Exception, now: float) -> None:
        """Whatever was on its way is sent again, to whoever leads then."""
        broker = self._brokers.pop(node)
        broker.connection.close()
        if broker.requests:
            self._owner.troubled(KafkaError(KafkaError._TRANSPORT, f"{broker.connection}: {error}"))
        lost = {outlet for request in broker.requests for outlet in request.parts.values()}
        for outlet in self._outlets.values():
            if outlet in lost:
                outlet.lost()
            elif outlet.leader != node:
                continue
            outlet.leader = None
            try:
                self._settle(outlet, now)
            except Unsure as unsure:
                self._give_up(None, KafkaError(KafkaError._STATE, str(unsure)))
                return

    def _give_up(self, topic: str | None, error: KafkaError) -> None:
        self._end()
        self._owner.failed(topic, error)

    def _forget(self, sending: Sending) -> None:
        self._records -= sending.batch.records
        self._bytes -= sending.charged

    def _pause_s(self, failures: int) -> float:
        if not failures:
            return _LEAST_PAUSE_S
        least, most = self._settings.retry_s
        return float(min(least * 2 ** min(failures - 1, 16), most))
