"""A steady stream of records, each of which carries the time at which it was sent."""

from __future__ import annotations

import struct
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from causeway.errors import CausewayError

_STAMP = struct.Struct(">qq")  # number, time.monotonic_ns() at the send
_TIMEOUT_S = 30.0
_FULL_S = 0.05
_LEAST_SLEEP_S = 0.000_2  # a shorter sleep takes longer than that


@dataclass(frozen=True, slots=True)
class Form:
    """Values of records, with a number and the time of the send: `pack` makes one of some `size`
    bytes."""

    pack: Callable[[int, int, int], bytes]
    unpack: Callable[[bytes], tuple[int, int]]


def _pack(number: int, sent: int, size: int) -> bytes:
    return _STAMP.pack(number, sent) + b"x" * (size - _STAMP.size)


def _unpack(value: bytes) -> tuple[int, int]:
    number, sent = _STAMP.unpack_from(value)
    return number, sent


BYTES = Form(_pack, _unpack)


def places(topics: Sequence[str], partitions: int) -> list[TopicPartition]:
    """All partitions of topics with so many each. Neighbours belong to different topics."""
    return [TopicPartition(topic, number) for number in range(partitions) for topic in topics]


@dataclass(frozen=True, slots=True)
class Bursts:
    """For `for_s` seconds of every `every_s`, `times` as many records; never in the first calm
    part."""

    every_s: float
    for_s: float
    times: float

    def __str__(self) -> str:
        return f"{self.times:g} times as many for {self.for_s:g} s of every {self.every_s:g} s"


class Sender:
    """Sends `per_s` records a second of `size` bytes, in turn over the partitions, until closed.
    Each goes out at once (no linger) and at its due time, whatever became of the ones before.
    `bursts`: the numbers of the records of each burst so far."""

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        *,
        per_s: float,
        size: int,
        form: Form = BYTES,
        bursts: Bursts | None = None,
    ) -> None:
        self.sent = 0
        self.bursts: list[range] = []
        self._pattern = bursts
        self._partitions = [(one.topic, one.partition) for one in partitions]
        self._interval_s = 1 / per_s
        self._size = size
        self._form = form
        self._failure: str | None = None
        self._closed = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "log_level": 0}
        )
        self._thread = threading.Thread(target=self._send, name="sender", daemon=True)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Returns once all that was sent is acknowledged. Raises if something was not."""
        self._closed.set()
        self._thread.join()
        if self._producer.flush(_TIMEOUT_S) or self._failure:
            cause = self._failure or "not all records were acknowledged"
            raise CausewayError("write to", self._partitions[0][0], cause)

    def _send(self) -> None:
        begun = due = time.monotonic()
        while not self._closed.is_set():
            value = self._form.pack(self.sent, time.monotonic_ns(), self._size)
            topic, partition = self._partitions[self.sent % len(self._partitions)]
            try:
                self._producer.produce(
                    topic, value, partition=partition, on_delivery=self._delivered
                )
            except BufferError:  # the brokers are behind; the record goes with a later time
                self._producer.poll(_FULL_S)
                continue
            self.sent += 1
            self._producer.poll(0)
            due += self._interval_s if self._pattern is None else self._next(due - begun)
            if (left := due - time.monotonic()) > _LEAST_SLEEP_S:
                time.sleep(left)

    def _next(self, passed_s: float) -> float:
        """The interval after a record that was due then. Notes the records of bursts."""
        pattern = self._pattern
        assert pattern is not None
        number, phase_s = divmod(passed_s, pattern.every_s)
        if phase_s < pattern.every_s - pattern.for_s:
            return self._interval_s
        if len(self.bursts) <= number:
            self.bursts.append(range(self.sent, self.sent))
        self.bursts[-1] = range(self.bursts[-1].start, self.sent)
        return self._interval_s / pattern.times

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failure = str(error)


class Listener:
    """Reads partitions from their ends on, and keeps how old each record was when it came."""

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        *,
        read_committed: bool,
        form: Form = BYTES,
    ) -> None:
        self._form = form
        self.numbers = array("q")
        self.latencies_ns = array("q")
        self._closed = threading.Event()
        self._failure: Exception | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",  # required; it never joins or commits
                "enable.auto.commit": False,
                "log_level": 0,
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            }
        )
        ends = []
        for one in partitions:
            _, end = self._consumer.get_watermark_offsets(one, timeout=_TIMEOUT_S)
            ends.append(TopicPartition(one.topic, one.partition, end))
        self._consumer.assign(ends)
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        self._consumer.close()
        if self._failure is not None:
            raise self._failure

    def _listen(self) -> None:
        while not self._closed.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            now = time.monotonic_ns()
            if message.error() is not None:
                self._failure = KafkaException(message.error())
                return
            value = message.value()
            assert value is not None
            number, sent = self._form.unpack(value)
            self.numbers.append(number)
            self.latencies_ns.append(now - sent)
