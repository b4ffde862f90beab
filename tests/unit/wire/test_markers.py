"""WriteTxnMarkers by hand against kafka-python's own encoder and decoder."""

from __future__ import annotations

import pytest
from kafka.protocol.producer import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from causeway.errors import ProtocolError
from causeway.wire.markers import Marker, build, parse


def read(markers: list[Marker]) -> list[tuple[int, int, bytes, int]]:
    """What kafka-python reads of a request for them."""
    buffers, size = build(17, 1, b"causeway", markers)
    frame = b"".join(buffers)
    assert size == len(frame)
    request = WriteTxnMarkersRequest.decode(frame, version=1, header=True, framed=True)
    assert (request.header.correlation_id, request.header.client_id) == (17, "causeway")
    assert request.header.request_api_key == 27
    assert request.encode(version=1, header=True, framed=True) == frame, "bytes are left over"
    found = []
    for marker in request.markers:
        assert (marker.transaction_result, marker.coordinator_epoch) == (False, 0)
        (topic,) = marker.topics
        (partition,) = topic.partition_indexes
        found.append((marker.producer_id, marker.producer_epoch, topic.name.encode(), partition))
    return found


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 20_000])
def test_each_marker_is_an_entry(count: int) -> None:
    marker = Marker(2**40, 32_767, b"orders", 2**31 - 1, count)
    assert read([marker]) == [(2**40, 32_767, b"orders", 2**31 - 1)] * count


def test_markers_of_several_partitions_keep_their_order() -> None:
    long = "é".encode() * 124
    markers = [
        Marker(1, 2, b"orders", 3, 2),
        Marker(4, 5, long, 6, 1),
        Marker(1, 2, b"orders", 7, 1),
    ]
    assert read(markers) == [(1, 2, b"orders", 3)] * 2 + [(4, 5, long, 6), (1, 2, b"orders", 7)]


def test_a_repeated_entry_is_one_buffer() -> None:
    """No object for each entry."""
    assert len(build(1, 1, b"c", [Marker(1, 2, b"t", 3, 100_000)])[0]) == 3


def response(*producers: tuple[int, dict[str, list[tuple[int, int]]]]) -> memoryview:
    """By producer id and topic: (partition, error code)."""
    kind = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic_kind = kind.WritableTxnMarkerTopicResult
    part = topic_kind.WritableTxnMarkerPartitionResult
    answer = WriteTxnMarkersResponse(
        version=1,
        markers=[
            kind(
                producer_id=producer_id,
                topics=[
                    topic_kind(
                        name=name,
                        partitions=[part(partition_index=p, error_code=code) for p, code in parts],
                    )
                    for name, parts in topics.items()
                ],
            )
            for producer_id, topics in producers
        ],
    )
    answer.with_header(correlation_id=17)
    return memoryview(bytes(answer.encode(header=True)))


def test_response_is_what_kafka_python_wrote() -> None:
    frame = response(
        (2**40, {"orders": [(0, 0), (200, 47)], "x" * 200: [(1, 6)]}),
        (7, {"orders": [(0, 31)]}),
    )
    assert parse(frame) == (
        17,
        {
            (2**40, b"orders", 0): 0,
            (2**40, b"orders", 200): 47,
            (2**40, b"x" * 200, 1): 6,
            (7, b"orders", 0): 31,
        },
    )


def test_the_first_error_counts() -> None:
    """Of a broker that answers for each entry."""
    again = [(7, {"orders": [(0, code)]}) for code in (0, 47, 0, 6)]
    assert parse(response(*again)) == (17, {(7, b"orders", 0): 47})


def test_no_markers_no_results() -> None:
    assert parse(response()) == (17, {})


def test_a_response_that_ends_too_early() -> None:
    frame = response((7, {"orders": [(0, 0)]}))
    for end in range(len(frame)):
        if end >= 4:  # a frame has a correlation id
            with pytest.raises(ProtocolError):
                parse(frame[:end])
