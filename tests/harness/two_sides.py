"""Doubles of confluent-kafka's clients for two clusters, for tests of causeway_producer.

They answer when a test says so, break as it says, and lose no record that they have appended."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from causeway_producer import ID_HEADER

Sent = tuple[str, Any, Any, int, Any, Any, int, list[tuple[str, bytes | None]]]
Where = tuple[str, int]

_DAY_MS = 24 * 3600 * 1000
_now = time.time


@dataclass(eq=False, repr=False)
class Cluster:
    """`up`: it answers. `refuses`: values for which it answers MSG_SIZE_TOO_LARGE; `denies`: topics
    that may not be written to; `lacks`: topics that do not exist. `error_of`: what a question about
    a topic's partitions is answered with. `early`: records that a client got before the answer to
    the first one of their partition. `fails`: the chances that a batch is refused for a moment, and
    that its answer is lost. `sequences`: by client and partition the sequences that the brokers
    remember, and the time of the last record. `forgets_after_ms`: so long, which is what the
    brokers' configuration says if it `tells`. `removed`: offsets at which a log has no record any
    more; `compacted`: by compaction, else by retention."""

    name: str
    partitions: int = 2
    up: bool = True
    refuses: frozenset[bytes] = frozenset()
    denies: set[str] = field(default_factory=set)
    lacks: set[str] = field(default_factory=set)
    error_of: dict[str, int] = field(default_factory=dict)
    logs: dict[Where, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    clients: list[FakeProducer] = field(default_factory=list)
    early: list[Sent] = field(default_factory=list)
    fails: tuple[float, float] | None = None
    sequences: dict[tuple[FakeProducer, Where], tuple[list[int], int]] = field(default_factory=dict)
    forgets_after_ms: int = _DAY_MS
    tells: bool = True
    removed: set[tuple[Where, int]] = field(default_factory=set)
    compacted: bool = False

    def values(self) -> dict[Where, list[bytes]]:
        return {where: [sent[1] for sent in log] for where, log in self.logs.items()}

    def ids(self) -> list[bytes]:
        return [dict(sent[7])[ID_HEADER] or b"" for log in self.logs.values() for sent in log]

    def check_up(self) -> None:
        if not self.up:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def metadata(self, topic: str | None) -> Any:
        self.check_up()
        names = {where[0] for where in self.logs} if topic is None else {topic}
        found = {}
        for name in names:
            code = self.error_of.get(name)
            if code == KafkaError._TRANSPORT:
                raise KafkaException(KafkaError(code))
            if code is None and name in self.lacks:
                code = KafkaError.UNKNOWN_TOPIC_OR_PART
            found[name] = SimpleNamespace(
                error=None if code is None else KafkaError(code),
                partitions=dict.fromkeys(range(0 if code else self.partitions)),
            )
        return SimpleNamespace(topics=found, cluster_id=self.name, brokers={1: None})


class FakeProducer:
    """Answers in order, some records at a time; after an error it answers all others with it, as
    librdkafka does with `enable.gapless.guarantee`. `interrupt`: Ctrl-C comes when the main thread
    calls this method the next time. `before_produce`, `before_poll`: what happens there once.
    `drops`: values of records that it takes and never sends. `polls`: how often it was polled."""

    def __init__(self, of: Cluster, sides: TwoSides, in_flight: int) -> None:
        self.cluster = of
        self.in_flight = in_flight
        self.drops: frozenset[bytes] = frozenset()
        self.polls = 0
        self._sequences: dict[Where, int] = defaultdict(int)
        self._waiting: dict[Where, list[tuple[int, Sent]]] = defaultdict(list)
        self.cut = sides.cut
        self.broken: KafkaError | None = None
        self.interrupt = ""
        self.before_produce: Callable[[], None] | None = None
        self.before_poll: Callable[[], None] | None = None
        self._said = False
        self._first_error: KafkaError | None = None
        self._queue: deque[Sent] = deque()
        self._begun: set[Where] = set()
        self._lock = threading.RLock()
        of.clients.append(self)

    def produce(self, *sent: Any) -> None:
        if (before := self.before_produce) is not None:
            self.before_produce = None
            before()
        with self._lock:
            if self.cut:
                return
            if self.broken is not None:
                raise KafkaException(self.broken)
            where = (sent[0], sent[3])
            if where not in self._begun and any((s[0], s[3]) == where for s in self._queue):
                self.cluster.early.append(sent)
            self._queue.append(sent)
        self._interrupted("produce")

    def poll(self, timeout: float) -> int:
        """Raises once after it gave up, as confluent-kafka's does."""
        self.polls += 1
        self._interrupted("poll")
        if (before := self.before_poll) is not None:
            self.before_poll = None
            before()
        if self.broken is not None and not self._said:
            self._said = True
            raise KafkaException(self.broken)
        if self.cluster.fails is not None:
            self._send_batches(*self.cluster.fails)
            return 0
        for _ in range(random.randint(1, 50)):
            with self._lock:
                if not self._queue or self.cut:
                    break
                if self.broken is None and not self.cluster.up:
                    break
                sent = self._queue.popleft()
                error, self._first_error = self._first_error or self.broken, None
                if dropped := error is None and sent[1] in self.drops:
                    error = KafkaError(KafkaError._UNKNOWN_PARTITION)
                elif error is None and sent[1] in self.cluster.refuses:
                    error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
                elif error is None and sent[0] in self.cluster.denies:
                    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
                if error is None:
                    self.append(sent)
                elif self.broken is None and not dropped:
                    self._queue.appendleft(sent)
                    self._first_error = error
                    self.broken = KafkaError(KafkaError._FATAL)
                    self._said = True
                    raise KafkaException(self.broken)
            if sent[4] is not None:
                offset = len(self._log(sent)) - 1
                sent[4](error, _answer(offset, sent[6]))
        return 0

    def _send_batches(self, refused: float, lost: float) -> None:
        """One exchange with brokers that fail: each partition gets up to `in_flight` batches of one
        record. Records behind a failed batch may be appended before the failed batch is retried."""
        with self._lock:
            if self.broken is not None or self.cut or not self.cluster.up:
                if self.broken is not None:
                    self._queue.clear()
                    self._waiting.clear()
                return
            while self._queue:
                sent = self._queue.popleft()
                where = (sent[0], sent[3])
                self._sequences[where] += 1
                self._waiting[where].append((self._sequences[where], sent))
            for where, waiting in self._waiting.items():
                if waiting and waiting[0][1][1] in self.cluster.refuses:
                    self._refuse_batch(where, waiting)
                    return
                for sequence, sent in waiting[: self.in_flight]:
                    if sent[1] in self.cluster.refuses:
                        break
                    if random.random() < refused:
                        continue
                    code = self._append_batch(where, sequence, sent)
                    if code is not None:
                        if sequence == waiting[0][0]:
                            self.broken = KafkaError(KafkaError._GAPLESS_GUARANTEE)
                        break
                    if random.random() >= lost:
                        waiting.remove((sequence, sent))
                        if sent[4] is not None:
                            sent[4](None, _answer(self._log(sent).index(sent), sent[6]))

    def _refuse_batch(self, where: Where, waiting: list[tuple[int, Sent]]) -> None:
        """The client gives up, and still sends a batch that it has prepared."""
        self.broken = KafkaError(KafkaError._GAPLESS_GUARANTEE)
        refused, *behind = list(waiting)
        waiting.clear()
        errors: list[tuple[Sent, KafkaError | None]] = [
            (refused[1], KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        ]
        for number, (sequence, sent) in enumerate(behind):
            if number == 0 and self._append_batch(where, sequence, sent) is None:
                errors.append((sent, None))
            else:
                errors.append((sent, KafkaError(KafkaError._PURGE_QUEUE)))
        for sent, error in errors:
            if sent[4] is not None:
                sent[4](error, _answer(None, sent[6]))

    def _append_batch(self, where: Where, sequence: int, sent: Sent) -> int | None:
        """As a broker: it forgets a producer by the time of its last record, and takes any first
        sequence from a producer that it does not know. The last five are remembered."""
        known, last_ms = self.cluster.sequences.get((self, where), ([], 0))
        if last_ms < time.time() * 1000 - self.cluster.forgets_after_ms:
            known = []
        if sequence in known[-5:]:
            return None
        if known and sequence != known[-1] + 1:
            return int(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.append(sent)
        self.cluster.sequences[self, where] = ([*known, sequence], sent[6])
        return None

    def purge(self) -> None:
        self.broken = KafkaError(KafkaError._PURGE_QUEUE)

    def arrive(self, count: int) -> None:
        """The first records of the queue are appended, and it gets no answer; none behind one that
        was refused, whose sequence the broker would miss."""
        with self._lock:
            for _ in range(0 if self.broken else min(count, len(self._queue))):
                if (sent := self._queue.popleft())[1] in self.cluster.refuses:
                    break
                self.append(sent)

    def forget(self) -> None:
        """Its process is dead."""
        with self._lock:
            self.cut = True
            self._queue.clear()

    def append(self, sent: Sent) -> None:
        self._begun.add((sent[0], sent[3]))
        self._log(sent).append(sent)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return self.cluster.metadata(topic)

    def __len__(self) -> int:
        return len(self._queue) + sum(map(len, self._waiting.values()))

    def _log(self, sent: Sent) -> list[Sent]:
        return self.cluster.logs[sent[0], sent[3]]

    def _interrupted(self, method: str) -> None:
        if self.interrupt == method and threading.current_thread() is threading.main_thread():
            self.interrupt = ""
            raise KeyboardInterrupt


def _answer(offset: int | None, timestamp: int) -> Any:
    return SimpleNamespace(offset=lambda: offset, timestamp=lambda: (1, timestamp))


class FakeConsumer:
    """Reads what was assigned to it, and says where each partition ends."""

    def __init__(self, of: Cluster, sides: TwoSides) -> None:
        self._cluster = of
        self._at: dict[Where, int] = {}
        self._ended: dict[Where, int] = {}
        self._sides = sides

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        assert self._sides.reads_logs.wait(60)
        return self._cluster.metadata(topic)

    def assign(self, partitions: Sequence[Any]) -> None:
        self._at = {(each.topic, each.partition): each.offset for each in partitions}

    def consume(self, count: int, timeout: float) -> list[Any]:
        self._cluster.check_up()
        found = []
        if self._sides.denies_groups:
            code = KafkaError.GROUP_AUTHORIZATION_FAILED
            found.append(_message(("", -1), -1, None, code))
        for where, offset in self._at.items():
            log = self._cluster.logs[where]
            found += [
                _message(where, at, log[at][7], None)
                for at in range(offset, len(log))
                if (where, at) not in self._cluster.removed
            ]
            self._at[where] = len(log)
            if self._ended.get(where) != len(log):
                self._ended[where] = len(log)
                found.append(_message(where, len(log), None, KafkaError._PARTITION_EOF))
        return found

    def close(self) -> None:
        pass


def _message(where: Where, offset: int, headers: Any, code: int | None) -> Any:
    error = None if code is None else KafkaError(code)
    return SimpleNamespace(
        topic=lambda: where[0],
        partition=lambda: where[1],
        offset=lambda: offset,
        headers=lambda: headers,
        error=lambda: error,
    )


class FakeAdmin:
    def __init__(self, of: Cluster) -> None:
        self._cluster = of

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return self._cluster.metadata(topic)

    def list_offsets(self, asked: Mapping[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        found = {}
        for at, spec in asked.items():
            where = (at.topic, at.partition)
            offset = len(self._cluster.logs[where])
            if spec is OffsetSpec.earliest():
                offset = 0
                while (where, offset) in self._cluster.removed and not self._cluster.compacted:
                    offset += 1
            found[at] = self._answer(SimpleNamespace(offset=offset))
        return found

    def describe_configs(self, asked: Sequence[Any], **_: Any) -> dict[Any, Future[Any]]:
        (resource,) = asked
        values = {
            "producer.id.expiration.ms": self._cluster.forgets_after_ms,
            "cleanup.policy": "compact" if self._cluster.compacted else "delete",
        }
        entries = {key: SimpleNamespace(value=str(value)) for key, value in values.items()}
        denied = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        return {resource: self._answer(entries if self._cluster.tells else denied)}

    def describe_topics(self, asked: Any, **_: Any) -> dict[str, Future[Any]]:
        answers = {}
        for topic in asked.topic_names:
            if topic in self._cluster.lacks:
                answers[topic] = self._answer(
                    KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
                )
            else:
                operation = confluent_kafka.admin.AclOperation
                allowed = operation.READ if topic in self._cluster.denies else operation.WRITE
                answers[topic] = self._answer(SimpleNamespace(authorized_operations=[allowed]))
        return answers

    def _answer(self, content: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        if not self._cluster.up:
            content = KafkaException(KafkaError(KafkaError._TRANSPORT))
        if isinstance(content, BaseException):
            answer.set_exception(content)
        else:
            answer.set_result(content)
        return answer


@dataclass(repr=False)
class TwoSides:
    """`cut`: clients that are made now are of a dead process, and reach no cluster. `clock_s`: so
    much later is it. `denies_groups`: consumers may not use their group. `reads_logs`: cleared, it
    holds up the reading of logs."""

    east: Cluster = field(default_factory=lambda: Cluster("east"))
    west: Cluster = field(default_factory=lambda: Cluster("west"))
    cut: bool = False
    clock_s: float = 0.0
    denies_groups: bool = False
    reads_logs: threading.Event = field(default_factory=threading.Event)

    @property
    def both(self) -> tuple[Cluster, Cluster]:
        return self.east, self.west

    def of(self, settings: Mapping[str, Any]) -> Cluster:
        found: Cluster = getattr(self, settings["bootstrap.servers"])
        return found


@pytest.fixture
def two_sides(monkeypatch: pytest.MonkeyPatch) -> TwoSides:
    sides = TwoSides()
    sides.reads_logs.set()
    monkeypatch.setattr(
        confluent_kafka,
        "Producer",
        lambda given: FakeProducer(
            sides.of(given), sides, given.get("max.in.flight.requests.per.connection", 5)
        ),
    )
    monkeypatch.setattr(
        confluent_kafka, "Consumer", lambda given: FakeConsumer(sides.of(given), sides)
    )
    monkeypatch.setattr(
        confluent_kafka.admin, "AdminClient", lambda given: FakeAdmin(sides.of(given))
    )
    monkeypatch.setattr(time, "time", lambda: _now() + sides.clock_s)
    return sides
