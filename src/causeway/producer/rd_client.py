"""librdkafka's client behind the interface of our own (`sender.py`): for sides whose configuration
that one cannot follow, or whose brokers are too old for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from causeway.producer.client import Owner, Sending
from causeway.producer.ids import ID_HEADER, record_id
from causeway.producer.journal import Record
from causeway.producer.lanes import SideLane
from causeway.producer.shares import records_in
from causeway.records import Batch

_END_TIMEOUT_S = 30.0


class RdClient:
    """As `sender.Sender`. Raises KafkaException for a configuration that it cannot use."""

    def __init__(self, settings: Mapping[str, Any], name: str, owner: Owner) -> None:
        self._producer = Producer(dict(settings))
        self._name = name
        self._owner = owner
        self._left: deque[tuple[Any, ...]] = deque()  # its queue was full amid a batch
        self._answers: list[tuple[Sending, int, Any, Any]] = []
        self._failed = False  # it would not take one: those behind it must not arrive
        self._ended = False

    def __len__(self) -> int:
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    def send(self, on: SideLane, batch: Batch, records: list[Record] | None) -> None:
        if self._left or self._failed:
            raise BufferError("Local: Queue full")
        if records is None:
            records = records_in(batch, on.lane.number)
        sending = Sending(on, batch, records, len(batch.payload))
        topic, partition = on.lane.topic, on.lane.partition
        for index, (position, _, timestamp, key, value, headers) in enumerate(records):
            marked = [*(headers or ()), (ID_HEADER, record_id(self._name, position))]
            told = partial(self._told, sending, index)
            self._left.append((topic, value, key, partition, told, None, timestamp, marked))
        self._push()
        if len(self._left) == len(records):  # nothing of it was taken
            self._left.clear()
            raise BufferError("Local: Queue full")

    def poll(self, timeout_s: float = 0) -> None:
        if self._ended:
            return
        error = None
        try:
            self._producer.poll(timeout_s)
            self._push()
        except KafkaException as raised:  # it gave up
            error = raised.args[0]
        answers, self._answers = self._answers, []
        for sending, index, refused, offset in answers:
            if refused is not None:
                self._owner.rejected(sending, index, refused)
            else:
                sending.offsets.append(offset)
                if len(sending.offsets) == sending.batch.records:
                    self._owner.arrived(sending, sending.offsets)
        if error is not None:
            self._owner.failed(None, error)

    def maintain(self) -> float | None:
        return None

    def interrupt(self) -> None:
        pass

    def end(self) -> None:
        """Without the lock. Its answers are heard by nobody any more."""
        self._ended = True
        self._left.clear()
        self._producer.purge()
        until = time.monotonic() + _END_TIMEOUT_S
        while len(self._producer) and time.monotonic() < until:
            try:
                self._producer.poll(0.01)
            except KafkaException:
                continue
        self._answers.clear()

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        if topic is None:
            return self._producer.list_topics(timeout=timeout)
        return self._producer.list_topics(topic, timeout)

    def _push(self) -> None:
        left = self._left
        while left:
            try:
                self._producer.produce(*left[0])
            except BufferError:
                return
            except KafkaException as error:
                told = left[0][4]
                told(error.args[0], None)
                left.clear()
                self._failed = True
                return
            left.popleft()

    def _told(self, sending: Sending, index: int, error: Any, message: Any) -> None:
        offset = None if error is not None else message.offset()
        self._answers.append((sending, index, error, offset))
