"""librdkafka's producer for one side: takes records in order, and collects the answers.

librdkafka keeps the records of a partition in order and without gaps (`enable.idempotence`,
`enable.gapless.guarantee`): after a record that failed it sends no later one. So the answer to one
record also answers for all records before it in the partition.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import starmap
from operator import length_hint
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException

from causeway_producer.hub import Copy

Call = tuple[str, bytes | None, bytes | None, int, Any, None, int, list[Any]]
"""The arguments of `produce`: topic, value, key, partition, callback, …, timestamp, headers."""

_END_TIMEOUT_S = 30.0
_IN_FLIGHT = "max.in.flight.requests.per.connection"

Answer = tuple[Copy, Sequence[int], Any, Any]
"""To these records of a copy: an error or None, and the message of the last record."""


class SideClient:
    """`one_request`: it sends no batch to a broker before the answer to the batch before, nor to a
    new leader of a partition. Raises KafkaException for a configuration that librdkafka does not
    take."""

    def __init__(self, settings: Mapping[str, Any], *, one_request: bool = False) -> None:
        self.one_request = one_request
        limit = {_IN_FLIGHT: 1} if one_request else {}
        self._producer = confluent_kafka.Producer({**settings, **limit})
        self._answers: list[Answer] = []

    def __len__(self) -> int:
        """Records without an answer."""
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    def hand(self, calls: Sequence[Call]) -> tuple[int, Any]:
        """How many calls it took, and the error of the first that it did not take; None if all were
        taken, or its queue is full."""
        rest = iter(calls)  # its length shows how far this comes: a counter would cost more
        error = None
        try:
            deque(starmap(self._producer.produce, rest), maxlen=0)
        except BufferError:
            pass
        except KafkaException as raised:
            error = raised.args[0]
        else:
            return len(calls), None
        return len(calls) - length_hint(rest) - 1, error

    def poll(self) -> tuple[list[Answer], Any]:
        """The answers since the last call, and the error with which the client has given up."""
        error = None
        try:
            self._producer.poll(0)
        except KafkaException as raised:
            error = raised.args[0]
        answers, self._answers = self._answers, []
        return answers, error

    def end(self) -> list[Answer]:
        """Gives up what has no answer, and returns the last answers: librdkafka reports that it
        gives up before it says on which record. Takes up to half a minute."""
        self._producer.purge()
        until = time.monotonic() + _END_TIMEOUT_S
        while len(self._producer) and time.monotonic() < until:
            try:
                self._producer.poll(0.01)
            except KafkaException:
                continue
        return self._answers

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        if topic is None:
            return self._producer.list_topics(timeout=timeout)
        return self._producer.list_topics(topic, timeout)

    def answered(self, copy: Copy, positions: Sequence[int], error: Any, message: Any) -> None:
        """The callback of the last of these records, which are handed over in this order."""
        self._answers.append((copy, positions, error, message))
