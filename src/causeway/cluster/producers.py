"""Producer ids, the producers that brokers remember, and writes of single batches."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from causeway.cluster.client import TRANSACTION, ClusterClient
from causeway.cluster.metadata import by_topic, each_value, value_of
from causeway.cluster.offsets import at_leaders
from causeway.errors import AuthorizationError, BrokerError, CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Deadline, apis, broker_error, codes, raise_error

IDS_A_FLIGHT = 500
TRANSACTION_TIMEOUT_MS = 60_000
# After these codes Kafka's own producer sends the batch again, but Causeway does not. After the
# first two the broker may have appended the batch, and a corrupt batch stays corrupt.
_FINAL = frozenset(
    (codes.REQUEST_TIMED_OUT, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND, codes.CORRUPT_MESSAGE)
)


# -- producer ids -----------------------------------------------------------------------------


def init_producer_ids(cluster: ClusterClient, count: int) -> list[tuple[int, int]]:
    """Returns `count` new pairs (producer id, epoch) that belong to no transactional id."""
    deadline = Deadline(cluster.timeout_s)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        wanted = min(count - len(found), IDS_A_FLIGHT)
        found += cluster.retry(deadline, lambda wanted=wanted: _ids(cluster, wanted, deadline))  # type: ignore[misc]
    return found


def _ids(cluster: ClusterClient, count: int, deadline: Deadline) -> list[tuple[int, int]]:
    """Returns at least one pair (producer id, epoch), and at most `count`."""
    requests = [_init_request(None) for _ in range(count)]
    with cluster.lease(None, deadline) as connection:
        answers = connection.call_many(requests, deadline.left())
    good = [(a.producer_id, a.producer_epoch) for a in answers if not a.error_code]
    if not good:
        needs = "IDEMPOTENT_WRITE on the cluster, or WRITE on the topics"
        raise_error(answers[0], "get a producer id on", str(cluster), needs)
    return good


def init_transactional_id(
    cluster: ClusterClient, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
) -> tuple[int, int]:
    """Takes over the transactional id. Returns its producer id and its epoch, which is higher by
    one than before. From now on brokers refuse writes with an older epoch (INVALID_PRODUCER_EPOCH).
    """
    answer = cluster.call(
        _init_request(transactional_id, timeout_ms),
        check=lambda answer: raise_error(
            answer,
            "take over transactional id",
            f"{transactional_id} on {cluster}",
            f"WRITE on transactional id {transactional_id}",
        ),
        coordinator_of=(TRANSACTION, transactional_id),
    )
    return answer.producer_id, answer.producer_epoch


def _init_request(transactional_id: str | None, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Any:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
        max_version=apis.INIT_PRODUCER_ID.highest,
    )


def has_transactional_id(cluster: ClusterClient, transactional_id: str) -> bool:
    """Returns whether the transactional id has an epoch. Raises AuthorizationError if we have no
    right on the id, BrokerError without the API (before Kafka 3.0), and other CausewayErrors if the
    coordinator cannot be asked."""

    def check(answer: Any) -> None:
        state = answer.transaction_states[0]
        if state.error_code != codes.TRANSACTIONAL_ID_NOT_FOUND:
            raise_error(state, "look up transactional id", f"{transactional_id} on {cluster}")

    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    answer = cluster.call(request, check=check, coordinator_of=(TRANSACTION, transactional_id))
    return not answer.transaction_states[0].error_code


def knows_transactional_id(cluster: ClusterClient, transactional_id: str) -> bool | None:
    """Does the same as `has_transactional_id`. None if the coordinator does not say. Raises
    CausewayError if the coordinator cannot be asked."""
    try:
        return has_transactional_id(cluster, transactional_id)
    except AuthorizationError:
        return None
    except BrokerError as error:
        if error.retriable:
            raise
        return None


def transactional_ids(cluster: ClusterClient, producer_ids: Collection[int]) -> dict[int, str]:
    """Returns the transactional id of each producer id that has one, if we may DESCRIBE it and its
    coordinator answers (Kafka 3.0 and later). Raises CausewayError if no broker answers."""
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
            raise_error(answer, "list the transactions of", str(cluster))
        except CausewayError as error:
            failures.append(error)
        else:
            found |= {each.producer_id: each.transactional_id for each in answer.transaction_states}
    if failures and len(failures) == len(nodes):
        raise failures[0]
    return found


# -- producers that brokers remember ----------------------------------------------------------

# A broker forgets a producer whose newest record is older than a day, and looks for such producers
# every 10 minutes (producer.id.expiration.*). A forgotten producer may send any first sequence.
YOUNG_S: Final = 12 * 60 * 60.0
REMEMBERED_S: Final = 60.0
"""The time after an answer for which a broker surely remembers a producer of old records."""


def is_young(timestamp_ms: int) -> bool:
    """Returns whether a broker surely remembers the producer of a record with this timestamp."""
    return timestamp_ms / 1000 > time.time() - YOUNG_S


def young_since_ms() -> int:
    """Returns the oldest timestamp (ms) of records that are young."""
    return int((time.time() - YOUNG_S) * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer in the memory of a partition's leader. `last_timestamp` (ms): that of its newest
    record. `transaction_start`: the offset of the first record of its open transaction in the
    partition, -1 if there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start: int = -1


def active_producers(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | CausewayError]:
    """Returns the idempotent and transactional producers that each partition's leader remembers. By
    the timestamps of their records, the leader forgets producers that have not written for a while.
    Needs READ."""

    return at_leaders(
        cluster,
        tps,
        "ask for the producers of",
        lambda wanted, _: DescribeProducersRequest(
            topics=by_topic((tp.topic, tp.partition) for tp, _ in wanted)
        ),
        lambda _, part: tuple(
            ActiveProducer(
                producer_id=known.producer_id,
                producer_epoch=known.producer_epoch,
                last_sequence=known.last_sequence,
                last_timestamp=known.last_timestamp,
                transaction_start=known.current_txn_start_offset,
            )
            for known in part.active_producers
        ),
        needs="READ",
    )


def last_sequences(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, dict[int, int] | CausewayError]:
    """Returns the last sequence of each producer id that the partition's leader remembers."""
    return each_value(
        active_producers(cluster, tps),
        lambda found: {producer.producer_id: producer.last_sequence for producer in found},
    )


def open_transactions(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | CausewayError]:
    """Returns the producers with an open transaction, ordered by its start. The first producer
    holds back the partition's last stable offset."""
    start = attrgetter("transaction_start")
    return each_value(
        active_producers(cluster, tps),
        lambda found: tuple(sorted((each for each in found if start(each) >= 0), key=start)),
    )


# -- writing ----------------------------------------------------------------------------------


def produce_batch(
    cluster: ClusterClient, tp: TopicPartition, batch: bytes, *, heed_quota: bool = True
) -> int:
    """Appends one record batch as it is, with acks=all. Returns its base offset.

    While a quota throttles us, it waits. Without `heed_quota` it sends at once: a broker also
    appends batches of clients that it throttles. That is for small batches that cannot wait.

    The batch is sent again only if the broker says that it has appended nothing. If the broker may
    have appended it (the connection was lost, or a time-out), raises UnreachableError, or
    BrokerError with code 7 or 20, and the caller must look at the log. For other codes raises
    BrokerError or AuthorizationError.
    """
    deadline = Deadline(cluster.timeout_s)

    def attempt() -> int | CausewayError:
        leader = cluster.leader(tp)
        request = produce_request(cluster, tp, batch)
        if heed_quota:
            cluster.heed_quota(leader.node_id, request.API_KEY, deadline)
        is_sent = False
        try:
            with cluster.lease(leader.node_id, deadline) as connection:
                is_sent = True
                response = connection.call(request, deadline.left())
        except UnreachableError as lost:
            if is_sent:
                return lost
            raise
        cluster.quotas.note(leader.node_id, request.API_KEY, response)
        error = produce_error(cluster, tp, response)
        if isinstance(error, BrokerError) and error.code in _FINAL:
            return error
        if error is not None:
            raise error
        return int(response.responses[0].partition_responses[0].base_offset)

    return value_of(cluster.retry(deadline, attempt))


def produce_request(
    cluster: ClusterClient,
    tp: TopicPartition,
    batch: bytes,
    transactional_id: str | None = None,
    max_version: int = apis.PRODUCE.highest,
) -> Any:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=int(cluster.timeout_s * 1000),
        topic_data=[(tp.topic, [(tp.partition, batch)])],
        min_version=apis.PRODUCE.lowest,
        max_version=max_version,
    )


def produce_error(
    cluster: ClusterClient, tp: TopicPartition, response: Any
) -> CausewayError | None:
    """Returns the error in the answer to a request with one batch. If the leader may have moved, it
    is forgotten, and the next use looks it up again."""
    part = response.responses[0].partition_responses[0]
    if not part.error_code:
        return None
    if part.error_code in codes.STALE_METADATA:
        cluster.forget([tp.topic])
    message = part.error_message
    for record in part.record_errors or ():
        message = record.batch_index_error_message or message
    where, needs = f"{tp} on {cluster}", f"WRITE on topic {tp.topic}"
    return broker_error(part.error_code, "write to", where, message, needs=needs)
