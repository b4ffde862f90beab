"""Writes the Fetch request and reads its response (API 1, versions 12 and 13), without
kafka-python.

Fetch and Produce are the two messages that must be fast. Version 13 names topics by id: if a topic
was recreated, the broker refuses instead of reading it as the old one. Version 12 (before Kafka
3.1) names topics by name. Formats: FetchRequest.json and FetchResponse.json of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from causeway.records import fast_tuple
from causeway.wire.varint import ENDS_TOO_EARLY, ends_too_early, put_uvarint, skip_tags, uvarint

API_KEY = 1
LOWEST_VERSION = 12
HIGHEST_VERSION = 13
_WITH_IDS = 13

_HEADER = Struct(">hhi")
_BODY = Struct(">iiiibii")
_PARTITION = Struct(">iiqiqib")
_INDEX = Struct(">i")
_RESPONSE = Struct(">ihi")
_PARTITION_RESPONSE = Struct(">ihqqq")
_ABORTED = Struct(">qqb")
_PREFERRED = Struct(">i")
_EPOCH_AND_OFFSET = Struct(">iq")

_CONSUMER = -1
_DIVERGING_EPOCH_TAG = 0

SESSION_ERRORS = frozenset({70, 71, 106})  # id not found, wrong epoch, topic id changed


Place = tuple[bytes, int]  # topic (id or name, by version) and partition


class FetchPosition(NamedTuple):
    """Where to read one partition. `topic`: the 16 bytes of its id (version 13), or its name in
    UTF-8 (version 12). `leader_epoch`: the epoch that the broker must lead in; -1 for any.
    `last_epoch`: the leader epoch of the record before `offset`."""

    topic: bytes
    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int


position = fast_tuple(FetchPosition)


class EpochEnd(NamedTuple):
    """`epoch`: the newest leader epoch that is not above the epoch in the request, and for which
    the broker has an entry. `offset`: where the next epoch begins, or the log ends."""

    epoch: int
    offset: int


class Fetched(NamedTuple):
    """One partition of a response. `records` is a view of the response's frame. `diverging` is set
    if the broker's log has no entry for the `last_epoch` in the request, or if that epoch ends
    below the requested offset: see `EpochEnd`."""

    topic: bytes
    partition: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: list[tuple[int, int]]
    records: memoryview
    diverging: EpochEnd | None


_fetched = fast_tuple(Fetched)


@dataclass(slots=True)
class FetchSession:
    """An incremental fetch session (KIP-227). After the first request, a request has only changes,
    so an idle partition costs nothing.

    `version`: the version of the API. Call `build` and `parse` in turn, one request at a time.
    """

    version: int
    client_id: bytes
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    throttle_ms: int = 0  # of the last answer: a quota makes the broker read nothing for this time
    _id: int = 0
    _epoch: int = 0
    _cursors: dict[Place, FetchPosition] = field(default_factory=dict)
    _news: dict[Place, None] = field(default_factory=dict)  # changed since the last request
    _gone: dict[Place, None] = field(default_factory=dict)  # left since the last request

    def __len__(self) -> int:
        """The number of partitions that are read."""
        return len(self._cursors)

    def read(self, cursor: FetchPosition) -> None:
        """Reads this partition at this position from the next request on."""
        place = cursor.topic, cursor.partition
        if self._cursors.get(place) != cursor:
            self._cursors[place] = cursor
            self._news[place] = None
            self._gone.pop(place, None)

    def leave(self, place: Place) -> None:
        """Leaves this partition out from the next request on."""
        if self._cursors.pop(place, None) is not None:
            self._news.pop(place, None)
            self._gone[place] = None

    def asked(self, place: Place) -> int | None:
        """The offset of the partition in the last request, if `read` was not called since; None if
        it is not read."""
        cursor = self._cursors.get(place)
        return None if cursor is None else cursor.offset

    def build(self, correlation_id: int, *, wait_ms: int) -> bytes:
        """Returns a framed request, which waits at the broker for up to `wait_ms`."""
        if self._epoch == 0:  # a new session needs all partitions
            changed, forgotten = list(self._cursors.values()), []
        else:
            changed = [self._cursors[place] for place in self._news]
            forgotten = list(self._gone)
        self._news.clear()
        self._gone.clear()
        out = bytearray(4)
        out += _HEADER.pack(API_KEY, self.version, correlation_id)
        out += len(self.client_id).to_bytes(2, "big") + self.client_id
        out.append(0)  # header tags
        out += _BODY.pack(
            _CONSUMER,
            wait_ms,
            self.min_bytes,
            self.max_bytes,
            int(self.read_committed),
            self._id,
            self._epoch,
        )
        by_topic: dict[bytes, list[FetchPosition]] = {}
        for cursor in changed:
            by_topic.setdefault(cursor.topic, []).append(cursor)
        put_uvarint(out, len(by_topic) + 1)
        for topic, partitions in by_topic.items():
            self._put_topic(out, topic)
            put_uvarint(out, len(partitions) + 1)
            for cursor in partitions:
                out += _PARTITION.pack(
                    cursor.partition,
                    cursor.leader_epoch,
                    cursor.offset,
                    cursor.last_epoch,
                    -1,  # log start: followers only
                    cursor.max_bytes,
                    0,
                )
            out.append(0)
        gone: dict[bytes, list[int]] = {}
        for topic, partition in forgotten:
            gone.setdefault(topic, []).append(partition)
        put_uvarint(out, len(gone) + 1)
        for topic, indexes in gone.items():
            self._put_topic(out, topic)
            put_uvarint(out, len(indexes) + 1)
            for index in indexes:
                out += _INDEX.pack(index)
            out.append(0)
        out += b"\x01\x00"  # rack id "", tags
        out[:4] = (len(out) - 4).to_bytes(4, "big")
        return bytes(out)

    def parse(self, frame: memoryview) -> tuple[int, list[Fetched]]:
        """Returns the response's error code and its partitions. After any error a new session
        begins. Raises ProtocolError."""
        try:
            return self._parse(frame)
        except ENDS_TOO_EARLY as error:
            raise ends_too_early("a fetch answer") from error

    def _parse(self, frame: memoryview) -> tuple[int, list[Fetched]]:
        at = 4  # correlation id
        at = skip_tags(frame, at)
        self.throttle_ms, error, session = _RESPONSE.unpack_from(frame, at)
        at += _RESPONSE.size
        if error or session == 0:
            self.reset()
        else:
            self._id = session
            self._epoch = self._epoch + 1 if self._epoch < 2**31 - 1 else 1
        return error, list(self._partitions(frame, at))

    def reset(self) -> None:
        """Makes the next request a full one, which asks for a new session."""
        self._id, self._epoch = 0, 0

    def _put_topic(self, out: bytearray, topic: bytes) -> None:
        if self.version < _WITH_IDS:
            put_uvarint(out, len(topic) + 1)
        out += topic

    def _partitions(self, frame: memoryview, at: int) -> Iterator[Fetched]:
        topics, at = uvarint(frame, at)
        for _ in range(topics - 1):
            if self.version < _WITH_IDS:
                size, at = uvarint(frame, at)
                size -= 1
            else:
                size = 16
            topic = bytes(frame[at : at + size])
            at += size
            partitions, at = uvarint(frame, at)
            for _ in range(partitions - 1):
                fetched, at = _partition(frame, at, topic)
                yield fetched
            at = skip_tags(frame, at)


def _partition(frame: memoryview, at: int, topic: bytes) -> tuple[Fetched, int]:
    index, error, high_watermark, last_stable, log_start = _PARTITION_RESPONSE.unpack_from(
        frame, at
    )
    at += _PARTITION_RESPONSE.size
    count, at = uvarint(frame, at)
    aborted = []
    for _ in range(count - 1):
        producer_id, first, tags = _ABORTED.unpack_from(frame, at)
        at += _ABORTED.size
        if tags:
            at = skip_tags(frame, at - 1)
        aborted.append((producer_id, first))
    at += _PREFERRED.size
    size, at = uvarint(frame, at)
    records = frame[at : at + max(0, size - 1)]
    at += max(0, size - 1)
    diverging = None
    tags, at = uvarint(frame, at)
    for _ in range(tags):
        tag, at = uvarint(frame, at)
        size, at = uvarint(frame, at)
        if tag == _DIVERGING_EPOCH_TAG:
            diverging = EpochEnd(*_EPOCH_AND_OFFSET.unpack_from(frame, at))
        at += size
    fields = (
        topic,
        index,
        error,
        high_watermark,
        last_stable,
        log_start,
        aborted,
        records,
        diverging,
    )
    return _fetched(fields), at
