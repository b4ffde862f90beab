"""The independent reader: all committed records that it ever read of one cluster, in order.

It reads from the first record on while the fire burns, so retention and compaction take nothing
from it. It is librdkafka, and shares no code with Causeway."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.fire.topics import WRITERS, FireTopic, as_compared, becomes, digest_of, number_of
from tests.harness.kafka_tools import PASSING

Place = tuple[str, int]
# Topics and partitions that were just created.
_PASSING = {
    *PASSING,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
}
_LOOK_S = 2.0
READER = {
    "log_level": 0,
    "fetch.wait.max.ms": 500,
    # A frozen leader answers nothing, so only a look shows the new leader.
    "topic.metadata.refresh.interval.ms": 2_000,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
}


@dataclass(slots=True)
class Tape:
    """Of a partition. `left_out`: numbers of records that the mirror must not have. `keys`: the key
    of each record, of a compacted topic. `next`: all before this offset was read."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("q"))
    left_out: array[int] = field(default_factory=lambda: array("q"))
    keys: list[bytes | None] = field(default_factory=list)
    next: int = 0

    def __len__(self) -> int:
        return len(self.offsets)


class Witness(threading.Thread):
    """`origin`: it reads the cluster where applications write, and notes records as the mirror must
    have them; those of the writers `abroad` came from the mirror, and count as they are."""

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[FireTopic],
        abroad: Set[int] = frozenset(),
        *,
        origin: bool,
    ) -> None:
        super().__init__(daemon=True)
        self._topics = topics
        self._origin, self._abroad = origin, abroad
        self._over = threading.Event()
        self.tapes: dict[Place, Tape] = {}
        self.failure: BaseException | None = None
        self._assigned = False
        self._consumer = Consumer(
            {
                **READER,
                "bootstrap.servers": bootstrap,
                "group.id": "witness",  # required; it never joins or commits
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "check.crcs": True,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )

    def run(self) -> None:
        looked = 0.0
        try:
            while not self._over.is_set():
                if time.monotonic() - looked > _LOOK_S:
                    self._look()
                    looked = time.monotonic()
                for message in self._consumer.consume(500, timeout=0.2):
                    self._take(message)
        except BaseException as failure:
            self.failure = failure
        finally:
            self._consumer.close()

    def end(self) -> None:
        self._over.set()
        self.join()

    def check(self) -> None:
        """Raises AssertionError if it cannot read any more."""
        if self.failure is not None:
            raise AssertionError(f"an independent reader failed: {self.failure}") from self.failure

    def tape(self, place: Place) -> Tape:
        return self.tapes.get(place) or Tape()

    def _look(self) -> None:
        """Reads partitions that are new, too."""
        try:
            known = self._consumer.list_topics(timeout=5).topics
        except KafkaException:
            return
        found = [
            (topic.name, partition)
            for topic in list(self._topics)
            if topic.name in known and known[topic.name].error is None
            for partition in known[topic.name].partitions
        ]
        if self._assigned and all(place in self.tapes for place in found):
            return
        self._assigned = True
        for place in found:
            self.tapes.setdefault(place, Tape())
        self._consumer.assign(
            [
                TopicPartition(*place, tape.next or OFFSET_BEGINNING)
                for place, tape in self.tapes.items()
            ]
        )

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            tape = self.tapes[message.topic(), message.partition()]
            tape.next = max(tape.next, message.offset())
            return
        if error is not None:
            # Only errors of a partition name one.
            known = self.tapes.get((message.topic(), message.partition()))
            new = known is not None and not known.next
            if new and error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._assigned = False  # the broker does not know the new partition yet
            elif error.code() not in _PASSING:
                raise KafkaException(error)
            return
        tape = self.tapes[message.topic(), message.partition()]
        offset = message.offset()
        if offset < tape.next:  # fetched before the partitions were assigned again
            return
        tape.next = offset + 1
        topic = next(each for each in self._topics if each.name == message.topic())
        value, headers = message.value(), message.headers()
        number = number_of(value, headers)
        if self._origin and number // WRITERS not in self._abroad:
            value = becomes(topic, number, value)
            if value == b"":
                tape.left_out.append(number)
                return
        value = as_compared(topic, value)
        tape.numbers.append(number)
        tape.digests.append(digest_of(message.timestamp()[1], message.key(), value, headers))
        if topic.kind == "compacted":
            tape.keys.append(message.key())
        tape.offsets.append(offset)
