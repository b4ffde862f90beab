"""Fills offsets of a partition to which only this link writes.

A marker takes one offset: an aborted transaction ends with one, also without any record. Filler
takes many offsets: records in an aborted transaction, which read_uncommitted consumers see until
they are deleted or compacted. Each partition has a transactional id of its own.

No request of a transaction is sent again if its answer is lost: the first one could be carried out
late, and take an offset that a record needs. The error is raised instead. After each error the
caller takes the id again with `transactions.begin`, which refuses late requests and ends an open
transaction with a marker, and looks at the log's end again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka.protocol.admin import DeleteRecordsRequest

from causeway import records
from causeway.cluster import transactions
from causeway.cluster.client import ClusterClient
from causeway.cluster.metadata import by_topic, value_of
from causeway.cluster.offsets import EARLIEST, LATEST, at_leaders, list_offsets
from causeway.cluster.transactions import Transaction
from causeway.errors import BrokerError, CausewayError, DivergedError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Deadline, apis, codes

_STEP_BATCHES: Final = 10  # a transaction's: some 0.3 s
_STEPS_A_DELETION: Final = 10  # which waits for followers; 6 MB lie on disks meanwhile
_LEAST_PAUSE_S: Final = 0.001  # while a coordinator writes markers
_MOST_PAUSE_S: Final = 0.02
_MARGIN_S: Final = 1.0  # an attempt cut short would only hide why the ones before it failed


def delete_records(
    cluster: ClusterClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | CausewayError]:
    """Deletes the records below each offset. Returns where each log starts then. Needs DELETE.
    A topic whose cleanup.policy lacks "delete" refuses (POLICY_VIOLATION), and so does one whose
    log ends below the offset (OFFSET_OUT_OF_RANGE)."""
    return at_leaders(
        cluster,
        offsets,
        "delete records of",
        lambda wanted, deadline: DeleteRecordsRequest(
            topics=by_topic((tp.topic, (tp.partition, offsets[tp])) for tp, _ in wanted),
            timeout_ms=int(deadline.left() * 1000),
            max_version=apis.DELETE_RECORDS.highest,
        ),
        lambda _, part: int(part.low_watermark),
        needs="DELETE",
    )


def fill_with_markers(
    cluster: ClusterClient, transaction: Transaction, at: TopicPartition, count: int
) -> None:
    """Appends `count` markers, each an empty transaction. The leader must have said where the log
    of `at` ends: if it did not know the partition yet, the coordinator could wait for 30 s for its
    answer (see wire/markers.py). Raises CausewayError: see above."""
    coordinator = _Coordinator(cluster)
    for _ in range(count):
        transactions.add_partitions(coordinator, transaction, [at])
        transactions.end(coordinator, transaction, commit=False)
    if count:
        _await_marker(coordinator, transaction)


def fill(
    cluster: ClusterClient,
    transaction: Transaction,
    at: TopicPartition,
    start: int,
    stop: int,
    *,
    keyed: bool,
    delete: bool,
    on_step: Callable[[int], bool],
) -> int:
    """Makes the log of `at`, which ends at `start`, end at `stop`, with filler. Returns the end.

    `transaction` has just begun: its sequences start at 0. `keyed`: gives each record FILLER_KEY,
    for a compacted topic. `delete`: deletes the filler, so that the log starts at its end;
    needs DELETE. `on_step` gets the end after each transaction (up to 1 million offsets), and
    returns whether to go on.

    Raises DivergedError if the log ends elsewhere: another program writes to it. Raises other
    CausewayErrors: see above.
    """
    coordinator = _Coordinator(cluster)
    appending = _Appending(cluster, transaction, at, keyed)
    _expect(cluster, at, start)
    end, steps, goes_on = start, 0, True
    while end < stop and goes_on:
        transactions.add_partitions(coordinator, transaction, [at])
        end += appending.step(stop - end - 1) + 1
        transactions.end(coordinator, transaction, commit=False)
        _await_marker(coordinator, transaction)
        _expect(cluster, at, end)
        goes_on = on_step(end)
        steps += 1
        if delete and steps % _STEPS_A_DELETION == 0:
            value_of(delete_records(cluster, {at: end})[at])
    if delete and value_of(list_offsets(cluster, [at], EARLIEST)[at]).offset < end:
        value_of(delete_records(cluster, {at: end})[at])
    return end


def _expect(cluster: ClusterClient, at: TopicPartition, end: int) -> None:
    found = value_of(list_offsets(cluster, [at], LATEST)[at]).offset
    if found != end:
        raise DivergedError(
            "fill offsets of",
            f"{at} on {cluster}",
            f"the log ends at offset {found} instead of {end}",
            remedy="only Causeway may write to a topic that keeps offsets",
        )


def _await_marker(coordinator: _Coordinator, transaction: Transaction) -> None:
    """Ends the transaction again: the coordinator answers the first request before its marker is in
    the log, and a repetition after that."""
    transactions.end(coordinator, transaction, commit=False)


class _Appending:
    """Appends filler to a partition."""

    def __init__(
        self, cluster: ClusterClient, transaction: Transaction, at: TopicPartition, keyed: bool
    ) -> None:
        self._cluster = cluster
        self._transaction = transaction
        self._at = at
        self._keyed = keyed
        self._sequence = 0
        self._most = records.FILLER_RECORDS  # as far as the topic takes such batches

    def step(self, most: int) -> int:
        """Appends up to `most` records, as many as a transaction should have; their number."""
        done = 0
        while done < most and done < _STEP_BATCHES * self._most:
            done += self._append(min(self._most, most - done))
        return done

    def _append(self, count: int) -> int:
        batch = records.filler(count, self._keyed, int(time.time() * 1000))
        transaction = self._transaction
        header = records.header(
            batch,
            transaction.producer_id,
            transaction.epoch,
            self._sequence,
            transactional=True,
        )
        try:
            transactions.produce(self._cluster, transaction, self._at, header + batch.payload)
        except BrokerError as error:
            if error.code not in codes.TOO_LARGE or count == 1:
                raise
            self._most = count // 2
            return 0
        self._sequence = records.advance(self._sequence, count)
        return count


class _Coordinator:
    """Sends requests to the coordinator of one transaction, whose broker it remembers. Never
    repeats a request that may have reached a broker."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._node: int | None = None

    def __str__(self) -> str:
        return str(self._cluster)

    def call(
        self,
        request: Any,
        node_id: int | None = None,
        check: Callable[[Any], None] = lambda _: None,
        *,
        coordinator_of: tuple[int, str] | None = None,
    ) -> Any:
        """As ClusterClient.call."""
        deadline = Deadline(self._cluster.timeout_s)
        pause = _LEAST_PAUSE_S

        def attempt() -> Any:
            nonlocal pause
            while True:
                answer = self._once(request, coordinator_of, deadline)
                if isinstance(answer, CausewayError):
                    return answer
                try:
                    check(answer)
                except BrokerError as error:
                    if error.code != codes.CONCURRENT_TRANSACTIONS or deadline.left() < _MARGIN_S:
                        self._node = None
                        raise
                else:
                    return answer
                time.sleep(pause)
                pause = min(2 * pause, _MOST_PAUSE_S)

        return value_of(self._cluster.retry(deadline, attempt))

    def _once(self, request: Any, of: tuple[int, str] | None, deadline: Deadline) -> Any:
        """The answer, or an UnreachableError if it is lost."""
        cluster = self._cluster
        if self._node is None and of is not None:
            kind, key = of
            self._node = value_of(cluster.coordinators(kind, [key], deadline)[key])
        is_sent = False
        try:
            if self._node is not None:
                cluster.heed_quota(self._node, request.API_KEY, deadline)
            with cluster.lease(self._node, deadline) as connection:
                is_sent = True
                answer = connection.call(request, deadline.left())
        except UnreachableError as lost:
            self._node = None
            if is_sent:
                return lost
            raise
        if self._node is not None:
            cluster.quotas.note(self._node, request.API_KEY, answer)
        return answer
