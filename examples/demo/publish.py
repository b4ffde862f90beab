"""Writes events to the source, each topic with a codec of its own, and keeps count."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from causeway.errors import CausewayError
from examples.demo.flights import Event, flights, planes, weather

_TIMEOUT_S = 60.0
_SLICE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTopic:
    name: str
    partitions: int
    codec: str
    compacted: bool = False

    @property
    def config(self) -> dict[str, str]:
        # The events are of 2013: a broker that goes by their age would delete them at once.
        return {"cleanup.policy": "compact"} if self.compacted else {"retention.ms": "-1"}


TOPICS = (
    DemoTopic(name="flights.ewr", partitions=4, codec="zstd"),
    DemoTopic(name="flights.jfk", partitions=4, codec="lz4"),
    DemoTopic(name="flights.lga", partitions=3, codec="gzip"),
    DemoTopic(name="weather", partitions=1, codec="snappy"),
    DemoTopic(name="planes", partitions=1, codec="none", compacted=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """An event and the topic it goes to."""

    topic: str
    event: Event


def reference_data() -> list[Dispatch]:
    return [
        *(Dispatch(topic="planes", event=event) for event in planes()),
        *(Dispatch(topic="weather", event=event) for event in weather()),
    ]


def flight_stream() -> list[Dispatch]:
    """Every flight of the year, in the order of departure, a topic an airport."""
    return [Dispatch(topic=f"flights.{event.origin.lower()}", event=event) for event in flights()]


@dataclass(slots=True)
class Count:
    """What the source has acknowledged of one topic. `history` tells when it was how much:
    (records, time.monotonic()), ten times a second."""

    records: int = 0
    size: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)

    def age_of(self, record: int, now: float) -> float:
        """Seconds since about when the record with this number was written; 0 if it is not yet."""
        index = bisect_right(self.history, record, key=lambda entry: entry[0])
        return now - self.history[index][1] if index < len(self.history) else 0.0


def create_topics(bootstrap: str, topics: Sequence[DemoTopic]) -> None:
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=1,
            config=topic.config,
        )
        for topic in topics
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    for future in admin.create_topics(new, operation_timeout=_TIMEOUT_S).values():
        future.result(_TIMEOUT_S)


class Publisher:
    """`publish` waits until all is written; `start` does it in the background until `wait`."""

    def __init__(self, bootstrap: str, topics: Sequence[DemoTopic]) -> None:
        self.counts: Mapping[str, Count] = {topic.name: Count() for topic in topics}
        self._producers = {
            topic.name: Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "enable.idempotence": True,
                    "compression.type": topic.codec,
                    "partitioner": "murmur2_random",  # Java's: a key always goes to one partition
                    "linger.ms": 20,
                    "log_level": 2,
                }
            )
            for topic in topics
        }
        self._failure: Exception | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def publish(self, events: Sequence[Dispatch], *, per_s: float | None = None) -> None:
        """At most `per_s` records a second. Raises if one could not be written."""
        step = len(events) if per_s is None else max(1, int(per_s * _SLICE_S))
        due = time.monotonic()
        for first in range(0, len(events), step):
            self._produce(events[first : first + step])
            due += _SLICE_S
            if per_s is not None and self._stopped.wait(max(0.0, due - time.monotonic())):
                return
        for topic, producer in self._producers.items():
            if producer.flush(_TIMEOUT_S):
                self._failure = CausewayError("write to", topic, "no answer from the source")
        self._note()
        if self._failure is not None:
            raise self._failure

    def start(self, events: Sequence[Dispatch], *, per_s: float) -> None:
        def run() -> None:
            try:
                self.publish(events, per_s=per_s)
            except Exception as error:
                self._failure = error

        self._thread = threading.Thread(target=run, name="publisher", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Until the background has written everything. Raises what it met."""
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S)

    def _produce(self, events: Iterable[Dispatch]) -> None:
        for number, dispatch in enumerate(events):
            producer, event = self._producers[dispatch.topic], dispatch.event
            while True:
                try:
                    producer.produce(
                        dispatch.topic,
                        event.value,
                        event.key,
                        timestamp=event.timestamp,
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:  # its queue is full
                    producer.poll(0.05)
            if number % 500 == 0:
                self._poll()
        self._poll()

    def _poll(self) -> None:
        for producer in self._producers.values():
            producer.poll(0)
        self._note()

    def _note(self) -> None:
        now = time.monotonic()
        for count in self.counts.values():
            if not count.history or now - count.history[-1][1] > _SLICE_S:
                count.history.append((count.records, now))
            elif count.history[-1][0] < count.records:
                count.history[-1] = (count.records, count.history[-1][1])

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic = message.topic()
        assert topic is not None
        if error is not None:
            self._failure = CausewayError("write to", topic, str(error))
            return
        count = self.counts[topic]
        count.records += 1
        count.size += len(message.value() or b"") + len(message.key() or b"")
