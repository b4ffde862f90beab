"""`DualProducer`: confluent-kafka's `Producer`, for two clusters.

    produce() ─► taken ─► journal (spool) ─┬─► client of one side ──► answers ─┐
                 a few hundred at a time   └─► client of the other ─► answers ─┴► policy ─► reports
                                                                                           │
                                                       on_delivery, from poll() and flush() ◄┘

Whoever calls does the work: a thread of our own would have to wait for Python's lock at each answer
of a busy program. The clerk, a thread, does it where nobody calls. One lock holds it all together;
what the application gave to be called is called without it.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from causeway.errors import ConfigError
from causeway.producer import ids
from causeway.producer.journal import Journal, Record
from causeway.producer.ledger import Ledger
from causeway.producer.options import Options, check
from causeway.producer.side import Entry, Lane, Side, State
from causeway.producer.topics import partition_count

_AT_ONCE = 256  # records of a commit
_BYTES_AT_ONCE = 256 << 10
_LINGER_S = 0.002  # a record waits no longer for its likes before it is written and sent
_TURN_S = 0.001
_CLERK_S = 0.005
_LEFT_ALONE_S = 0.01  # so long after a caller's last turn the clerk takes over
_IDLE_S = 0.5
_CHECKPOINT_S = 1.0
_TRIM_S = 0.05
_FULL_RETRY_S = 1.0
_OVERHEAD = 64  # of a record, in the spool
_TOPIC_TIMEOUT_S = 10.0
_EAST, _WEST = 1, 2

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
        self._reports: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
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
        self._options = options
        self._on_failover = on_failover
        self._on_side_delivery = on_side_delivery
        self.lock = threading.RLock()
        self.unreported: dict[int, Entry] = {}
        self.lanes: dict[int, Lane] = {}
        self.failovers = 0
        self._lanes_of: dict[str, list[Lane]] = {}
        self._fresh: list[Record] = []
        self._entries: list[Entry] = []
        self._fresh_bytes = 0
        self._fresh_since = 0.0
        self._waiting_bytes = 0
        self._next = 0
        self._full_until = 0.0
        self._why_full = ""
        self._turned = 0.0
        self._checkpointed = self._trimmed = time.monotonic()
        self._closed = False
        self._wake = threading.Event()
        self._reported = threading.Event()
        self._open_spool(options)
        self.sides = tuple(
            Side(side, bit, self, options.settle_s)
            for side, bit in zip(options.sides, (_EAST, _WEST), strict=True)
        )
        self._primary = self.sides[0]
        self._decide()
        for side in self.sides:
            side.tells = on_side_delivery is not None
        self._load_lanes()
        for side in self.sides:
            side.start()
        self._clerk = threading.Thread(target=self._keep, name="causeway-clerk", daemon=True)
        self._clerk.start()

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
        KafkaException for a topic or partition that is not there; ConfigError where the sides have
        different numbers of partitions."""
        lanes = self._lanes_of.get(topic) or self._open_topic(topic)
        if type(value) is not bytes:
            value = _bytes(value)
        if type(key) is not bytes:
            key = _bytes(key)
        if partition < 0:
            partition = self._options.partitioner(topic, key, len(lanes))
        if partition >= len(lanes):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        size = (len(value) if value else 0) + (len(key) if key else 0) + _OVERHEAD
        given = _headers(headers) if headers else None
        if given:
            size += sum(len(name) + len(content or b"") for name, content in given)
        if not timestamp:
            timestamp = int(time.time() * 1000)
        told = on_delivery or callback or self._options.on_delivery
        with self.lock:
            if self._closed:
                raise RuntimeError("DualProducer was closed")
            if (why := self._full(size)) and not self._made_room(size):
                if self._options.when_full == "refuse" and told is not None:
                    self._tell_refused(told, topic, partition, key, value, why)
                    return
                raise BufferError(why)
            position = self._next
            self._next = position + 1
            entry = Entry(position, told)
            self.unreported[position] = entry
            self._fresh.append((position, lanes[partition].number, timestamp, key, value, given))
            self._entries.append(entry)
            if not self._fresh_bytes:
                self._fresh_since = time.monotonic()
                self._wake.set()
            self._fresh_bytes += size
            if len(self._fresh) >= _AT_ONCE or self._fresh_bytes >= _BYTES_AT_ONCE:
                self._turn()

    def poll(self, timeout: float = -1) -> int:
        """Call what waits to be called, and wait for it up to `timeout` seconds (-1: for ever)."""
        now = time.monotonic()
        until = now + timeout if timeout >= 0 else float("inf")
        while True:
            if self._turned + _TURN_S < now:
                with self.lock:
                    self._turn()
            if self._reports:
                return self._tell()
            now = time.monotonic()
            if now >= until:
                return 0
            in_motion = self.unreported or any(side.in_flight() for side in self.sides)
            self._reported.wait(min(until - now, _TURN_S * 2 if in_motion else _IDLE_S))
            self._reported.clear()
            now = time.monotonic()

    def flush(self, timeout: float = -1) -> int:
        """Wait until all records are reported, up to `timeout` seconds; how many are not."""
        until = time.monotonic() + timeout if timeout >= 0 else float("inf")
        with self.lock:
            self._turn()
        while len(self) and (left := until - time.monotonic()) > 0:
            self.poll(min(left, 0.1))
        return len(self)

    def __len__(self) -> int:
        """Records that were taken and not yet reported, and what waits for `poll`."""
        return len(self.unreported) + len(self._reports)

    def __bool__(self) -> bool:
        return True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """The primary side's metadata."""
        client = self._primary.producer
        if client is None:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        return client.list_topics(topic, timeout) if topic else client.list_topics(timeout=timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Flush for up to `timeout` seconds, also what a side lacks, and end. Whether both sides
        have all; what they lack stays in the spool, and follows at the next start."""
        until = time.monotonic() + timeout
        self.flush(timeout)
        while time.monotonic() < until and not self._whole():
            self.poll(0.01)
        with self.lock:
            if self._closed:
                return True
            self._turn()
            self._closed = True
        self._wake.set()
        self._clerk.join()
        for side in self.sides:
            side.close()
        with self.lock:
            whole = self._checkpoint()
            self.journal.close()
            self.ledger.close()
        self._tell()
        return whole

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
    def primary(self) -> str:
        """The side whose word counts with policy `primary`; it changes with a failover."""
        return self._primary.name

    def stats(self) -> dict[str, Any]:
        """Figures for people and Prometheus; bytes, seconds and counts of records."""
        now = time.monotonic()
        with self.lock:
            return {
                "name": self.name,
                "policy": self._options.policy,
                "primary": self._primary.name,
                "failovers": self.failovers,
                "unreported": len(self.unreported),
                "spool_bytes": self.journal.size + self._fresh_bytes,
                "spool_max_bytes": self.journal.most,
                "full": self._why_full if now < self._full_until else "",
                "sides": {
                    side.name: {
                        "state": side.state.value,
                        "reason": side.reason,
                        "acknowledged": side.acked,
                        "refused": side.refused,
                        "in_flight": side.in_flight(),
                        "behind_bytes": side.behind(),
                        "silent_seconds": side.silent_s(now),
                    }
                    for side in self.sides
                },
            }

    # What the sides call, with the lock

    def report(self, entry: Entry, error: Any, message: Any) -> None:
        if self.unreported.pop(entry.position, None) is not None and entry.callback is not None:
            self._reports.append((entry.callback, (error, message)))
            self._reported.set()

    def told(self, side: Side, error: Any, message: Any) -> None:
        if self._on_side_delivery is not None:
            self._reports.append((self._on_side_delivery, (side.name, error, message)))
            self._reported.set()

    # Inside

    def _open_spool(self, options: Options) -> None:
        directory = Path(options.spool)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.ledger = Ledger(directory)
            self.journal = Journal(
                directory, most=options.max_bytes, durable=options.sync == "machine"
            )
        except OSError as error:
            raise ConfigError("open", f"spool {directory}", str(error)) from error
        known = self.ledger.about("name")
        if known is not None and options.name not in (None, known):
            raise ConfigError(
                "open",
                f"spool {directory}",
                f"it belongs to producer {known}, and the name given is {options.name}",
                remedy="give each producer a directory of its own",
            )
        self.name = known or options.name or secrets.token_hex(6)
        sides = " ".join(side.name for side in options.sides)
        if (before := self.ledger.about("sides")) is not None and set(before.split()) != set(
            sides.split()
        ):
            raise ConfigError(
                "open", f"spool {directory}", f"its sides are {before}, and the names given {sides}"
            )
        self.ledger.note("name", self.name)
        self.ledger.note("sides", sides)
        life = int(self.ledger.about("life") or 0) + 1
        self.ledger.note("life", str(life))
        self._prefix = ids.prefix(self.name, life)
        self._next = ids.first_position(life) + 1
        self.newest = self._next - 1

    def _load_lanes(self) -> None:
        places = {side.name: self.ledger.places(side.name) for side in self.sides}
        for topic, numbers in self.ledger.lanes().items():
            self._add_lanes(topic, numbers)
        for side in self.sides:
            for number, place in places[side.name].items():
                on = self.lanes[number].on[side.bit >> 1]
                on.there = on.stored = place.position
                on.offset, on.open = place.offset, True
        for lane in self.lanes.values():
            for on in lane.on:
                if not on.open:
                    on.side.topics.add(lane.topic)

    def _add_lanes(self, topic: str, numbers: Sequence[int]) -> list[Lane]:
        lanes = []
        for partition, number in enumerate(numbers):
            if number not in self.lanes:
                self.lanes[number] = Lane(number, topic, partition, self.sides)
            lanes.append(self.lanes[number])
        self._lanes_of[topic] = lanes
        return lanes

    def _open_topic(self, topic: str) -> list[Lane]:
        """Its partitions, as the sides tell that answer."""
        counts: dict[str, int] = {}
        failed: KafkaException | None = None
        for side in self.sides:
            client = side.producer
            try:
                if client is not None:
                    counts[side.name] = partition_count(client, topic, _TOPIC_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() not in _NOBODY:
                    raise
                failed = error
        if not counts:
            raise failed or KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        if len(set(counts.values())) > 1 and self._options.partition_counts == "equal":
            told = ", ".join(f"{count} on {name}" for name, count in counts.items())
            raise ConfigError(
                "produce to",
                topic,
                f"it has different numbers of partitions: {told}",
                remedy='make them alike, or use those that both have: partition_counts="least"',
            )
        with self.lock:
            lanes = self._add_lanes(topic, self.ledger.add_topic(topic, min(counts.values())))
            for side in self.sides:
                if not all(lane.on[side.bit >> 1].open for lane in lanes):
                    side.topics.add(topic)
                    side.missed(self.newest + 1)
                    side.wake()
            return lanes

    def _turn(self) -> None:
        """All that is to be done now and does not block."""
        self._turned = now = time.monotonic()
        if self._fresh:
            self._commit(now)
        for side in self.sides:
            side.serve()
        if now - self._checkpointed > _CHECKPOINT_S:
            self._checkpoint()

    def _commit(self, now: float) -> None:
        """What was taken goes to the journal, and from there to the sides."""
        fresh, entries = self._fresh, self._entries
        self._fresh, self._entries, self._fresh_bytes = [], [], 0
        try:
            self.journal.append(fresh)
        except OSError as error:
            self._why_full = f"the spool cannot be written: {error.strerror}"
            self._full_until = now + _FULL_RETRY_S
            for record, entry in zip(fresh, entries, strict=True):
                del self.unreported[entry.position]
                if entry.callback is not None:
                    lane = self.lanes[record[1]]
                    self._tell_refused(
                        entry.callback,
                        lane.topic,
                        lane.partition,
                        record[3],
                        record[4],
                        self._why_full,
                    )
            return
        self.newest = fresh[-1][0]
        for side in self.sides:
            if side.state is State.DIRECT:
                side.hand_over(fresh, entries, self._prefix)

    def _full(self, size: int) -> str:
        if len(self.unreported) >= self._options.max_messages:
            return "Local: Queue full"
        if self.journal.size + self._fresh_bytes + size > self.journal.most:
            return f"the spool is full ({self.journal.most} bytes)"
        if self._full_until and time.monotonic() < self._full_until:
            return self._why_full
        return ""

    def _made_room(self, size: int) -> bool:
        """A full spool may hold what both sides have meanwhile."""
        now = time.monotonic()
        if now - self._trimmed < _TRIM_S:
            return False
        self._turn()
        self._checkpoint()
        return not self._full(size)

    def _tell_refused(
        self,
        told: Callback,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        why: str,
    ) -> None:
        error = KafkaError(KafkaError._QUEUE_FULL, why)
        message = Message(topic=topic, partition=partition, key=key, value=value, error=error)
        self._reports.append((told, (error, message)))
        self._reported.set()

    def _tell(self) -> int:
        count = 0
        reports = self._reports
        for _ in range(len(reports)):
            try:
                callback, arguments = reports.popleft()
            except IndexError:  # another thread polls as well
                break
            count += 1
            callback(*arguments)
        return count

    def _whole(self) -> bool:
        """Whether both sides have all that was ever taken."""
        with self.lock:
            return not self._fresh and all(
                side.below(self.newest) > self.newest for side in self.sides
            )

    def _checkpoint(self) -> bool:
        """Write down how far the sides have come, and delete what both have."""
        self._checkpointed = self._trimmed = time.monotonic()
        below = min(side.below(self.newest) for side in self.sides)
        whole = below > self.newest and not self._fresh
        places = {side: side.places() for side in self.sides}
        try:
            if any(places.values()):
                self.ledger.store({side.name: some for side, some in places.items()})
        except Exception as error:  # a full disk; what stands there stays true
            self._why_full = f"the spool cannot be written: {error}"
            return False
        for side, some in places.items():
            side.stored(some)
        self.journal.trim(below, all_of_it=whole)
        return whole

    def _decide(self) -> None:
        """Which answer makes a record delivered."""
        for side in self.sides:
            if self._options.policy == "both":
                side.decides = frozenset({_EAST | _WEST})
            elif self._options.policy == "any":
                side.decides = frozenset({side.bit})
            elif side is self._primary:
                side.decides = frozenset({side.bit, _EAST | _WEST})
            else:
                side.decides = frozenset()

    def _keep(self) -> None:
        """The clerk's thread."""
        while not self._closed:
            in_motion = self._fresh or any(side.in_flight() for side in self.sides)
            if not in_motion:
                self._wake.wait(_IDLE_S)
            self._wake.clear()
            time.sleep(_LINGER_S if self._fresh else _CLERK_S)
            now = time.monotonic()
            lingered = self._fresh and now - self._fresh_since >= _LINGER_S
            if lingered or now - self._turned >= _LEFT_ALONE_S:
                with self.lock:
                    if not self._closed:
                        self._turn()
            self._watch(now)

    def _watch(self, now: float) -> None:
        """Fail over, and back."""
        after_s = self._options.failover_after_s
        if after_s is None:
            return
        with self.lock:
            first = self.sides[0]
            (other,) = (side for side in self.sides if side is not self._primary)
            silent = {side: side.silent_s(now) for side in self.sides}
            if silent[self._primary] > after_s and silent[other] < after_s / 2:
                self._swap(other)
            elif (
                self._primary is not first
                and self._options.failback
                and first.state is State.DIRECT
                and silent[first] < after_s / 2
            ):
                self._swap(first)

    def _swap(self, to: Side) -> None:
        before, self._primary = self._primary, to
        self.failovers += 1
        self._decide()
        for entry in [entry for entry in self.unreported.values() if entry.acks & to.bit]:
            self.report(entry, None, None)
        if self._on_failover is not None:
            self._reports.append((self._on_failover, (before.name, to.name)))
            self._reported.set()

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


# Codes of a side that does not answer, as against one that answers no.
_NOBODY = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
)


def _bytes(given: Any) -> bytes | None:
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"keys and values are str, bytes or None, not {type(given).__name__}")


def _headers(given: HeadersGiven) -> list[tuple[str, bytes | None]]:
    """As librdkafka wants them; an id of another producer's record is not passed on."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(name, _bytes(value)) for name, value in pairs if name != ids.ID_HEADER]
