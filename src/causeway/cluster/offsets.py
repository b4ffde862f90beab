"""Looks up offsets in logs, and reads raw batches. Not for the fast path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)

from causeway.cluster.client import ClusterClient
from causeway.cluster.metadata import by_topic
from causeway.errors import BrokerError, CausewayError
from causeway.model import TopicPartition
from causeway.records import MAGIC, MAGIC_AT, BatchHeader, frames
from causeway.wire import (
    Deadline,
    apis,
    broker_error,
    codes,
    error_in,
    is_unsupported,
    throttle_s,
    throttled_text,
)

T = TypeVar("T")

LATEST, EARLIEST = -1, -2
PARTITIONS_A_REQUEST = 5_000
SAMPLE_BYTES = 256 * 1024

Wanted = list[tuple[TopicPartition, int]]
"""The partitions of one broker, with their leader epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """`offset` is -1 if no record has the requested timestamp or a later timestamp. `timestamp`
    (ms): that of the record, -1 for the start or end of a log. `leader_epoch` is -1 if the broker
    gives none."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """`records`: the bytes of the log, from the batch with the offset on; the last batch may be cut
    off. `aborted`: (producer id, first offset) of the aborted transactions in that range, only for
    a committed read."""

    high_watermark: int
    last_stable: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    records: bytes


def at_leaders(
    cluster: ClusterClient,
    tps: Collection[TopicPartition],
    operation: str,
    request: Callable[[Wanted, Deadline], Any],
    value: Callable[[TopicPartition, Any], T | CausewayError],
    *,
    needs: str = "DESCRIBE",
    patience_s: float | None = None,
) -> dict[TopicPartition, T | CausewayError]:
    """Sends a `request` to each leader of the partitions. `value` reads the answer about a
    partition if it has no error. `needs`: the right on the topic."""

    def send(
        node_id: int, wanted: Wanted, deadline: Deadline
    ) -> Iterator[tuple[TopicPartition, T | CausewayError]]:
        for topic in cluster.once(request(wanted, deadline), node_id, deadline).topics:
            # The answer to OffsetForLeaderEpoch has other names.
            name = topic.name if hasattr(topic, "name") else topic.topic
            for part in topic.partitions:
                number = (
                    part.partition_index if hasattr(part, "partition_index") else part.partition
                )
                tp = TopicPartition(name, number)
                error = None
                if part.error_code:
                    where = f"{tp} on {cluster}"
                    error = error_in(part, operation, where, f"{needs} on topic {name}")
                yield tp, error or value(tp, part)

    def attempt(
        left: list[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, T | CausewayError]:
        results: dict[TopicPartition, T | CausewayError] = {}
        by_node: dict[int, Wanted] = defaultdict(list)
        for tp, leader in cluster.leaders(left).items():
            if isinstance(leader, CausewayError):
                results[tp] = leader
            else:
                by_node[leader.node_id].append((tp, leader.epoch))
        for node_id, wanted in by_node.items():
            for start in range(0, len(wanted), PARTITIONS_A_REQUEST):
                chunk = wanted[start : start + PARTITIONS_A_REQUEST]
                try:
                    results |= dict(send(node_id, chunk, deadline))
                except CausewayError as error:
                    results |= {tp: error for tp, _ in chunk}
        return results

    return cluster.retry_each(tps, attempt, topic_of=lambda tp: tp.topic, patience_s=patience_s)


def list_offsets(
    cluster: ClusterClient,
    tps: Collection[TopicPartition],
    timestamp: int,
    read_committed: bool = False,
    *,
    patience_s: float | None = None,
) -> dict[TopicPartition, OffsetAt | CausewayError]:
    """Returns the end of each log (LATEST), its start (EARLIEST), or the first record at or after a
    `timestamp` in milliseconds since 1970.

    With `read_committed`, LATEST is the last stable offset. A partition that does not exist has the
    error UNKNOWN_TOPIC_OR_PARTITION after a few seconds. Any other partition without an answer has
    its error after `patience_s` (by default the request timeout).
    """
    return at_leaders(
        cluster,
        tps,
        "look up an offset of",
        lambda wanted, deadline: ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=by_topic((tp.topic, (tp.partition, epoch, timestamp)) for tp, epoch in wanted),
            timeout_ms=int(deadline.left() * 1000),
            min_version=apis.LIST_OFFSETS.lowest,
        ),
        lambda _, part: OffsetAt(
            offset=part.offset, timestamp=part.timestamp, leader_epoch=part.leader_epoch
        ),
        patience_s=patience_s,
    )


def log_ends(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, int | CausewayError]:
    """Returns the end of each log on its leader. It includes records that followers do not have
    yet, and that no reader sees.

    A leader answers this for the end of its own epoch (OffsetForLeaderEpoch), which needs only
    DESCRIBE. If a broker does not have that API, fetches find the end, which need READ. If
    followers do not have all records, the result is then one record behind the high watermark: the
    log ends there or later.
    """
    operation = "look up the end of"

    def end_of(tp: TopicPartition, part: Any) -> int | CausewayError:
        if part.end_offset < 0:  # the leader does not know its epoch yet
            return broker_error(codes.OFFSET_NOT_AVAILABLE, operation, f"{tp} on {cluster}")
        return int(part.end_offset)

    found = at_leaders(
        cluster,
        tps,
        operation,
        lambda wanted, _: OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=by_topic((tp.topic, (tp.partition, epoch, epoch)) for tp, epoch in wanted),
            min_version=apis.OFFSET_FOR_LEADER_EPOCH.lowest,
        ),
        end_of,
    )
    probed = [tp for tp, end in found.items() if is_unsupported(end)]
    return {**found, **_probed_ends(cluster, probed)} if probed else found


def _probed_ends(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, int | CausewayError]:
    """Finds the ends by fetches. A leader answers OFFSET_OUT_OF_RANGE only to a fetch behind its
    log's end. To a fetch between the high watermark and that end, it answers without records
    (Kafka's `LocalLog.read`)."""
    ends: dict[TopicPartition, int | CausewayError] = {}
    for tp, shown in list_offsets(cluster, tps, LATEST).items():
        if isinstance(shown, CausewayError):
            ends[tp] = shown
            continue
        try:
            fetch(cluster, tp, shown.offset + 1, 1, max_wait_ms=0)
            ends[tp] = shown.offset + 1
        except CausewayError as error:
            behind = isinstance(error, BrokerError) and error.code == codes.OFFSET_OUT_OF_RANGE
            ends[tp] = shown.offset if behind else error
    return ends


def fetch(
    cluster: ClusterClient,
    tp: TopicPartition,
    offset: int,
    max_bytes: int = 1 << 20,
    *,
    read_committed: bool = False,
    max_wait_ms: int = 100,
) -> FetchedPartition:
    """Reads from `offset` on. Waits up to `max_wait_ms` for a first byte.

    With `read_committed`, it reads up to the last stable offset, and returns the aborted
    transactions.

    It returns at least one batch if there is one, of any size. Raises AuthorizationError. Raises
    BrokerError with code 1 (OFFSET_OUT_OF_RANGE) if the offset is not in the log.
    """
    deadline = Deadline(cluster.timeout_s)

    def attempt() -> FetchedPartition:
        leader = cluster.leader(tp)
        kind = FetchRequest.FetchTopic
        partition = kind.FetchPartition(
            partition=tp.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(read_committed),
            topics=[kind(topic=tp.topic, partitions=[partition])],
            forgotten_topics_data=[],
            min_version=apis.FETCH.lowest,
            max_version=apis.FETCH.highest,
        )
        response = cluster.once(request, leader.node_id, deadline)
        return _fetched(cluster, f"{tp} on {cluster} at offset {offset}", tp.topic, response)

    return cluster.retry(deadline, attempt)


def _fetched(cluster: ClusterClient, where: str, topic: str, response: Any) -> FetchedPartition:
    # If a quota throttles us, the broker answers at once, without an error and without topics.
    part = response.responses[0].partitions[0] if response.responses else None
    code = response.error_code
    if not code:
        code = codes.THROTTLING_QUOTA_EXCEEDED if part is None else part.error_code
    if part is None or code:
        if code in codes.STALE_METADATA:
            cluster.forget([topic])
        message = throttled_text(throttle_s(response)) if part is None else None
        error = broker_error(code, "read", where, message, needs=f"READ on topic {topic}")
        if code == codes.CORRUPT_MESSAGE:
            error.retriable = False  # another try would read the same bytes of the broker's disk
        raise error
    return FetchedPartition(
        high_watermark=part.high_watermark,
        last_stable=part.last_stable_offset,
        log_start=part.log_start_offset,
        aborted=tuple((a.producer_id, a.first_offset) for a in part.aborted_transactions or ()),
        records=bytes(part.records or b""),
    )


def bytes_an_offset(cluster: ClusterClient, tp: TopicPartition, start: int) -> float:
    """Returns how many bytes one offset takes in the log, by the first SAMPLE_BYTES from offset
    `start` on. 1.0 if they cannot be read."""
    last, used = start, 0
    try:
        data = memoryview(fetch(cluster, tp, start, SAMPLE_BYTES, max_wait_ms=0).records)
        for raw in frames(data):
            modern = raw[MAGIC_AT] == MAGIC
            last = BatchHeader.of(raw).last if modern else int.from_bytes(raw[:8])
            used += len(raw)
    except CausewayError:
        return 1.0  # the reader of the partition reports the error
    return used / (last + 1 - start) if used and last >= start else 1.0
