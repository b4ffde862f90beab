"""What of ours does a side have? Its logs, read from where we surely had been.

    … acked │ ours  others'  ours  ours │ end        the last one of ours in a partition decides:
            └───────── read ───────────┘             all before it are there, none behind it is

That holds as each partition gets our records in order and without a gap. A request of a process
that died, or of a client that was given up, can still be on its way: so a look lasts until nothing
of ours has come for the settling time, which begins anew with each record that does come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from causeway.errors import ConfigError
from causeway.producer.hub import Hub
from causeway.producer.ids import position_of
from causeway.producer.journal import Cursor
from causeway.producer.ledger import Place
from causeway.producer.refusals import OF_TOPICS
from causeway.producer.shares import batches_in

Partition = tuple[str, int]
_TIMEOUT_S = 30.0
_AT_ONCE = 1000
_POLL_S = 0.2


@dataclass(slots=True)
class _Reading:
    place: Place
    end: int = -1  # the last one that was come to
    failed: KafkaError | None = None


def look_back(
    client: Mapping[str, Any],
    name: str,
    places: Mapping[Partition, Place],
    *,
    settle_s: float,
    going_on: Callable[[], bool],
) -> tuple[dict[Partition, Place], dict[str, KafkaError]]:
    """How far the producer `name` has come in each partition of `places`, which say from where to
    read, and topics that cannot be read. Raises KafkaException where the side does not answer;
    gives up once `going_on` is False."""
    readings = {partition: _Reading(place) for partition, place in places.items()}
    if not readings:
        return {}, {}
    consumer = Consumer(
        {
            **client,
            "group.id": f"causeway-{name}",  # the client wants one; nothing is committed there
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",  # what retention took, nobody can read any more
            "enable.partition.eof": True,
        }
    )
    admin = AdminClient(dict(client))
    try:
        _set_aside(readings, consumer.list_topics(timeout=_TIMEOUT_S).topics)
        consumer.assign(
            [
                TopicPartition(topic, partition, reading.place.offset)
                for (topic, partition), reading in readings.items()
                if not reading.failed
            ]
        )
        quiet_since = time.monotonic()
        heard = time.monotonic()
        while going_on():
            messages = [each for each in consumer.consume(_AT_ONCE, _POLL_S) if _counts(each)]
            now = time.monotonic()
            if _take(name, readings, messages):
                quiet_since = now
            if messages:
                heard = now
            whole = all(reading.end >= 0 or reading.failed for reading in readings.values())
            if not whole and now - heard > _TIMEOUT_S:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "its logs cannot be read"))
            if whole and now - quiet_since >= settle_s and _at_the_end(admin, readings):
                break
        failed = {
            topic: reading.failed for (topic, _), reading in readings.items() if reading.failed
        }
        found = {where: r.place for where, r in readings.items() if where[0] not in failed}
        return found, failed
    finally:
        consumer.close()


def _set_aside(readings: Mapping[Partition, _Reading], topics: Mapping[str, Any]) -> None:
    """Of topics that are not there: a consumer waits for them without a word."""
    for (topic, partition), reading in readings.items():
        seen = topics.get(topic)
        if seen is None or partition not in seen.partitions:
            error = seen.error if seen is not None else None
            reading.failed = error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def owed(hub: Hub, index: int, newest: int) -> set[int]:
    """The lanes of the journal's records up to `newest` that the side at `index` is not known to
    have. Without the lock: the journal is only added to meanwhile, as nothing is deleted that this
    side may lack."""
    found: set[int] = set()
    cursor = Cursor()
    while (chunk := hub.journal.read(cursor)) is not None and chunk.first <= newest:
        for lane, batch in batches_in(chunk, hub.name):
            if batch.next - 1 > hub.lanes[lane].on[index].there:
                found.add(lane)
    cursor.close()
    return found


def check_known(side: str, found: Mapping[Partition, Place], newest: int) -> None:
    """Raises ConfigError where there is a record of ours behind the `newest` one that was taken."""
    for (topic, partition), place in found.items():
        if place.position > newest:
            raise ConfigError(
                "produce to",
                f"{topic}-{partition} on {side}",
                "it has records of this producer that its spool knows nothing of: the spool is an"
                " old copy",
                remedy="start with a new spool",
            )


def _counts(message: Any) -> bool:
    """A client asks after its group even where it has none: partitions are assigned, nothing is
    committed, and who may not use the group reads on."""
    error = message.error()
    return error is None or error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED


def _take(name: str, readings: Mapping[Partition, _Reading], messages: list[Any]) -> bool:
    """Whether there was one of ours that we had not seen."""
    new = False
    for message in messages:
        error = message.error()
        reading = readings.get((message.topic(), message.partition()))
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            if reading is None or error.code() not in OF_TOPICS:
                raise KafkaException(error)
            reading.failed = error
            continue
        if reading is None:
            continue
        if error is not None:
            reading.end = message.offset()
            continue
        position = position_of(name, message.headers()) or 0
        new |= position > reading.place.position
        reading.place = Place(
            position=max(position, reading.place.position), offset=message.offset() + 1
        )
    return new


def _at_the_end(admin: AdminClient, readings: Mapping[Partition, _Reading]) -> bool:
    """Whether all is read that the leaders show now."""
    asked = {
        TopicPartition(*partition): OffsetSpec.latest()
        for partition, reading in readings.items()
        if not reading.failed
    }
    if not asked:
        return True
    answers = admin.list_offsets(asked, request_timeout=_TIMEOUT_S)
    return all(
        readings[at.topic, at.partition].end >= answer.result(_TIMEOUT_S).offset
        for at, answer in answers.items()
    )
