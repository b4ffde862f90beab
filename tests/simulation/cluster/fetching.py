"""Fetch: reads below the high watermark or the last stable offset, and waits for enough bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.consumer import FetchResponse

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.fetch_sessions import (
    WITH_IDS,
    FetchContext,
    FetchPlace,
    ReadPartition,
)
from tests.simulation.cluster.producers import EndedTransaction

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode
    from tests.simulation.cluster.replica import Replica

_COMMITTED: Final = 1
_FROM_FOLLOWERS: Final = 11  # from this version on followers answer, too (KIP-392)
_TOPIC = FetchResponse.FetchableTopicResponse
_PART = _TOPIC.PartitionData


@dataclass(slots=True, kw_only=True)
class ReadResult:
    """Of one partition."""

    code: int = 0
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    records: bytes = b""
    aborted: list[EndedTransaction] | None = None
    diverging: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class _Fetch:
    """A request that may wait."""

    node: BrokerNode
    request: Any
    context: FetchContext
    respond: Callable[[Any], None]
    watched: dict[FetchPlace, Replica] = field(default_factory=dict)
    epochs: dict[FetchPlace, int] = field(default_factory=dict)
    answered: bool = False

    @property
    def committed(self) -> bool:
        return bool(self.request.isolation_level == _COMMITTED)

    def begin(self) -> None:
        results = self._read()
        size = sum(len(each.records) for each in results.values())
        if (
            not self.context.parts
            or self.request.max_wait_ms <= 0
            or size >= self.request.min_bytes
            or any(each.code or each.diverging for each in results.values())
        ):
            self._answer(results)
            return
        for place in self.context.parts:
            replica = self.watched[place] = self._find(place)
            self.epochs[place] = replica.epoch
            replica.waiting[self.check] = None
        self.node.later(self.request.max_wait_ms / 1000, self.answer)

    def check(self) -> None:
        """A watched partition has changed."""
        if self.answered:
            return
        size = 0
        for place, part in self.context.parts.items():
            replica = self.watched.get(place)
            if replica is None or replica.epoch != self.epochs[place]:
                self.answer()
                return
            size += _readable(replica, part, self.committed, self.request.min_bytes - size)
            if size >= self.request.min_bytes:
                self.answer()
                return

    def answer(self) -> None:
        if not self.answered:
            self._answer(self._read())

    def _answer(self, results: dict[FetchPlace, ReadResult]) -> None:
        self.answered = True
        for replica in self.watched.values():
            replica.waiting.pop(self.check, None)
        size = sum(len(each.records) for each in results.values())
        throttle_s = self.node.quotas.throttle_s("fetch", size)
        if throttle_s:
            results = {}
        elif self.context.id:
            results = self._changed(results)
        self.respond(
            _fetched(self.request.API_VERSION, self.context.id, results, round(throttle_s * 1000))
        )

    def _changed(self, results: dict[FetchPlace, ReadResult]) -> dict[FetchPlace, ReadResult]:
        """What the answer of a session names, and notes it. Partitions with records come last in
        the next answer."""
        parts, context = self.context.parts, self.context
        named = {}
        for place, result in results.items():
            part = parts.get(place)
            if part is None:
                continue
            told = part.high_watermark, part.log_start
            part.high_watermark, part.log_start = result.high_watermark, result.log_start
            if (
                context.is_full
                or result.records
                or result.code
                or result.diverging
                or told != (result.high_watermark, result.log_start)
            ):
                named[place] = result
            if result.code:
                part.high_watermark = -1
            if result.records:
                parts[place] = parts.pop(place)
        return named

    def _find(self, place: FetchPlace) -> Replica:
        if self.request.API_VERSION < WITH_IDS:
            return self.node.find(*place)
        part, images = self.context.parts[place], self.node.image
        topic = images.by_id.get(place[0])
        if topic is not None and self.context.id:
            part.topic = topic.name
        elif part.topic is not None:
            again = part.topic in images.topics
            raise Refused(
                errors.INCONSISTENT_TOPIC_ID if again else errors.UNKNOWN_TOPIC_OR_PARTITION
            )
        return self.node.find_by_id(*place)

    def _read(self) -> dict[FetchPlace, ReadResult]:
        results: dict[FetchPlace, ReadResult] = {}
        room = min(self.request.max_bytes, self.node.cluster.settings.fetch_max_bytes)
        is_first = True
        from_any = self.request.API_VERSION >= _FROM_FOLLOWERS
        for place, part in self.context.parts.items():
            try:
                replica = self._find(place)
                if not from_any:
                    replica.check_leads()
                result = read(replica, part, self.committed, room, at_least_one=is_first)
            except Refused as refused:
                result = ReadResult(code=refused.code)
            if result.records:
                is_first = False
                room = max(0, room - len(result.records))
            results[place] = result
        return results


def fetch(node: BrokerNode, request: Any, respond: Callable[[Any], None]) -> None:
    try:
        context = node.fetch_sessions.context(request)
    except Refused as refused:
        respond(_fetched(request.API_VERSION, 0, {}, 0, refused.code))
        return
    _Fetch(node, request, context, respond).begin()


def read(
    replica: Replica, part: ReadPartition, committed: bool, room: int, *, at_least_one: bool
) -> ReadResult:
    """As Kafka's `Partition.fetchRecords`. Raises Refused."""
    replica.check_epoch(part.leader_epoch)
    log = replica.log
    result = ReadResult(
        high_watermark=replica.high_watermark,
        last_stable=replica.last_stable,
        log_start=log.start,
        aborted=[] if committed else None,
    )
    if part.last_epoch >= 0:
        epoch, end = log.epochs.end_of(part.last_epoch, log.end)
        if end < 0:
            raise Refused(errors.OFFSET_OUT_OF_RANGE)
        if epoch < part.last_epoch or end < part.offset:
            result.diverging = epoch, end
            return result
    if not log.start <= part.offset <= log.end:
        raise Refused(errors.OFFSET_OUT_OF_RANGE)
    below = result.last_stable if committed else replica.high_watermark
    room = min(room, part.max_bytes)
    chunks: list[bytes] = []
    read_to = part.offset
    if part.offset < below:
        for batch in log.from_offset(part.offset, below):
            size = len(batch.raw)
            if size > room and not (at_least_one and not chunks):
                if room > 0:
                    chunks.append(batch.raw[:room])  # files are cut anywhere
                    read_to = batch.last + 1
                break
            chunks.append(batch.raw)
            read_to = batch.last + 1
            room = max(0, room - size)
            if not room:
                break
    result.records = b"".join(chunks)
    if committed and chunks:
        result.aborted = log.aborted_between(part.offset, read_to)
    return result


def _readable(replica: Replica, part: ReadPartition, committed: bool, wanted: int) -> int:
    """How many bytes there are to read, counted up to `wanted`."""
    below = replica.last_stable if committed else replica.high_watermark
    size = 0
    if part.offset < below:
        for batch in replica.log.from_offset(part.offset, below):
            size += len(batch.raw)
            if size >= min(wanted, part.max_bytes):
                break
    return min(size, part.max_bytes)


def _fetched(
    version: int,
    session_id: int,
    results: dict[FetchPlace, ReadResult],
    throttle_ms: int,
    code: int = 0,
) -> Any:
    topics: dict[Any, list[Any]] = {}
    for (name, index), result in results.items():
        more = {}
        if result.diverging:
            epoch, end = result.diverging
            more["diverging_epoch"] = _PART.EpochEndOffset(epoch=epoch, end_offset=end)
        topics.setdefault(name, []).append(
            _PART(
                partition_index=index,
                error_code=result.code,
                high_watermark=result.high_watermark,
                last_stable_offset=result.last_stable,
                log_start_offset=result.log_start,
                aborted_transactions=None
                if result.aborted is None
                else [
                    _PART.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first)
                    for each in result.aborted
                ],
                preferred_read_replica=-1,
                records=result.records,
                **more,
            )
        )
    key = "topic_id" if version >= WITH_IDS else "topic"
    return FetchResponse(
        throttle_time_ms=throttle_ms,
        error_code=code,
        session_id=session_id,
        responses=[_TOPIC(partitions=parts, **{key: name}) for name, parts in topics.items()],
    )
