"""A small compacted topic: creates it if it is missing, reads it as a whole, appends to it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from causeway.cluster import (
    BROKER_MESSAGE_FORMAT,
    EARLIEST,
    KNOWN_MESSAGE_FORMAT,
    LATEST,
    MESSAGE_FORMAT,
    Cluster,
    NewTopic,
    knows_producers,
    offsets_at,
    relayed,
    value_of,
)
from causeway.errors import CausewayError, ConfigError
from causeway.model import TopicPartition
from causeway.records import Batch, records_of
from causeway.wire import codes

_log = logging.getLogger("causeway.topics")
_POLICY = "cleanup.policy"
_COMPACT = "compact"
COMPACTED: Mapping[str, str] = {_POLICY: _COMPACT}

_ZSTD = 4
_BATCH_BYTES = 900_000  # before compression; a topic's default limit is 1,048,588
_LEADER_S = 30.0
_NO_PRODUCER = -1
_ALTER = "kafka-configs --bootstrap-server … --alter --entity-type topics"

KeyValue = tuple[bytes | None, bytes | None]


class TopicLog:
    """The topic `topic` on `cluster`. `admin` creates it, if given."""

    def __init__(self, cluster: Cluster, topic: str, *, admin: Cluster | None = None) -> None:
        self.topic = topic
        self._cluster = cluster
        self._admin = admin or cluster

    def ensure(
        self,
        replication_factor: int,
        *,
        configs: Mapping[str, str] = COMPACTED,
    ) -> None:
        """Creates the topic unless it exists, with no more replicas than the cluster has brokers.
        If an existing topic must be compacted, calls `keep_compacted`.

        Returns when the topic has leaders. Raises CausewayError.
        """
        metadata = self._cluster.metadata([self.topic])
        found = metadata.topics.get(self.topic)
        if found is None or not found.partitions:
            if found is not None and found.error is not None and not found.error.retriable:
                raise found.error
            new = NewTopic(
                name=self.topic,
                partitions=1,
                replication_factor=min(replication_factor, max(1, len(metadata.brokers))),
                configs={**configs, **self._log_format(min(metadata.brokers, default=-1))},
            )
            error = self._admin.create_topics([new])[self.topic]
            if error is not None and getattr(error, "code", None) != codes.TOPIC_ALREADY_EXISTS:
                raise error
        elif configs.get(_POLICY) == _COMPACT:
            self.keep_compacted()
        deadline = time.monotonic() + _LEADER_S
        while True:
            found = self._cluster.metadata([self.topic]).topics.get(self.topic)
            there = found.partitions.values() if found is not None else ()
            if there and all(partition.leader >= 0 for partition in there):
                return
            if time.monotonic() > deadline:
                raise CausewayError(
                    "create topic", self.topic, f"no leader after {_LEADER_S:g} s", retriable=True
                )
            time.sleep(0.05)

    def _log_format(self, broker: int) -> Mapping[str, str]:
        """Returns the topic config with which idempotent producers can write. Empty if the broker's
        default is enough, or if we may not read that default."""
        try:
            entry = self._admin.broker_configs(broker).get(BROKER_MESSAGE_FORMAT)
        except CausewayError:
            return {}
        if knows_producers(None if entry is None else entry.value):
            return {}
        return {MESSAGE_FORMAT: KNOWN_MESSAGE_FORMAT}

    def keep_compacted(self, partitions: int | None = 1) -> None:
        """Sets cleanup.policy of the topic, if it exists, to compact: then it keeps its records.
        `partitions`: the number of partitions that it must have; None for any number.

        Raises ConfigError if the topic cannot be used.
        """
        if (error := self.split(partitions)) is not None:
            raise error
        if (policy := self.wrong_policy()) is None:
            return
        try:
            refusal = self._admin.alter_configs({self.topic: COMPACTED})[self.topic]
        except CausewayError as error:
            refusal = error
        if refusal is not None:
            raise ConfigError(
                "use topic",
                f"{self.topic} on {self._cluster}",
                f"its cleanup.policy is {policy}: the broker would delete records that are still"
                f" needed. It could not be changed: {refusal}",
                remedy=f"{_ALTER} --entity-name {self.topic} --add-config cleanup.policy=compact",
            )
        about = {"topic": self.topic, "cluster": str(self._cluster), "before": policy}
        _log.warning("cleanup.policy set to compact", extra=about)

    def wrong_policy(self) -> str | None:
        """Returns the topic's cleanup.policy if it is not compact. None if it is, or if we may not
        read it."""
        try:
            entries = self._admin.describe_configs([self.topic], [_POLICY])[self.topic]
        except CausewayError:
            return None
        if isinstance(entries, CausewayError) or (entry := entries.get(_POLICY)) is None:
            return None
        return None if entry.value in (None, _COMPACT) else entry.value

    def split(self, partitions: int | None = 1) -> ConfigError | None:
        """Returns the error if the topic has more than `partitions` partitions; None if it can be
        used. If partition 0 has records, the topic can be used: all records are there."""
        count = self.partitions()
        if partitions is None or count <= partitions:
            return None
        first = TopicPartition(self.topic, 0)
        if self._cluster.log_ends([first])[first] != 0:
            return None
        return ConfigError(
            "use topic",
            f"{self.topic} on {self._cluster}",
            f"it has {count} partitions, and must have {partitions}",
            remedy="it holds no records in partition 0: delete it, and Causeway creates it, or"
            " create it as docs/how-to/security.md shows",
        )

    def partitions(self) -> int:
        """Returns the number of partitions, 0 if there is no such topic. Raises
        AuthorizationError."""
        found = self._cluster.metadata([self.topic]).topics.get(self.topic)
        return 0 if found is None else len(found.partitions)

    def append(self, records: Sequence[KeyValue], partition: int = 0) -> None:
        """Appends `records`. Returns when all are durably in the topic. If a response was lost,
        they may be there twice. Raises CausewayError."""
        at = TopicPartition(self.topic, partition)
        for batch, _ in build(records, now_ms=int(time.time() * 1000)):
            self._cluster.produce_batch(at, batch)

    def newest(self) -> dict[bytes, bytes]:
        """Returns the newest value of each key in all partitions, without deleted keys."""
        found: dict[bytes, bytes] = {}
        for partition in range(self.partitions()):
            for batch in self.batches(partition):
                for record in records_of(batch):
                    if record.key is not None and record.value is not None:
                        found[record.key] = record.value
                    elif record.key is not None:
                        found.pop(record.key, None)
        return found

    def batches(self, partition: int = 0, start: int | None = None) -> Iterator[Batch]:
        """Yields the batches from offset `start`, or the log's start, to the log's current end.
        Raises CausewayError, also if the log ends before `start`."""
        at = TopicPartition(self.topic, partition)
        end = value_of(offsets_at(self._cluster, [at], LATEST, read_committed=True)[at])
        if start is None:
            start = value_of(offsets_at(self._cluster, [at], EARLIEST)[at])
        elif start > end:
            cause = f"it ends at offset {end}, but had reached {start}: it was recreated"
            raise CausewayError("read", str(at), cause, retriable=True)
        return relayed(self._cluster, at, start, end=end)


def build(
    records: Sequence[KeyValue],
    *,
    now_ms: int,
    producer_id: int = _NO_PRODUCER,
    producer_epoch: int = _NO_PRODUCER,
    sequence: int = -1,
    transactional: bool = False,
) -> Iterator[tuple[bytes, int]]:
    """Yields record batches with `records` in order, each with its number of records. `sequence`:
    that of the first record, if there is a producer id."""
    at = 0
    while at < len(records):
        builder = DefaultRecordBatchBuilder(
            2,
            _ZSTD,
            transactional,
            producer_id,
            producer_epoch,
            -1 if producer_id < 0 else (sequence + at) & 0x7FFFFFFF,
            _BATCH_BYTES,
        )
        count = 0
        for key, value in records[at:]:
            if builder.append(count, now_ms, key, value, []) is None:
                break
            count += 1
        yield bytes(builder.build()), count
        at += count
