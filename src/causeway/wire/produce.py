"""Writes the Produce request and reads its response (API 0, versions 9 to 13), without
kafka-python.

The request is a list of buffers for `sendmsg`: payloads are never copied. Version 13 names topics
by id: if a topic was recreated, the broker refuses records for the old one. A request must have a
partition only once, with one batch: the broker would silently lose a second one. Formats:
ProduceRequest.json and ProduceResponse.json of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from causeway.records import fast_tuple
from causeway.wire.frames import Buffer
from causeway.wire.varint import ENDS_TOO_EARLY, ends_too_early, put_uvarint, skip_tags, uvarint

API_KEY = 0
LOWEST_VERSION = 9
HIGHEST_VERSION = 13
WITH_IDS = 13

_HEADER = Struct(">hhi")
_ANSWER = Struct(">iBB")  # correlation id, no tags, and up to 126 topics
_INDEX = Struct(">i")
_INDEX_AND_SIZE = Struct(">iBBB")  # the size has three bytes, as for most batches
_ACKS_ALL_AND_TIMEOUT = Struct(">hi")
# Index, error, base offset, append time; skips the log's start; the next three bytes.
_RESULT = Struct(">ihqq8x3s")
_ALL = -1
_NO_TAGS = b"\x00"
_NOTHING_MORE = b"\x01\x00\x00"  # no errors of single records, no message, no tags


Part = tuple[bytes, int]  # topic (version 13: the 16 bytes of its id; before: name), partition
Stamped = tuple[bytes, int, bytes, bytes | memoryview]
"""A Part and its batch: 61 bytes of header, and the payload."""


class Produced(NamedTuple):
    """The result of one batch. `append_time` is -1, with two exceptions: for a LogAppendTime topic,
    and for a batch that was already in the log (brokers since 1.0), it is the time of the batch in
    the log."""

    error: int
    base_offset: int
    append_time: int
    message: str


class Response(NamedTuple):
    """`throttle_ms`: for this time, a quota makes the broker read nothing from the connection."""

    correlation_id: int
    results: dict[Part, Produced]
    throttle_ms: int


_produced, _response = fast_tuple(Produced), fast_tuple(Response)


def build(
    correlation_id: int,
    version: int,
    client_id: bytes,
    timeout_ms: int,
    batches: Sequence[Stamped],
) -> tuple[list[Buffer], int]:
    """Returns the buffers of a framed request with acks=all, in order, and their number of
    bytes."""
    by_topic: dict[bytes, list[Stamped]] = {}
    for batch in batches:
        if (topic := batch[0]) in by_topic:
            by_topic[topic].append(batch)
        else:
            by_topic[topic] = [batch]
    head = bytearray(_head(version, client_id, timeout_ms, len(by_topic)))
    _HEADER.pack_into(head, 4, API_KEY, version, correlation_id)
    buffers: list[Buffer] = [head]
    between = b""
    for topic, partitions in by_topic.items():
        between += _topic(version, topic, len(partitions))
        for _, partition, header, payload in partitions:
            size = len(header) + len(payload) + 1
            if 1 << 14 <= size < 1 << 21:  # most batches: the same bytes as from `_uvarint`
                place = _INDEX_AND_SIZE.pack(
                    partition, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14
                )
            else:
                place = _INDEX.pack(partition) + _uvarint(size)
            buffers += (between + place + header, payload)
            between = _NO_TAGS  # of the partition
        between += _NO_TAGS  # of the topic
    buffers.append(between + _NO_TAGS)
    size = sum(map(len, buffers))
    _INDEX.pack_into(head, 0, size - 4)
    return buffers, size


@lru_cache(maxsize=256)
def _head(version: int, client_id: bytes, timeout_ms: int, topics: int) -> bytes:
    """The beginning of a connection's requests, without size and correlation id."""
    return b"".join(
        (
            bytes(4),
            _HEADER.pack(API_KEY, version, 0),
            len(client_id).to_bytes(2, "big"),
            client_id,
            b"\x00\x00",  # header tags, no transactional id
            _ACKS_ALL_AND_TIMEOUT.pack(_ALL, timeout_ms),
            _uvarint(topics + 1),
        )
    )


@lru_cache(maxsize=4096)
def _topic(version: int, topic: bytes, partitions: int) -> bytes:
    name = topic if version >= WITH_IDS else _uvarint(len(topic) + 1) + topic
    return name + _uvarint(partitions + 1)


def _uvarint(number: int) -> bytes:
    out = bytearray()
    put_uvarint(out, number)
    return bytes(out)


def parse(frame: memoryview, version: int) -> Response:
    """Reads the frame of a response. Raises ProtocolError."""
    try:
        return _parse(frame, version)
    except ENDS_TOO_EARLY as error:
        raise ends_too_early("a produce answer") from error


def _parse(frame: memoryview, version: int) -> Response:
    results: dict[Part, Produced] = {}
    unpack = _RESULT.unpack_from
    correlation_id, tags, topics = _ANSWER.unpack_from(frame)
    at = _ANSWER.size
    if tags or topics > 0x7F:
        topics, at = uvarint(frame, skip_tags(frame, _INDEX.size))
    for _ in range(topics - 1):
        size = 16
        if version < WITH_IDS:
            size, at = uvarint(frame, at)
            size -= 1
        topic = bytes(frame[at : at + size])
        partitions, at = uvarint(frame, at + size)
        for _ in range(partitions - 1):
            index, error, base_offset, append_time, more = unpack(frame, at)
            if more == _NOTHING_MORE:
                at += _RESULT.size
                message = ""
            else:
                message, at = _message(frame, at + _RESULT.size - len(more))
            results[topic, index] = _produced((error, base_offset, append_time, message))
        at = skip_tags(frame, at)
    (throttle_ms,) = _INDEX.unpack_from(frame, at)
    return _response((correlation_id, results, throttle_ms))


def _message(frame: memoryview, at: int) -> tuple[str, int]:
    """The message in a partition's result, and the position after the result's tags."""
    details, at = uvarint(frame, at)
    for _ in range(details - 1):
        at += _INDEX.size
        _, at = _string(frame, at)
        at = skip_tags(frame, at)
    message, at = _string(frame, at)
    return message, skip_tags(frame, at)


def _string(frame: memoryview, at: int) -> tuple[str, int]:
    size, at = uvarint(frame, at)
    end = at + max(0, size - 1)
    return bytes(frame[at:end]).decode("utf-8", "replace"), end
