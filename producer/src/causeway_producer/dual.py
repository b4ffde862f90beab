"""`DualProducer`: confluent-kafka's `Producer`, for two clusters.

produce() ─► taken ─► spool's journal ─┬─► client of one side ──► answers ─┐
            (some hundred at a time)   └─► client of the other ─► answers ─┴► policy ─► reports
                                                                                          │
                                               on_delivery, from poll() and flush() ◄─────┘
"""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

from confluent_kafka import KafkaError, KafkaException

from causeway_producer.core import LINGER_S, TURN_S, Core
from causeway_producer.hub import Report
from causeway_producer.options import Settings, check
from causeway_producer.records import ID_HEADER, Header

_OVERHEAD = 128  # bytes of a record besides key, value and headers, in the spool and on the wire
_HEADER_OVERHEAD = 10
_IDLE_S = 0.5
_TIMESTAMP_END = 1 << 63

Callback = Callable[[Any, Any], Any]
HeadersGiven = Mapping[str, Any] | Sequence[tuple[str, Any]]

_open: weakref.WeakSet[DualProducer] = weakref.WeakSet()


def _after_fork() -> None:
    for producer in list(_open):
        producer._disown()


os.register_at_fork(after_in_child=_after_fork)


class DualProducer:
    """Writes each record to both clusters, once, in the same order in the same partition.

    `primary`, `other`: configurations as for confluent-kafka's `Producer`. `policy`: a record is
    `primary`, `other`: configurations as for confluent-kafka's `Producer`. `policy`: a record is
    delivered when `both` have it, when the `primary` has it, or when `any` has it. `spool`: a
    directory on a local disk, only for this producer. Records that a side lacks are sent from the
    spool when the side is back, even after a crash of this process. `spool_max_bytes` limits it.
    With `spool_sync="machine"` each write waits for the disk, so a crash of the machine loses
    nothing either.

    If the spool or its disk is full, `produce` raises BufferError (`when_full="back-pressure"`), or
    the record's on_delivery gets an error (`"refuse"`). `partition_counts="least"` uses the
    partitions that both sides have, if their topics differ.

    `name`, `names`: the names of the producer and of its sides. `settle_s`: after a crash, a log
    counts as complete once no record of ours has come to it for this time. `failover_after_s`
    (policy `primary`): if the primary side gives no answer for this time, the other side becomes
    the primary one. With `failback`, the first side becomes the primary one again, once it has
    caught up. `on_failover(from, to)` and `on_side_delivery(side, error, message)` are called from
    `poll` and `flush`.

    Raises SettingsError for settings that cannot be used, and SpoolInUseError if another process
    the spool open."""

    def __init__(
        self,
        primary: Mapping[str, Any],
        other: Mapping[str, Any],
        *,
        spool: str | os.PathLike[str],
        **settings: Unpack[Settings],
    ) -> None:
        self._reports: deque[Report] = deque()
        options = check(self._queued(primary), self._queued(other), spool, settings)
        self._partitioner = options.partitioner
        self._on_delivery = options.on_delivery
        self._max_bytes = options.max_record_bytes
        self._core = Core(options, self._reports)
        self._hub = self._core.hub
        self._topics = self._hub.topics
        self._complete = False  # the result of `close`
        _open.add(self)

    # confluent-kafka's interface

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Callback | None = None,
        on_delivery: Callback | None = None,
        timestamp: int = 0,
        headers: HeadersGiven | None = None,
    ) -> None:
        """Takes a record. `timestamp` in ms, 0 for now.

        The first record of a topic waits until the sides have described it. Raises BufferError if
        too many records are unreported, or the spool or its disk is full; KafkaException if there
        is no such topic or partition, or the record is too large; SettingsError if the sides have
        different numbers of partitions."""
        partitions = self._topics.get(topic) or self._core.open_topic(topic)
        if type(value) is not bytes:
            value = _bytes(value)
        if type(key) is not bytes:
            key = _bytes(key)
        if partition < 0:
            partition = self._partitioner(topic, key, len(partitions))
        if not 0 <= partition < len(partitions):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        size = (len(value) if value else 0) + (len(key) if key else 0) + _OVERHEAD
        given = None
        if headers:
            given = _headers(headers)
            size += sum(len(name) + len(each or b"") + _HEADER_OVERHEAD for name, each in given)
        if size > self._max_bytes:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if not timestamp:
            timestamp = int(time.time() * 1000)
        elif type(timestamp) is not int or not 0 < timestamp < _TIMESTAMP_END:
            raise ValueError(f"timestamp is {timestamp!r}, not ms since 1970")
        callback = on_delivery or callback or self._on_delivery
        with self._hub.lock:
            self._core.take(partitions[partition], timestamp, key, value, given, size, callback)

    def poll(self, timeout: float = -1) -> int:
        """Calls the callbacks that are due, and waits for some up to `timeout` seconds (-1: without
        end). Returns their number."""
        core, hub = self._core, self._hub
        now = time.monotonic()
        if not timeout:  # called for each record
            if core.turned + LINGER_S < now and not core.closed:
                with hub.lock:
                    core.turn()
            return self._call_back() if self._reports else 0
        until = now + timeout if timeout >= 0 else float("inf")
        while True:
            if core.turned + TURN_S < now and not core.closed:
                with hub.lock:
                    core.turn()
            if self._reports:
                return self._call_back()
            now = time.monotonic()
            if now >= until:
                return 0
            hub.reported.wait(min(until - now, TURN_S * 2 if core.in_motion() else _IDLE_S))
            hub.reported.clear()
            now = time.monotonic()

    def flush(self, timeout: float = -1) -> int:
        """Waits until all records are reported, up to `timeout` seconds. Returns the number of
        unreported records."""
        until = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while len(self) and (left := until - time.monotonic()) > 0:
            if (self._core.closed or self._hub.torn) and not self._reports:
                break  # the next start sends the remaining records
            self.poll(min(left, 0.1))
        return len(self)

    def __len__(self) -> int:
        """Returns the number of records that are not reported yet, and of callbacks that wait for
        `poll`."""
        return self._core.unreported() + len(self._reports)

    def __bool__(self) -> bool:
        return True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Returns the primary side's metadata."""
        client = self._core.sides[self._hub.primary].client
        if client is None:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        return client.list_topics(topic, timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Waits up to `timeout` seconds until both sides have all records, and ends. Returns
        whether both sides have them. If not, the spool keeps the records that a side lacks, and the
        next start sends them."""
        core = self._core
        if core.closed:
            return self._complete
        if core.within_call():
            return core.close()
        until = time.monotonic() + timeout
        try:
            while (
                not (self._hub.torn or core.all_there()) and (left := until - time.monotonic()) > 0
            ):
                self.poll(min(left, 0.01))
        finally:  # a callback may raise
            self._complete = core.close()
        self._call_back()
        return self._complete

    def __enter__(self) -> DualProducer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Besides

    @property
    def name(self) -> str:
        """The first part of the records' ids. The spool remembers it."""
        return self._core.spool.identity

    @property
    def primary(self) -> str:
        """The side whose answer counts with policy `primary`. A failover changes it."""
        return self._hub.names[self._hub.primary]

    def stats(self) -> dict[str, Any]:
        """Figures for people and for Prometheus: bytes, seconds, and counts since the start.

        `unreported`: records that wait for the policy's condition. `damage`: places of the spool
        that cannot be read. For each side: `state` (checking, feeding, direct, broken), the
        `reason` of its last trouble, `forgets_after_ms` as its brokers say (None: a day is
        assumed), topics that are `waiting` with their reasons, `behind_bytes` of the spool that its
        client has not got yet, and `silent_seconds` since it owes an answer."""
        core, hub = self._core, self._hub
        now = time.monotonic()
        with hub.lock:
            return {
                "name": core.spool.name,
                "policy": core.options.policy,
                "primary": self.primary,
                "failovers": core.failovers,
                "unreported": core.unreported(),
                "spool_bytes": core.spooled_bytes(),
                "spool_max_bytes": core.options.spool_max_bytes,
                "full": core.full(),
                "damage": list(core.damage),
                "sides": {
                    side.name: {
                        "state": side.state.value,
                        "reason": side.trouble(),
                        "forgets_after_ms": side.forgets_after_ms,
                        "waiting": side.topics.reasons(),
                        "acknowledged": hub.acknowledged[index],
                        "refused": hub.refused[index],
                        "in_flight": side.in_flight(),
                        "behind_bytes": side.behind_bytes(),
                        "silent_seconds": side.silent_s(now),
                    }
                    for index, side in enumerate(core.sides)
                },
            }

    def _disown(self) -> None:
        self._core.disown()

    def _call_back(self) -> int:
        count = 0
        for _ in range(len(self._reports)):
            try:
                callback, arguments = self._reports.popleft()
            except IndexError:  # another thread polls as well
                break
            count += 1
            callback(*arguments)
        return count

    def _queued(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Lets `poll` call librdkafka's callbacks too, without the lock."""
        if not isinstance(given, Mapping):
            return given
        queued = dict(given)
        for key in ("error_cb", "stats_cb", "throttle_cb"):
            if callable(callback := given.get(key)):
                queued[key] = self._queue(callback)
        return queued

    def _queue(self, callback: Callable[..., Any]) -> Callable[..., None]:
        return lambda *arguments: self._reports.append((callback, arguments))


def _bytes(given: Any) -> bytes | None:
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"keys and values are str, bytes or None, not {type(given).__name__}")


def _headers(given: HeadersGiven) -> list[Header]:
    """Converts headers as librdkafka does. Leaves out the id of another producer's record."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(_header_name(name), _bytes(value)) for name, value in pairs if name != ID_HEADER]


def _header_name(given: Any) -> str:
    """Returns a name. Raises before the record is taken if the name cannot be written: the journal
    takes no subclass such as a StrEnum's member, and librdkafka no half of a surrogate pair."""
    if not isinstance(given, str):
        raise TypeError("names of headers are str")
    given.encode()
    return str.__str__(given)
