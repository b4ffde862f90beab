"""Producer ids, and writing single batches where speed does not matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from causeway.cluster.offsets import at_leaders
from causeway.errors import AuthorizationError, BrokerError, CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Deadline, apis, broker_error, codes

if TYPE_CHECKING:
    from causeway.cluster.client import ClusterClient


import time
from typing import Final

T = TypeVar("T")

IDS_A_FLIGHT = 500
TRANSACTION_TIMEOUT_MS = 60_000
TRANSACTION = 1
# Retriable for Kafka's own producer, not for us: the broker has, or may have, appended the batch
# all the same; and bytes that are corrupt stay so.
_FINAL = frozenset(
    (codes.REQUEST_TIMED_OUT, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND, codes.CORRUPT_MESSAGE)
)


def init_producer_ids(cluster: ClusterClient, count: int) -> list[tuple[int, int]]:
    """`count` fresh (producer id, epoch), that no transactional id owns."""
    deadline = Deadline(cluster.timeout_s)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        wanted = min(count - len(found), IDS_A_FLIGHT)
        found += cluster.retry(deadline, lambda wanted=wanted: _ids(cluster, wanted, deadline))  # type: ignore[misc]
    return found


def _ids(cluster: ClusterClient, count: int, deadline: Deadline) -> list[tuple[int, int]]:
    """At least one, at most `count`."""
    requests = [_init_request(None) for _ in range(count)]
    with cluster.lease(None, deadline) as connection:
        answers = connection.call_many(requests, deadline.left())
    good = [(a.producer_id, a.producer_epoch) for a in answers if not a.error_code]
    if good:
        return good
    raise broker_error(
        answers[0].error_code,
        "get a producer id on",
        str(cluster),
        needs="IDEMPOTENT_WRITE on the cluster, or WRITE on the topics",
    )


def init_transactional_id(
    cluster: ClusterClient,
    transactional_id: str,
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
) -> tuple[int, int]:
    """(producer id, epoch) of the transactional id, the epoch one higher than any before.

    From now on the broker refuses every write with an older epoch (INVALID_PRODUCER_EPOCH).
    """
    deadline = Deadline(cluster.timeout_s)
    request = _init_request(transactional_id, transaction_timeout_ms)
    return cluster.retry(
        deadline, lambda: _init_transactional(cluster, transactional_id, request, deadline)
    )


def _init_transactional(
    cluster: ClusterClient, transactional_id: str, request: Any, deadline: Deadline
) -> tuple[int, int]:
    node_id = cluster.coordinator(TRANSACTION, transactional_id)
    answer = cluster.once(request, node_id, deadline)
    if answer.error_code:
        raise broker_error(
            answer.error_code,
            "take over transactional id",
            f"{transactional_id} on {cluster}",
            needs=f"WRITE on transactional id {transactional_id}",
        )
    return answer.producer_id, answer.producer_epoch


def knows_transactional_id(cluster: ClusterClient, transactional_id: str) -> bool | None:
    """Whether the transactional id has an epoch by now; None where its coordinator does not tell
    (before Kafka 3.0, or us). Raises CausewayError where it cannot be asked."""
    deadline = Deadline(cluster.timeout_s)

    def ask() -> bool:
        node_id = cluster.coordinator(TRANSACTION, transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        code = cluster.once(request, node_id, deadline).transaction_states[0].error_code
        if code and code != codes.TRANSACTIONAL_ID_NOT_FOUND:
            raise broker_error(code, "look up transactional id", f"{transactional_id} on {cluster}")
        return not code

    try:
        return cluster.retry(deadline, ask)
    except AuthorizationError:
        return None
    except BrokerError as error:
        if error.retriable:
            raise
        return None


def _init_request(
    transactional_id: str | None, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
) -> Any:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
        max_version=apis.INIT_PRODUCER_ID.highest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """`start`: the offset of its first record in the partition. `last_timestamp` (ms): of the
    newest record of its producer there."""

    producer_id: int
    producer_epoch: int
    start: int
    last_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """As a partition's leader remembers it. `last_timestamp` (ms) is its newest record's."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int


def active_producers(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | CausewayError]:
    """Who has written with a producer id, idempotent or transactional, and is not forgotten yet.
    Those without one are not known to a broker. That wants READ."""
    return _of_producers(
        cluster,
        tps,
        lambda known: tuple(
            ActiveProducer(
                producer_id=p.producer_id,
                producer_epoch=p.producer_epoch,
                last_sequence=p.last_sequence,
                last_timestamp=p.last_timestamp,
            )
            for p in known
        ),
    )


def transactional_ids(cluster: ClusterClient, producer_ids: Collection[int]) -> dict[int, str]:
    """Those of the producer ids that have one, as far as we may DESCRIBE it, and the brokers that
    coordinate them answer; Kafka 3.0 and later tell. Raises CausewayError where none does."""
    found: dict[int, str] = {}
    failures: list[CausewayError] = []
    nodes = cluster.metadata([]).brokers
    request = ListTransactionsRequest(
        state_filters=[],
        producer_id_filters=list(producer_ids),
        max_version=apis.LIST_TRANSACTIONS.highest,
    )
    for node in nodes:
        try:
            answer = cluster.call(request, node)
            if answer.error_code:
                raise broker_error(answer.error_code, "list the transactions of", str(cluster))
        except CausewayError as error:
            failures.append(error)
        else:
            found |= {each.producer_id: each.transactional_id for each in answer.transaction_states}
    if failures and len(failures) == len(nodes):
        raise failures[0]
    return found


def last_sequences(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, dict[int, int] | CausewayError]:
    """The last sequence of each producer id that the partition's leader remembers. It forgets those
    that have not written for a while, by their records' timestamps. That wants READ."""
    return _of_producers(
        cluster, tps, lambda known: {p.producer_id: p.last_sequence for p in known}
    )


def open_transactions(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[OpenTransaction, ...] | CausewayError]:
    """Those of each partition, the first one to begin first: it is what holds back the partition's
    last stable offset. That wants READ."""
    return _of_producers(cluster, tps, _open)


def _open(known: Sequence[Any]) -> tuple[OpenTransaction, ...]:
    found = [
        OpenTransaction(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            start=producer.current_txn_start_offset,
            last_timestamp=producer.last_timestamp,
        )
        for producer in known
        if producer.current_txn_start_offset >= 0
    ]
    return tuple(sorted(found, key=lambda transaction: transaction.start))


def _of_producers(
    cluster: ClusterClient, tps: Collection[TopicPartition], read: Callable[[Sequence[Any]], T]
) -> dict[TopicPartition, T | CausewayError]:
    """What `read` makes of the producers that each partition's leader remembers."""

    def ask(
        node_id: int, wanted: list[tuple[TopicPartition, int]], deadline: Deadline
    ) -> Mapping[TopicPartition, T | CausewayError]:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for tp, _ in wanted:
            by_topic[tp.topic].append(tp.partition)
        kind = DescribeProducersRequest.TopicRequest
        request = DescribeProducersRequest(
            topics=[kind(name=name, partition_indexes=parts) for name, parts in by_topic.items()]
        )
        try:
            response = cluster.once(request, node_id, deadline)
        except CausewayError as error:
            return {tp: error for tp, _ in wanted}
        return {
            TopicPartition(topic.name, part.partition_index): (
                _refused(cluster, topic.name, part)
                if part.error_code
                else read(part.active_producers)
            )
            for topic in response.topics
            for part in topic.partitions
        }

    return at_leaders(cluster, tps, ask)


def _refused(cluster: ClusterClient, topic: str, part: Any) -> CausewayError:
    return broker_error(
        part.error_code,
        "ask for the producers of",
        f"{topic}-{part.partition_index} on {cluster}",
        part.error_message,
        needs=f"READ on topic {topic}",
    )


def produce_batch(
    cluster: ClusterClient, tp: TopicPartition, batch: bytes, *, heed_quota: bool = True
) -> int:
    """Appends one record batch as it is, acks=all; returns its base offset.

    While the broker throttles us by a quota, waits. Without `heed_quota` it sends at once, for
    small batches that cannot wait: a broker also appends batches of clients that it throttles.

    Sent again only while the broker says that it appended nothing. Where that is in doubt (a lost
    connection, a time-out) it raises, and the caller looks at the log: UnreachableError, or
    BrokerError with code 7 or 20. Other codes: BrokerError, AuthorizationError.
    """
    deadline = Deadline(cluster.timeout_s)
    failure: list[CausewayError] = []

    def attempt() -> int | None:
        try:
            return _produce(cluster, tp, batch, deadline, heed_quota)
        except _FinalError as final:
            failure.append(final.error)
            return None

    offset = cluster.retry(deadline, attempt)
    if offset is None:
        raise failure[0]
    return offset


class _FinalError(Exception):
    """Not to be tried again, however retriable the error is."""

    def __init__(self, error: CausewayError) -> None:
        super().__init__(str(error))
        self.error = error


def _produce(
    cluster: ClusterClient, tp: TopicPartition, batch: bytes, deadline: Deadline, heed_quota: bool
) -> int:
    leader = cluster.leaders([tp])[tp]
    if isinstance(leader, CausewayError):
        cluster.forget([tp.topic])
        raise leader
    kind = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=int(cluster.timeout_s * 1000),
        topic_data=[
            kind(
                name=tp.topic,
                partition_data=[kind.PartitionProduceData(index=tp.partition, records=batch)],
            )
        ],
        min_version=apis.PRODUCE.lowest,
        max_version=apis.PRODUCE.highest,
    )
    if heed_quota:
        cluster.heed_quota(leader.node_id, request.API_KEY, deadline)
    with cluster.lease(leader.node_id, deadline) as connection:
        try:
            response = connection.call(request, deadline.left())
        except UnreachableError as lost:
            raise _FinalError(lost) from lost
    cluster.quotas.note(leader.node_id, request.API_KEY, response)
    part = response.responses[0].partition_responses[0]
    if not part.error_code:
        return int(part.base_offset)
    message = part.error_message
    for record in part.record_errors or ():
        message = record.batch_index_error_message or message
    error = broker_error(
        part.error_code,
        "write to",
        f"{tp} on {cluster}",
        message,
        needs=f"WRITE on topic {tp.topic}",
    )
    if part.error_code in _FINAL:
        raise _FinalError(error)
    if part.error_code in codes.STALE_METADATA:
        cluster.forget([tp.topic])
    raise error


YOUNG_S: Final = 12 * 60 * 60.0
REMEMBERED_S: Final = 60.0
"""After an answer: in a longer silence the producer of old records may be forgotten."""


def is_young(timestamp_ms: int) -> bool:
    """Whether a broker surely remembers the producer of a record of that time."""
    return timestamp_ms / 1000 > time.time() - YOUNG_S


def young_since_ms() -> int:
    """Records of that time are just young enough."""
    return int((time.time() - YOUNG_S) * 1000)
