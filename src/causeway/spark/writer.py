"""Writing for `df.write` and `writeStream`. How it is exactly once stands in ledger.py."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from causeway.cluster import Cluster, Transaction, transactions
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError
from causeway.spark import ledger
from causeway.spark.options import Options, connection, write_options
from causeway.spark.outbox import Outbox
from causeway.spark.rows import Digest, check_columns, rows

if TYPE_CHECKING:
    import pyarrow as pa

# Local properties that Structured Streaming gives each task of a micro-batch.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
_ENDING_CONNECTIONS = 16


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """What one task has done. `transaction`: its rows wait there for their commit; None: it had
    none, or they had been written before. `rows` counts them in any case."""

    write: str
    batch: int
    task: int
    rows: int
    transaction: Transaction | None
    topics: tuple[str, ...] = ()


class _Writing:
    """What both kinds share. Pickled to executors: holds options, never what they resolve to."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._raw = dict(options)
        self._options = write_options(self._raw)
        # A write without a name is never done again, only tasks of it are.
        self._marks = True
        check_columns(schema, self._options.topic)

    def _open(self) -> Cluster:
        return Cluster(connection(self._raw, "write"))

    def _write(self, batches: Iterator[pa.RecordBatch], write: str, batch: int) -> Written:
        task = TaskContext.get().partitionId()
        nothing = Written(write=write, batch=batch, task=task, rows=0, transaction=None)
        first = next((one for one in batches if one.num_rows), None)
        if first is None:
            return nothing
        with self._open() as cluster:
            name = ledger.task_name(write, task)
            own = transactions.begin(cluster, name, self._options.transaction_timeout_ms)
            before = ledger.marks(cluster, [name]).get(name) if self._marks else None
            digest = Digest()
            if before is not None and before.batch >= batch:
                for one in _chain(first, batches):
                    for row in rows(one):
                        digest.add(row)
                if before.batch == batch:
                    ledger.check_same(write, batch, before.note, str(digest))
                return Written(
                    write=write, batch=batch, task=task, rows=digest.count, transaction=None
                )
            try:
                outbox = Outbox(cluster, own, self._options.topic, self._options.codec, task)
                with outbox.open():
                    for one in _chain(first, batches):
                        for row in rows(one):
                            digest.add(row)
                            outbox.put(row)
                if self._marks:
                    ledger.mark(cluster, own, batch, str(digest), outbox.topics)
            except BaseException:
                with suppress(CausewayError):  # the next attempt, or the broker in time, does it
                    transactions.give_up(cluster, own)
                raise
            return Written(
                write=write,
                batch=batch,
                task=task,
                rows=digest.count,
                transaction=own,
                topics=tuple(outbox.topics),
            )

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done = [message for message in messages if isinstance(message, Written)]
        open_ones = [message for message in done if message.transaction is not None]
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
                f"{len(errors)} of {len(open_ones)} transactions were not: {errors[0]}",
                remedy="run it again: what is there is not written again"
                if self._marks
                else "the others' rows are there; option id names a write that can be completed",
            )

    def _note(self, cluster: Cluster, done: Sequence[Written], tasks: int) -> None:
        """Raises CausewayError where the batch must not be committed."""
        write, batch = done[0].write, done[0].batch
        filled = {message.task for message in done if message.rows}
        ledger.check_none_missing(cluster, write, batch, filled, tasks)
        topics = {topic for message in done for topic in message.topics}
        if topics:
            ledger.note_batch(cluster, write, batch, tasks, sorted(topics))

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done = [message for message in messages if isinstance(message, Written)]
        open_ones = [message for message in done if message.transaction is not None]
        if open_ones:
            with self._open() as cluster:
                _end_each(cluster, open_ones, commit=False)


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _end_each(
    cluster: Cluster, messages: Sequence[Written], *, commit: bool
) -> list[CausewayError]:
    def end(transaction: Transaction) -> CausewayError | None:
        try:
            transactions.end(cluster, transaction, commit=commit)
        except CausewayError as error:
            return error
        return None

    with ThreadPoolExecutor(_ENDING_CONNECTIONS) as pool:
        ended = pool.map(end, [m.transaction for m in messages if m.transaction is not None])
        return [error for error in ended if error is not None]


class BatchWriter(_Writing, DataSourceArrowWriter):  # type: ignore[misc]
    """Made once for each time that a frame is written."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._marks = self._options.id is not None
        self._name = ledger.write_name(self._options.id or uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._write(iterator, self._name, self._options.batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class StreamWriter(_Writing, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """A query is known by its id, which its checkpoint keeps; a batch by its number."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        if self._options.id is not None:
            raise ConfigError("use", "option id", "a stream has its own, kept in its checkpoint")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID)
        batch = context.getLocalProperty(_BATCH_ID)
        return self._write(iterator, ledger.write_name(query), int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._abort(messages)
