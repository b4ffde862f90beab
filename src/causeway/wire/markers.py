"""Writes the WriteTxnMarkers request and reads its response (API 27, version 1).

A marker takes one offset of its partition, and no consumer sees it. It has no sequence, so the
broker appends a repeated marker again. It refuses a marker with a lower epoch than the producer has
in the partition. After a marker with a higher epoch, the producer's next batch has sequence 0.

If a request has a partition that the broker knows and, behind it, one that the broker does not know
(for example a deleted one), the broker never answers (2.8 to 4.3). Lanes look for that after some
seconds.

The request needs CLUSTER_ACTION on the cluster; since Kafka 3.8, ALTER on the cluster is enough.
Formats: WriteTxnMarkersRequest.json and WriteTxnMarkersResponse.json of Apache Kafka. Kafka 4.0
removed version 0. Version 2 only adds a transaction version, which is 0 by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from causeway.wire.frames import Buffer
from causeway.wire.varint import ENDS_TOO_EARLY, ends_too_early, put_uvarint, skip_tags, uvarint

API_KEY = 27
LOWEST_VERSION = 1
HIGHEST_VERSION = 1

_HEADER = Struct(">ihhih")  # size, key, version, correlation id, length of the client id
_PRODUCER = Struct(">qh?B")  # id, epoch, whether to commit, one topic
_PARTITION = Struct(">Bi")  # one partition
_COORDINATOR_EPOCH = Struct(">i")
_ANSWERED = Struct(">ih")  # partition, error
_PRODUCER_ID = Struct(">q")
_ONE = 2  # the length of an array with one item
_NO_TAGS = b"\x00"
_CORRELATION_ID_BYTES = 4

Marked = tuple[int, bytes, int]
"""The producer id, topic and partition of markers."""


class Marker(NamedTuple):
    """`count` markers, one after the other. Each aborts a transaction of that producer and epoch,
    which need not exist."""

    producer_id: int
    epoch: int
    topic: bytes
    partition: int
    count: int  # type: ignore[assignment]  # hides the method of tuples


def build(
    correlation_id: int, version: int, client_id: bytes, markers: Sequence[Marker]
) -> tuple[list[Buffer], int]:
    """Returns the buffers of a framed request, in order, and their number of bytes. The broker
    appends the markers of a partition in this order."""
    head = bytearray(_HEADER.size)
    head += client_id
    head += _NO_TAGS
    put_uvarint(head, sum(marker.count for marker in markers) + 1)
    buffers: list[Buffer] = [head]
    buffers += [_entry(marker) * marker.count for marker in markers]
    buffers.append(_NO_TAGS)
    size = sum(map(len, buffers))
    _HEADER.pack_into(head, 0, size - 4, API_KEY, version, correlation_id, len(client_id))
    return buffers, size


def _entry(marker: Marker) -> bytes:
    out = bytearray(_PRODUCER.pack(marker.producer_id, marker.epoch, False, _ONE))
    put_uvarint(out, len(marker.topic) + 1)
    out += marker.topic
    out += _PARTITION.pack(_ONE, marker.partition)
    out += _NO_TAGS  # of the topic
    out += _COORDINATOR_EPOCH.pack(0)
    out += _NO_TAGS  # of the entry
    return bytes(out)


def parse(frame: memoryview) -> tuple[int, dict[Marked, int]]:
    """Returns the correlation id of a response, and an error code for each producer and partition.

    Brokers answer once for all entries of a producer in a partition, with the code of the entry
    that was done last. So 0 does not prove that they appended each of several markers. The end of
    the log proves it, and so does the base offset of the next batch. Raises ProtocolError.
    """
    try:
        return _parse(frame)
    except ENDS_TOO_EARLY as error:
        raise ends_too_early("an answer about markers") from error


def _parse(frame: memoryview) -> tuple[int, dict[Marked, int]]:
    found: dict[Marked, int] = {}
    correlation_id = int.from_bytes(frame[:_CORRELATION_ID_BYTES])
    producers, at = uvarint(frame, skip_tags(frame, _CORRELATION_ID_BYTES))
    for _ in range(producers - 1):
        (producer_id,) = _PRODUCER_ID.unpack_from(frame, at)
        topics, at = uvarint(frame, at + _PRODUCER_ID.size)
        for _ in range(topics - 1):
            size, at = uvarint(frame, at)
            topic = bytes(frame[at : at + size - 1])
            partitions, at = uvarint(frame, at + size - 1)
            for _ in range(partitions - 1):
                partition, error = _ANSWERED.unpack_from(frame, at)
                at = skip_tags(frame, at + _ANSWERED.size)
                marked = producer_id, topic, partition
                found[marked] = found.get(marked) or error
            at = skip_tags(frame, at)
        at = skip_tags(frame, at)
    skip_tags(frame, at)
    return correlation_id, found
