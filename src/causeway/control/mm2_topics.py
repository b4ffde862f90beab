"""Records of MirrorMaker 2's internal topics, byte for byte, as `RemoteClusterUtils` reads them.

| topic | key | value |
|---|---|---|
| mm2-offset-syncs | topic, partition i32 | upstream i64, downstream i64 |
| checkpoints | group, topic, partition i32 | version i16, upstream i64, downstream i64, metadata |
| heartbeats | source alias, target alias | version i16, time i64 |

Numbers are big-endian. Texts are UTF-8 after their length, an i16. Sources: OffsetSync, Checkpoint
and Heartbeat of Kafka's connect/mirror and connect/mirror-client.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from msgspec import Struct

from causeway.control.groups import TranslatedOffset
from causeway.errors import CausewayError, ProtocolError
from causeway.link_topics import TopicLog
from causeway.model import TopicPartition

VERSION = 0  # of checkpoints and heartbeats; offset syncs have none
_LONGEST = 2**15 - 1  # bytes of a text
_NO_TEXT = b"\x00\x00"
_INT = struct.Struct(">i")
_SYNC = struct.Struct(">qq")
_OFFSETS = struct.Struct(">hqq")
_BEAT = struct.Struct(">hq")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """The record at source offset `upstream` of `partition`, named as on the source, is at target
    offset `downstream`."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def encode(self) -> tuple[bytes, bytes]:
        """Returns key and value."""
        topic, partition = self.partition
        return _text(topic) + _INT.pack(partition), _SYNC.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Raises ProtocolError if the texts are not those of this record."""
        at = TopicPartition(*_unpack("offset sync", "si", key))
        upstream, downstream = _unpack("offset sync", "qq", value)
        return cls(partition=at, upstream=upstream, downstream=downstream)


class Checkpoint(Struct, frozen=True, kw_only=True, gc=False):
    """`group` has committed `upstream` on the source, which is `downstream` in `partition`, named
    as on the target. `metadata`: the group's own."""

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Returns key and value."""
        (record,) = checkpoint_records({self.group: {self.partition: self}})
        return record

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Raises ProtocolError if the texts are not those of this record."""
        _check_version("checkpoint", value)
        group, *at = _unpack("checkpoint", "ssi", key)
        _, upstream, downstream, metadata = _unpack("checkpoint", "hqqs", value)
        return cls(
            group=group,
            partition=TopicPartition(*at),
            upstream=upstream,
            downstream=downstream,
            metadata=metadata,
        )


def checkpoint_records(
    places: Mapping[str, Mapping[TopicPartition, TranslatedOffset | Checkpoint]],
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the key and value of each checkpoint, by group and target partition."""
    for group, of_group in places.items():
        name = _text(group)
        for (topic, partition), place in of_group.items():
            offsets = _OFFSETS.pack(VERSION, place.upstream, place.downstream)
            metadata = _text(place.metadata) if place.metadata else _NO_TEXT
            yield name + _topic(topic) + _INT.pack(partition), offsets + metadata


def read_checkpoints(topic: TopicLog) -> list[Checkpoint]:
    """Returns the newest checkpoints. Other records have no effect. Raises CausewayError."""
    found = []
    for key, value in topic.newest().items():
        with suppress(ProtocolError):
            found.append(Checkpoint.decode(key, value))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A heartbeat for cluster `target`, of the pair `source->target`, at `timestamp` (ms since
    1970)."""

    source: str
    target: str
    timestamp: int

    def encode(self) -> tuple[bytes, bytes]:
        """Returns key and value."""
        key = _text(self.source) + _text(self.target)
        return key, _BEAT.pack(VERSION, self.timestamp)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Raises ProtocolError if the texts are not those of this record."""
        _check_version("heartbeat", value)
        source, target = _unpack("heartbeat", "ss", key)
        _, timestamp = _unpack("heartbeat", "hq", value)
        return cls(source=source, target=target, timestamp=timestamp)


def _text(value: str) -> bytes:
    text = value.encode()
    if len(text) > _LONGEST:
        raise ProtocolError("write", f"a text of {len(text)} bytes", f"at most {_LONGEST} fit")
    return len(text).to_bytes(2) + text


_topic = lru_cache(maxsize=4096)(_text)  # each comes again with each partition


def _unpack(what: str, kinds: str, data: bytes) -> list[Any]:
    """Returns the values at the start of a record's key or value. `kinds`: for each value `s`, a
    text, or a letter of `struct`. Ignores bytes after the last one, as Kafka's readers do."""
    values: list[Any] = []
    at = 0
    try:
        for kind in kinds:
            number = ">h" if kind == "s" else f">{kind}"
            (value,) = struct.unpack_from(number, data, at)
            if kind == "s":
                (text,) = struct.unpack_from(f">{value}s", data, at + 2)
                value, at = text.decode(), at + value
            values.append(value)
            at += struct.calcsize(number)
    except (struct.error, ValueError) as error:  # or a text is not UTF-8
        raise ProtocolError("read", f"{what} {data[:40].hex(' ')}", str(error)) from None
    return values


def _check_version(what: str, value: bytes) -> None:
    (version,) = _unpack(what, "h", value)
    if version != VERSION:
        cause = f"version {version}, only {VERSION} is known"
        raise ProtocolError("read", f"{what} {value[:40].hex(' ')}", cause)


@dataclass(slots=True)
class Heartbeats:
    """Writes the heartbeats of one pair of clusters to `topic` on the target."""

    topic: TopicLog
    source: str
    target: str
    replication_factor: int
    _there: bool = False

    def beat(self) -> None:
        """Raises CausewayError."""
        if not self._there:
            self.topic.ensure(self.replication_factor)
        self._there = False  # if the write fails, the topic may be gone
        now_ms = int(time.time() * 1000)
        beat = Heartbeat(source=self.source, target=self.target, timestamp=now_ms)
        self.topic.append([beat.encode()])
        self._there = True


FLUSH_S = 60.0  # Connect's offset.flush.interval.ms

Newest = tuple[int, int]  # source and target offset of one record


@dataclass(slots=True)
class OffsetSyncs:
    """Writes the offset syncs of one link. Not thread-safe."""

    topic: TopicLog
    replication_factor: int
    lag_max: int
    _there: bool = False
    _written: dict[TopicPartition, Newest] = field(default_factory=dict)
    _flushed_at: float = 0.0

    @property
    def wants_all(self) -> bool:
        """Whether the next `write` needs all partitions, and not only those that moved."""
        return not self._there or time.monotonic() - self._flushed_at >= FLUSH_S

    def write(self, newest: Mapping[TopicPartition, Newest], *, flush: bool) -> None:
        """Writes offset syncs. `newest`: with `flush`, of each source partition with mirrored
        records; otherwise of those that moved since the last call. Raises CausewayError."""
        if not self._there:
            self.topic.ensure(self.replication_factor)
            self._there = True
        due = {
            at: pair
            for at, pair in newest.items()
            if self._written.get(at) != pair and (flush or self._is_due(at, pair))
        }
        if due:
            try:
                self.topic.append(
                    [
                        OffsetSync(partition=at, upstream=upstream, downstream=downstream).encode()
                        for at, (upstream, downstream) in due.items()
                    ]
                )
            except CausewayError:
                self.forget()
                raise
            self._written.update(due)
        if flush:
            self._flushed_at = time.monotonic()

    def forget(self) -> None:
        """Call this if the topic may be gone, or another driver may have written to it."""
        self._there = False
        self._written.clear()

    def flush(self) -> None:
        """Has the next `write` leave nothing for later."""
        self._flushed_at = -FLUSH_S

    def _is_due(self, at: TopicPartition, pair: Newest) -> bool:
        last = self._written.get(at)
        if last is None:
            return True
        upstream, downstream = pair[0] - last[0], pair[1] - last[1]
        return downstream >= self.lag_max or upstream != downstream or downstream < 0
