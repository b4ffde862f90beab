"""What is written to the source: shapes of data, and backlogs that appear all at once."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from confluent_kafka import Producer

from examples.demo.flights import flights

_TIMEOUT_S = 120.0
_TRANSACTION_S = 800  # brokers allow 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One kind of data. `records` gives (key, value) pairs to take in turn; `producer` are
    librdkafka's settings; `backlog` and `warm_up` count records over all partitions. `survives`
    tells which records arrive, `known` makes the last value of a partition, which does, of a
    text by which it is known again."""

    name: str
    title: str
    records: Callable[[], Sequence[tuple[bytes | None, bytes]]]
    producer: Mapping[str, str | int]
    mirror: Mapping[str, str] = field(default_factory=dict)  # producer settings of MirrorMaker 2
    backlog: int
    warm_up: int
    partitions: int = 4
    survives: Callable[[bytes], bool] = lambda _: True
    known: Callable[[bytes], bytes] = lambda text: text

    def spread(self, partitions: int) -> Shape:
        title = self.title.replace(f"{self.partitions} partitions", f"{partitions} partitions")
        return replace(self, title=title, partitions=partitions)

    def shortened(self, factor: int) -> Shape:
        return replace(self, backlog=self.backlog // factor, warm_up=self.warm_up // factor)


@cache
def _flights() -> list[tuple[bytes | None, bytes]]:
    return [(event.key, event.value) for event in flights()]


def _random(size: int) -> Callable[[], list[tuple[bytes | None, bytes]]]:
    return lambda: [(None, os.urandom(size)) for _ in range(1000)]


SHAPES = (
    Shape(
        name="json",
        title="JSON ~350 B, zstd, 128 KiB batches, 4 partitions",
        records=_flights,
        producer={"compression.type": "zstd", "batch.size": 131_072, "linger.ms": 500},
        mirror={"compression.type": "zstd", "batch.size": "131072", "linger.ms": "50"},
        backlog=3_000_000,
        warm_up=1_000_000,
    ),
    Shape(
        name="1kb",
        title="1 kB, uncompressed, 64 KiB batches, 4 partitions",
        records=_random(1000),
        producer={"compression.type": "none", "batch.size": 65_536, "linger.ms": 500},
        mirror={"batch.size": "65536", "linger.ms": "50"},
        backlog=2_000_000,
        warm_up=500_000,
    ),
    Shape(
        name="small",
        title="100 B, one record a batch, 4 partitions",
        records=_random(100),
        producer={"compression.type": "none", "batch.num.messages": 1, "linger.ms": 0},
        mirror={"batch.size": "65536", "linger.ms": "50"},
        backlog=800_000,
        warm_up=200_000,
    ),
)


def known_flight(text: bytes) -> bytes:
    """A flight from Newark that has `text` for its destination."""
    _, value = _flights()[0]
    return json.dumps({**json.loads(value), "dest": text.decode()}).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """`counts`: records a partition that will arrive; `last`: what each one's last value is known
    by; `size`: bytes of keys and values."""

    counts: Mapping[int, int]
    last: Mapping[int, bytes]
    size: int

    def ends(self, values: Mapping[int, bytes | None]) -> bool:
        """Whether `values` are the partitions' last."""
        return all(text in (values.get(partition) or b"") for partition, text in self.last.items())


class Backlog:
    """Records written in one transaction: read_committed readers see none of them until `commit`,
    and then all. Or in none, where that is said: then each is there as soon as it is written."""

    def __init__(
        self, bootstrap: str, topic: str, shape: Shape, *, transactional: bool = True
    ) -> None:
        self._topic = topic
        self._shape = shape
        self._records = shape.records()
        self._transactional = transactional
        transaction = {
            "transactional.id": f"bench-{topic}",
            "transaction.timeout.ms": _TRANSACTION_S * 1000,
        }
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,  # what fails is raised
                **(transaction if transactional else {}),
                "message.timeout.ms": _TRANSACTION_S * 1000,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 262_144,
                "batch.num.messages": 1_000_000,
                **shape.producer,
            }
        )
        if transactional:
            self._producer.init_transactions(_TIMEOUT_S)

    def write(self, count: int) -> Written:
        """Begin a transaction and write `count` records into it, in turn over the partitions.
        Returns once they are all in the log."""
        producer, topic, records = self._producer, self._topic, self._records
        shape, partitions, kinds = self._shape, self._shape.partitions, len(records)
        survives = [shape.survives(value) for _, value in records]
        if self._transactional:
            producer.begin_transaction()
        size = 0
        counts = dict.fromkeys(range(partitions), 0)
        last: dict[int, bytes] = {}
        for number in range(count):
            key, value = records[number % kinds]
            if number >= count - partitions:  # known again when they are read back
                text = last[number % partitions] = b"%032x" % secrets.randbits(128)
                value = shape.known(text)
                counts[number % partitions] += 1
            else:
                counts[number % partitions] += survives[number % kinds]
            size += len(value) + (len(key) if key else 0)
            while True:
                try:
                    producer.produce(topic, value, key, number % partitions)
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 1000 == 0:
                producer.poll(0)
        producer.flush(_TRANSACTION_S)
        return Written(counts=counts, last=last, size=size)

    def commit(self) -> float:
        """Make it all readable. Returns time.monotonic() from just before; raises if a record could
        not be written."""
        begun = time.monotonic()
        self._producer.commit_transaction(_TIMEOUT_S)
        return begun
