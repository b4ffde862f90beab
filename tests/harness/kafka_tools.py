"""librdkafka as the independent witness: nothing here shares code with what it checks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.waiting import await_until

Header = tuple[str, bytes | None]
_TIMEOUT_S = 120.0
T = TypeVar("T")

# Settings of a producer that cuts no batch short while the test is kept waiting for a processor.
WHOLE_BATCHES = {"linger.ms": 5_000}

# What a coordinator says that has just been elected.
_COORDINATING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
# What a broker says for a moment after it has come back.
_ELECTING = (
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
# Errors that a client lives through (librdkafka calls none of them retriable).
PASSING = {
    *_COORDINATING,
    *_ELECTING,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """As read from a partition. `timestamp` in ms; `appended` if the broker set it."""

    offset: int
    timestamp: int
    appended: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def content(self) -> tuple[object, ...]:
        """All that a mirror must keep: everything but the offset."""
        return (self.timestamp, self.appended, self.key, self.value, self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to write. Without `partition` librdkafka's partitioner decides (murmur2, as Java);
    `timestamp` in ms, None for now."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp: int | None = None
    partition: int | None = None


class KafkaTools:
    """Everything a test asks of a cluster. Calls wait for their answer and raise KafkaException.

    `settings` are librdkafka's, for secured listeners."""

    def __init__(self, bootstrap: str, settings: Mapping[str, Any] | None = None) -> None:
        self.bootstrap = bootstrap
        # Failures are raised; the library need not print them too when a broker is killed.
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 2, **(settings or {})}
        self.admin = AdminClient({**self._settings, "socket.timeout.ms": 30_000})

    # Topics

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.create_topics(
            [topic], partitions, replication_factor=replication_factor, config=config
        )

    def create_topics(
        self,
        topics: Iterable[str],
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Returns once each topic's partitions all have a leader that clients can see."""
        wanted = list(topics)
        new = [
            NewTopic(
                topic,
                num_partitions=partitions,
                replication_factor=replication_factor,
                config=dict(config or {}),
            )
            for topic in wanted
        ]
        _all(self.admin.create_topics(new, request_timeout=_TIMEOUT_S))
        _until(
            lambda: all(
                (count := self.partition_count(topic)) is not None and count >= partitions
                for topic in wanted
            )
        )

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=_TIMEOUT_S).topics)

    def partition_count(self, topic: str) -> int | None:
        """None if there is no such topic, or not each partition has a leader."""
        found = self.admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        if found.error is not None or any(p.leader < 0 for p in found.partitions.values()):
            return None
        return len(found.partitions)

    def delete_topic(self, topic: str) -> None:
        """Returns once clients see that it is gone."""
        _all(self.admin.delete_topics([topic], request_timeout=_TIMEOUT_S))
        _until(lambda: topic not in self.topics())

    def recreate_topic(self, topic: str, partitions: int = 1) -> None:
        """Deleted, and made anew before it is missed."""
        _all(self.admin.delete_topics([topic], request_timeout=_TIMEOUT_S))

        def made() -> bool:
            try:
                self.create_topic(topic, partitions)
            except KafkaException as error:  # ZooKeeper knows it longer than brokers do
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
            return True

        _until(made)

    def add_partitions(self, topic: str, total: int) -> None:
        _all(self.admin.create_partitions([NewPartitions(topic, total)]))
        _until(lambda: self.partition_count(topic) == total)

    def topic_config(self, topic: str) -> dict[str, str]:
        """Every setting in force, defaults included."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (entries,) = _all(self.admin.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def set_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """None takes a setting back to its default."""
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE
                if value is None
                else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _all(self.admin.incremental_alter_configs([resource]))

    def rest_cleaner(self, topic: str) -> None:
        """Nothing more of a compacted topic goes, so that what is read of it stays true."""
        self.set_topic_config(topic, {"min.compaction.lag.ms": str(2**62), "segment.ms": None})
        before: list[dict[int, list[Record]]] = [{}]

        def unchanged() -> bool:
            before.append(self.read(topic))
            return before[-1] == before[-2]

        await_until(unchanged, 60, f"what the cleaner is at with {topic} ends", poll_s=1)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the log's start to offset `before`."""
        _all(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def allow(
        self,
        user: str,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        *,
        prefixed: bool = False,
    ) -> None:
        """Let `user` do `operation` on the topic, group, transactional id or cluster `name`, or on
        all that begin with it."""
        rule = AclBinding(
            kind,
            name,
            ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        _all(self.admin.create_acls([rule]))

    # Offsets

    def offsets(
        self,
        topic: str,
        spec: Literal["earliest", "latest"] = "latest",
        *,
        read_committed: bool = False,
    ) -> dict[int, int]:
        """Log start or end offset of each partition; the end is the last stable one for readers
        of committed records."""
        count = self.partition_count(topic)
        assert count is not None, f"topic {topic} is not there"
        where = OffsetSpec.earliest() if spec == "earliest" else OffsetSpec.latest()
        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, partition): where for partition in range(count)}

        def ask() -> dict[int, int]:
            answers = self.admin.list_offsets(asked, isolation_level=level)
            return {tp.partition: future.result().offset for tp, future in answers.items()}

        return _despite(_ELECTING, ask, f"offsets of {topic}")

    def commit_group(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set an idle consumer group's offsets."""
        positions = [TopicPartition(topic, p, offset) for (topic, p), offset in offsets.items()]
        # Not the admin's call, which on a new cluster waits in vain for its first coordinator.
        consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        try:
            _until(lambda: _commits(consumer, positions))
        finally:
            consumer.close()

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """What it has committed."""
        # Not the admin's call: librdkafka 2.16 answers a broker that coordinates the group no more,
        # or not yet, with a segmentation fault, as an admin client has no group of its own.
        consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        try:
            topics = consumer.list_topics(timeout=_TIMEOUT_S).topics
            places = [
                TopicPartition(name, partition)
                for name, topic in topics.items()
                for partition in topic.partitions
            ]
            found = _despite(
                _COORDINATING,
                lambda: consumer.committed(places, timeout=_TIMEOUT_S),
                f"offsets of {group}",
            )
        finally:
            consumer.close()
        return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}

    # Writing

    def produce(
        self,
        topic: str,
        records: Iterable[Outgoing | bytes],
        *,
        codec: str = "none",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Write `records` (bytes stand for a value) in order, acknowledged by all replicas.
        `codec`: none, gzip, snappy, lz4 or zstd; `settings` such as linger.ms or batch.size."""
        producer = self.producer(codec=codec, settings=settings)
        failures: list[KafkaError] = []
        for record in records:
            _send(producer, topic, record, failures)
        _flush(producer, failures)

    def producer(
        self, *, codec: str = "none", settings: Mapping[str, Any] | None = None
    ) -> Producer:
        return Producer(
            {
                **self._settings,
                "enable.idempotence": True,
                "compression.type": codec,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                **(settings or {}),
            }
        )

    @contextmanager
    def transactional(
        self,
        transactional_id: str,
        *,
        codec: str = "none",
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[Transactions]:
        """A writer of transactions; its id fences earlier writers with the same one."""
        # Some stay open over starts of programs, on machines that have much else to do.
        patient = {"transaction.timeout.ms": 600_000}
        producer = self.producer(
            codec=codec,
            settings={"transactional.id": transactional_id, **patient, **(settings or {})},
        )
        producer.init_transactions(_TIMEOUT_S)
        yield Transactions(producer)

    def await_transactions(self, topic: str) -> None:
        """Until all of them have ended: markers are written after their writer has its answer."""
        await_until(
            lambda: self.offsets(topic) == self.offsets(topic, read_committed=True),
            what=f"an end of the transactions in {topic}",
        )

    # Reading

    def read(
        self,
        topic: str,
        partitions: Iterable[int] | None = None,
        *,
        read_committed: bool = False,
        timeout_s: float = 60.0,
    ) -> dict[int, list[Record]]:
        """Each partition from its log start to where it ends now, checksums verified. The end for
        readers of committed records is the last stable offset."""
        count = self.partition_count(topic)
        assert count is not None, f"topic {topic} is not there"
        wanted = list(range(count) if partitions is None else partitions)
        records: dict[int, list[Record]] = {partition: [] for partition in wanted}
        unfinished = set(wanted)
        consumer = Consumer(
            {
                **self._settings,
                "group.id": "harness-reader",  # required; it never joins or commits
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "check.crcs": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            }
        )
        try:
            consumer.list_topics(topic)  # else it asks for the leaders half a second later
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in wanted])
            while unfinished:
                # `consume` waits for as many messages as asked for, hence one first, then the rest.
                first = consumer.poll(timeout_s)
                assert first is not None, (
                    f"{topic}: partitions {sorted(unfinished)} gave nothing more"
                )
                for message in [first, *consumer.consume(10_000, timeout=0)]:
                    error = message.error()
                    if error is None:
                        records[message.partition()].append(_record(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(message.partition())
                    elif error.code() not in PASSING:
                        raise KafkaException(error)
        finally:
            consumer.close()
        return records

    def digests(self, topic: str, *, read_committed: bool = False) -> dict[int, tuple[int, str]]:
        """Of each partition: how many records, and a checksum over all but their offsets."""
        return {
            partition: (len(records), digest(records))
            for partition, records in self.read(topic, read_committed=read_committed).items()
        }


@dataclass
class Transactions:
    """`begin`, `send` any number of times, then `commit` or `abort`; again and again."""

    producer: Producer
    _failures: list[KafkaError] = field(default_factory=list)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, *records: Outgoing | bytes) -> None:
        for record in records:
            _send(self.producer, topic, record, self._failures)

    def flush(self) -> None:
        """Returns once all that was sent lies in the log, its transaction still open."""
        _flush(self.producer, self._failures)

    def commit(self) -> None:
        self.flush()
        self.producer.commit_transaction(_TIMEOUT_S)

    def abort(self) -> None:
        """What was sent is in the log first, so that readers meet aborted records."""
        self.flush()
        self.producer.abort_transaction(_TIMEOUT_S)


def digest(records: Iterable[Record]) -> str:
    """SHA-256 over everything but offsets, in order. Absent and empty differ."""
    total = hashlib.sha256()
    for record in records:
        total.update(f"{record.timestamp} {record.appended} ".encode())
        for part in (record.key, record.value):
            total.update(_measured(part))
        for name, value in record.headers:
            total.update(_measured(name.encode()) + _measured(value))
        total.update(b";")
    return total.hexdigest()


def _measured(part: bytes | None) -> bytes:
    return b"-1:" if part is None else b"%d:" % len(part) + part


def _record(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        offset=message.offset(),
        timestamp=timestamp,
        appended=kind == TIMESTAMP_LOG_APPEND_TIME,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def _send(
    producer: Producer, topic: str, record: Outgoing | bytes, failures: list[KafkaError]
) -> None:
    def done(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    outgoing = record if isinstance(record, Outgoing) else Outgoing(value=record)
    options: dict[str, Any] = {"headers": list(outgoing.headers), "on_delivery": done}
    if outgoing.timestamp is not None:
        options["timestamp"] = outgoing.timestamp
    if outgoing.partition is not None:
        options["partition"] = outgoing.partition
    while True:
        try:
            producer.produce(topic, outgoing.value, outgoing.key, **options)
        except BufferError:  # its queue is full
            producer.poll(0.1)
        else:
            break
    producer.poll(0)


def _flush(producer: Producer, failures: list[KafkaError]) -> None:
    left = producer.flush(_TIMEOUT_S)
    if failures:
        raise KafkaException(failures[0])
    assert left == 0, f"{left} records not acknowledged within {_TIMEOUT_S:g} s"


def _commits(consumer: Consumer, positions: list[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=positions, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in PASSING:
            raise
        return False
    return True


def _all(futures: Mapping[Any, Any]) -> list[Any]:
    return [future.result(_TIMEOUT_S) for future in futures.values()]


def _despite(codes: Collection[int], ask: Callable[[], T], what: str) -> T:
    """The answer, once there is one that is none of the errors `codes`."""

    def attempt() -> tuple[T, ...]:
        try:
            return (ask(),)
        except KafkaException as failure:
            if failure.args[0].code() in codes:
                return ()
            raise

    (answer,) = await_until(attempt, _TIMEOUT_S, what)
    return answer


def _until(condition: Callable[[], bool]) -> None:
    await_until(condition, _TIMEOUT_S, "the change is seen")
