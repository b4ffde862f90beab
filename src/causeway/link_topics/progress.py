"""The progress topic: the progress of each partition of a link, and the link's leader.

`__causeway.<source>.<target>.progress` on the target has one partition, is compacted, and has JSON
(records.py). For each version of MirrorMaker, a name that begins with two underscores belongs to an
internal topic, which a reverse link does not mirror. Since Kafka 4.0, the ending `.internal` means
that only if the name begins with `mm2`.

An old record of a partition is still true (see `model.Pair`), so it need not be atomic with the
data. Only the link's leading driver writes: idempotent batches with one producer id, whose epoch
grows with each leader. After a leader has written, the broker refuses batches of older leaders.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.cluster import Cluster, Connect
from causeway.config import LinkSettings
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics.entries import (
    EVENTS,
    Deletion,
    DirectivesRecord,
    Entry,
    EventRecord,
    LeaseRecord,
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    TaskRecord,
    TransformRecord,
)
from causeway.link_topics.offset_map import MOST_POINTS, OffsetMap, SameOffsets
from causeway.link_topics.records import LEASE, OFFSET_MAP, decode_entry, encode_entry
from causeway.link_topics.topic_log import TopicLog, build
from causeway.model import TopicPartition
from causeway.naming import PROGRESS
from causeway.records import records_of

_log = logging.getLogger("causeway.link")
# The map records of one source partition, by `to`.
MapRecords = dict[TopicPartition | None, OffsetMapRecord]
Maps = dict[TopicPartition, OffsetMap]  # of one source partition, by target partition
# The most points of a map of a transformed partition, to which each report may add one.
_MOST_TRANSFORMED = 256


class ClusterIds(NamedTuple):
    """The ids of a link's clusters; None if unknown."""

    source: str | None = None
    target: str | None = None


_DUPLICATE_SEQUENCE = 46
# OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID, PRODUCER_FENCED
_FENCED = frozenset({45, 47, 59, 90})
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted, and each start of a driver reads the whole topic.
    "segment.bytes": str(8 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
}


class LeadershipLostError(CausewayError):
    """Another driver has taken over the link; nothing was written."""


@dataclass(slots=True)
class ProgressContents:
    """The contents of the progress topic. `end`: the next offset to read. `leases`: the lease
    records in the order of the log. Of all other records, it has the newest one of each key."""

    end: int = 0
    partitions: dict[TopicPartition, PartitionProgress] = field(default_factory=dict)
    leases: list[LeaseRecord] = field(default_factory=list)
    maps: dict[TopicPartition, MapRecords] = field(default_factory=dict)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    transforms: dict[str, TransformRecord] = field(default_factory=dict)
    directives: DirectivesRecord | None = None
    events: dict[int, EventRecord] = field(default_factory=dict)  # by number
    deleted: set[Deletion] = field(default_factory=set)

    @property
    def clusters(self) -> ClusterIds:
        """The ids in the newest lease that has them."""
        sources = (lease.source_cluster for lease in reversed(self.leases))
        targets = (lease.target_cluster for lease in reversed(self.leases))
        return ClusterIds(next(filter(None, sources), None), next(filter(None, targets), None))

    def update(self, more: ProgressContents) -> None:
        """Adds `more`, which was read from `end` on."""
        self.end = more.end
        for deletion in more.deleted:
            self.take(deletion)
        self.partitions.update(more.partitions)
        self.leases.extend(more.leases)
        for at, records in more.maps.items():
            self.maps.setdefault(at, {}).update(records)
        self.tasks.update(more.tasks)
        self.transforms.update(more.transforms)
        self.directives = more.directives or self.directives
        for event in more.events.values():
            self.take(event)

    def take(self, entry: Entry | None) -> None:
        match entry:
            case PartitionProgress():
                self.partitions[entry.source] = entry
            case LeaseRecord():
                self.leases.append(entry)
            case OffsetMapRecord():
                self.maps.setdefault(entry.source, {})[entry.to] = entry
            case TaskRecord():
                self.tasks[entry.name] = entry
            case TransformRecord():
                self.transforms[entry.name] = entry
            case DirectivesRecord():
                self.directives = entry
            case EventRecord():
                self.events[entry.number] = entry
                self.events.pop(entry.number - EVENTS, None)  # that event has the same key
            case Deletion():
                self.deleted.add(entry)
                if entry.of == "topic":
                    self.partitions.pop(entry.source, None)
                elif records := self.maps.pop(entry.source, None):
                    records.pop(entry.to, None)
                    if records:
                        self.maps[entry.source] = records


class ProgressTopic:
    """One link's progress topic on its target cluster. `admin` creates it, if given. `reached`: the
    highest known end of the topic. `losses`: how often an append got a lower offset, because the
    topic was recreated or has lost acknowledged records."""

    def __init__(self, cluster: Cluster, topic: str, *, admin: Cluster | None = None) -> None:
        self._cluster = cluster
        self._log = TopicLog(cluster, topic, admin=admin)
        self._at = TopicPartition(topic, 0)
        self.reached = 0
        self.losses = 0

    @property
    def topic(self) -> str:
        return self._at.topic

    def ensure(self, replication_factor: int = 3) -> None:
        """See TopicLog.ensure."""
        self._log.ensure(replication_factor, configs=TOPIC_CONFIGS)

    def exists(self) -> bool:
        return self._log.partitions() > 0

    def read(self, start: int | None = None, *, maps: bool = True) -> ProgressContents:
        """Reads the topic from offset `start`, or from its beginning, to its current end. Without
        `maps`, leaves out offset maps. Raises CausewayError, also if the topic ends before
        `start`."""
        contents = ProgressContents(end=start or 0)
        newest: dict[bytes, bytes | None] = {}
        for batch in self._log.batches(start=start):
            for index, record in enumerate(records_of(batch)):
                if record.key is None:
                    continue
                if record.key.startswith(LEASE):
                    lease = decode_entry(record.key, record.value)
                    offset = batch.source_offset(index)
                    if isinstance(lease, LeaseRecord) and offset < lease.reached:
                        lease = lease.replace(progress_lost=True)
                    contents.take(lease)
                else:
                    newest[record.key] = record.value
            contents.end = batch.next
        # Only the newest value of each key is decoded.
        for key, value in newest.items():
            if maps or not key.startswith(OFFSET_MAP):
                contents.take(decode_entry(key, value))
        self.reached = contents.end
        return contents

    def append(self, batch: bytes) -> None:
        """Appends one batch, which all replicas in sync acknowledge. Raises LeadershipLostError if
        another driver has a newer producer id or epoch. Raises other CausewayErrors."""
        try:
            # A lease would expire while it waits for a quota.
            offset = self._cluster.produce_batch(self._at, batch, heed_quota=False)
        except BrokerError as error:
            if error.code == _DUPLICATE_SEQUENCE:
                return
            if error.code in _FENCED:
                raise LeadershipLostError(
                    "write progress", self.topic, f"another driver has taken over ({error.name})"
                ) from error
            raise
        self.losses += offset < self.reached
        self.reached = offset + 1


class ProgressWriter:
    """Writes to a progress topic as one driver, with one producer id and epoch. So the broker
    refuses drivers that led before. Not thread-safe.

    After an error other than LeadershipLostError, the next call first sends the same batches again:
    they may have been appended, and the broker knows that by their sequences.
    """

    def __init__(self, topic: ProgressTopic, producer_id: int, producer_epoch: int) -> None:
        self._topic = topic
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self._sequence = 0
        self._unanswered: list[bytes] = []

    def write(self, entries: Sequence[Entry]) -> None:
        """Writes `entries`. Returns when all of them are durably in the topic."""
        self._send()
        now_ms = int(time.time() * 1000)
        for batch, count in build(
            [encode_entry(entry, now_ms) for entry in entries],
            now_ms=now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=self._sequence,
        ):
            self._unanswered.append(batch)
            self._sequence = (self._sequence + count) & 0x7FFFFFFF
        self._send()

    def _send(self) -> None:
        while self._unanswered:
            self._topic.append(self._unanswered[0])
            del self._unanswered[0]


def read_progress(link: LinkSettings, connect: Connect) -> ProgressContents:
    """Returns the contents of the link's progress topic, empty if the topic does not exist.

    From then on, all clients of the link accept only the clusters that the topic names. Raises
    CausewayError.
    """
    progress = ProgressTopic(connect(link.target_admin), link.progress_topic)
    return recognise(link, connect, progress.read() if progress.exists() else ProgressContents())


def recognise(link: LinkSettings, connect: Connect, contents: ProgressContents) -> ProgressContents:
    """Makes all clients of the link accept only the clusters in `contents`, which it returns."""
    known = contents.clusters
    for cluster_id, clients in (
        (known.source, (link.source, link.source_admin)),
        (known.target, (link.target, link.target_admin)),
    ):
        for client in clients:
            if cluster_id is not None:
                connect(client).expect(cluster_id)
    return contents


def offset_maps_of(
    progress: PartitionProgress,
    records: Mapping[TopicPartition | None, OffsetMapRecord],
    *,
    since: int | None = None,
    multiplied: bool = True,
) -> Maps:
    """Returns the offset maps of a source partition, from its progress and its map `records`.

    `since`: see OffsetMap; for maps without a record. `multiplied`: see OffsetMap; it counts only
    if the partition is transformed. The result is empty if offsets cannot be mapped: keys decide
    the target partition, or the records have no sequences.
    """
    if progress.preserves:
        return {each.at: SameOffsets(progress.offsets_from, each.pair) for each in progress.outlets}
    if len(progress.outlets) > 1 and progress.transform is None:
        return {}
    multiplied = multiplied and progress.transform is not None
    maps: Maps = {}
    for index, outlet in enumerate(progress.outlets):
        if outlet.producer_id < 0:
            continue
        record = records.get(outlet.at if index else None)
        if record is not None and record.producer_id != outlet.producer_id:
            record = None
        found = maps[outlet.at] = OffsetMap(
            () if record is None else record.points,
            most=_MOST_TRANSFORMED if multiplied else MOST_POINTS,
            multiplied=multiplied,
            since=since if record is None else record.since,
        )
        found.reach(outlet.pair)
        found.changed = False
    return maps


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFeed:
    """A partition of another link that feeds `outlet`. `source`: the alias of that link's source.
    `topic_id`: the id of its source topic."""

    source: str
    topic_id: str
    outlet: Outlet

    @property
    def producers(self) -> tuple[int, ...]:
        """The producer ids of its records on the target."""
        return (*self.outlet.earlier, self.outlet.producer_id)


def feeds_of_other_links(target: Cluster, own: str) -> dict[TopicPartition, list[OtherFeed]]:
    """Returns the feeds of other links, by target partition. `own`: the progress topic of the link
    that asks. Other drivers may run these links, from other files. Leaves out a link whose progress
    cannot be read. Raises CausewayError."""
    found: dict[TopicPartition, list[OtherFeed]] = {}
    for name in sorted(target.metadata().topics):
        match = PROGRESS.fullmatch(name)
        if match is None or name == own:
            continue
        try:
            contents = ProgressTopic(target, name).read()
        except CausewayError as error:
            _log.debug("progress of another link in %s: %s", name, error)
            continue
        link = next((lease.link for lease in contents.leases), "")
        source = link.partition("->")[0] or match[1]
        for progress in contents.partitions.values():
            for each in progress.outlets:
                # Claims of older versions have no `claimed_at`. It is 0 if the link has sent all
                # records of the topic, or if the topic is empty.
                unclaimed = each.claimed_at < 0 and each.pair.target == each.pair.sequence
                outlet = each.replace(claimed_at=0) if unclaimed else each
                feed = OtherFeed(source=source, topic_id=progress.topic_id, outlet=outlet)
                found.setdefault(outlet.at, []).append(feed)
    return found
