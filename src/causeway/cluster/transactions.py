"""Kafka's transactions, by the protocol that every broker since 0.11 speaks.

The id, producer id and epoch are all that writing needs, so one process may write a transaction and
another end it. Every request here may be repeated: a repetition changes nothing. Requests stay
below the versions in which a broker bumps the epoch at each end (KIP-890): there, a lost answer
would lose the epoch as well.
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
    """The cluster, or what sends requests to it in another way than ClusterClient.call."""

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
    """The right to write in the name of `id`, until another process begins with it."""

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
    """Takes over the id: an earlier holder can neither write nor commit any more, and what it left
    open is rolled back, markers included. The broker rolls back by itself what is open for
    `timeout_ms`. Raises CausewayError."""
    producer_id, epoch = init_transactional_id(cluster, transactional_id, timeout_ms)
    return Transaction(id=transactional_id, producer_id=producer_id, epoch=epoch)


def add_partitions(
    cluster: Caller, transaction: Transaction, tps: Collection[TopicPartition]
) -> None:
    """Before the first batch goes to each of them. Raises CausewayError."""
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
    """Has the group's offsets change with the transaction's end, if that commits it.
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
    """Commits or rolls back. Raises CausewayError: a BrokerError that is not retriable if the
    transaction is no longer ours to end (it took too long, or another process has its id)."""
    request = EndTxnRequest(**transaction._fields, committed=commit, max_version=_HIGHEST)
    _call(cluster, transaction, "commit" if commit else "roll back", request)


def give_up(cluster: ClusterClient, transaction: Transaction) -> None:
    """Rolls back, under a new epoch: a request without an answer may reach a broker yet, and
    brokers before 3.6 would take it into the next transaction of the same epoch. Raises
    CausewayError, also if it finds itself fenced: by its own repetition, or by a successor, which
    it leaves alone."""
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
    """Appends one batch, whose header has the transaction's producer and the partition's next
    sequence. Sent again until it is known to be there: its sequence lets it in once.
    Raises CausewayError."""
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
    """Sends to the coordinator of the transaction, or of `group`. `results`: each error code in the
    answer, with the ACL that it needs."""

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
