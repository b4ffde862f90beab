"""Produce and WriteTxnMarkers, and what they share: an append, and the wait for its replicas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.producer import ProduceResponse, WriteTxnMarkersResponse

from causeway.records import LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader
from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused, refuse
from tests.simulation.cluster.log import marker
from tests.simulation.cluster.validation import checked

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode
    from tests.simulation.cluster.replica import Replica

Respond = Callable[[Any], None]

WITH_IDS: Final = 13
ADDS_PARTITIONS: Final = 12  # from here on a transactional batch adds its partition (KIP-890)
_ABORTABLE_SINCE: Final = 11
MARKER_TIMEOUT_S: Final = 30.0  # request.timeout.ms of brokers


@dataclass(slots=True, kw_only=True)
class Appended:
    """The result of one append. `time_ms`: the append time, of a duplicate too; else -1."""

    code: int = 0
    base: int = -1
    time_ms: int = -1
    log_start: int = -1
    message: str | None = None
    records: Sequence[int] = ()  # those that a batch is refused for
    required: int = 0  # the high watermark that its acknowledgement needs


def append_batch(
    replica: Replica, raw: bytes | memoryview, transactional_id: str | None, version: int
) -> Appended:
    """Checks and appends a batch of a client on the leader, or finds it in the log. Raises
    Refused."""
    raw, header = checked(replica, raw)
    log = replica.log
    if header.producer_id >= 0:
        replica.known(header)
        known = log.producers.duplicate_of(header)
        if known is not None:
            required = known.base + header.last_delta + 1
            return Appended(
                base=known.base, time_ms=known.timestamp, log_start=log.start, required=required
            )
        if header.attributes & TRANSACTIONAL:
            _verify(replica, header, transactional_id, version)
        log.producers.check(header)
    batch = replica.append(raw)
    return Appended(
        base=batch.base,
        time_ms=header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1,
        log_start=log.start,
        required=batch.last + 1,
    )


def _verify(
    replica: Replica, header: BatchHeader, transactional_id: str | None, version: int
) -> None:
    """The partition is part of the producer's open transaction, or becomes so. Raises Refused."""
    entry = replica.log.producers.entries.get(header.producer_id)
    if entry is not None and entry.transaction_start >= 0 and entry.epoch == header.producer_epoch:
        return
    if transactional_id is None:
        raise Refused(errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    transactions = replica.node.cluster.transactions
    place = replica.topic.name, replica.index
    producer = header.producer_id, header.producer_epoch
    code = transactions.verify(transactional_id, producer, place, adds=version >= ADDS_PARTITIONS)
    if code == errors.INVALID_TXN_STATE and version >= _ABORTABLE_SINCE:
        code = errors.TRANSACTION_ABORTABLE
    if code == errors.PRODUCER_FENCED:
        code = errors.INVALID_PRODUCER_EPOCH
    if code:
        raise Refused(code)


class Acknowledgement:
    """Waits until the replicas in sync have all of some appends, or the time is over."""

    def __init__(
        self,
        node: BrokerNode,
        waits: dict[Hashable, tuple[Replica, Appended]],
        timeout_s: float,
        done: Callable[[], None],
    ) -> None:
        """`done` runs once, when each Appended of `waits` has its final code."""
        self._done = done
        self._waits = {
            key: (replica, replica.epoch, result) for key, (replica, result) in waits.items()
        }
        for replica, _, _ in self._waits.values():
            replica.waiting[self.check] = None
        self.check()
        if self._waits:
            node.later(timeout_s, self._time_out)

    def check(self) -> None:
        if not self._waits:
            return
        for key, (replica, epoch, result) in list(self._waits.items()):
            if not replica.leads or replica.epoch != epoch:
                result.code = errors.NOT_LEADER_OR_FOLLOWER
            elif replica.high_watermark >= result.required:
                if len(replica.state.isr) < replica.min_isr():
                    result.code = errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            else:
                continue
            self._leave(key)
        if not self._waits:
            self._done()

    def _leave(self, key: Hashable) -> None:
        replica = self._waits.pop(key)[0]
        if all(each is not replica for each, _, _ in self._waits.values()):
            replica.waiting.pop(self.check, None)

    def _time_out(self) -> None:
        if self._waits:
            for key, (_, _, result) in list(self._waits.items()):
                result.code = errors.REQUEST_TIMED_OUT
                self._leave(key)
            self._done()


def produce(node: BrokerNode, request: Any, respond: Respond) -> None:
    version = request.API_VERSION
    results: dict[tuple[Any, int], Appended] = {}
    waits: dict[Hashable, tuple[Replica, Appended]] = {}
    # If a request names a partition twice, only its last batch counts.
    batches: dict[tuple[Any, int], Any] = {
        (topic.topic_id if version >= WITH_IDS else topic.name, part.index): part.records or b""
        for topic in request.topic_data
        for part in topic.partition_data
    }
    for place, records in batches.items():
        try:
            if request.acks not in (-1, 0, 1):
                refuse(errors.INVALID_REQUIRED_ACKS)
            find = node.find_by_id if version >= WITH_IDS else node.find
            replica = find(*place)
            replica.check_leads()
            if node.disk_is_full:
                node.halt_soon()
                refuse(errors.KAFKA_STORAGE_ERROR)
            if request.acks == -1:
                replica.check_isr()
            result = append_batch(replica, records, request.transactional_id, version)
            if request.acks == -1:
                waits[place] = replica, result
        except Refused as refused:
            result = Appended(code=refused.code, message=refused.message, records=refused.records)
        results[place] = result
    size = sum(map(len, batches.values()))
    throttle_s = node.quotas.throttle_s("produce", size)

    def done() -> None:
        respond(_produced(request, results, throttle_s) if request.acks else None)

    if waits:
        Acknowledgement(node, waits, request.timeout_ms / 1000, done)
    else:
        done()


def _produced(request: Any, results: dict[tuple[Any, int], Appended], throttle_s: float) -> Any:
    kind = ProduceResponse.TopicProduceResponse
    with_ids = request.API_VERSION >= WITH_IDS
    topics = []
    for topic in request.topic_data:
        name = topic.topic_id if with_ids else topic.name
        parts = []
        for part in topic.partition_data:
            result = results[name, part.index]
            parts.append(
                kind.PartitionProduceResponse(
                    index=part.index,
                    error_code=result.code,
                    base_offset=result.base,
                    log_append_time_ms=result.time_ms,
                    log_start_offset=result.log_start,
                    record_errors=[
                        kind.PartitionProduceResponse.BatchIndexAndErrorMessage(
                            batch_index=each, batch_index_error_message=result.message
                        )
                        for each in result.records
                    ],
                    error_message=result.message,
                )
            )
        named = {"topic_id": name} if with_ids else {"name": name}
        topics.append(kind(partition_responses=parts, **named))
    return ProduceResponse(responses=topics, throttle_time_ms=round(throttle_s * 1000))


def append_marker(
    replica: Replica, producer: tuple[int, int], coordinator_epoch: int, *, commits: bool
) -> Appended:
    """Raises Refused."""
    producer_id, epoch = producer
    replica.log.producers.expire(replica.node.now_ms())
    replica.log.producers.check_marker(producer_id, epoch, coordinator_epoch)
    raw = marker(producer_id, epoch, coordinator_epoch, replica.node.now_ms(), commits=commits)
    return Appended(required=replica.append(raw).last + 1)


def write_markers(node: BrokerNode, request: Any, respond: Respond) -> None:
    """One answer for each producer and partition: of the marker that was done last. A request with
    an unknown partition behind a known one is never answered, as on Kafka (see
    docs/decisions/0068-same-offsets.md)."""
    results: dict[tuple[int, str, int], Appended] = {}
    waits: dict[Hashable, tuple[Replica, Appended]] = {}
    knows_one = is_stuck = False
    for number, entry in enumerate(request.markers):
        for topic in entry.topics:
            for index in topic.partition_indexes:
                result = Appended()
                try:
                    replica = node.find(topic.name, index)
                    knows_one = True
                    replica.check_leads()
                    replica.check_isr()
                    result = append_marker(
                        replica,
                        (entry.producer_id, entry.producer_epoch),
                        entry.coordinator_epoch,
                        commits=entry.transaction_result,
                    )
                    waits[number, topic.name, index] = replica, result
                except Refused as refused:
                    result.code = refused.code
                    unknown = refused.code == errors.UNKNOWN_TOPIC_OR_PARTITION
                    is_stuck |= unknown and knows_one
                results[entry.producer_id, topic.name, index] = result

    def done() -> None:
        respond(_marked(results))

    if is_stuck:
        return
    if waits:
        Acknowledgement(node, waits, MARKER_TIMEOUT_S, done)
    else:
        done()


def _marked(results: dict[tuple[int, str, int], Appended]) -> Any:
    kind = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic_kind = kind.WritableTxnMarkerTopicResult
    part_kind = topic_kind.WritableTxnMarkerPartitionResult
    producers: dict[int, dict[str, list[Any]]] = {}
    for (producer_id, topic, index), result in results.items():
        part = part_kind(partition_index=index, error_code=result.code)
        producers.setdefault(producer_id, {}).setdefault(topic, []).append(part)
    return WriteTxnMarkersResponse(
        markers=[
            kind(
                producer_id=producer_id,
                topics=[topic_kind(name=name, partitions=parts) for name, parts in topics.items()],
            )
            for producer_id, topics in producers.items()
        ]
    )
