"""ListOffsets, OffsetForLeaderEpoch, DescribeProducers, DeleteRecords."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import DeleteRecordsResponse, DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsResponse, OffsetForLeaderEpochResponse

from causeway.records import decode
from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused, refuse

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode
    from tests.simulation.cluster.replica import Replica

Respond = Callable[[Any], None]

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST_TIME: Final = -3
EARLIEST_LOCAL: Final = -4


def list_offsets(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    part_kind = kind.ListOffsetsPartitionResponse
    committed = bool(request.isolation_level)
    topics = []
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            code, timestamp, offset, epoch = 0, -1, -1, -1
            try:
                replica = node.find(topic.name, part.partition_index)
                replica.check_leads(_named(part.current_leader_epoch))
                timestamp, offset, epoch = offset_at(replica, part.timestamp, committed)
            except Refused as refused:
                code = refused.code
            parts.append(
                part_kind(
                    partition_index=part.partition_index,
                    error_code=code,
                    timestamp=timestamp,
                    offset=offset,
                    leader_epoch=epoch,
                )
            )
        topics.append(kind(name=topic.name, partitions=parts))
    respond(ListOffsetsResponse(throttle_time_ms=0, topics=topics))


def _named(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def offset_at(replica: Replica, timestamp: int, committed: bool) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch, as Kafka's `fetchOffsetForTimestamp`. Raises Refused."""
    log = replica.log
    end = replica.last_stable if committed else replica.high_watermark
    behind = replica.epoch_start > replica.high_watermark
    if timestamp == LATEST:
        if behind:
            raise Refused(errors.OFFSET_NOT_AVAILABLE)
        return -1, end, log.epochs.at(end) if end < log.end else log.epochs.latest
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start, log.epochs.at(log.start)
    if timestamp == NEWEST_TIME:
        found = _newest(replica)
    elif timestamp >= 0:
        found = _first_since(replica, timestamp)
    else:
        return -1, -1, -1
    if found is not None and found[1] < end:
        return *found, log.epochs.at(found[1])
    if behind:
        raise Refused(errors.OFFSET_NOT_AVAILABLE)
    return -1, -1, -1


def _first_since(replica: Replica, timestamp: int) -> tuple[int, int] | None:
    start = replica.log.start
    for batch in replica.log.from_offset(start):
        if batch.header.max_timestamp < timestamp:
            continue
        if batch.is_control:
            return batch.header.max_timestamp, batch.base
        for record in decode(batch.raw):
            if (record.timestamp or 0) >= timestamp and record.offset >= start:
                return record.timestamp or 0, record.offset
    return None


def _newest(replica: Replica) -> tuple[int, int] | None:
    newest = None
    for batch in replica.log.from_offset(replica.log.start):
        if batch.header.records and (
            newest is None or batch.header.max_timestamp > newest.header.max_timestamp
        ):
            newest = batch
    if newest is None:
        return None
    time_ms = newest.header.max_timestamp
    if newest.is_control:
        return time_ms, newest.base
    found = next((r.offset for r in decode(newest.raw) if r.timestamp == time_ms), newest.last)
    return time_ms, found


def epoch_ends(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    topics = []
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            code, epoch, end = 0, -1, -1
            try:
                replica = node.find(topic.topic, part.partition)
                replica.check_leads(part.current_leader_epoch)
                epoch, end = replica.log.epochs.end_of(part.leader_epoch, replica.log.end)
            except Refused as refused:
                code = refused.code
            parts.append(
                kind.EpochEndOffset(
                    error_code=code, partition=part.partition, leader_epoch=epoch, end_offset=end
                )
            )
        topics.append(kind(topic=topic.topic, partitions=parts))
    respond(OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics))


def describe_producers(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = DescribeProducersResponse.TopicResponse
    part_kind = kind.PartitionResponse
    topics = []
    for topic in request.topics:
        parts = []
        for index in topic.partition_indexes:
            code, producers = 0, []
            try:
                replica = node.find(topic.name, index)
                replica.check_leads()
                replica.log.producers.expire(node.now_ms())
                producers = [
                    part_kind.ProducerState(
                        producer_id=entry.producer_id,
                        producer_epoch=entry.epoch,
                        last_sequence=entry.last_sequence,
                        last_timestamp=entry.last_timestamp,
                        coordinator_epoch=entry.coordinator_epoch,
                        current_txn_start_offset=entry.transaction_start,
                    )
                    for entry in replica.log.producers.entries.values()
                ]
            except Refused as refused:
                code = refused.code
            parts.append(
                part_kind(
                    partition_index=index,
                    error_code=code,
                    error_message=None,
                    active_producers=producers,
                )
            )
        topics.append(kind(name=topic.name, partitions=parts))
    respond(DescribeProducersResponse(throttle_time_ms=0, topics=topics))


def delete_records(node: BrokerNode, request: Any, respond: Respond) -> None:
    """Answers when the logs of all replicas that are alive begin there."""
    results: dict[tuple[str, int], tuple[int, int]] = {}
    open_: dict[tuple[str, int], tuple[Replica, int]] = {}
    for topic in request.topics:
        for part in topic.partitions:
            place = topic.name, part.partition_index
            try:
                replica = node.find(*place)
                replica.check_leads()
                offset = replica.high_watermark if part.offset == LATEST else part.offset
                if replica.topic.policies == ("compact",):
                    refuse(errors.POLICY_VIOLATION)
                if not 0 <= offset <= replica.high_watermark:
                    refuse(errors.OFFSET_OUT_OF_RANGE)
                open_[place] = replica, offset
                results[place] = errors.REQUEST_TIMED_OUT, -1
            except Refused as refused:
                results[place] = refused.code, -1
    answered = False

    def time_out() -> None:
        check(is_over=True)

    def check(*, is_over: bool = False) -> None:
        nonlocal answered
        if answered:
            return
        for place, (replica, offset) in list(open_.items()):
            low = replica.low_watermark()
            if not replica.leads:
                results[place] = errors.NOT_LEADER_OR_FOLLOWER, -1
            elif low >= offset:
                results[place] = 0, low
            else:
                continue
            del open_[place]
            replica.waiting_for_starts.pop(check, None)
        if is_over or not open_:
            answered = True
            for replica, _ in open_.values():
                replica.waiting_for_starts.pop(check, None)
            respond(_deleted(request, results))

    for replica, offset in list(open_.values()):
        replica.waiting_for_starts[check] = None
        replica.delete_records(offset)
    check()
    if not answered:
        node.later(request.timeout_ms / 1000, time_out)


def _deleted(request: Any, results: dict[tuple[str, int], tuple[int, int]]) -> Any:
    kind = DeleteRecordsResponse.DeleteRecordsTopicResult
    topics = [
        kind(
            name=topic.name,
            partitions=[
                kind.DeleteRecordsPartitionResult(
                    partition_index=part.partition_index,
                    low_watermark=results[topic.name, part.partition_index][1],
                    error_code=results[topic.name, part.partition_index][0],
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)
