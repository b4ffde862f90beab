"""Applications that write numbered records for as long as the fire burns, and that move."""

from __future__ import annotations

import random
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message

from tests.fire.tape import READER, Place
from tests.fire.topics import NUMBER, WRITERS, FireTopic, key_of, value_of
from tests.harness.kafka_tools import KafkaTools
from tests.harness.writers import Writer

_TURN_S = 0.05
_FLUSH_S = 300.0
_TOMBSTONES = 0.1
_TRANSACTIONS_PAUSE_S = 2.0
_SIZES = (1, 5, 40, 200)
_SETTINGS = {
    "topic.metadata.refresh.interval.ms": READER["topic.metadata.refresh.interval.ms"],
    "socket.timeout.ms": READER["socket.timeout.ms"],
    "reconnect.backoff.max.ms": READER["reconnect.backoff.max.ms"],
}


class Stream(threading.Thread):
    """An idempotent producer: `per_s` records a second, spread over `topics`, which may grow. `id`:
    its number among the writers. `acked`: the numbers that its cluster has surely taken."""

    def __init__(
        self, bootstrap: str, topics: Sequence[FireTopic], *, id: int, per_s: float
    ) -> None:
        super().__init__(daemon=True)
        self._topics = topics
        self._next = id * WRITERS
        self._chance = random.Random(id)
        self._per_turn = per_s * _TURN_S
        self._over = threading.Event()
        self.acked: dict[Place, array[int]] = defaultdict(lambda: array("q"))
        self.failure: str | None = None
        # Records wait for as long as their cluster needs to take them.
        waits = {
            "message.timeout.ms": 900_000,
            "linger.ms": 100,
            "queue.buffering.max.messages": 1_000_000,
        }
        self._producer = KafkaTools(bootstrap).producer(settings={**_SETTINGS, **waits})
        self.start()

    @property
    def written(self) -> int:
        return self._next % WRITERS

    def run(self) -> None:
        try:
            self._write_on()
        except Exception as failure:
            self.failure = f"{type(failure).__name__}: {failure}"

    def _write_on(self) -> None:
        due = 0.0
        while not self._over.wait(_TURN_S):
            due += self._per_turn
            while due >= 1:
                due -= 1
                self._write()
            self._producer.poll(0)

    def _write(self) -> None:
        topic = self._chance.choice(self._topics)
        partition = self._chance.randrange(topic.partitions)
        number = self._next
        value: bytes | None = value_of(number, self._chance)
        if topic.kind == "compacted" and self._chance.random() < _TOMBSTONES:
            value = None

        def told(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acked[topic.name, partition].append(number)
            else:
                self.failure = f"record {number} of {topic.name}-{partition}: {error}"

        try:
            self._producer.produce(
                topic.name,
                value,
                key_of(number, self._chance),
                partition=partition,
                headers=[(NUMBER, b"%d" % number)],
                timestamp=int(time.time() * 1000),
                on_delivery=told,
            )
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return  # it has not heard of the new partition yet
        self._next += 1

    def end(self) -> int:
        """Returns once all that it wrote is acknowledged. The number of its records."""
        self._over.set()
        self.join()
        left = self._producer.flush(_FLUSH_S)
        if left and self.failure is None:
            self.failure = f"{left} records are not acknowledged after {_FLUSH_S:g} s"
        if self.failure is not None:
            raise AssertionError(f"an application could not write: {self.failure}")
        return self.written


class Transactor(Writer):
    """Transactions in one topic, which may grow; a quarter of them is rolled back."""

    def __init__(self, bootstrap: str, topic: FireTopic, *, id: int) -> None:
        self.topic = topic
        self._first = id * WRITERS
        super().__init__(
            KafkaTools(bootstrap, _SETTINGS),
            topic.name,
            topic.partitions,
            timestamp=None,
            seed=id,
            pause_s=_TRANSACTIONS_PAUSE_S,
            value=lambda number, chance: value_of(self._first + number, chance),
            sizes=_SIZES,
        )
        self.start()

    def grow(self) -> None:
        self.partitions = self.topic.partitions

    def acked(self) -> set[int]:
        return {self._first + number for numbers in self.committed for number in numbers}
