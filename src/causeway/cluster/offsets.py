"""Positions in logs: looking offsets up, and reading raw batches where speed does not matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)

from causeway.errors import BrokerError, CausewayError
from causeway.model import TopicPartition
from causeway.wire import (
    Deadline,
    apis,
    broker_error,
    codes,
    is_unsupported,
    throttle_s,
    throttled_text,
)

if TYPE_CHECKING:
    from causeway.cluster.client import ClusterClient


from causeway.cluster.client import ClusterClient
from causeway.records import LENGTH_OVERHEAD, MAGIC_AT

T = TypeVar("T")

LATEST, EARLIEST = -1, -2
PARTITIONS_A_REQUEST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """`offset` is -1 where a timestamp was asked for that no record reaches; `timestamp` (ms) is
    the found record's, -1 for the ends of a log; `leader_epoch` -1 if the broker does not say."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """`records`: batches as they lie in the log, from the one that holds the offset; the last may
    be cut off. `aborted`: (producer id, first offset) of aborted transactions in that range, for
    a committed read only."""

    high_watermark: int
    last_stable: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    records: bytes


def list_offsets(
    cluster: ClusterClient,
    tps: Collection[TopicPartition],
    timestamp: int,
    read_committed: bool = False,
    patience_s: float | None = None,
) -> dict[TopicPartition, OffsetAt | CausewayError]:
    """The end of each log (LATEST), its start (EARLIEST), or the first record at or after a time.

    `timestamp` in milliseconds since 1970 for the last of these. With `read_committed`, LATEST is
    the last stable offset. A partition that does not exist gets UNKNOWN_TOPIC_OR_PARTITION after
    a few seconds, any other that cannot be told its error after `patience_s` (the request timeout).
    """
    return at_leaders(
        cluster,
        tps,
        lambda node_id, wanted, deadline: _ask(
            cluster, node_id, wanted, timestamp, read_committed, deadline
        ),
        patience_s,
    )


def log_ends(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, int | CausewayError]:
    """Where each log ends on its leader, what its followers lack (and no reader sees) included.

    A leader answers this for the end of its own epoch (OffsetForLeaderEpoch); that needs only
    DESCRIBE. If a broker does not have that API, fetches ask instead, which need READ. Then a
    partition whose followers lack records gets an end one record behind the high watermark: its
    log ends there or later.
    """
    found = at_leaders(
        cluster,
        tps,
        lambda node_id, wanted, deadline: _ask_log_ends(cluster, node_id, wanted, deadline),
    )
    probed = [tp for tp, end in found.items() if is_unsupported(end)]
    return {**found, **_probed_ends(cluster, probed)} if probed else found


def _probed_ends(
    cluster: ClusterClient, tps: Collection[TopicPartition]
) -> dict[TopicPartition, int | CausewayError]:
    """A leader answers OFFSET_OUT_OF_RANGE only to a fetch behind its log's end. To a fetch between
    the high watermark and that end it answers without records (Kafka's `LocalLog.read`)."""
    ends: dict[TopicPartition, int | CausewayError] = {}
    for tp, shown in list_offsets(cluster, tps, LATEST).items():
        if isinstance(shown, CausewayError):
            ends[tp] = shown
            continue
        try:
            fetch(cluster, tp, shown.offset + 1, 1, max_wait_ms=0)
            ends[tp] = shown.offset + 1
        except CausewayError as error:
            ends[tp] = shown.offset if _is_out_of_range(error) else error
    return ends


def _is_out_of_range(error: CausewayError) -> bool:
    return isinstance(error, BrokerError) and error.code == codes.OFFSET_OUT_OF_RANGE


def at_leaders(
    cluster: ClusterClient,
    tps: Collection[TopicPartition],
    ask: Callable[
        [int, list[tuple[TopicPartition, int]], Deadline],
        Mapping[TopicPartition, T | CausewayError],
    ],
    patience_s: float | None = None,
) -> dict[TopicPartition, T | CausewayError]:
    """What `ask` says of the partitions, with their leader epochs, that a broker leads."""

    def attempt(
        left: list[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, T | CausewayError]:
        results: dict[TopicPartition, T | CausewayError] = {}
        by_node: dict[int, list[tuple[TopicPartition, int]]] = defaultdict(list)
        for tp, leader in cluster.leaders(left).items():
            if isinstance(leader, CausewayError):
                results[tp] = leader
            else:
                by_node[leader.node_id].append((tp, leader.epoch))
        for node_id, wanted in by_node.items():
            for start in range(0, len(wanted), PARTITIONS_A_REQUEST):
                chunk = wanted[start : start + PARTITIONS_A_REQUEST]
                results.update(ask(node_id, chunk, deadline))
        return results

    return cluster.retry_each(
        list(dict.fromkeys(tps)), attempt, topic_of=lambda tp: tp.topic, patience_s=patience_s
    )


def _ask(
    cluster: ClusterClient,
    node_id: int,
    wanted: list[tuple[TopicPartition, int]],
    timestamp: int,
    read_committed: bool,
    deadline: Deadline,
) -> Mapping[TopicPartition, OffsetAt | CausewayError]:
    kind = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, epoch in wanted:
        by_topic[tp.topic].append(
            kind.ListOffsetsPartition(
                partition_index=tp.partition, current_leader_epoch=epoch, timestamp=timestamp
            )
        )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[kind(name=name, partitions=parts) for name, parts in by_topic.items()],
        timeout_ms=int(deadline.left() * 1000),
        min_version=apis.LIST_OFFSETS.lowest,
    )
    try:
        response = cluster.once(request, node_id, deadline)
    except CausewayError as error:
        return {tp: error for tp, _ in wanted}
    return {
        TopicPartition(topic.name, part.partition_index): _offset(cluster, topic.name, part)
        for topic in response.topics
        for part in topic.partitions
    }


def _offset(cluster: ClusterClient, topic: str, part: Any) -> OffsetAt | CausewayError:
    if part.error_code:
        return broker_error(
            part.error_code,
            "look up an offset of",
            f"{topic}-{part.partition_index} on {cluster}",
            needs=f"DESCRIBE on topic {topic}",
        )
    return OffsetAt(offset=part.offset, timestamp=part.timestamp, leader_epoch=part.leader_epoch)


def _ask_log_ends(
    cluster: ClusterClient,
    node_id: int,
    wanted: list[tuple[TopicPartition, int]],
    deadline: Deadline,
) -> Mapping[TopicPartition, int | CausewayError]:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, epoch in wanted:
        by_topic[tp.topic].append(
            kind.OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=epoch, leader_epoch=epoch
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[kind(topic=name, partitions=parts) for name, parts in by_topic.items()],
        min_version=apis.OFFSET_FOR_LEADER_EPOCH.lowest,
    )
    try:
        response = cluster.once(request, node_id, deadline)
    except CausewayError as error:
        return {tp: error for tp, _ in wanted}
    return {
        TopicPartition(topic.topic, part.partition): _log_end(cluster, topic.topic, part)
        for topic in response.topics
        for part in topic.partitions
    }


def _log_end(cluster: ClusterClient, topic: str, part: Any) -> int | CausewayError:
    if part.error_code or part.end_offset < 0:  # a leader that does not know its epoch yet
        return broker_error(
            part.error_code or codes.OFFSET_NOT_AVAILABLE,
            "look up the end of",
            f"{topic}-{part.partition} on {cluster}",
            needs=f"DESCRIBE on topic {topic}",
        )
    return int(part.end_offset)


def fetch(
    cluster: ClusterClient,
    tp: TopicPartition,
    offset: int,
    max_bytes: int = 1 << 20,
    *,
    read_committed: bool = False,
    max_wait_ms: int = 100,
) -> FetchedPartition:
    """Reads from `offset`; waits up to `max_wait_ms` for a first byte.

    `read_committed` stops at the last stable offset, and tells which transactions were aborted.

    At least one batch comes if there is one, however large. Raises BrokerError: code 1
    (OFFSET_OUT_OF_RANGE) if the offset is not in the log; AuthorizationError.
    """
    deadline = Deadline(cluster.timeout_s)
    return cluster.retry(
        deadline,
        lambda: _fetch(cluster, tp, offset, max_bytes, read_committed, max_wait_ms, deadline),
    )


def _fetch(
    cluster: ClusterClient,
    tp: TopicPartition,
    offset: int,
    max_bytes: int,
    read_committed: bool,
    max_wait_ms: int,
    deadline: Deadline,
) -> FetchedPartition:
    leader = cluster.leaders([tp])[tp]
    if isinstance(leader, CausewayError):
        cluster.forget([tp.topic])
        raise leader
    kind = FetchRequest.FetchTopic
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        topics=[
            kind(
                topic=tp.topic,
                partitions=[
                    kind.FetchPartition(
                        partition=tp.partition,
                        current_leader_epoch=leader.epoch,
                        fetch_offset=offset,
                        partition_max_bytes=max_bytes,
                    )
                ],
            )
        ],
        forgotten_topics_data=[],
        min_version=apis.FETCH.lowest,
        max_version=apis.FETCH.highest,
    )
    response = cluster.once(request, leader.node_id, deadline)
    # A broker that throttles (a quota) answers at once, without error, and leaves the topics out.
    part = response.responses[0].partitions[0] if response.responses else None
    code = response.error_code or (
        codes.THROTTLING_QUOTA_EXCEEDED if part is None else part.error_code
    )
    if part is None or code:
        if code in codes.STALE_METADATA:
            cluster.forget([tp.topic])
        error = broker_error(
            code,
            "read",
            f"{tp} on {cluster} at offset {offset}",
            throttled_text(throttle_s(response)) if part is None else None,
            needs=f"READ on topic {tp.topic}",
        )
        if code == codes.CORRUPT_MESSAGE:
            error.retriable = False  # the broker's disk has the same at each try
        raise error
    return FetchedPartition(
        high_watermark=part.high_watermark,
        last_stable=part.last_stable_offset,
        log_start=part.log_start_offset,
        aborted=tuple((a.producer_id, a.first_offset) for a in part.aborted_transactions or ()),
        records=bytes(part.records or b""),
    )


SAMPLE_BYTES = 256 * 1024
_LAST_DELTA = slice(23, 27)


def bytes_an_offset(cluster: ClusterClient, tp: TopicPartition, start: int) -> float:
    """Of the first SAMPLE_BYTES from offset `start` on; 1.0 where they cannot be read."""
    try:
        data = fetch(cluster, tp, start, SAMPLE_BYTES, max_wait_ms=0).records
    except CausewayError:
        return 1.0  # whoever reads there says what is wrong
    at, last, used = 0, start, 0
    while at + _LAST_DELTA.stop <= len(data):
        base = int.from_bytes(data[at : at + 8])
        stop = at + LENGTH_OVERHEAD + int.from_bytes(data[at + 8 : at + LENGTH_OVERHEAD])
        if stop > len(data):
            break
        modern = data[at + MAGIC_AT] == 2
        last = base + (int.from_bytes(data[at : at + 27][_LAST_DELTA]) if modern else 0)
        used += stop - at
        at = stop
    return used / (last + 1 - start) if used and last >= start else 1.0
