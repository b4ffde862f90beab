"""Kafka's transactions, by the protocol that every broker since 0.11 speaks.

A transaction belongs to whoever knows its id, producer id and epoch, so one process may write it
and another end it. What is asked for here may be asked for again: a repetition changes nothing.
Requests stay below the versions in which a broker bumps the epoch at each end (KIP-890): there, a
lost answer would lose the epoch as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from causeway.cluster.producers import TRANSACTION_TIMEOUT_MS, init_transactional_id
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.wire import Deadline, apis, broker_error, codes

if TYPE_CHECKING:
    from causeway.cluster.client import ClusterClient
    from causeway.cluster.groups import Committed

GROUP, TRANSACTION = 0, 1
_DUPLICATE_SEQUENCE = 46


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The right to write in the name of `id`, until somebody else begins with it."""

    id: str
    producer_id: int
    epoch: int


def begin(cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> Transaction:
    """Takes over the id: an earlier holder can neither write nor commit any more, and what it left
    open is rolled back, markers included. The broker rolls back by itself what is open for
    `timeout_ms`. Raises CausewayError."""
    producer_id, epoch = init_transactional_id(cluster, transactional_id, timeout_ms)
    return Transaction(id=transactional_id, producer_id=producer_id, epoch=epoch)


def add_partitions(
    cluster: ClusterClient, transaction: Transaction, tps: Collection[TopicPartition]
) -> None:
    """Before the first batch goes to each of them. Raises CausewayError."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for tp in tps:
        by_topic[tp.topic].append(tp.partition)
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.epoch,
        v3_and_below_topics=[kind(name=t, partitions=parts) for t, parts in by_topic.items()],
        max_version=3,
    )

    def codes(answer: Any) -> list[tuple[int, str]]:
        return [
            (part.partition_error_code, f"WRITE on topic {topic.name}")
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        ]

    _coordinated(
        cluster, transaction, TRANSACTION, transaction.id, "add partitions to", request, codes
    )


def commit_offsets(
    cluster: ClusterClient,
    transaction: Transaction,
    group: str,
    offsets: Mapping[TopicPartition, Committed],
) -> None:
    """Has the group's offsets change with the transaction's end, if that commits it.
    Raises CausewayError."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transaction.id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        group_id=group,
        max_version=3,
    )
    needs = f"READ on group {group}"

    def code(answer: Any) -> list[tuple[int, str]]:
        return [(answer.error_code, needs)]

    _coordinated(cluster, transaction, TRANSACTION, transaction.id, "add offsets to", request, code)
    by_topic: dict[str, list[Any]] = defaultdict(list)
    kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    for tp, committed in offsets.items():
        by_topic[tp.topic].append(
            kind.TxnOffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    commit = TxnOffsetCommitRequest(
        transactional_id=transaction.id,
        group_id=group,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[kind(name=topic, partitions=parts) for topic, parts in by_topic.items()],
        max_version=3,
    )

    def codes(answer: Any) -> list[tuple[int, str]]:
        return [
            (part.error_code, f"{needs}, and READ on topic {topic.name}")
            for topic in answer.topics
            for part in topic.partitions
        ]

    _coordinated(cluster, transaction, GROUP, group, "commit offsets in", commit, codes)


def end(cluster: ClusterClient, transaction: Transaction, *, commit: bool) -> None:
    """Commits or rolls back. Raises CausewayError: a BrokerError that is not retriable where the
    transaction is no longer ours to end (it took too long, or somebody else has its id)."""
    request = EndTxnRequest(
        transactional_id=transaction.id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=commit,
        max_version=3,
    )

    def code(answer: Any) -> list[tuple[int, str]]:
        return [(answer.error_code, f"WRITE on transactional id {transaction.id}")]

    what = "commit" if commit else "roll back"
    _coordinated(cluster, transaction, TRANSACTION, transaction.id, what, request, code)


def give_up(cluster: ClusterClient, transaction: Transaction) -> None:
    """Rolls back, under a new epoch: what was sent and not answered for may reach a broker yet, and
    those before 3.6 would take it into the next transaction of the same epoch. Raises
    CausewayError, also where it finds itself fenced: by what it did, or by a successor, which it
    leaves alone."""
    request = InitProducerIdRequest(
        transactional_id=transaction.id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        min_version=3,
        max_version=5,
    )

    def code(answer: Any) -> list[tuple[int, str]]:
        return [(answer.error_code, f"WRITE on transactional id {transaction.id}")]

    _coordinated(cluster, transaction, TRANSACTION, transaction.id, "give up", request, code)


def produce(
    cluster: ClusterClient, transaction: Transaction, tp: TopicPartition, batch: bytes
) -> None:
    """Appends one batch, whose header has the transaction's producer and the partition's next
    sequence. Sent again until it is known to be there: its sequence lets it in once.
    Raises CausewayError."""
    deadline = Deadline(cluster.timeout_s)
    cluster.retry(deadline, lambda: _produce(cluster, transaction, tp, batch, deadline))


def _produce(
    cluster: ClusterClient,
    transaction: Transaction,
    tp: TopicPartition,
    batch: bytes,
    deadline: Deadline,
) -> None:
    leader = cluster.leaders([tp])[tp]
    if isinstance(leader, CausewayError):
        cluster.forget([tp.topic])
        raise leader
    kind = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id=transaction.id,
        acks=-1,
        timeout_ms=int(cluster.timeout_s * 1000),
        topic_data=[
            kind(
                name=tp.topic,
                partition_data=[kind.PartitionProduceData(index=tp.partition, records=batch)],
            )
        ],
        min_version=apis.PRODUCE.lowest,
        max_version=11,
    )
    part = cluster.once(request, leader.node_id, deadline).responses[0].partition_responses[0]
    if part.error_code in (0, _DUPLICATE_SEQUENCE):
        return
    if part.error_code in codes.STALE_METADATA:
        cluster.forget([tp.topic])
    message = part.error_message
    for record in part.record_errors or ():
        message = record.batch_index_error_message or message
    raise broker_error(
        part.error_code,
        "write to",
        f"{tp} on {cluster}",
        message,
        needs=f"WRITE on topic {tp.topic}",
    )


def _coordinated(
    cluster: ClusterClient,
    transaction: Transaction,
    kind: int,
    key: str,
    operation: str,
    request: Any,
    codes: Any,
) -> None:
    deadline = Deadline(cluster.timeout_s)

    def attempt() -> None:
        node_id = cluster.coordinator(kind, key)
        answer = cluster.once(request, node_id, deadline)
        for code, needs in codes(answer):
            if code:
                subject = f"transaction {transaction.id} on {cluster}"
                raise broker_error(code, operation, subject, needs=needs)

    cluster.retry(deadline, attempt)
