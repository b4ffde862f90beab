"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and the questions about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeTransactionsResponse, ListTransactionsResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
)

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

Respond = Callable[[Any], None]


def _code(node: BrokerNode, key: str, act: Callable[[], object]) -> int:
    """Does it, if this broker coordinates the transactional id; the error code."""
    try:
        node.check_coordinates(key)
        act()
    except Refused as refused:
        return refused.code
    return 0


def _older(code: int, version: int, since: int) -> int:
    """Clients of older versions do not know PRODUCER_FENCED."""
    fenced = code == errors.PRODUCER_FENCED and version < since
    return errors.INVALID_PRODUCER_EPOCH if fenced else code


def init_producer_id(node: BrokerNode, request: Any, respond: Respond) -> None:
    transactions, key = node.cluster.transactions, request.transactional_id
    producer = -1, -1
    if key == "":
        code = errors.INVALID_REQUEST
    elif key is None:
        code, producer = 0, (transactions.new_producer_id(), 0)
    else:
        has_known = request.API_VERSION >= 3
        known = (request.producer_id, request.producer_epoch) if has_known else (-1, -1)

        def begin() -> None:
            nonlocal producer
            producer = transactions.begin(key, request.transaction_timeout_ms, known)

        code = _older(_code(node, key, begin), request.API_VERSION, 4)
    respond(
        InitProducerIdResponse(
            throttle_time_ms=0,
            error_code=code,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
    )


def add_partitions(node: BrokerNode, request: Any, respond: Respond) -> None:
    key = request.v3_and_below_transactional_id
    producer = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    places = [
        (topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions
    ]
    topics = node.image.topics
    unknown = [
        (name, index)
        for name, index in places
        if name not in topics or index >= len(topics[name].partitions)
    ]
    if unknown:
        codes = {
            place: errors.UNKNOWN_TOPIC_OR_PARTITION
            if place in unknown
            else errors.OPERATION_NOT_ATTEMPTED
            for place in places
        }
    else:
        code = _code(node, key, lambda: node.cluster.transactions.add(key, producer, places))
        codes = dict.fromkeys(places, _older(code, request.API_VERSION, 2))
    kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part = kind.AddPartitionsToTxnPartitionResult
    respond(
        AddPartitionsToTxnResponse(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=[
                kind(
                    name=topic.name,
                    results_by_partition=[
                        part(partition_index=index, partition_error_code=codes[topic.name, index])
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ],
        )
    )


def add_offsets(node: BrokerNode, request: Any, respond: Respond) -> None:
    key, producer = request.transactional_id, (request.producer_id, request.producer_epoch)
    add = node.cluster.transactions.add
    code = _code(node, key, lambda: add(key, producer, group=request.group_id))
    code = _older(code, request.API_VERSION, 2)
    respond(AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code))


def end(node: BrokerNode, request: Any, respond: Respond) -> None:
    key, producer = request.transactional_id, (request.producer_id, request.producer_epoch)
    finish = node.cluster.transactions.end
    code = _code(node, key, lambda: finish(key, producer, commits=request.committed))
    respond(EndTxnResponse(throttle_time_ms=0, error_code=_older(code, request.API_VERSION, 2)))


def describe(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = DescribeTransactionsResponse.TransactionState
    states = []
    for key in request.transactional_ids:
        one = node.cluster.transactions.ids.get(key)
        code = _code(node, key, lambda: None)
        if not code and (one is None or one.epoch < 0):
            code = errors.TRANSACTIONAL_ID_NOT_FOUND
        topics: dict[str, list[int]] = {}
        for name, index in one.places if one is not None and not code else ():
            topics.setdefault(name, []).append(index)
        is_known = one is not None and not code
        states.append(
            kind(
                error_code=code,
                transactional_id=key,
                transaction_state=one.state if one is not None and is_known else "",
                transaction_timeout_ms=one.timeout_ms if one is not None and is_known else 0,
                transaction_start_time_ms=one.started_ms if one is not None and is_known else 0,
                producer_id=one.producer_id if one is not None and is_known else 0,
                producer_epoch=one.epoch if one is not None and is_known else 0,
                topics=[kind.TopicData(topic=n, partitions=p) for n, p in topics.items()],
            )
        )
    respond(DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states))


def list_all(node: BrokerNode, request: Any, respond: Respond) -> None:
    """Those that this broker coordinates."""
    states, producers = request.state_filters, request.producer_id_filters
    now_ms = node.now_ms()
    longer_ms = request.duration_filter if request.API_VERSION >= 1 else -1
    found = [
        one
        for one in node.cluster.transactions.ids.values()
        if node.is_coordinator(one.id)
        and (not states or one.state in states)
        and (not producers or one.producer_id in producers)
        and (longer_ms < 0 or (one.started_ms >= 0 and now_ms - one.started_ms > longer_ms))
    ]
    kind = ListTransactionsResponse.TransactionState
    respond(
        ListTransactionsResponse(
            throttle_time_ms=0,
            error_code=0,
            unknown_state_filters=[],
            transaction_states=[
                kind(
                    transactional_id=one.id,
                    producer_id=one.producer_id,
                    transaction_state=one.state,
                )
                for one in found
            ],
        )
    )
