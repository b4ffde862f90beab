"""A connection to a simulated broker in a ManualWorld, for requests of kafka-python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from tests.simulation.cluster import BrokerNode
from tests.simulation.manual_world import ManualWorld

WITH_IDS: Final = 13  # of Fetch and Produce


class ManualClient:
    """`answers`: by correlation id, what has come and was not taken."""

    def __init__(self, world: ManualWorld, node: BrokerNode) -> None:
        self.world, self.node = world, node
        self.answers: dict[int, Any] = {}
        self.is_closed = False
        self._expected: dict[int, tuple[Any, int]] = {}
        self._number = 0
        session = node.connect(self._take, self._lose, "test")
        assert session is not None, "the broker refuses the connection"
        self.session = session

    def _take(self, frame: bytes) -> None:
        number = int.from_bytes(frame[4:8])
        kind, version = self._expected.pop(number)
        self.answers[number] = kind.decode(frame, version=version, header=True, framed=True)

    def _lose(self) -> None:
        self.is_closed = True

    def send(self, request: Any, version: int) -> int:
        """The correlation id."""
        self._number += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._number, client_id="test")
        kind = ResponseClassRegistry.get_response_class(request.header)
        self._expected[self._number] = kind, version
        self.session.receive(bytes(request.encode(header=True, framed=True)))
        return self._number

    def answer(self, number: int, within_s: float = 60.0) -> Any:
        """Raises TimeoutError."""
        self.world.run_until(lambda: number in self.answers, within_s)
        return self.answers.pop(number)

    def ask(self, request: Any, version: int, within_s: float = 60.0) -> Any:
        return self.answer(self.send(request, version), within_s)

    # -- the hot requests -------------------------------------------------------------------------

    def produce(self, topic: Any, partition: int, batch: bytes, **more: Any) -> Any:
        """The answer for the partition. `topic`: its name, or its id."""
        response = self.answer(self.send_produce(topic, partition, batch, **more))
        return response.responses[0].partition_responses[0]

    def send_produce(
        self,
        topic: Any,
        partition: int,
        batch: bytes,
        *,
        transactional_id: str | None = None,
        timeout_ms: int = 30_000,
    ) -> int:
        by_name = isinstance(topic, str)
        kind = ProduceRequest.TopicProduceData
        part = kind.PartitionProduceData(index=partition, records=batch)
        named = {"name": topic} if by_name else {"topic_id": topic}
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[kind(partition_data=[part], **named)],
        )
        return self.send(request, 11 if by_name else WITH_IDS)

    def fetch(self, topic: str, partition: int, offset: int, **more: Any) -> Any:
        """The answer for the partition; the whole answer if it does not name the partition."""
        response = self.answer(self.send_fetch([(topic, partition, offset)], **more))
        return response.responses[0].partitions[0] if response.responses else response

    def send_fetch(
        self,
        reads: Sequence[tuple[str, int, int]],
        *,
        committed: bool = False,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        last_epoch: int = -1,
        leader_epoch: int = -1,
        session: tuple[int, int] = (0, -1),
    ) -> int:
        kind = FetchRequest.FetchTopic
        topics = [
            kind(
                topic=topic,
                partitions=[
                    kind.FetchPartition(
                        partition=partition,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        partition_max_bytes=max_bytes,
                    )
                ],
            )
            for topic, partition, offset in reads
        ]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            session_id=session[0],
            session_epoch=session[1],
            topics=topics,
            forgotten_topics_data=[],
            rack_id="",
        )
        return self.send(request, 12)
