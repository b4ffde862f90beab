"""A cluster in memory, behind the public methods and requests of a Cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from kafka.protocol.admin import (
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    ListTransactionsRequest,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

from causeway.cluster import (
    AclBinding,
    ActiveProducer,
    Cluster,
    ClusterMetadata,
    ConfigEntry,
    FetchedPartition,
    Leader,
    NewTopic,
    OffsetAt,
    TopicMetadata,
)
from causeway.config import LinkSettings
from causeway.errors import CausewayError, UnreachableError
from causeway.link_topics import (
    Directive,
    DirectiveLog,
    DirectivePlan,
    LeaseRecord,
    LinkDirectives,
    PartitionProgress,
    ProgressTopic,
    ProgressWriter,
    write_directives,
)
from causeway.model import TopicPartition
from causeway.records import BatchHeader
from causeway.wire import Deadline
from tests.builders.settings import client_settings
from tests.builders.topics import entries, topic
from tests.harness.world import Log

Disk = tuple[int, int] | None
_GOOD = SimpleNamespace(error_code=0)


class StubCluster(Cluster):
    """One broker, number 1, unless `disks` names others. A test changes the attributes.

    `logs`: of each partition; `unreadable`: why a partition cannot be read; `producers`: those that
    brokers remember; `transactional_ids`: by producer id, None if the broker refuses to list them;
    `disks`: (total, usable) bytes by broker, None if the broker is older than Kafka 3.3; `created`:
    the topics that were created; `acls`: the rules; `error`: why no broker answers.
    """

    def __init__(self, alias: str = "B", logs: Mapping[TopicPartition, Log] = {}) -> None:
        super().__init__(client_settings(alias))
        self.logs = dict(logs)
        self.unreadable: dict[TopicPartition, CausewayError] = {}
        self.producers: dict[TopicPartition, Sequence[ActiveProducer]] = {}
        self.transactional_ids: Mapping[int, str] | None = {}
        self.disks: Mapping[int, Disk] = {1: None}
        self.created: list[NewTopic] = []
        self.acls: set[AclBinding] = set()
        self.error: UnreachableError | None = None

    def __call__(self, _: object) -> StubCluster:
        """As a Connect whose only cluster this is."""
        return self

    def bootstrap_check(self, timeout_s: float | None = None) -> ClusterMetadata:
        if self.error is not None:
            raise self.error
        return self.metadata([])

    def metadata(
        self, topics: Collection[str] | None = None, *, last: int | None = None
    ) -> ClusterMetadata:
        found: dict[str, TopicMetadata] = {}
        for name in sorted({at.topic for at in self.logs}):
            if topics is None or name in topics:
                found[name] = topic(name, sum(at.topic == name for at in self.logs))
        brokers = {node: ("host", node) for node in self.disks}
        return ClusterMetadata(cluster_id="id", brokers=brokers, controller=1, topics=found)

    def leaders(
        self, tps: Collection[TopicPartition], *, refresh: bool = False, last: int | None = None
    ) -> dict[TopicPartition, Leader | CausewayError]:
        return dict.fromkeys(tps, Leader(1, 0, "host", 1))

    def coordinators(
        self, kind: int, keys: Sequence[str], deadline: Deadline
    ) -> dict[str, int | CausewayError]:
        return dict.fromkeys(keys, 1)

    def create_topics(self, new: Sequence[NewTopic], **_: Any) -> dict[str, CausewayError | None]:  # type: ignore[override]
        self.created += new
        for each in new:
            self.logs |= {TopicPartition(each.name, n): Log() for n in range(each.partitions)}
        return dict.fromkeys([each.name for each in new])

    def describe_configs(self, topics: Collection[str], *_: object) -> dict[str, Any]:
        return {name: entries() for name in topics}

    def broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        return entries()

    def list_groups(self) -> dict[str, Any]:
        return {}

    def describe_acls(self, *_: object) -> frozenset[AclBinding]:
        return frozenset(self.acls)

    def create_acls(
        self, bindings: Collection[AclBinding]
    ) -> dict[AclBinding, CausewayError | None]:
        self.acls |= set(bindings)
        return dict.fromkeys(bindings)

    def delete_acls(
        self, bindings: Collection[AclBinding]
    ) -> dict[AclBinding, CausewayError | None]:
        self.acls -= set(bindings)
        return dict.fromkeys(bindings)

    # -- logs -------------------------------------------------------------------------------------

    def list_offsets(  # type: ignore[override]
        self,
        tps: Collection[TopicPartition],
        timestamp: int,
        read_committed: bool = False,
        **_: Any,
    ) -> dict[TopicPartition, OffsetAt]:
        return {
            at: OffsetAt(
                offset=self.logs[at].stable_end(read_committed)
                if timestamp == -1
                else self.logs[at].start,
                timestamp=-1,
                leader_epoch=0,
            )
            for at in tps
        }

    def fetch(
        self, tp: TopicPartition, offset: int, *_: Any, read_committed: bool = False, **__: Any
    ) -> FetchedPartition:
        """Two batches an answer, so that a reader needs several."""
        if (error := self.unreadable.get(tp)) is not None:
            raise error
        log = self.logs[tp]
        assert log.start <= offset <= log.end, f"offset {offset} out of range"
        shown = log.stable_end(read_committed)
        batches = [raw for _, last, raw in log.batches if offset <= last < shown]
        return FetchedPartition(
            high_watermark=shown,
            last_stable=shown,
            log_start=log.start,
            aborted=(),
            records=b"".join(batches[:2]),
        )

    def produce_batch(self, tp: TopicPartition, batch: bytes, **_: Any) -> int:
        log = self.logs[tp]
        start, count = log.end, BatchHeader.of(memoryview(batch)).last + 1
        # The offset is no part of the checksum.
        log.batches.append((start, start + count - 1, start.to_bytes(8) + bytes(batch[8:])))
        log.end += count
        return start

    def log_ends(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:  # type: ignore[override]
        return {at: self.logs[at].end for at in tps}

    # -- directives -------------------------------------------------------------------------------

    def directives(self, link: LinkSettings) -> LinkDirectives:
        log = DirectiveLog(self, link.directives_topic)
        log.look()
        return log.directives

    def write(self, link: LinkSettings, *directives: Directive) -> None:
        changes = tuple((each.key, each) for each in directives)
        write_directives(self, link, lambda _: DirectivePlan(changes=changes))

    def begin(self, link: LinkSettings, *progress: PartitionProgress) -> None:
        """A driver of the link has mirrored so much, and has ended."""
        topic = ProgressTopic(self, link.progress_topic)
        topic.ensure()
        ended = LeaseRecord(
            link=link.name,
            owner="host-1",
            producer_id=1,
            producer_epoch=0,
            lease_s=10,
            written_at=1,
            released=True,
        )
        ProgressWriter(topic, 1, 0).write([*progress, ended])

    # -- requests ---------------------------------------------------------------------------------

    def once(self, request: Any, node_id: int | None, deadline: Deadline) -> Any:
        match request:
            case DescribeLogDirsRequest():
                return SimpleNamespace(error_code=0, results=[self._log_dir(node_id)])
            case DescribeProducersRequest():
                return SimpleNamespace(topics=[self._remembered(*each) for each in request.topics])
            case ListTransactionsRequest():
                return self._transactions(request.producer_id_filters)
            case InitProducerIdRequest():
                return SimpleNamespace(error_code=0, producer_id=1, producer_epoch=0)
            case AddPartitionsToTxnRequest():
                return SimpleNamespace(results_by_topic_v3_and_below=[])
            case ProduceRequest():
                for name, parts in request.topic_data:
                    for number, batch in parts:
                        self.produce_batch(TopicPartition(name, number), batch)
                answer = SimpleNamespace(partition_responses=[_GOOD])
                return SimpleNamespace(responses=[answer])
            case EndTxnRequest():
                return _GOOD
        raise NotImplementedError(type(request).__name__)

    def _log_dir(self, node: int | None) -> Any:
        """Of a gigabyte of logs, whatever the disk has besides."""
        log = SimpleNamespace(partition_size=10**9)
        found = SimpleNamespace(
            error_code=0, log_dir="/data", topics=[SimpleNamespace(partitions=[log])]
        )
        disk = None if node is None else self.disks[node]
        if disk is not None:
            found.total_bytes, found.usable_bytes = disk
        return found

    def _remembered(self, name: str, numbers: Collection[int]) -> Any:
        return SimpleNamespace(
            name=name,
            partitions=[
                SimpleNamespace(
                    partition_index=number,
                    error_code=0,
                    error_message=None,
                    active_producers=[
                        SimpleNamespace(
                            producer_id=each.producer_id,
                            producer_epoch=each.producer_epoch,
                            last_sequence=each.last_sequence,
                            last_timestamp=each.last_timestamp,
                            current_txn_start_offset=each.transaction_start,
                        )
                        for each in self.producers.get(TopicPartition(name, number), ())
                    ],
                )
                for number in numbers
            ],
        )

    def _transactions(self, wanted: Collection[int]) -> Any:
        if self.transactional_ids is None:
            return SimpleNamespace(error_code=53, transaction_states=[])  # not authorized
        return SimpleNamespace(
            error_code=0,
            transaction_states=[
                SimpleNamespace(producer_id=one, transactional_id=self.transactional_ids[one])
                for one in wanted
                if one in self.transactional_ids
            ],
        )
