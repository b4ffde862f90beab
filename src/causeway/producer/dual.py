"""`DualProducer`: confluent-kafka's `Producer`, for two clusters.

produce() ─► taken ─► journal (spool) ─┬─► client of one side ──► answers ─┐
             a few hundred at a time   └─► client of the other ─► answers ─┴► policy ─► reports
                                                                                       │
                                                   on_delivery, from poll() and flush() ◄┘
"""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from causeway.producer import ids
from causeway.producer.clerk import LINGER_S
from causeway.producer.core import TURN_S, Core
from causeway.producer.lanes import Report
from causeway.producer.options import check

_OVERHEAD = 128  # of a record, with its id: in the spool, and on the wire
_IDLE_S = 0.5
_MOST_TIMESTAMP = 1 << 63

_open: weakref.WeakSet[DualProducer] = weakref.WeakSet()


def _forked() -> None:
    for producer in list(_open):
        producer._disown()


os.register_at_fork(after_in_child=_forked)

Callback = Callable[[Any, Any], Any]
HeadersGiven = Mapping[str, Any] | Sequence[tuple[str, Any]]


class DualProducer:
    """Writes each record to both clusters, once, in the same order in the same partition.

    `primary`, `other`: configurations as for confluent-kafka's `Producer`. `policy`: a record is
    delivered when `both` have it, when the `primary` has it, or when `any` has. `spool`: a
    directory on a local disk, of this producer alone; whatever a side lacks is sent from there when
    it is back, also after a crash of this process. `spool_max_bytes` bounds it;
    `spool_sync="machine"` has each commit wait for the disk, so that a crash of the machine loses
    nothing either.

    Where spool or disk are full, `produce` raises BufferError (`when_full="back-pressure"`), or the
    record's on_delivery gets an error (`"refuse"`). `partition_counts="least"` uses those
    partitions that both sides have, where their topics differ.

    `settle_s`: how long nothing of ours may have come to a log before it is believed, after a
    crash. `failover_after_s` (policy `primary`): the other side becomes the primary one once it has
    not answered so long; `failback`: and back, once it has caught up. `on_failover(from, to)` and
    `on_side_delivery(side, error, message)` are called from `poll` and `flush`.

    Raises ConfigError for settings that cannot be used, ConflictError where another process has
    the spool open."""

    def __init__(
        self,
        primary: Mapping[str, Any],
        other: Mapping[str, Any],
        *,
        spool: str | os.PathLike[str],
        policy: str = "both",
        name: str | None = None,
        names: tuple[str, str] = ("east", "west"),
        spool_max_bytes: int = 1 << 30,
        spool_sync: str = "process",
        when_full: str = "back-pressure",
        partition_counts: str = "equal",
        settle_s: float = 5.0,
        failover_after_s: float | None = None,
        failback: bool = True,
        on_failover: Callable[[str, str], Any] | None = None,
        on_side_delivery: Callable[[str, Any, Any], Any] | None = None,
    ) -> None:
        self._reports: deque[Report] = deque()
        options = check(
            self._queued(primary),
            self._queued(other),
            spool=os.fspath(spool),
            name=name,
            names=names,
            policy=policy,
            spool_max_bytes=spool_max_bytes,
            spool_sync=spool_sync,
            when_full=when_full,
            partition_counts=partition_counts,
            settle_s=settle_s,
            failover_after_s=failover_after_s,
            failback=failback,
        )
        self._partitioner = options.partitioner
        self._on_delivery = options.on_delivery
        self._most_bytes = options.max_record_bytes
        self._core = Core(options, self._reports, on_side_delivery, on_failover)
        self._lock = self._core.lock
        self._take = self._core.take
        self._lanes_of = self._core.lanes_of
        self._whole = False  # once it is closed
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
        """Take a record. `timestamp` in ms, 0 for now.

        The first record of a topic waits until the sides have told its partitions. Raises
        BufferError where too many records are unreported, or the spool or its disk is full;
        KafkaException for a topic or partition that is not there and a record that is too large;
        ConfigError where the sides have different numbers of partitions."""
        lanes = self._lanes_of.get(topic) or self._core.open_topic(topic)
        if type(value) is not bytes:
            value = _bytes(value)
        if type(key) is not bytes:
            key = _bytes(key)
        if partition < 0:
            partition = self._partitioner(topic, key, len(lanes))
        if not 0 <= partition < len(lanes):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        size = (len(value) if value else 0) + (len(key) if key else 0) + _OVERHEAD
        given = None
        if headers:
            given = _headers(headers)
            size += sum(len(name) + len(content or b"") + 10 for name, content in given)
        if size > self._most_bytes:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if not timestamp:
            timestamp = int(time.time() * 1000)
        elif type(timestamp) is not int or not 0 < timestamp < _MOST_TIMESTAMP:
            raise ValueError(f"timestamps are ms since 1970, not {timestamp!r}")
        told = on_delivery or callback or self._on_delivery
        with self._lock:
            self._take(lanes[partition], timestamp, key, value, given, size, told)

    def poll(self, timeout: float = -1) -> int:
        """Call what waits to be called, and wait for it up to `timeout` seconds (-1: for ever)."""
        core = self._core
        now = time.monotonic()
        if not timeout:  # called for each record
            if core.turned + LINGER_S < now and not core.closed:
                with self._lock:
                    core.turn()
            return self._tell() if self._reports else 0
        until = now + timeout if timeout >= 0 else float("inf")
        while True:
            if core.turned + TURN_S < now and not core.closed:
                with self._lock:
                    core.turn()
            if self._reports:
                return self._tell()
            now = time.monotonic()
            if now >= until:
                return 0
            core.reported.wait(min(until - now, TURN_S * 2 if core.in_motion() else _IDLE_S))
            core.reported.clear()
            now = time.monotonic()

    def flush(self, timeout: float = -1) -> int:
        """Wait until all records are reported, up to `timeout` seconds; how many are not."""
        until = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while len(self) and (left := until - time.monotonic()) > 0:
            if (self._core.closed or self._core.torn) and not self._reports:
                break  # what is left follows at the next start
            self.poll(min(left, 0.1))
        return len(self)

    def __len__(self) -> int:
        """Records that were taken and not yet reported, and what waits for `poll`."""
        return self._core.unreported() + len(self._reports)

    def __bool__(self) -> bool:
        return True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """The primary side's metadata."""
        client = self._core.roles.primary.producer
        if client is None:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        return client.list_topics(topic, timeout) if topic else client.list_topics(timeout=timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Wait up to `timeout` seconds until both sides have all, and end. Whether they have: what
        a side lacks stays in the spool, and follows at the next start."""
        if self._core.closed:
            return self._whole
        if self._core.entered():
            return self._core.close()
        until = time.monotonic() + timeout
        try:
            while (
                not (self._core.torn or self._core.whole())
                and (left := until - time.monotonic()) > 0
            ):
                self.poll(min(left, 0.01))
        finally:  # a callback may raise
            self._whole = self._core.close()
        self._tell()
        return self._whole

    def __enter__(self) -> DualProducer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What it tells besides

    @property
    def name(self) -> str:
        """What the ids of its records begin with; the spool remembers it."""
        return self._core.name

    @property
    def primary(self) -> str:
        """The side whose answer counts with policy `primary`; it changes with a failover."""
        return self._core.roles.primary.name

    def stats(self) -> dict[str, Any]:
        """Figures for people and for Prometheus; bytes, seconds, and counts since the start.

        `unreported`: records that wait for what the policy asks for. `damage`: what of the spool
        could not be read. Of each side `state` (checking, feeding, direct, broken), `reason` of the
        last trouble, `waiting` topics and why, `behind_bytes` of the spool that it was not given
        yet, `silent_seconds` since it owes an answer."""
        core = self._core
        now = time.monotonic()
        with self._lock:
            return {
                "name": core.given_name,
                "policy": core.options.policy,
                "primary": core.roles.primary.name,
                "failovers": core.roles.failovers,
                "unreported": core.unreported(),
                "spool_bytes": core.spooled(),
                "spool_max_bytes": core.options.max_bytes,
                "full": core.full(),
                "damage": list(core.damage),
                "sides": {
                    side.name: {
                        "state": side.state.value,
                        "reason": side.reason,
                        "waiting": dict(side.topics.held),
                        "acknowledged": side.acked,
                        "refused": side.refused,
                        "in_flight": side.in_flight(),
                        "behind_bytes": side.behind(),
                        "silent_seconds": side.silent_s(now),
                    }
                    for side in core.sides
                },
            }

    def _disown(self) -> None:
        self._core.disown()
        self._lock = self._core.lock

    def _tell(self) -> int:
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
        """Callbacks that only hear of something are called from `poll`, without the lock."""
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


def _headers(given: HeadersGiven) -> list[tuple[str, bytes | None]]:
    """As librdkafka wants them; the id of another producer's record is not passed on."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(_header_name(name), _bytes(value)) for name, value in pairs if name != ids.ID_HEADER]


def _header_name(given: Any) -> str:
    """What spool and clients can write, as the journal has it before they see it: no subclass, such
    as a StrEnum's member, and no half of a surrogate pair."""
    if not isinstance(given, str):
        raise TypeError("names of headers are str")
    given.encode()
    return str.__str__(given)
