"""Doubles of two clusters and of librdkafka's producer, for `causeway.producer`: they answer when a
test says so, break as it says, and lose nothing that they have appended."""

from __future__ import annotations

import random
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from causeway.producer import core, ids, look_back, opening, options, rd_client, side, topics
from causeway.producer.ledger import Place
from causeway.producer.look_back import Partition

Sent = tuple[str, Any, Any, int, Any, Any, int, list[tuple[str, bytes | None]]]


@dataclass(eq=False, repr=False)
class Cluster:
    """`up`: it answers. `refuses`: values that it will not have, `MSG_SIZE_TOO_LARGE` it says;
    `denies`: topics that may not be written to; `lacks`: that are not there."""

    name: str
    partitions: int = 2
    up: bool = True
    refuses: frozenset[bytes] = frozenset()
    denies: set[str] = field(default_factory=set)
    lacks: set[str] = field(default_factory=set)
    logs: dict[Partition, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    clients: list[Client] = field(default_factory=list)

    def values(self) -> dict[Partition, list[bytes]]:
        return {where: [sent[1] for sent in log] for where, log in self.logs.items()}

    def ids(self) -> list[bytes]:
        return [dict(sent[7])[ids.ID_HEADER] or b"" for log in self.logs.values() for sent in log]


class Client:
    """Answers in order, some at a time; after an error to none but by errors, as a client does
    that guarantees that there are no gaps."""

    def __init__(self, cluster: Cluster, most: int) -> None:
        self.cluster = cluster
        self.most = most
        self.cut = False
        self.broken: KafkaError | None = None
        self.said = False
        self._queue: deque[Sent] = deque()
        self._lock = threading.Lock()
        cluster.clients.append(self)

    def produce(self, *sent: Any) -> None:
        with self._lock:
            if self.cut:
                return
            if self.broken is not None:
                raise KafkaException(self.broken)
            if len(self._queue) >= self.most:
                raise BufferError("Local: Queue full")
            self._queue.append(sent)

    def poll(self, timeout: float) -> int:
        """Raises once after it gave up, as confluent-kafka does."""
        if self.broken is not None and not self.said:
            self.said = True
            raise KafkaException(self.broken)
        for _ in range(random.randint(1, 50)):
            with self._lock:
                if not self._queue or self.cut:
                    break
                if self.broken is None and not self.cluster.up:
                    break
                sent = self._queue.popleft()
                if self.broken is None and sent[1] in self.cluster.refuses:
                    self.broken = KafkaError(KafkaError._FATAL)
                    error: KafkaError | None = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
                elif self.broken is None and sent[0] in self.cluster.denies:
                    self.broken = KafkaError(KafkaError._FATAL)
                    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
                else:
                    error = self.broken
                if error is None:
                    self.append(sent)
            if sent[4] is not None:
                at = len(self.log(sent)) - 1
                sent[4](error, SimpleNamespace(offset=lambda a=at: a, topic=lambda s=sent: s[0]))
        return 0

    def purge(self) -> None:
        self.broken = KafkaError(KafkaError._PURGE_QUEUE)

    def arrive(self, count: int) -> None:
        """The first ones of the queue are appended, and nobody hears of it; none behind one that
        was given up, whose sequence the broker would miss."""
        with self._lock:
            for _ in range(0 if self.broken else min(count, len(self._queue))):
                if (sent := self._queue.popleft())[1] in self.cluster.refuses:
                    break
                self.append(sent)

    def append(self, sent: Sent) -> None:
        self.log(sent).append(sent)

    def log(self, sent: Sent) -> list[Sent]:
        return self.cluster.logs[sent[0], sent[3]]

    def __len__(self) -> int:
        return len(self._queue)


@dataclass(repr=False)
class TwoSides:
    """`cut`: what is made now is of a dead process, and reaches nobody."""

    east: Cluster = field(default_factory=lambda: Cluster("east"))
    west: Cluster = field(default_factory=lambda: Cluster("west"))
    most: int = 1000
    cut: bool = False

    @property
    def both(self) -> tuple[Cluster, Cluster]:
        return self.east, self.west

    def client(self, settings: Mapping[str, Any]) -> Client:
        client = Client(getattr(self, settings["bootstrap.servers"]), self.most)
        client.cut = client.cut or self.cut
        return client

    def look(self, client: Any, topic: str, **_: float) -> topics.Seen:
        cluster = client._producer.cluster
        if not cluster.up:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        if topic in cluster.lacks:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return topics.Seen(partitions=cluster.partitions, cluster_id=cluster.name)

    def ends(self, settings: Mapping[str, Any], topic: str, count: int) -> dict[int, int]:
        cluster = getattr(self, settings["bootstrap.servers"])
        if not cluster.up:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return {partition: len(cluster.logs[topic, partition]) for partition in range(count)}

    def look_back(
        self,
        settings: Mapping[str, Any],
        name: str,
        places: Mapping[Partition, Place],
        *,
        settle_s: float,
        going_on: Callable[[], bool],
    ) -> tuple[dict[Partition, Place], dict[str, KafkaError]]:
        cluster = getattr(self, settings["bootstrap.servers"])
        if not cluster.up:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        found, failed = {}, {}
        for where, place in places.items():
            if where[0] in cluster.lacks:
                failed[where[0]] = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
                continue
            log = cluster.logs[where]
            tail = [ids.position_of(name, sent[7]) or 0 for sent in log[place.offset :]]
            found[where] = Place(position=max([place.position, *tail]), offset=len(log))
        return found, failed

    def writable(self, settings: Mapping[str, Any], topic: str) -> bool:
        cluster = getattr(self, settings["bootstrap.servers"])
        return topic not in cluster.denies | cluster.lacks


@pytest.fixture
def two_sides(monkeypatch: pytest.MonkeyPatch) -> TwoSides:
    sides = TwoSides()
    monkeypatch.setattr(rd_client, "Producer", sides.client)
    monkeypatch.setattr(options, "wire_settings", lambda *_: None)  # these are librdkafka's
    monkeypatch.setattr(opening, "look", sides.look)
    monkeypatch.setattr(core, "look", sides.look)
    monkeypatch.setattr(opening, "ends", sides.ends)
    monkeypatch.setattr(opening, "writable", sides.writable)
    monkeypatch.setattr(opening, "_LEAST_PAUSE_S", 0.02)
    monkeypatch.setattr(side, "look_back", sides.look_back)
    assert look_back.look_back is not sides.look_back
    for name in ("_RETRY_S", "_IDLE_S", "_FULL_S"):
        monkeypatch.setattr(side, name, 0.002)
    return sides
