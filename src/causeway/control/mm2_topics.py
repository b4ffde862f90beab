"""Records of MirrorMaker 2's internal topics, byte for byte, as `RemoteClusterUtils` reads them.

| topic | key | value |
|---|---|---|
| mm2-offset-syncs | topic, partition i32 | upstream i64, downstream i64 |
| checkpoints | group, topic, partition i32 | version i16, upstream i64, downstream i64, metadata |
| heartbeats | source alias, target alias | version i16, time i64 |

Big-endian; texts are UTF-8 after their length, an i16. From OffsetSync, Checkpoint and Heartbeat
of Kafka's connect/mirror and connect/mirror-client.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from causeway.errors import CausewayError, ProtocolError
from causeway.link_topics import TopicLog
from causeway.model import TopicPartition

VERSION = 0  # of checkpoints and heartbeats; offset syncs have none
_LONGEST = 2**15 - 1  # bytes of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """The record at source offset `upstream` of `partition`, named as on the source, lies at target
    offset `downstream`."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def encode(self) -> tuple[bytes, bytes]:
        """Key and value."""
        return _partition(self.partition), struct.pack(">qq", self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Raises ProtocolError for anything else."""
        keys, values = _RecordReader(key, "offset sync"), _RecordReader(value, "offset sync")
        return cls(
            partition=keys.partition(), upstream=values.number(">q"), downstream=values.number(">q")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`group` committed `upstream` on the source, which is `downstream` in `partition`, named as on
    the target; `metadata` is the group's own."""

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Key and value."""
        value = struct.pack(">hqq", VERSION, self.upstream, self.downstream)
        return _text(self.group) + _partition(self.partition), value + _text(self.metadata)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Raises ProtocolError for anything else."""
        keys, values = _RecordReader(key, "checkpoint"), _RecordReader(value, "checkpoint")
        values.version()
        return cls(
            group=keys.text(),
            partition=keys.partition(),
            upstream=values.number(">q"),
            downstream=values.number(">q"),
            metadata=values.text(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Emitted to cluster `target`, of the pair `source->target`, at `timestamp` (ms since 1970)."""

    source: str
    target: str
    timestamp: int

    def encode(self) -> tuple[bytes, bytes]:
        """Key and value."""
        key = _text(self.source) + _text(self.target)
        return key, struct.pack(">hq", VERSION, self.timestamp)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Raises ProtocolError for anything else."""
        keys, values = _RecordReader(key, "heartbeat"), _RecordReader(value, "heartbeat")
        values.version()
        return cls(source=keys.text(), target=keys.text(), timestamp=values.number(">q"))


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > _LONGEST:
        raise ProtocolError("write", f"a text of {len(data)} bytes", f"at most {_LONGEST} fit")
    return struct.pack(">h", len(data)) + data


def _partition(at: TopicPartition) -> bytes:
    return _text(at.topic) + struct.pack(">i", at.partition)


class _RecordReader:
    """Reads values from the start of a record's key or value. Ignores bytes after the last value,
    as Kafka's readers do."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def number(self, kind: str) -> int:
        size = struct.calcsize(kind)
        (number,) = struct.unpack(kind, self._take(size))
        return int(number)

    def text(self) -> str:
        data = self._take(self.number(">h"))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self._wrong(f"no UTF-8: {error.reason}") from None

    def partition(self) -> TopicPartition:
        return TopicPartition(self.text(), self.number(">i"))

    def version(self) -> None:
        found = self.number(">h")
        if found != VERSION:
            raise self._wrong(f"version {found}, only {VERSION} is known")

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise self._wrong(f"{size} bytes at {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _wrong(self, cause: str) -> ProtocolError:
        return ProtocolError("read", f"{self._what} {self._data[:40].hex(' ')}", cause)


class Heartbeats:
    """Those of one pair of clusters, in `topic` on the target."""

    def __init__(
        self, topic: TopicLog, *, source: str, target: str, replication_factor: int
    ) -> None:
        self._topic = topic
        self._source, self._target = source, target
        self._replication_factor = replication_factor
        self._there = False

    def beat(self) -> None:
        """Raises CausewayError."""
        if not self._there:
            self._topic.ensure(self._replication_factor)
            self._there = True
        now_ms = int(time.time() * 1000)
        beat = Heartbeat(source=self._source, target=self._target, timestamp=now_ms)
        try:
            self._topic.append([beat.encode()])
        except CausewayError:
            self._there = False  # it may have been deleted
            raise


FLUSH_S = 60.0  # Connect's offset.flush.interval.ms

Newest = tuple[int, int]  # source and target offset of one record


class OffsetSyncs:
    """Writes those of one link. Not thread-safe."""

    def __init__(self, topic: TopicLog, *, replication_factor: int, lag_max: int) -> None:
        self._topic = topic
        self._replication_factor = replication_factor
        self._lag_max = lag_max
        self._there = False
        self._written: dict[TopicPartition, Newest] = {}
        self._flushed_at = 0.0

    @property
    def wants_all(self) -> bool:
        """Whether the next `write` needs all partitions, not only those that moved."""
        return not self._there or time.monotonic() - self._flushed_at >= FLUSH_S

    def write(self, newest: Mapping[TopicPartition, Newest], *, flush: bool) -> None:
        """Writes offset syncs. `newest`: with `flush` of each source partition with mirrored
        records, else of those that moved since the last call. Raises CausewayError."""
        if not self._there:
            self._topic.ensure(self._replication_factor)
            self._there = True
        due = {
            at: pair
            for at, pair in newest.items()
            if self._written.get(at) != pair and (flush or self._is_due(at, pair))
        }
        if due:
            try:
                self._topic.append(
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
        """The topic may be gone, or another driver may have written to it."""
        self._there = False
        self._written.clear()

    def flush(self) -> None:
        """The next `write` leaves nothing for later."""
        self._flushed_at = -FLUSH_S

    def _is_due(self, at: TopicPartition, pair: Newest) -> bool:
        last = self._written.get(at)
        if last is None:
            return True
        upstream, downstream = pair[0] - last[0], pair[1] - last[1]
        return downstream >= self._lag_max or upstream != downstream or downstream < 0
