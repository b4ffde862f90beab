"""What a read_committed reader of the target can see. librdkafka: no code of either system."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from causeway.errors import CausewayError

_POLL_S = 0.01
_TIMEOUT_S = 30.0
# A partition that was made just now.
_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)
_TAIL = 5  # records, or markers of transactions, to read back from the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`at`: time.monotonic() when the last record was first known to be readable."""

    at: float
    ends: Mapping[int, int]


class Target:
    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = range(partitions)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def ends(self) -> dict[int, int]:
        """The last stable offset of each partition; 0 as long as it is not there."""
        if not self._exists():
            return dict.fromkeys(self._partitions, 0)
        asked = {TopicPartition(self._topic, p): OffsetSpec.latest() for p in self._partitions}
        answers = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_S
        )
        ends = {}
        for partition, answer in answers.items():
            try:
                ends[partition.partition] = answer.result(_TIMEOUT_S).offset
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET:
                    raise
                ends[partition.partition] = 0
        return ends

    def await_ends(
        self,
        wanted: Mapping[int, int],
        *,
        alive: Callable[[], None],
        timeout_s: float,
        poll_s: float = _POLL_S,
    ) -> Seen:
        """Wait until each partition's last stable offset is at least `wanted`. `alive` raises if
        the system that should bring it there has died."""
        deadline = time.monotonic() + timeout_s
        checked = 0.0
        while True:
            ends = self.ends()
            now = time.monotonic()
            if all(ends[partition] >= wanted[partition] for partition in wanted):
                return Seen(at=now, ends=ends)
            if now > deadline:
                missing = sum(max(0, wanted[p] - ends[p]) for p in wanted)
                cause = (
                    f"{missing:,} of {sum(wanted.values()):,} records not there in {timeout_s:g} s"
                )
                raise CausewayError("read", self._topic, cause)
            if now - checked > 1:
                alive()
                checked = now
            time.sleep(poll_s)

    def last_values(self, ends: Mapping[int, int]) -> dict[int, bytes | None]:
        """The value of each partition's last record, as a read_committed consumer gets it."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "bench",  # required; it never joins or commits
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        places = [TopicPartition(self._topic, p, max(0, end - _TAIL)) for p, end in ends.items()]
        found: dict[int, bytes | None] = {}
        reading = set(ends)
        try:
            consumer.assign(places)
            while reading:
                message = consumer.poll(_TIMEOUT_S)
                if message is None:
                    raise CausewayError("read", self._topic, f"nothing came in {_TIMEOUT_S:g} s")
                partition = message.partition()
                assert partition is not None
                error = message.error()
                if error is None:
                    found[partition] = message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    reading.discard(partition)
                else:
                    raise KafkaException(error)
        finally:
            consumer.close()
        return found

    def _exists(self) -> bool:
        """Asked for without its name: asking by name could create it, and is cached as absent."""
        topics = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        return self._topic in topics and len(topics[self._topic].partitions) >= len(
            self._partitions
        )
