"""The progress topic: where each partition of a link stands, and who leads the link.

`causeway.<source>.<target>.progress.internal` on the target: one partition, compacted, JSON.

    key    {"topic": "orders", "partition": 3}      of the source
    value  {"v": 1, "topic_id": …, "leader_epoch": …, "position": …, "outlets": [{…}], "state": …,
            "reason": …, "source_end": …, "last_timestamp": …, "written_at": …}
    key    {"lease": "A->B"}
    value  {"v": 1, "owner": …, "process": …, "producer_id": …, "producer_epoch": …, "lease_s": …,
            "released": false, "written_at": …}

Any old record of a partition is still true (see `model.Pair`), so it need not be atomic with the
data. Only the link's leading driver writes, with idempotent batches of one producer id whose epoch
grows with every leader: once a leader has written, the broker refuses what an older one sends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from causeway.errors import BrokerError, CausewayError, ProtocolError
from causeway.model import Pair, State, TopicPartition
from causeway.relay.messages import Outlet
from causeway.wire.cluster import Cluster, NewTopic

VERSION = 1
_ZSTD = 4
_BATCH_BYTES = 900_000  # before compression; a topic's default limit is 1,048,588
_FETCH_BYTES = 8 * 1024 * 1024
_TOPIC_EXISTS = 36
_DUPLICATE_SEQUENCE = 46
# OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID, PRODUCER_FENCED
_FENCED = frozenset({45, 47, 59, 90})
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted, and a start reads the whole topic.
    "segment.bytes": str(8 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
}


class LeadershipLostError(CausewayError):
    """Another driver has taken the link over; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where one source partition stands. Timestamps are ms since 1970, and -1 stands for unknown.
    `topic_id` and `leader_epoch` are the source's. A partition that was stopped before it ever
    began has position -1 and no outlets."""

    topic: str
    partition: int
    topic_id: str
    leader_epoch: int
    position: int
    outlets: tuple[Outlet, ...]
    state: State
    reason: str | None = None
    source_end: int = -1
    last_timestamp: int = -1
    written_at: int = -1

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """Who leads the link. It holds for `lease_s` seconds after its reader has seen it, unless
    `released`. `owner` names the driver for people; `process` tells whether it is one of this
    machine that has ended, see daemon.leadership."""

    link: str
    owner: str
    process: str = ""
    producer_id: int
    producer_epoch: int
    lease_s: float
    released: bool = False
    written_at: int = -1


Entry = Progress | LeaseRecord


def encode(entry: Entry, now_ms: int) -> tuple[bytes, bytes]:
    """`entry` as key and value of a record written at `now_ms`."""
    key: dict[str, Any]
    value: dict[str, Any]
    if isinstance(entry, LeaseRecord):
        key = {"lease": entry.link}
        value = {
            "v": VERSION,
            "owner": entry.owner,
            "process": entry.process,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "lease_s": entry.lease_s,
            "released": entry.released,
            "written_at": now_ms,
        }
    else:
        key = {"topic": entry.topic, "partition": entry.partition}
        value = {
            "v": VERSION,
            "topic_id": entry.topic_id,
            "leader_epoch": entry.leader_epoch,
            "position": entry.position,
            "outlets": [_outlet_json(outlet) for outlet in entry.outlets],
            "state": entry.state.value,
            "reason": entry.reason,
            "source_end": entry.source_end,
            "last_timestamp": entry.last_timestamp,
            "written_at": now_ms,
        }
    return _dump(key), _dump(value)


def decode(key: bytes | None, value: bytes | None) -> Entry | None:
    """The reverse; None for a deletion. Raises ProtocolError for what Causeway did not write."""
    if key is None:
        raise ProtocolError("read progress", cause="a record without a key")
    if value is None:
        return None
    try:
        name, fields = json.loads(key), json.loads(value)
        if fields["v"] != VERSION:
            raise ProtocolError(
                "read progress",
                cause=f"it is in format {fields['v']}, this version knows {VERSION}",
                remedy="run the newer version of Causeway",
            )
        if "lease" in name:
            return LeaseRecord(
                link=name["lease"],
                owner=fields["owner"],
                process=fields["process"],
                producer_id=fields["producer_id"],
                producer_epoch=fields["producer_epoch"],
                lease_s=fields["lease_s"],
                released=fields["released"],
                written_at=fields["written_at"],
            )
        return Progress(
            topic=name["topic"],
            partition=name["partition"],
            topic_id=fields["topic_id"],
            leader_epoch=fields["leader_epoch"],
            position=fields["position"],
            outlets=tuple(_outlet(item) for item in fields["outlets"]),
            state=State(fields["state"]),
            reason=fields["reason"],
            source_end=fields["source_end"],
            last_timestamp=fields["last_timestamp"],
            written_at=fields["written_at"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(
            "read progress", cause=f"a record that Causeway did not write ({error!r})"
        ) from error


def _outlet_json(outlet: Outlet) -> dict[str, Any]:
    return {
        "topic": outlet.topic,
        "partition": outlet.partition,
        "topic_id": outlet.topic_id,
        "producer_id": outlet.producer_id,
        "producer_epoch": outlet.producer_epoch,
        "source": outlet.pair.source,
        "target": outlet.pair.target,
        "sequence": outlet.pair.sequence,
        "exclusive": outlet.exclusive,
    }


def _outlet(item: dict[str, Any]) -> Outlet:
    pair = Pair(source=item["source"], target=item["target"], sequence=item["sequence"])
    return Outlet(
        topic=item["topic"],
        partition=item["partition"],
        topic_id=item["topic_id"],
        producer_id=item["producer_id"],
        producer_epoch=item["producer_epoch"],
        pair=pair,
        exclusive=item["exclusive"],
    )


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def build_batches(
    entries: Iterable[Entry], *, producer_id: int, producer_epoch: int, sequence: int, now_ms: int
) -> Iterator[tuple[bytes, int]]:
    """Record batches that hold `entries` in order, each with its count of records."""
    records = [encode(entry, now_ms) for entry in entries]
    at = 0
    while at < len(records):
        builder = DefaultRecordBatchBuilder(
            2,
            _ZSTD,
            0,
            producer_id,
            producer_epoch,
            -1 if producer_id < 0 else (sequence + at) & 0x7FFFFFFF,
            _BATCH_BYTES,
        )
        count = 0
        while at + count < len(records):
            key, value = records[at + count]
            if builder.append(count, now_ms, key, value, []) is None:
                break
            count += 1
        yield bytes(builder.build()), count
        at += count


@dataclass(slots=True)
class Contents:
    """What a read of the progress topic found. `end` is the offset to go on at; `leases` are the
    lease records in the order of the log, `partitions` the newest record of each."""

    end: int = 0
    partitions: dict[TopicPartition, Progress] = field(default_factory=dict)
    leases: list[LeaseRecord] = field(default_factory=list)


class ProgressTopic:
    """One link's progress topic on its target cluster; `admin` creates it, if given."""

    def __init__(self, cluster: Cluster, topic: str, *, admin: Cluster | None = None) -> None:
        self._cluster = cluster
        self._admin = admin or cluster
        self._at = TopicPartition(topic, 0)

    @property
    def topic(self) -> str:
        return self._at.topic

    def ensure(self, replication_factor: int = 3) -> None:
        """Creates the topic unless it is there, with no more replicas than the cluster has brokers.

        Returns once it has a leader. Raises CausewayError.
        """
        metadata = self._cluster.metadata([self.topic])
        found = metadata.topics.get(self.topic)
        if found is None or not found.partitions:
            new = NewTopic(
                name=self.topic,
                partitions=1,
                replication_factor=min(replication_factor, max(1, len(metadata.brokers))),
                configs=TOPIC_CONFIGS,
            )
            error = self._admin.create_topics([new])[self.topic]
            if error is not None and getattr(error, "code", None) != _TOPIC_EXISTS:
                raise error
        deadline = time.monotonic() + 30
        while True:
            found = self._cluster.metadata([self.topic]).topics.get(self.topic)
            if found is not None and 0 in found.partitions and found.partitions[0].leader >= 0:
                return
            if time.monotonic() > deadline:
                raise CausewayError(
                    "create topic", self.topic, "it has no leader after 30 s", retriable=True
                )
            time.sleep(0.05)

    def exists(self) -> bool:
        found = self._cluster.metadata([self.topic]).topics.get(self.topic)
        return found is not None and bool(found.partitions)

    def read(self, start: int | None = None) -> Contents:
        """All that is in the topic, from offset `start` or its beginning to its end by now."""
        contents = Contents(end=self._first_offset() if start is None else start)
        newest: dict[bytes, bytes | None] = {}
        while True:
            fetched = self._cluster.fetch(self._at, contents.end, _FETCH_BYTES, max_wait_ms=0)
            for batch in _batches(fetched.records):
                for record in batch:
                    if record.offset < contents.end or record.key is None:
                        continue
                    if record.key.startswith(b'{"lease"'):
                        entry = decode(record.key, record.value)
                        if isinstance(entry, LeaseRecord):
                            contents.leases.append(entry)
                    else:
                        newest[record.key] = record.value
                contents.end = max(contents.end, batch.next_offset)
            if contents.end >= fetched.high_watermark:
                break
        # Only the newest of each partition is worth its JSON.
        for key, value in newest.items():
            entry = decode(key, value)
            if isinstance(entry, Progress):
                contents.partitions[entry.source] = entry
        return contents

    def _first_offset(self) -> int:
        found = self._cluster.list_offsets([self._at], -2)[self._at]
        if isinstance(found, CausewayError):
            raise found
        return found.offset

    def append(self, batch: bytes) -> None:
        """Appends one batch, acknowledged by all replicas in sync. Raises LeadershipLostError where
        its producer id or epoch was overtaken, else CausewayError."""
        try:
            self._cluster.produce_batch(self._at, batch)
        except BrokerError as error:
            if error.code == _DUPLICATE_SEQUENCE:
                return
            if error.code in _FENCED:
                raise LeadershipLostError(
                    "write progress", self.topic, f"another driver has taken over ({error.name})"
                ) from error
            raise


class ProgressWriter:
    """Writes with one producer id and epoch; not thread-safe.

    After an error other than LeadershipLostError the same batches are sent again by the next call,
    first: whether they were appended is unknown, and their sequences say so to the broker.
    """

    def __init__(self, topic: ProgressTopic, producer_id: int, producer_epoch: int) -> None:
        self._topic = topic
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self._sequence = 0
        self._unanswered: list[bytes] = []

    def write(self, entries: Sequence[Entry]) -> None:
        """Returns once all of `entries` are durably in the topic."""
        self._send()
        now = int(time.time() * 1000)
        for batch, count in build_batches(
            entries,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=self._sequence,
            now_ms=now,
        ):
            self._unanswered.append(batch)
            self._sequence = (self._sequence + count) & 0x7FFFFFFF
        self._send()

    def _send(self) -> None:
        while self._unanswered:
            self._topic.append(self._unanswered[0])
            del self._unanswered[0]


def _batches(data: bytes) -> Iterator[DefaultRecordBatch]:
    memory = MemoryRecords(bytes(data))
    while memory.has_next():
        batch = memory.next_batch()
        if isinstance(batch, DefaultRecordBatch):
            yield batch
