"""Questions to one cluster: its topics, the ends of partitions, and which of our records it has."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from causeway_producer.client import SideClient
from causeway_producer.errors import OF_TOPICS, SettingsError, code_of
from causeway_producer.records import position_of
from causeway_producer.spool import Place

TopicPartitionKey = tuple[str, int]

TIMEOUT_S = 10.0
CREATION_S = 3.0  # the question may create the topic, which is unknown for so long
_PAUSE_S = 0.1
_LOG_TIMEOUT_S = 30.0
_RECORDS_AT_ONCE = 1000
# The second name is for brokers before 3.4.
_EXPIRATION = ("producer.id.expiration.ms", "transactional.id.expiration.ms")
_CONSUME_S = 0.2


class SeenTopic(NamedTuple):
    partitions: int
    cluster_id: str


def describe(client: SideClient, topic: str, *, creation_s: float = CREATION_S) -> SeenTopic:
    """Describes a topic, which may be unknown for `creation_s`. Raises KafkaException with the
    topic's error, or if there was no answer in time."""
    begun = time.monotonic()
    patience_s = {
        KafkaError.UNKNOWN_TOPIC_OR_PART: creation_s,
        KafkaError._UNKNOWN_TOPIC: creation_s,
        KafkaError.LEADER_NOT_AVAILABLE: TIMEOUT_S,
    }
    while True:
        waited = time.monotonic() - begun
        metadata = client.list_topics(topic, max(_PAUSE_S, TIMEOUT_S - waited))
        found = metadata.topics[topic]
        if found.error is None:
            return SeenTopic(len(found.partitions), metadata.cluster_id or "")
        if waited >= patience_s.get(found.error.code(), 0):
            raise KafkaException(found.error)
        time.sleep(_PAUSE_S)


def common_partitions(topic: str, seen: Mapping[str, SeenTopic], *, least: bool) -> int:
    """Returns the number of partitions to write to, from the sides that answered. Raises
    SettingsError."""
    clusters = {each.cluster_id for each in seen.values()}
    if len(seen) > 1 and len(clusters) == 1 and "" not in clusters:
        names = " and ".join(seen)
        raise SettingsError(
            f"produce to {topic}", f"{names} are the same cluster, {clusters.pop()}"
        )
    counts = {name: each.partitions for name, each in seen.items()}
    if len(set(counts.values())) > 1 and not least:
        found = ", ".join(f"{count} on {name}" for name, count in counts.items())
        raise SettingsError(
            f"produce to {topic}",
            f"it has different numbers of partitions: {found}",
            'make them equal, or use those that both have: partition_counts="least"',
        )
    return min(counts.values())


def writable(settings: Mapping[str, Any], topic: str) -> bool:
    """Returns whether the topic exists and we may write to it. Raises KafkaException without an
    answer."""
    admin = confluent_kafka.admin.AdminClient(dict(settings))
    asked = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    try:
        allowed = asked[topic].result(TIMEOUT_S).authorized_operations
    except KafkaException as error:
        if code_of(error) in OF_TOPICS:
            return False
        raise
    return not allowed or AclOperation.WRITE in allowed


def forgets_after_ms(settings: Mapping[str, Any]) -> int | None:
    """Returns the time after which the first broker forgets an idle producer; None if no broker
    tells. Raises KafkaException without an answer."""
    admin = confluent_kafka.admin.AdminClient(dict(settings))
    brokers = admin.list_topics(timeout=TIMEOUT_S).brokers
    values = _configs(admin, ResourceType.BROKER, [str(each) for each in brokers], _EXPIRATION)
    return min(map(int, values), default=None)


def _configs(
    admin: AdminClient, kind: ResourceType, names: Sequence[str], keys: Sequence[str]
) -> list[str]:
    """For each resource the value of the first key that it has. Leaves out those that cannot be
    read: the right DescribeConfigs is missing, say."""
    asked = [
        answer
        for name in names  # librdkafka takes one broker at a time
        for answer in admin.describe_configs(
            [ConfigResource(kind, name)], request_timeout=TIMEOUT_S
        ).values()
    ]
    found = []
    for answer in asked:
        try:
            entries = answer.result(TIMEOUT_S)
        except (KafkaException, TimeoutError):
            continue
        found += [entries[key].value for key in keys if key in entries][:1]
    return found


def ends(
    admin: AdminClient,
    partitions: list[TopicPartitionKey],
    timeout_s: float = TIMEOUT_S,
    *,
    start: bool = False,
) -> dict[TopicPartitionKey, int]:
    """Returns the end offsets that the leaders show to readers of uncommitted records; with `start`
    the offsets at which the logs start."""
    spec = OffsetSpec.earliest() if start else OffsetSpec.latest()
    asked = {TopicPartition(*each): spec for each in partitions}
    if not asked:
        return {}
    answers = admin.list_offsets(asked, request_timeout=timeout_s)
    return {
        (at.topic, at.partition): answer.result(timeout_s).offset for at, answer in answers.items()
    }


@dataclass(slots=True)
class Reading:
    """The result of reading a log. `place`: the place from which it was read. `end`: the offset at
    which the consumer came to the partition's end. `ours`: our records behind `place`, in the log's
    order, each with the number of offsets between `place` and the record that have no record."""

    place: Place
    end: int = -1
    failed: KafkaError | None = None
    ours: list[tuple[int, int]] = field(default_factory=list)
    gone: int = 0
    next: int = 0

    def newest(self) -> int:
        return max((position for position, _ in self.ours), default=0)

    def reached(self, expected: Sequence[int], removed: Callable[[], bool]) -> int:
        """Returns the position up to which the log has, or had, all of our records in order.
        `expected`: the positions of the journal behind `place`. `removed`: whether the log may have
        lost records. Only then, offsets without a record can be the place of missing records."""
        reached, at, gone = self.place.position, 0, 0
        for position, gone_before in self.ours:
            if position <= reached:  # a second copy
                continue
            to = bisect_left(expected, position, at)
            if to > at and (to - at > gone_before - gone or not removed()):
                continue  # a batch behind a refused batch
            reached, gone = position, gone_before
            at = bisect_left(expected, position + 1, to)
        return reached


class LookBack:
    """Reads the logs of one side to find how many of our records it has.

        … acknowledged │ ours  others'  ours  ours │ end
                       └───────────read────────────┘    the last of our records before which none is
                                                        missing decides; later ones do not count

    As long as the broker knows the client, each partition gets our records in order and without
    gaps. A request of a process that died, or of a client that was given up, can still arrive. So
    reading lasts until none of our records has come for `settle_s`, counted from the last one."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        identity: str,
        places: Mapping[TopicPartitionKey, Place],
        *,
        settle_s: float,
        going_on: Callable[[], bool],
    ) -> None:
        """`places`: the places from which to read. Reading ends early if `going_on` is False."""
        self._settings = settings
        self._identity = identity
        self._readings = {
            where: Reading(place, next=place.offset) for where, place in places.items()
        }
        self._settle_s = settle_s
        self._going_on = going_on

    def read(self) -> tuple[dict[TopicPartitionKey, Reading], dict[str, KafkaError]]:
        """Returns the records of each partition, and the topics that cannot be read. Raises
        KafkaException if the side does not answer."""
        if self._readings:
            self._read()
        failed = {
            topic: reading.failed
            for (topic, _), reading in self._readings.items()
            if reading.failed is not None
        }
        return {
            where: each for where, each in self._readings.items() if where[0] not in failed
        }, failed

    def removed(self, where: TopicPartitionKey) -> bool:
        """Returns whether the log may have lost records behind the place from which it was read, by
        retention or by compaction. Raises KafkaException without an answer."""
        admin = confluent_kafka.admin.AdminClient(dict(self._settings))
        start = ends(admin, [where], start=True)[where]
        if start > self._readings[where].place.offset:
            return True
        policies = _configs(admin, ResourceType.TOPIC, [where[0]], ["cleanup.policy"])
        return not policies or "compact" in policies[0]

    def _read(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **self._settings,
                "group.id": f"causeway-{self._identity}",  # required; nothing is committed
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "earliest",  # retention may have deleted the offset
                "enable.partition.eof": True,
            }
        )
        admin = confluent_kafka.admin.AdminClient(dict(self._settings))
        try:
            self._set_missing_aside(consumer.list_topics(timeout=_LOG_TIMEOUT_S).topics)
            consumer.assign(
                [
                    TopicPartition(*where, self._readings[where].place.offset)
                    for where in self._left()
                ]
            )
            quiet_since = heard = time.monotonic()
            while self._going_on():
                messages = [
                    message
                    for message in consumer.consume(_RECORDS_AT_ONCE, _CONSUME_S)
                    if not _of_the_group(message)
                ]
                news = [self._take(message) for message in messages]
                now = time.monotonic()
                if any(news):
                    quiet_since = now
                if messages:
                    heard = now
                left = self._left()
                if any(self._readings[where].end < 0 for where in left):
                    if now - heard > _LOG_TIMEOUT_S:
                        raise KafkaException(
                            KafkaError(KafkaError._TIMED_OUT, "its logs cannot be read")
                        )
                elif now - quiet_since >= self._settle_s:
                    now_at = ends(admin, left, _LOG_TIMEOUT_S)
                    if all(self._readings[where].end >= now_at[where] for where in left):
                        break
        finally:
            consumer.close()

    def _left(self) -> list[TopicPartitionKey]:
        return [where for where, reading in self._readings.items() if reading.failed is None]

    def _set_missing_aside(self, topics: Mapping[str, Any]) -> None:
        """Marks partitions that do not exist: a consumer waits for them without an error."""
        for (topic, partition), reading in self._readings.items():
            seen = topics.get(topic)
            if seen is None or partition not in seen.partitions:
                error = seen.error if seen is not None else None
                reading.failed = error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)

    def _take(self, message: Any) -> bool:
        """Takes a message. Returns whether it is a record of ours that was not known before."""
        error = message.error()
        reading = self._readings.get((message.topic(), message.partition()))
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            if reading is None or error.code() not in OF_TOPICS:
                raise KafkaException(error)
            reading.failed = error
        elif reading is None:
            pass
        elif error is not None:
            reading.end = message.offset()
        else:
            reading.gone += max(0, message.offset() - reading.next)
            reading.next = message.offset() + 1
            position = position_of(self._identity, message.headers()) or 0
            if position > reading.place.position:
                reading.ours.append((position, reading.gone))
                return True
        return False


def _of_the_group(message: Any) -> bool:
    """Returns whether the error is about the client's group, which it looks up although nothing is
    committed. Reading does not need that right."""
    error = message.error()
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
