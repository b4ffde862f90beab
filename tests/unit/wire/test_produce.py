"""Produce by hand against kafka-python's own encoder and decoder."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from causeway.wire import Produced
from causeway.wire.produce import build, parse

ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)
VERSIONS = pytest.mark.parametrize("version", [9, 10, 11, 12, 13])


def _topic(version: int, topic: uuid.UUID) -> bytes:
    return topic.bytes if version >= 13 else str(topic).encode()


def _name(version: int, topic: uuid.UUID) -> dict[str, Any]:
    return {"topic_id": topic} if version >= 13 else {"name": str(topic)}


@VERSIONS
def test_request_is_what_kafka_python_reads(version: int) -> None:
    batches = [
        (_topic(version, ONE), 0, b"h" * 61, b"first" * 100),
        (_topic(version, TWO), 5, b"h" * 61, b""),
        (_topic(version, ONE), 3, b"h" * 61, b"third"),
    ]

    buffers, size = build(17, version, b"causeway", 30_000, batches)
    frame = b"".join(buffers)
    assert size == len(frame)

    request = ProduceRequest.decode(frame, version=version, header=True, framed=True)
    assert (request.header.correlation_id, request.header.client_id) == (17, "causeway")
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 30_000, None)
    read = {
        (str(t.topic_id if version >= 13 else t.name), p.index): bytes(p.records)
        for t in request.topic_data
        for p in t.partition_data
    }
    assert read == {
        (str(ONE), 0): b"h" * 61 + b"first" * 100,
        (str(TWO), 5): b"h" * 61,
        (str(ONE), 3): b"h" * 61 + b"third",
    }
    assert len(request.topic_data) == 2


@pytest.mark.parametrize(
    "size", [0, 65, 66, 16_321, 16_322, 16_323, 64_000, 2_097_089, 2_097_090, 2_097_091]
)
def test_a_batchs_length_is_written_as_kafka_writes_it(size: int) -> None:
    """In one to four bytes."""
    batches = [(ONE.bytes, p, b"h" * 61, memoryview(bytes(size))) for p in (7, 1 << 20)]
    frame = b"".join(build(17, 13, b"causeway", 30_000, batches)[0])
    request = ProduceRequest.decode(frame, version=13, header=True, framed=True)
    (topic,) = request.topic_data
    assert [p.index for p in topic.partition_data] == [7, 1 << 20]
    assert all(bytes(p.records) == b"h" * 61 + bytes(size) for p in topic.partition_data)


def test_payloads_are_not_copied() -> None:
    payload = b"x" * 100_000
    buffers, _ = build(1, 13, b"c", 1, [(ONE.bytes, 0, b"h" * 61, payload)])
    assert any(buffer is payload for buffer in buffers)


@VERSIONS
def test_response_is_what_kafka_python_wrote(version: int) -> None:
    kind = ProduceResponse.TopicProduceResponse
    part = kind.PartitionProduceResponse
    response = ProduceResponse(
        version=version,
        responses=[
            kind(
                **_name(version, ONE),
                partition_responses=[
                    part(index=0, error_code=0, base_offset=12, log_append_time_ms=-1),
                    part(
                        index=3,
                        error_code=87,
                        base_offset=-1,
                        log_append_time_ms=-1,
                        log_start_offset=-1,
                        record_errors=[
                            part.BatchIndexAndErrorMessage(
                                batch_index=4, batch_index_error_message="bad"
                            ),
                            part.BatchIndexAndErrorMessage(
                                batch_index=5, batch_index_error_message=None
                            ),
                        ],
                        error_message="no key",
                    ),
                ],
            ),
            kind(
                **_name(version, TWO),
                partition_responses=[
                    part(index=5, error_code=0, base_offset=2**40, log_append_time_ms=77),
                ],
            ),
        ],
        throttle_time_ms=5,
    )
    response.with_header(correlation_id=17)

    answered = parse(memoryview(bytes(response.encode(header=True))), version)
    assert (answered.correlation_id, answered.throttle_ms) == (17, 5)
    one, two = _topic(version, ONE), _topic(version, TWO)
    assert answered.results == {
        (one, 0): Produced(0, 12, -1, ""),
        (one, 3): Produced(87, -1, -1, "no key"),
        (two, 5): Produced(0, 2**40, 77, ""),
    }


@pytest.mark.parametrize("version", [10, 12, 13])
def test_hints_about_a_new_leader_are_skipped(version: int) -> None:
    kind = ProduceResponse.TopicProduceResponse
    part = kind.PartitionProduceResponse
    response = ProduceResponse(
        version=version,
        responses=[
            kind(
                **_name(version, ONE),
                partition_responses=[
                    part(
                        index=index,
                        error_code=6,
                        base_offset=-1,
                        log_append_time_ms=-1,
                        current_leader=part.LeaderIdAndEpoch(leader_id=2, leader_epoch=9),
                    )
                    for index in range(2)
                ],
            )
        ],
        node_endpoints=[
            ProduceResponse.NodeEndpoint(node_id=2, host="localhost", port=9092, rack=None)
        ],
    )
    response.with_header(correlation_id=17)

    results = parse(memoryview(bytes(response.encode(header=True))), version).results

    assert [(partition, r.error) for (_, partition), r in results.items()] == [(0, 6), (1, 6)]
