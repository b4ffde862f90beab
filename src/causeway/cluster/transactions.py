"""Kafka's transactions, with the protocol that all brokers since 0.11 have.

To write, a process needs only the transactional id, the producer id and the epoch. So one process
may write a transaction, and another process may end it. Each request here may be repeated: a
repetition changes nothing. In newer versions of these requests, a broker raises the epoch at each
end (KIP-890), and a lost answer would also lose the epoch. So we do not use these versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from causeway.cluster.client import GROUP, TRANSACTION, ClusterClient
from causeway.cluster.groups import Committed, commit_topics
from causeway.cluster.metadata import by_topic
from causeway.cluster.producers import (
    TRANSACTION_TIMEOUT_MS,
    init_transactional_id,
    produce_error,
    produce_request,
)
from causeway.errors import BrokerError
from causeway.model import TopicPartition
from causeway.wire import Deadline, broker_error

_DUPLICATE_SEQUENCE: Final = 46
_HIGHEST: Final = 3
_PRODUCE_HIGHEST: Final = 11


class Caller(Protocol):
    """The cluster, or an object that sends requests to it in another way than
    ClusterClient.call."""

    def call(
        self,
        request: Any,
        node_id: int | None = None,
        check: Callable[[Any], None] = ...,
        *,
        coordinator_of: tuple[int, str] | None = None,
    ) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The right to write with the transactional id `id`, until another process takes it over."""

    id: str
    producer_id: int
    epoch: int

    @property
    def _fields(self) -> dict[str, Any]:
        """The transaction in a request."""
        return {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


def begin(cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> Transaction:
    """Takes over the id. An earlier owner can neither write nor commit any more, and its open
    transaction is rolled back, with markers. The broker itself rolls back a transaction that is
    open for `timeout_ms`. Raises CausewayError."""
    producer_id, epoch = init_transactional_id(cluster, transactional_id, timeout_ms)
    return Transaction(id=transactional_id, producer_id=producer_id, epoch=epoch)


def add_partitions(
    cluster: Caller, transaction: Transaction, tps: Collection[TopicPartition]
) -> None:
    """Adds partitions to the transaction. Call this before the first batch to each partition.
    Raises CausewayError."""
    request = AddPartitionsToTxnRequest(
        **{f"v3_and_below_{name}": value for name, value in transaction._fields.items()},
        v3_and_below_topics=by_topic((tp.topic, tp.partition) for tp in tps),
        max_version=_HIGHEST,
    )
    _call(
        cluster,
        transaction,
        "add partitions to",
        request,
        lambda answer: (
            (part.partition_error_code, f"WRITE on topic {topic.name}")
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        ),
    )


def commit_offsets(
    cluster: ClusterClient,
    transaction: Transaction,
    group: str,
    offsets: Mapping[TopicPartition, Committed],
) -> None:
    """Adds the group's offsets to the transaction: they change when the transaction is committed.
    Raises CausewayError."""
    needs = f"READ on group {group}"
    request = AddOffsetsToTxnRequest(**transaction._fields, group_id=group, max_version=_HIGHEST)
    _call(
        cluster,
        transaction,
        "add offsets to",
        request,
        lambda answer: [(answer.error_code, needs)],
    )
    commit = TxnOffsetCommitRequest(
        **transaction._fields,
        group_id=group,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=commit_topics(
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition,
            offsets,
        ),
        max_version=_HIGHEST,
    )
    _call(
        cluster,
        transaction,
        "commit offsets in",
        commit,
        lambda answer: (
            (part.error_code, f"{needs}, and READ on topic {topic.name}")
            for topic in answer.topics
            for part in topic.partitions
        ),
        group,
    )


def end(cluster: Caller, transaction: Transaction, *, commit: bool) -> None:
    """Commits the transaction, or rolls it back. Raises CausewayError. It is a BrokerError that is
    not retriable if we may not end the transaction any more: it took too long, or another process
    has its id."""
    request = EndTxnRequest(**transaction._fields, committed=commit, max_version=_HIGHEST)
    _call(cluster, transaction, "commit" if commit else "roll back", request)


def give_up(cluster: ClusterClient, transaction: Transaction) -> None:
    """Rolls the transaction back with a new epoch. A request without an answer may still reach a
    broker, and brokers before 3.6 would add it to the next transaction of the same epoch. Raises
    CausewayError, also if it is fenced: by its own repetition, or by a successor, whose transaction
    it does not touch."""
    request = InitProducerIdRequest(
        **transaction._fields,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        min_version=3,
        max_version=5,
    )
    _call(cluster, transaction, "give up", request)


def produce(
    cluster: ClusterClient, transaction: Transaction, tp: TopicPartition, batch: bytes
) -> None:
    """Appends one batch. Its header has the transaction's producer and the partition's next
    sequence. It is sent again until the broker has it: because of its sequence, the broker appends
    it only once. Raises CausewayError."""
    deadline = Deadline(cluster.timeout_s)

    def attempt() -> None:
        leader = cluster.leader(tp)
        request = produce_request(cluster, tp, batch, transaction.id, _PRODUCE_HIGHEST)
        error = produce_error(cluster, tp, cluster.once(request, leader.node_id, deadline))
        if isinstance(error, BrokerError) and error.code == _DUPLICATE_SEQUENCE:
            return
        if error is not None:
            raise error

    cluster.retry(deadline, attempt)


def _call(
    cluster: Caller,
    transaction: Transaction,
    operation: str,
    request: Any,
    results: Callable[[Any], Iterable[tuple[int, str]]] | None = None,
    group: str | None = None,
) -> None:
    """Sends a request to the coordinator of the transaction, or of `group`. `results` returns each
    error code in the answer, with the ACL that it needs."""

    def check(answer: Any) -> None:
        # An answer with an error for each item has no error of its own.
        own = f"WRITE on transactional id {transaction.id}"
        found = [(answer.error_code, own)] if results is None else results(answer)
        for code, needs in found:
            if code:
                subject = f"transaction {transaction.id} on {cluster}"
                raise broker_error(code, operation, subject, needs=needs)

    at = (TRANSACTION, transaction.id) if group is None else (GROUP, group)
    cluster.call(request, check=check, coordinator_of=at)
