"""Asks brokers, and shows their answers as they are: with error codes, not as exceptions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest, DescribeProducersRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecords

from causeway.cluster import Cluster, NewTopic
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.records import BatchHeader, frames
from causeway.wire import Connection, apis, codes
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.waiting import await_until

# The highest version in which a producer adds partitions to a transaction itself.
_TRANSACTIONAL_PRODUCE = 11


def refusal(answer: Any) -> str:
    """Kafka's name of the error in an answer, or in one item of an answer; "NONE" without one."""
    return codes.name(answer if isinstance(answer, int) else answer.error_code)


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A producer id and its epoch."""

    id: int
    epoch: int

    def batch(self, sequence: int, *values: str, transactional: bool = False) -> bytes:
        """One record for each value."""
        return batch(*values, writer=self, sequence=sequence, transactional=transactional)

    def later(self, epochs: int = 1) -> Writer:
        return Writer(id=self.id, epoch=self.epoch + epochs)


def batch(
    *values: str,
    key: bytes | None = None,
    timestamp: int | None = None,
    writer: Writer | None = None,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """One record for each value."""
    stamp = now_ms() if timestamp is None else timestamp
    records = [
        Rec(offset=place, timestamp=stamp, key=key, value=value.encode())
        for place, value in enumerate(values)
    ]
    return raw_batch(
        records,
        producer_id=-1 if writer is None else writer.id,
        epoch=-1 if writer is None else writer.epoch,
        sequence=sequence,
        transactional=transactional,
    )


def headers(data: bytes) -> list[BatchHeader]:
    """The headers of whole batches."""
    return [BatchHeader.of(raw) for raw in frames(memoryview(data))]


class Client:
    """`prefix`: of the names of its topics."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.cluster = cluster
        self.prefix = prefix
        self._numbers = count(1)

    def topic(self, partitions: int = 1, replicas: int = 1, **configs: str) -> TopicPartition:
        """The first partition of a new topic, once each leader answers for its partition."""
        name = f"{self.prefix}{next(self._numbers)}"
        self.create(name, partitions, replicas, **configs)
        return TopicPartition(name, 0)

    def create(self, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
        """`configs`: with "_" in place of ".", as Python wants it."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(
            name=name, partitions=partitions, replication_factor=replicas, configs=dotted
        )
        (error,) = self.cluster.create_topics([new]).values()
        if error is not None:
            raise error
        for partition in range(partitions):
            self.await_leader(TopicPartition(name, partition))

    def await_leader(self, at: TopicPartition) -> None:
        def leads() -> bool:
            try:
                return refusal(self.offset_at(at, -1)) == "NONE"
            except CausewayError:
                return False
            finally:
                self.cluster.forget([at.topic])

        await_until(leads, 60, f"a leader of {at}", 0.02)

    def recreate(self, at: TopicPartition) -> None:
        """The topic is deleted and made again, with another id."""
        old = self.id_of(at.topic)
        self.delete(at.topic)
        self.create(at.topic)
        assert self.id_of(at.topic) != old

    def delete(self, topic: str) -> None:
        (error,) = self.cluster.delete_topics([topic]).values()
        assert error is None
        await_until(lambda: self._is_unknown(topic), 60, f"{topic} is deleted", 0.02)

    def _is_unknown(self, topic: str) -> bool:
        return self.cluster.metadata([topic]).topics[topic].error is not None

    def id_of(self, topic: str) -> bytes:
        """The 16 bytes of the topic's id."""
        return bytes.fromhex(self.cluster.metadata([topic]).topics[topic].topic_id)

    def node_of(self, at: TopicPartition) -> int:
        return self.cluster.leader(at).node_id

    def connect(self, at: TopicPartition) -> Connection:
        """A connection of the test's own to the leader."""
        return self.cluster.open_connection(self.node_of(at))

    def ask(self, request: Any, node: int | None = None) -> Any:
        return self.cluster.call(request, node)

    # -- records ----------------------------------------------------------------------------------

    def writer(self) -> Writer:
        """A new producer id that no transactional id owns."""
        ((producer_id, epoch),) = self.cluster.init_producer_ids(1)
        return Writer(id=producer_id, epoch=epoch)

    def produce(
        self,
        at: TopicPartition,
        data: bytes,
        *,
        acks: int = -1,
        timeout_ms: int = 10_000,
        transactional_id: str | None = None,
        node: int | None = None,
    ) -> Any:
        """The answer for the partition."""
        answer = self.ask(
            produce_request(
                [(at, data)], acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id
            ),
            self.node_of(at) if node is None else node,
        )
        return answer.responses[0].partition_responses[0]

    def write(self, at: TopicPartition, *values: str) -> int:
        """The offset of the first of these records, which are one batch without a producer id."""
        answer = self.produce(at, batch(*values))
        assert refusal(answer) == "NONE"
        return int(answer.base_offset)

    def fetch(self, at: TopicPartition, offset: int, *, node: int | None = None, **how: int) -> Any:
        """The answer for the partition. `how`: see `fetch_request`."""
        answer = self.ask(
            fetch_request([(at, offset)], **how), self.node_of(at) if node is None else node
        )
        assert refusal(answer) == "NONE"
        return answer.responses[0].partitions[0]

    def log(self, at: TopicPartition, offset: int = 0, **how: int) -> list[BatchHeader]:
        """The headers of the batches from an offset on, as far as one answer has them."""
        answer = self.fetch(at, offset, **how)
        assert refusal(answer) == "NONE"
        return headers(bytes(answer.records or b""))

    def values(self, at: TopicPartition, offset: int = 0) -> list[tuple[int, bytes | None]]:
        """Offset and value of each record that is no marker, in either state of a transaction."""
        data = bytes(self.fetch(at, offset).records or b"")
        return list(records_in(data))

    def delete_below(self, at: TopicPartition, offset: int) -> Any:
        """DeleteRecords' answer for one partition."""
        request = DeleteRecordsRequest(
            topics=[(at.topic, [(at.partition, offset)])], timeout_ms=10_000
        )
        return self.ask(request, self.node_of(at)).topics[0].partitions[0]

    # -- offsets ----------------------------------------------------------------------------------

    def offset_at(
        self,
        at: TopicPartition,
        spec: int,
        *,
        read_committed: bool = False,
        leader_epoch: int = -1,
        node: int | None = None,
    ) -> Any:
        """ListOffsets' answer for one partition."""
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[(at.topic, [(at.partition, leader_epoch, spec)])],
            timeout_ms=5_000,
            min_version=apis.LIST_OFFSETS.lowest,
        )
        answer = self.ask(request, self.node_of(at) if node is None else node)
        return answer.topics[0].partitions[0]

    def ends(self, at: TopicPartition) -> tuple[int, int, int]:
        """The start of the log, its last stable offset, and its high watermark."""
        return (
            self.offset_at(at, -2).offset,
            self.offset_at(at, -1, read_committed=True).offset,
            self.offset_at(at, -1).offset,
        )

    def epoch_end(
        self,
        at: TopicPartition,
        epoch: int,
        *,
        current_leader_epoch: int = -1,
        node: int | None = None,
    ) -> Any:
        """OffsetForLeaderEpoch's answer for one partition."""
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[(at.topic, [(at.partition, current_leader_epoch, epoch)])],
            min_version=apis.OFFSET_FOR_LEADER_EPOCH.lowest,
        )
        answer = self.ask(request, self.node_of(at) if node is None else node)
        return answer.topics[0].partitions[0]

    # -- producers --------------------------------------------------------------------------------

    def producers(self, at: TopicPartition) -> dict[int, Any]:
        """DescribeProducers' answer for one partition, by producer id."""
        request = DescribeProducersRequest(topics=[(at.topic, [at.partition])])
        part = self.ask(request, self.node_of(at)).topics[0].partitions[0]
        assert refusal(part) == "NONE"
        return {found.producer_id: found for found in part.active_producers}


def records_in(data: bytes) -> Iterable[tuple[int, bytes | None]]:
    """Decoded by kafka-python, whose code for records the project does not use."""
    found = MemoryRecords(data)
    while (one := found.next_batch()) is not None:
        if not one.is_control_batch:
            yield from ((record.offset, record.value) for record in one)


def produce_request(
    parts: Sequence[tuple[TopicPartition, bytes]],
    *,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> Any:
    """A topic for each part, in this order."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[(at.topic, [(at.partition, data)]) for at, data in parts],
        min_version=apis.PRODUCE.lowest,
        max_version=_TRANSACTIONAL_PRODUCE if transactional_id else apis.PRODUCE.highest,
    )


def fetch_request(
    parts: Sequence[tuple[TopicPartition, int]],
    *,
    read_committed: int = False,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_epoch: int = -1,
) -> Any:
    """Without a session. A topic for each part, in this order."""
    kind = FetchRequest.FetchTopic
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        session_id=0,
        session_epoch=-1,
        topics=[
            kind(
                topic=at.topic,
                partitions=[
                    kind.FetchPartition(
                        partition=at.partition,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        partition_max_bytes=partition_max_bytes,
                    )
                ],
            )
            for at, offset in parts
        ],
        forgotten_topics_data=[],
        min_version=apis.FETCH.highest,
        max_version=apis.FETCH.highest,
    )
