"""Members of consumer groups, as librdkafka has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from confluent_kafka import Consumer, KafkaException

from tests.harness.kafka_tools import PASSING, KafkaTools
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

SESSION_MS = 6_000  # so long a member that is gone counts as one, by the old protocol


class Member:
    """The one member of `group`. `protocol`: the old one, or KIP-848's. `read`: in order; `begun`:
    the first offset of each partition."""

    def __init__(
        self,
        tools: KafkaTools,
        group: str,
        *topics: str,
        protocol: Literal["classic", "consumer"] = "classic",
    ) -> None:
        self.read: list[bytes] = []
        self.begun: dict[tuple[str, int], int] = {}
        old = {"session.timeout.ms": SESSION_MS} if protocol == "classic" else {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": tools.bootstrap,
                "log_level": 2,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **old,
            }
        )
        self._consumer.subscribe(list(topics))

    def read_until(self, enough: Callable[[], bool]) -> None:
        """No further than to the record that makes it `enough`."""

        def step() -> bool:
            if not enough():
                self._poll()
            return enough()

        await_until(step, PATIENCE_S, "all that is waited for is read", poll_s=0)

    def read_more(self, count: int) -> None:
        whole = len(self.read) + count
        self.read_until(lambda: len(self.read) == whole)

    def _poll(self) -> None:
        message = self._consumer.poll(0.1)
        if message is None:
            return
        if (error := message.error()) is not None:
            if error.code() not in PASSING:
                raise KafkaException(error)
            return
        self.begun.setdefault((message.topic(), message.partition()), message.offset())
        self.read.append(message.value())

    def commit(self) -> dict[tuple[str, int], int]:
        """Everything read so far."""
        found = self._consumer.commit(asynchronous=False)
        return {(each.topic, each.partition): each.offset for each in found}

    def close(self) -> None:
        self._consumer.close()
