"""The client of a simulated cluster, for questions that wait for their answer.

A question can fail without an answer: then it was carried out, or not, or will be later, as by a
broker that reads the socket of a dead client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace as Answer
from typing import Any, cast

from causeway.cluster import Cluster, Leader
from causeway.config import ClientSettings
from causeway.errors import CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Connection, Deadline
from tests.harness.simulated_brokers import (
    LATE_S,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER,
    OUT_OF_RANGE,
    SOURCE,
    Brokers,
    Late,
    SourceBrokerConnection,
    TargetBrokerConnection,
)
from tests.harness.simulated_logs import Place


class _Asked:
    """In place of a connection: a broker that answers at once."""

    def __init__(self, brokers: Brokers, node: int | None) -> None:
        self._brokers, self._node = brokers, node

    def call(self, request: Any, _: float | None = None) -> Any:
        brokers = self._brokers
        version = request.max_version if request._max_version is None else request._max_version
        request = type(request).decode(request.encode(version=version), version=version)
        if brokers.happens(0.05):
            fate = brokers.chance.choice(("lost", "done", "late"))
            if fate == "done":
                self._serve(request)
            elif fate == "late":
                until = brokers.clock.now + LATE_S
                brokers.late.append(Late(self._serve, deque([request]), until))
            raise UnreachableError("ask", "a broker", f"no answer, {fate}", retriable=True)
        return self._serve(request)

    def call_many(self, requests: Sequence[Any], _: float | None = None) -> list[Any]:
        return [self.call(request) for request in requests]

    def _serve(self, request: Any) -> Any:
        served: dict[str, Callable[[Any], Any]] = {
            "InitProducerIdRequest": self._init_producer_id,
            "AddPartitionsToTxnRequest": self._add_partitions,
            "EndTxnRequest": self._end_txn,
            "ProduceRequest": self._produce,
            "ListOffsetsRequest": self._list_offsets,
            "OffsetForLeaderEpochRequest": self._log_ends,
            "DeleteRecordsRequest": self._delete_records,
        }
        return served[request.name](request)

    # -- transactions -----------------------------------------------------------------------------

    def _init_producer_id(self, request: Any) -> Any:
        error, producer_id, epoch = self._brokers.coordinator.begin(
            request.transactional_id, request.transaction_timeout_ms / 1000
        )
        return Answer(error_code=error, producer_id=producer_id, producer_epoch=epoch)

    def _add_partitions(self, request: Any) -> Any:
        error = self._brokers.coordinator.add(
            request.v3_and_below_transactional_id,
            (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            [(t.name, index) for t in request.v3_and_below_topics for index in t.partitions],
        )
        part = Answer(partition_error_code=error)
        topics = [
            Answer(name=topic.name, results_by_partition=[part])
            for topic in request.v3_and_below_topics
        ]
        return Answer(error_code=0, results_by_topic_v3_and_below=topics)

    def _end_txn(self, request: Any) -> Any:
        producer = request.producer_id, request.producer_epoch
        assert not request.committed
        return Answer(error_code=self._brokers.coordinator.end(request.transactional_id, producer))

    # -- logs -------------------------------------------------------------------------------------

    def _produce(self, request: Any) -> Any:
        """One batch."""
        (topic,) = request.topic_data
        (part,) = topic.partition_data
        place = topic.name, part.index
        log, error, base = self._brokers.targets[place], NOT_LEADER, -1
        if log.node == self._node:
            error = NOT_ENOUGH_REPLICAS
            if not self._brokers.refuses(place, part.records):
                error, base, _ = log.append(bytes(part.records), late=False)
        found = Answer(
            index=part.index,
            error_code=error,
            base_offset=base,
            error_message=None,
            record_errors=(),
        )
        return Answer(responses=[Answer(name=topic.name, partition_responses=[found])])

    def _each(self, request: Any, answer: Callable[[Place, Any], Any]) -> Any:
        topics = [
            Answer(
                name=topic.name,
                partitions=[answer((topic.name, p.partition_index), p) for p in topic.partitions],
            )
            for topic in request.topics
        ]
        return Answer(topics=topics)

    def _list_offsets(self, request: Any) -> Any:
        """Ends and starts."""

        def found(place: Place, part: Any) -> Any:
            log = self._brokers.targets[place]
            return Answer(
                partition_index=place[1],
                error_code=0 if log.node == self._node else NOT_LEADER,
                offset=log.end if part.timestamp == -1 else log.start,
                timestamp=-1,
                leader_epoch=-1,
            )

        return self._each(request, found)

    def _log_ends(self, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                log = self._brokers.targets[topic.topic, part.partition]
                error = 0 if log.node == self._node else NOT_LEADER
                parts.append(Answer(partition=part.partition, error_code=error, end_offset=log.end))
            topics.append(Answer(topic=topic.topic, partitions=parts))
        return Answer(topics=topics)

    def _delete_records(self, request: Any) -> Any:
        def deleted(place: Place, part: Any) -> Any:
            log = self._brokers.targets[place]
            error = 0 if log.node == self._node else NOT_LEADER
            if not error and part.offset > log.end:
                error = OUT_OF_RANGE
            if not error:
                log.start = max(log.start, part.offset)
            return Answer(partition_index=place[1], error_code=error, low_watermark=log.start)

        return self._each(request, deleted)


class SimulatedCluster(Cluster):
    """In place of causeway.cluster.cluster.Cluster, as far as lanes need it."""

    def __init__(self, brokers: Brokers, settings: ClientSettings) -> None:
        super().__init__(settings)
        self._simulated = brokers
        self.name = settings.alias

    def open_connection(self, node: int) -> Any:
        brokers, place = self._simulated, (self.name, node)
        taken = sum((one.cluster, one.node) == place for one in brokers.live)
        if taken >= brokers.room.get(place, 100) or brokers.happens(0.05):
            raise UnreachableError("connect to", f"{self.name} {node}", "is full", retriable=True)
        kind = SourceBrokerConnection if self.name == SOURCE else TargetBrokerConnection
        brokers.connections.append(kind(brokers, self.name, node))
        return brokers.connections[-1]

    def leaders(
        self, tps: Collection[TopicPartition], *, refresh: bool = False, last: int | None = None
    ) -> dict[TopicPartition, Leader | CausewayError]:
        """As brokers say that were not cut off."""
        brokers = self._simulated
        if brokers.happens(0.1):
            raise UnreachableError("ask", self.name, "no answer", retriable=True)
        if self.name != SOURCE:
            return {at: Leader(brokers.targets[at].node, 0, "h", 1) for at in tps}
        logs = brokers.sources
        return {at: Leader(logs[at].node, logs[at].epoch, "h", 1) for at in tps}

    def coordinators(
        self, kind: int, keys: Sequence[str], deadline: Deadline
    ) -> dict[str, int | CausewayError]:
        """A node of its own."""
        return dict.fromkeys(keys, 0)

    @contextmanager
    def lease(
        self, node_id: int | None, deadline: Deadline, *, last: int | None = None
    ) -> Iterator[Connection]:
        yield cast(Connection, _Asked(self._simulated, node_id))

    def _pause(self, failures: int, deadline: Deadline) -> bool:
        self._simulated.clock.now += 0.05 * 2 ** min(failures, 4)
        return not deadline.passed()

    def close(self) -> None: ...
