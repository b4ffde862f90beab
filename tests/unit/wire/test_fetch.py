"""Fetch by hand against kafka-python's own encoder and decoder."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from causeway.wire import FetchPosition, FetchSession

ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2**127 + 5)
VERSIONS = pytest.mark.parametrize("version", [12, 13])


def _session(version: int, **more: Any) -> FetchSession:
    return FetchSession(
        version=version,
        client_id=b"causeway",
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 24,
        read_committed=True,
        **more,
    )


def _topic(version: int, topic: uuid.UUID) -> bytes:
    return topic.bytes if version == 13 else str(topic).encode()


def _cursors(
    version: int, *wanted: tuple[uuid.UUID, int, int]
) -> dict[tuple[bytes, int], FetchPosition]:
    return {
        (_topic(version, topic), partition): FetchPosition(
            _topic(version, topic), partition, -1, offset, 7, 1 << 20
        )
        for topic, partition, offset in wanted
    }


def _build(
    session: FetchSession,
    correlation_id: int,
    cursors: dict[tuple[bytes, int], FetchPosition],
    *,
    wait_ms: int = 1,
) -> bytes:
    """A request that reads `cursors` and nothing else."""
    for gone in set(session._cursors) - set(cursors):
        session.leave(gone)
    for cursor in cursors.values():
        session.read(cursor)
    return session.build(correlation_id, wait_ms=wait_ms)


def _decoded(frame: bytes, version: int) -> Any:
    return FetchRequest.decode(frame, version=version, header=True, framed=True)


def _asked(request: Any, version: int) -> dict[tuple[str, int], int]:
    return {
        (str(t.topic_id if version == 13 else t.topic), p.partition): p.fetch_offset
        for t in request.topics
        for p in t.partitions
    }


def _forgotten(request: Any, version: int) -> set[tuple[str, int]]:
    return {
        (str(t.topic_id if version == 13 else t.topic), p)
        for t in request.forgotten_topics_data
        for p in t.partitions
    }


def _answer(version: int, *partitions: Any, session: int = 99, error: int = 0) -> memoryview:
    kind = FetchResponse.FetchableTopicResponse
    topics = [
        kind(
            **({"topic_id": topic} if version == 13 else {"topic": str(topic)}),
            partitions=[partition],
        )
        for topic, partition in partitions
    ]
    response = FetchResponse(
        version=version,
        throttle_time_ms=3,
        error_code=error,
        session_id=session,
        responses=topics,
    )
    response.with_header(correlation_id=41)
    return memoryview(bytearray(response.encode(header=True)))


def _partition(index: int, **more: Any) -> Any:
    kind = FetchResponse.FetchableTopicResponse.PartitionData
    fields = {
        "partition_index": index,
        "error_code": 0,
        "high_watermark": 50,
        "last_stable_offset": 45,
        "log_start_offset": 3,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": None,
    }
    return kind(**fields | more)


@VERSIONS
def test_request_is_what_kafka_python_reads(version: int) -> None:
    session = _session(version)

    request = _decoded(
        _build(
            session, 41, _cursors(version, (ONE, 0, 10), (ONE, 3, 11), (TWO, 0, 12)), wait_ms=25
        ),
        version,
    )

    assert request.header.correlation_id == 41
    assert request.header.client_id == "causeway"
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (25, 1, 1 << 24)
    assert (request.isolation_level, request.session_id, request.session_epoch) == (1, 0, 0)
    assert _asked(request, version) == {(str(ONE), 0): 10, (str(ONE), 3): 11, (str(TWO), 0): 12}
    first = request.topics[0].partitions[0]
    assert (first.current_leader_epoch, first.last_fetched_epoch) == (-1, 7)
    assert first.partition_max_bytes == 1 << 20
    assert first.log_start_offset == -1
    assert not request.forgotten_topics_data
    assert request.rack_id == ""


@VERSIONS
def test_after_the_first_request_only_changes_are_named(version: int) -> None:
    session = _session(version)
    _build(session, 1, _cursors(version, (ONE, 0, 10), (ONE, 1, 20), (TWO, 0, 30)), wait_ms=1)
    session.parse(_answer(version))

    second = _decoded(
        _build(session, 2, _cursors(version, (ONE, 0, 10), (ONE, 1, 21)), wait_ms=1), version
    )
    session.parse(_answer(version))
    third = _decoded(
        _build(session, 3, _cursors(version, (ONE, 1, 21), (TWO, 0, 30)), wait_ms=1), version
    )

    assert (second.session_id, second.session_epoch) == (99, 1)
    assert _asked(second, version) == {(str(ONE), 1): 21}
    assert _forgotten(second, version) == {(str(TWO), 0)}
    assert (third.session_id, third.session_epoch) == (99, 2)
    assert _asked(third, version) == {(str(TWO), 0): 30}
    assert _forgotten(third, version) == {(str(ONE), 0)}


@VERSIONS
def test_a_partition_that_comes_back_before_the_next_request_is_named_once(version: int) -> None:
    session = _session(version)
    cursors = _cursors(version, (ONE, 0, 10), (ONE, 1, 20))
    _build(session, 1, cursors)
    session.parse(_answer(version))
    there, gone = cursors
    session.leave(there)
    session.read(cursors[there]._replace(offset=11))
    session.leave(gone)
    assert (session.asked(there), session.asked(gone), len(session)) == (11, None, 1)

    request = _decoded(session.build(2, wait_ms=1), version)

    assert _asked(request, version) == {(str(ONE), 0): 11}
    assert _forgotten(request, version) == {(str(ONE), 1)}


@VERSIONS
@pytest.mark.parametrize(("error", "session_id"), [(71, 99), (0, 0)])
def test_without_a_session_all_partitions_are_requested(
    version: int, error: int, session_id: int
) -> None:
    session = _session(version)
    _build(session, 1, _cursors(version, (ONE, 0, 10)), wait_ms=1)
    session.parse(_answer(version))
    _build(session, 2, _cursors(version, (ONE, 0, 10)), wait_ms=1)

    assert session.parse(_answer(version, session=session_id, error=error)) == (error, [])

    request = _decoded(_build(session, 3, _cursors(version, (ONE, 0, 10)), wait_ms=1), version)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert _asked(request, version) == {(str(ONE), 0): 10}


@VERSIONS
def test_session_epoch_wraps_to_one(version: int) -> None:
    session = _session(version)
    session.build(1, wait_ms=1)
    session.parse(_answer(version))
    session._epoch = 2**31 - 1
    session.parse(_answer(version))
    assert _decoded(session.build(2, wait_ms=1), version).session_epoch == 1


@VERSIONS
def test_response_is_what_kafka_python_wrote(version: int) -> None:
    kind = FetchResponse.FetchableTopicResponse.PartitionData
    frame = _answer(
        version,
        (
            ONE,
            _partition(
                4,
                records=b"batches",
                aborted_transactions=[
                    kind.AbortedTransaction(producer_id=8, first_offset=30),
                    kind.AbortedTransaction(producer_id=9, first_offset=20),
                ],
            ),
        ),
        (TWO, _partition(0, error_code=1, high_watermark=-1, records=b"")),
        (
            ONE,
            _partition(
                5,
                diverging_epoch=kind.EpochEndOffset(epoch=3, end_offset=17),
                current_leader=kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=6),
            ),
        ),
    )
    session = _session(version)
    session.build(1, wait_ms=1)

    error, (data, failed, diverged) = session.parse(frame)

    assert error == 0
    assert (data.topic, data.partition, data.error) == (_topic(version, ONE), 4, 0)
    assert (data.high_watermark, data.last_stable, data.log_start) == (50, 45, 3)
    assert data.aborted == [(8, 30), (9, 20)]
    assert bytes(data.records) == b"batches"
    assert data.diverging is None
    assert (failed.topic, failed.error, bytes(failed.records)) == (_topic(version, TWO), 1, b"")
    assert failed.aborted == []
    assert (diverged.partition, diverged.diverging) == (5, (3, 17))
    assert bytes(diverged.records) == b""
