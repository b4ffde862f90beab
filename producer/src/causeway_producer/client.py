"""librdkafka's producer for one side: takes records in order, and collects the answers.

librdkafka keeps the records of a partition in order and without gaps (`enable.idempotence`,
`enable.gapless.guarantee`): after a record that failed, it sends no later record. So the answer to
one record is also the answer to all records before it in the partition.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from operator import length_hint
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from causeway_producer.hub import Copy
from causeway_producer.options import IN_FLIGHT

Calls = tuple[Sequence[Any], ...]
"""The arguments of `produce`, each as a sequence: topics, values, keys, partitions, callbacks, …,
timestamps, headers."""

_END_TIMEOUT_S = 30.0
# After a longer pause between two polls, the process or the machine was stopped. Brokers may have
# forgotten the client. Then records that it has sent later may have taken the place of others.
_PAUSE_S = 600.0

Answer = tuple[Copy, Sequence[int], Any, Any]
"""For these records of a copy: an error or None, and the message of the last record."""


class SideClient:
    """`one_request`: the client sends no batch to a broker, or to a partition's new leader, before
    it has the answer to the last batch. Raises KafkaException if librdkafka refuses the
    configuration."""

    def __init__(self, settings: Mapping[str, Any], *, one_request: bool = False) -> None:
        self.one_request = one_request
        limit = {IN_FLIGHT: 1} if one_request else {}
        self._producer = confluent_kafka.Producer({**settings, **limit})
        self._answers: list[Answer] = []
        self._polled = time.time()
        self._paused = False
        self._chunks: deque[tuple[int, int]] = deque()  # records up to its end, its bytes
        self._records = self._bytes = 0  # of all chunks; of the chunks in self._chunks

    def __len__(self) -> int:
        """Returns the number of records without an answer."""
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    def has_room(self, max_messages: int, max_bytes: int) -> bool:
        """Returns whether it takes one more chunk. librdkafka itself gets no limit, so that it
        never takes half a chunk."""
        waiting = len(self._producer)
        while self._chunks and self._chunks[0][0] <= self._records - waiting:
            self._bytes -= self._chunks.popleft()[1]
        return waiting < max_messages and self._bytes < max_bytes

    def expect(self, records: int, size: int) -> None:
        """Call it before each chunk, with its number of records and its size."""
        self._records += records
        self._bytes += size
        self._chunks.append((self._records, size))

    def hand(self, calls: Calls) -> tuple[int, Any]:
        """Makes the calls. Returns the number of taken calls, and the error of the next one."""
        rest = iter(calls[0])  # its length shows the taken calls; a counter would cost more
        try:
            deque(map(self._producer.produce, rest, *calls[1:]), maxlen=0)
        except KafkaException as raised:
            return len(calls[0]) - length_hint(rest) - 1, raised.args[0]
        return len(calls[0]), None

    def poll(self, timeout: float = 0) -> tuple[list[Answer], Any]:
        """Returns the answers since the last call, and the error with which the client has given
        up. After a pause it returns no answers: only the logs show which records have arrived."""
        error = None
        try:
            self._producer.poll(timeout)
        except KafkaException as raised:
            error = raised.args[0]
        answers, self._answers = self._answers, []
        before, self._polled = self._polled, time.time()  # this clock also counts suspended time
        if self._polled - before > _PAUSE_S and not self.one_request:
            self._paused = True
        if self._paused:
            return [], KafkaError(KafkaError._TIMED_OUT, "the process was stopped for a while")
        return answers, error

    def end(self) -> list[Answer]:
        """Gives up the records without an answer, and returns the last answers: librdkafka reports
        that it gives up before it reports the record. Takes up to half a minute."""
        self._producer.purge()
        until = time.monotonic() + _END_TIMEOUT_S
        answers = self.poll()[0]
        while len(self._producer) and time.monotonic() < until:
            answers += self.poll(0.01)[0]
        return answers

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        if topic is None:
            return self._producer.list_topics(timeout=timeout)
        return self._producer.list_topics(topic, timeout)

    def answered(self, copy: Copy, positions: Sequence[int], error: Any, message: Any) -> None:
        """The callback of the last of these records. The client gets them in this order."""
        self._answers.append((copy, positions, error, message))
