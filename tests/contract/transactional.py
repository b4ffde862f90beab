"""Requests about transactions, with their answers as they are."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from causeway.cluster import TRANSACTION
from causeway.model import TopicPartition
from causeway.wire import Marker, apis, markers
from tests.contract.client import Client, Writer, refusal
from tests.harness.markers import receive_frame, send_markers
from tests.harness.waiting import await_until

TIMEOUT_MS = 60_000
# The highest version before brokers raise the epoch at each end of a transaction (KIP-890).
_HIGHEST = 3
_SETTLING = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")


class Transactional:
    """One transactional id, at its coordinator. Requests that come too early are sent again: the
    coordinator begins its work, or an earlier end of a transaction is under way."""

    def __init__(self, client: Client, name: str = "txn") -> None:
        self.client = client
        self.id = client.prefix + name

    def ask(self, request: Any) -> Any:
        return self.client.cluster.call(request, coordinator_of=(TRANSACTION, self.id))

    def init(self, timeout_ms: int = TIMEOUT_MS, owner: Writer | None = None) -> Any:
        """InitProducerId's answer. `owner`: the producer that raises its own epoch."""
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1 if owner is None else owner.id,
            producer_epoch=-1 if owner is None else owner.epoch,
            min_version=3,
            max_version=apis.INIT_PRODUCER_ID.highest,
        )
        return self._settled(request, refusal)

    def begin(self, timeout_ms: int = TIMEOUT_MS) -> Writer:
        answer = self.init(timeout_ms)
        assert refusal(answer) == "NONE"
        return Writer(id=answer.producer_id, epoch=answer.producer_epoch)

    def add(self, writer: Writer, *parts: TopicPartition) -> list[str]:
        """The result for each partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=writer.id,
            v3_and_below_producer_epoch=writer.epoch,
            v3_and_below_topics=[(at.topic, [at.partition]) for at in parts],
            max_version=_HIGHEST,
        )

        def results(answer: Any) -> list[str]:
            found = {
                (topic.name, part.partition_index): refusal(part.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            }
            return [found[at] for at in parts]

        return results(self._settled(request, lambda answer: results(answer)[0]))

    def end(self, writer: Writer, *, commit: bool) -> str:
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=writer.id,
            producer_epoch=writer.epoch,
            committed=commit,
            max_version=_HIGHEST,
        )
        return refusal(self._settled(request, refusal))

    def produce(self, at: TopicPartition, writer: Writer, sequence: int, *values: str) -> Any:
        data = writer.batch(sequence, *values, transactional=True)
        return self.client.produce(at, data, transactional_id=self.id)

    def described(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        return self.ask(request).transaction_states[0]

    def write(self, at: TopicPartition, writer: Writer, sequence: int, *values: str) -> int:
        """A batch in a transaction that it begins, if need be; its offset."""
        assert self.add(writer, at) == ["NONE"]
        answer = self.produce(at, writer, sequence, *values)
        assert refusal(answer) == "NONE"
        return int(answer.base_offset)

    def finish(self, at: TopicPartition, writer: Writer, *, commit: bool) -> None:
        """Returns when the marker is in the log."""
        assert self.end(writer, commit=commit) == "NONE"
        await_until(
            lambda: self.client.producers(at)[writer.id].current_txn_start_offset == -1,
            what="the transaction ends",
            poll_s=0.01,
        )

    def _settled(self, request: Any, result: Any) -> Any:
        def settled() -> Any:
            answer = self.ask(request)
            return None if result(answer) in _SETTLING else answer

        return await_until(settled, what="a coordinator that is ready", poll_s=0.01)


def write_markers(client: Client, at: TopicPartition, *wanted: Marker) -> list[str]:
    """Sent to the leader of `at`. The results, one for each producer and partition."""
    with client.connect(at) as connection:
        send_markers(connection, wanted)
        _, found = markers.parse(receive_frame(connection))
    return [refusal(error) for error in found.values()]


def marks(at: TopicPartition, writer: Writer, count: int = 1) -> Marker:
    return Marker(writer.id, writer.epoch, at.topic.encode(), at.partition, count)
