"""Fills offsets of a partition to which only this link writes.

A marker takes one offset: an aborted transaction ends with one, also without records. Filler takes
many offsets: it is records in an aborted transaction, which read_uncommitted consumers see until
the records are deleted or compacted. Each partition has its own transactional id.

No request of a transaction is sent again if its answer is lost: the broker could execute the first
one late, and it would take the offset of a record. The error is raised instead. After each error,
the caller takes over the id again with `transactions.begin`. Then brokers refuse late requests, and
an open transaction ends with a marker. After that the caller looks at the log's end again.
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

_STEP_BATCHES: Final = 10  # the batches of a transaction: about 0.3 s
_STEPS_A_DELETION: Final = 10  # a deletion waits for followers; until then 6 MB are on the disks
_LEAST_PAUSE_S: Final = 0.001  # while a coordinator writes markers
_MOST_PAUSE_S: Final = 0.02
_MARGIN_S: Final = 1.0  # a last attempt with less time would hide why the earlier attempts failed


def delete_records(
    cluster: ClusterClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | CausewayError]:
    """Deletes the records below each offset. Returns the new start of each log. Needs DELETE. The
    broker refuses with POLICY_VIOLATION if the topic's cleanup.policy does not have "delete", and
    with OFFSET_OUT_OF_RANGE if the log ends below the offset."""
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
    """Appends `count` markers, each by an empty transaction. Call this only after the leader has
    given the end of the log of `at`: if the leader does not know the partition yet, the coordinator
    may wait 30 s for its answer (see wire/markers.py). Raises CausewayError: see above."""
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

    `transaction` has just begun, so its sequences start at 0. `keyed`: each record has FILLER_KEY,
    for a compacted topic. `delete`: the filler is deleted, so the log starts at its end; this needs
    DELETE. `on_step` gets the end after each transaction (up to 1 million offsets), and returns
    whether to continue.

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
    """Ends the transaction again. The coordinator answers the first request before the marker is in
    the log, but a repetition only after that."""
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
        self._most = records.FILLER_RECORDS  # of a batch; less if the topic refuses such batches

    def step(self, most: int) -> int:
        """Appends up to `most` records, but no more than a transaction should have. Returns their
        number."""
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
    """Sends requests to the coordinator of one transaction, and remembers its broker. Never repeats
    a request that may have reached a broker."""

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
        """Does the same as ClusterClient.call, but repeats no request that may have arrived."""
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
        """Returns the answer, or an UnreachableError if it is lost."""
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
