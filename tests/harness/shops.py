"""Live producers that are moved from one cluster to another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.harness.kafka_tools import KafkaTools

_PAUSE_S = 0.002
_REFUSED = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


class Shop(threading.Thread):
    """Writes `name 0`, `name 1`, … to a topic with two partitions, one record at a time, until it
    is closed. What is refused is tried again, where it has been moved to by then; what was
    acknowledged is in `written`, in order. `pause_s`: the longest time between two of those."""

    def __init__(self, tools: KafkaTools, topic: str, name: str) -> None:
        super().__init__(daemon=True)
        self._place = tools.producer(settings=_SETTINGS), topic
        self._name = name
        self._over = threading.Event()
        self._error: KafkaError | None = None
        self.written: list[bytes] = []
        self.refused = 0
        self.pause_s = 0.0
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        last = time.monotonic()
        try:
            while not self._over.is_set():
                value = f"{self._name} {len(self.written)}".encode()
                if self._write(*self._place, value):
                    self.written.append(value)
                    now = time.monotonic()
                    self.pause_s, last = max(self.pause_s, now - last), now
                else:
                    self.refused += 1
                    self._over.wait(0.05)
                self._over.wait(_PAUSE_S)
        except BaseException as failure:
            self.failure = failure

    def _write(self, producer: Producer, topic: str, value: bytes) -> bool:
        self._error = None
        at = len(self.written) % 2
        try:
            producer.produce(topic, value, partition=at, on_delivery=self._told)
        except KafkaException as error:  # it remembers what it was told of the topic last
            self._error = error.args[0]
            producer.list_topics(topic, 30)
        assert producer.flush(60) == 0
        if self._error is not None and self._error.code() not in _REFUSED:
            raise AssertionError(self._error)
        return self._error is None

    def _told(self, error: KafkaError | None, _: Message) -> None:
        self._error = error

    def move(self, tools: KafkaTools, topic: str) -> None:
        """From now on it writes there."""
        self._place = tools.producer(settings=_SETTINGS), topic

    def close(self) -> None:
        self._over.set()
        self.join(60)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


_SETTINGS = {"linger.ms": 0, "message.timeout.ms": 30_000}


@contextmanager
def trading(tools: KafkaTools, topic: str, name: str = "sale") -> Iterator[Shop]:
    shop = Shop(tools, topic, name)
    try:
        yield shop
    finally:
        shop.close()
