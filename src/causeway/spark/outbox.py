"""Sends a task's records in one transaction: batches, sequences, partitions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache

from kafka.partitioner.default import murmur2

from causeway.cluster import Cluster, Transaction, transactions
from causeway.errors import BrokerError, CausewayError, ConfigError
from causeway.model import TopicPartition
from causeway.records import Batch, PlainRecord, advance, build, header, split
from causeway.spark.rows import Row
from causeway.wire import codes

BATCH_BYTES = 256 * 1024  # not compressed; such a batch is sent at once
BUFFER_BYTES = 32 * 1024 * 1024  # of all partitions together
SENDERS = 4
_RECORD_BYTES = 30  # what a record takes besides what it holds, about

_hash = lru_cache(maxsize=100_000)(murmur2)


class _Waiting:
    """The records of one partition that are not sent yet, and the batch that is on its way."""

    __slots__ = ("flight", "records", "sequence", "size")

    def __init__(self) -> None:
        self.records: list[PlainRecord] = []
        self.size = 0
        self.sequence = 0
        self.flight: Future[None] | None = None


class Outbox:
    """One thread's. Records of a partition are appended in the order in which they were put."""

    def __init__(
        self, cluster: Cluster, transaction: Transaction, topic: str | None, codec: int, turn: int
    ) -> None:
        """`turn`: where records without a key begin, so that tasks don't all begin alike."""
        self._cluster, self._transaction = cluster, transaction
        self._topic, self._codec, self._turn = topic, codec, turn
        self._waiting: dict[TopicPartition, _Waiting] = {}
        self._counts: dict[str, int] = {}
        self._added: set[TopicPartition] = set()
        self._size = 0
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """All that was put lies in the log once the block has ended. Raises CausewayError."""
        with ThreadPoolExecutor(SENDERS, thread_name_prefix="send") as self._pool:
            yield
            for tp in list(self._waiting):
                self._send(tp)
            for waiting in self._waiting.values():
                if waiting.flight is not None:
                    waiting.flight.result()

    @property
    def topics(self) -> list[str]:
        """Those that anything was sent to."""
        return sorted({tp.topic for tp in self._added})

    def put(self, row: Row) -> None:
        """Raises CausewayError, also for what was put before."""
        topic = row.topic or self._topic
        if topic is None:
            raise ConfigError("write", "a row", "it has no topic, and option topic is not set")
        record = row.record
        tp = TopicPartition(topic, self._partition(topic, row.partition, record.key))
        waiting = self._waiting.get(tp)
        if waiting is None:
            waiting = self._waiting[tp] = _Waiting()
        size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
        if record.headers:
            size += sum(len(name) + len(value or b"") + 4 for name, value in record.headers)
        waiting.records.append(record)
        waiting.size += size
        self._size += size
        if waiting.size >= BATCH_BYTES:
            self._send(tp)
            if record.key is None and row.partition is None:
                self._turn += 1
        elif self._size >= BUFFER_BYTES:
            self._send(max(self._waiting, key=lambda at: self._waiting[at].size))

    def _partition(self, topic: str, given: int | None, key: bytes | None) -> int:
        count = self._counts.get(topic)
        if count is None:
            found = self._cluster.metadata([topic]).topics[topic]
            if found.error is not None:
                raise found.error
            count = self._counts[topic] = len(found.partitions)
        if given is not None:
            if not 0 <= given < count:
                cause = f"it names partition {given}, and {topic} has {count}"
                raise ConfigError("write", "a row", cause)
            return given
        return self._turn % count if key is None else (_hash(key) & 0x7FFFFFFF) % count

    def _send(self, tp: TopicPartition) -> None:
        """One batch of a partition at a time: its sequence is known once the last one is there."""
        waiting = self._waiting[tp]
        if not waiting.records:
            return
        if waiting.flight is not None:
            waiting.flight.result()
        if tp not in self._added:
            new = [at for at, one in self._waiting.items() if one.records and at not in self._added]
            transactions.add_partitions(self._cluster, self._transaction, new)
            self._added.update(new)
        records, sequence = waiting.records, waiting.sequence
        waiting.records = []
        self._size -= waiting.size
        waiting.size = 0
        waiting.sequence = advance(sequence, len(records))
        assert self._pool is not None
        waiting.flight = self._pool.submit(self._deliver, tp, records, sequence)

    def _deliver(self, tp: TopicPartition, records: list[PlainRecord], sequence: int) -> None:
        batch = build(
            records, codec=self._codec, first=0, next=len(records), leader_epoch=-1, offsets=None
        )
        self._produce(tp, batch, sequence)

    def _produce(self, tp: TopicPartition, batch: Batch, sequence: int) -> None:
        own = self._transaction
        whole = header(batch, own.producer_id, own.epoch, sequence, transactional=True)
        try:
            transactions.produce(self._cluster, own, tp, whole + batch.payload)
        except CausewayError as error:
            if (
                not isinstance(error, BrokerError)
                or error.code not in codes.TOO_LARGE
                or batch.records < 2
            ):
                raise
            half = batch.records // 2
            self._produce(tp, split(batch, 0, half), sequence)
            self._produce(tp, split(batch, half, batch.records), advance(sequence, half))
