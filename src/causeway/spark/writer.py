"""Writing for `df.write` and `writeStream`: one transaction for each task. ledger.py explains
exactly-once delivery."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from kafka.partitioner.default import murmur2
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from causeway.cluster import Cluster, Transaction, transactions
from causeway.errors import BrokerError, CausewayError, ConfigError, PartitionsFailedError
from causeway.model import TopicPartition
from causeway.records import Batch, PlainRecord, advance, build, cut, header
from causeway.spark import ledger
from causeway.spark.columns import OutgoingRow, RowsDigest, check_columns, rows
from causeway.spark.options import Options, connection, write_options
from causeway.wire import codes

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 256 * 1024  # uncompressed; a batch of this size is sent at once
BUFFER_BYTES = 32 * 1024 * 1024  # of all partitions together
SENDERS = 4
_RECORD_BYTES = 30  # about the size of a record without key, value and headers

_hash = lru_cache(maxsize=100_000)(murmur2)


class _PartitionBuffer:
    """The records of one partition that are not sent yet, and the batch in flight."""

    __slots__ = ("flight", "records", "sequence", "size")

    def __init__(self) -> None:
        self.records: list[PlainRecord] = []
        self.size = 0
        self.sequence = 0
        self.flight: Future[None] | None = None


class TransactionSender:
    """Sends a task's records in one transaction. For one thread. Records of a partition are
    appended in the order of `put`."""

    def __init__(
        self, cluster: Cluster, transaction: Transaction, topic: str | None, codec: int, turn: int
    ) -> None:
        """`turn`: the first partition for records without a key. It differs by task, so that tasks
        do not all begin with the same partition."""
        self._cluster, self._transaction = cluster, transaction
        self._topic, self._codec, self._turn = topic, codec, turn
        self._waiting: dict[TopicPartition, _PartitionBuffer] = {}
        self._counts: dict[str, int] = {}
        self._added: set[TopicPartition] = set()
        self._size = 0
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """When the block ends, waits until all records are in the log. Raises CausewayError."""
        with ThreadPoolExecutor(SENDERS, thread_name_prefix="send") as self._pool:
            yield
            for tp in list(self._waiting):
                self._send(tp)
            for waiting in self._waiting.values():
                if waiting.flight is not None:
                    waiting.flight.result()

    @property
    def topics(self) -> list[str]:
        """The topics that have records."""
        return sorted({tp.topic for tp in self._added})

    def put(self, row: OutgoingRow) -> None:
        """Sends a row, or keeps it to be sent. Raises CausewayError, also for an earlier row."""
        topic = row.topic or self._topic
        if topic is None:
            raise ConfigError("write", "a row", "it has no topic, and option topic is not set")
        record = row.record
        tp = TopicPartition(topic, self._partition(topic, row.partition, record.key))
        waiting = self._waiting.get(tp)
        if waiting is None:
            waiting = self._waiting[tp] = _PartitionBuffer()
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
        """Sends the kept records as one batch. A partition has one batch in flight, because the
        next sequence is valid only once the last batch is written."""
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

        def deliver() -> None:
            count, codec = len(records), self._codec
            batch = build(records, codec=codec, first=0, next=count, leader_epoch=-1, offsets=None)
            self._produce(tp, batch, sequence)

        waiting.flight = self._pool.submit(deliver)

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
            for part, first in zip(
                cut(batch, [half]), (sequence, advance(sequence, half)), strict=True
            ):
                self._produce(tp, part, first)


# Local properties that Structured Streaming gives each task of a micro-batch.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
_ENDING_CONNECTIONS = 16


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):  # type: ignore[misc]
    """The result of one task. `transaction`: has the rows, and waits for its commit. None if the
    task had no rows, or they had been written before. `rows`: their number in both cases."""

    write: str
    batch: int
    task: int
    rows: int
    transaction: Transaction | None
    topics: tuple[str, ...] = ()


class _SparkWriter:
    """The common part of batch and stream writers. Pickled to executors, so it has options and
    never resolved secrets."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._raw = dict(options)
        self._options = write_options(self._raw)
        # Only tasks are repeated, never a whole write without a name.
        self._marks = True
        check_columns(schema, self._options.topic)

    def _open(self) -> Cluster:
        return Cluster(connection(self._raw, "write"))

    def _write(self, batches: Iterator[pa.RecordBatch], write: str, batch: int) -> TaskCommit:
        task = TaskContext.get().partitionId()
        nothing = TaskCommit(write=write, batch=batch, task=task, rows=0, transaction=None)
        first = next((one for one in batches if one.num_rows), None)
        if first is None:
            return nothing
        with self._open() as cluster:
            name = ledger.task_name(write, task)
            own = transactions.begin(cluster, name, self._options.transaction_timeout_ms)
            before = ledger.marks(cluster, [name]).get(name) if self._marks else None
            digest = RowsDigest()
            every = (row for one in chain([first], batches) for row in rows(one))
            if before is not None and before.batch >= batch:
                for row in every:
                    digest.add(row)
                if before.batch == batch:
                    ledger.check_same(write, batch, before.note, str(digest))
                return replace(nothing, rows=digest.count)
            try:
                outbox = TransactionSender(
                    cluster, own, self._options.topic, self._options.codec, task
                )
                with outbox.open():
                    for row in every:
                        digest.add(row)
                        outbox.put(row)
                if self._marks:
                    ledger.mark(cluster, own, batch, str(digest), outbox.topics)
            except BaseException:
                # If this fails, the next attempt, or a timeout of the broker, aborts it.
                with suppress(CausewayError):
                    transactions.give_up(cluster, own)
                raise
            topics = tuple(outbox.topics)
            return replace(nothing, rows=digest.count, transaction=own, topics=topics)

    def commit(  # Spark names a batch only for streams
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: N803
    ) -> None:
        done, open_ones = _done(messages)
        if not done:
            return
        write, batch = done[0].write, done[0].batch
        with self._open() as cluster:
            if self._marks:
                try:
                    self._note(cluster, done, len(messages))
                except CausewayError:
                    _end_each(cluster, open_ones, commit=False)
                    raise
            errors = _end_each(cluster, open_ones, commit=True)
        if errors:
            raise PartitionsFailedError(
                "commit",
                f"batch {batch} of {write}",
                f"{len(errors)} of {len(open_ones)} transactions were not committed: {errors[0]}",
                remedy="run it again: rows that were committed are not written again"
                if self._marks
                else "the other rows are committed; with option id a write can be completed",
            )

    def _note(self, cluster: Cluster, done: Sequence[TaskCommit], tasks: int) -> None:
        """Raises CausewayError if the batch must not be committed."""
        write, batch = done[0].write, done[0].batch
        filled = {message.task for message in done if message.rows}
        ledger.check_none_missing(cluster, write, batch, filled, tasks)
        topics = {topic for message in done for topic in message.topics}
        if topics:
            ledger.note_batch(cluster, write, batch, tasks, sorted(topics))

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: N803
    ) -> None:
        if open_ones := _done(messages)[1]:
            with self._open() as cluster:
                _end_each(cluster, open_ones, commit=False)


def _done(
    messages: Sequence[WriterCommitMessage | None],
) -> tuple[list[TaskCommit], list[Transaction]]:
    """Returns the tasks that ended, and their open transactions."""
    done = [message for message in messages if isinstance(message, TaskCommit)]
    return done, [one.transaction for one in done if one.transaction is not None]


def _end_each(
    cluster: Cluster, open_ones: Sequence[Transaction], *, commit: bool
) -> list[CausewayError]:
    def end(transaction: Transaction) -> CausewayError | None:
        try:
            transactions.end(cluster, transaction, commit=commit)
        except CausewayError as error:
            return error
        return None

    with ThreadPoolExecutor(_ENDING_CONNECTIONS) as pool:
        return [error for error in pool.map(end, open_ones) if error is not None]


class BatchWriter(_SparkWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a frame once."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._marks = self._options.id is not None
        self._name = ledger.write_name(self._options.id or uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        return self._write(iterator, self._name, self._options.batch)


class StreamWriter(_SparkWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a query. Its checkpoint keeps the query's id. A batch has a number."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        if self._options.id is not None:
            raise ConfigError("use", "option id", "a stream has its own, kept in its checkpoint")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID)
        batch = context.getLocalProperty(_BATCH_ID)
        return self._write(iterator, ledger.write_name(query), int(batch))
