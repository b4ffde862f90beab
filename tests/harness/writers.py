"""Writers of transactions that go on while a test does its worst."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaException

from tests.harness.kafka_tools import KafkaTools, Outgoing

# 2020: brokers forget the producers of such records; their topic needs retention.ms = -1.
YEARS_AGO = 1_577_836_800_000


Value = Callable[[int, random.Random], bytes]  # of the record of that number


def _value(number: int, chance: random.Random) -> bytes:
    return b"%d " % number + b"x" * chance.choice([0, 10, 300])


class Writer(threading.Thread):
    """Writes transactions to every partition of `topic`, a quarter of them aborted, until told to
    stop; and goes on when the broker dies. What it wrote is what the source holds.

    With `timestamp` (ms) the records' times begin there. `pause_s`: the longest pause between two
    transactions, which have one of `sizes` records each. `committed`: the numbers of the records
    of each transaction that was surely committed.
    """

    def __init__(
        self,
        source: KafkaTools,
        topic: str,
        partitions: int,
        *,
        timestamp: int | None,
        seed: int,
        pause_s: float,
        value: Value | None = None,
        sizes: Sequence[int] = (1, 5, 200, 1000),
    ) -> None:
        super().__init__(daemon=True)
        self._source, self._topic, self.partitions = source, topic, partitions
        self._sizes = sizes
        self._timestamp = timestamp
        self._random = random.Random(seed)
        self._pause_s = pause_s
        self._value = value or _value
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self.written = 0
        self.committed: list[range] = []

    def run(self) -> None:
        codec = self._random.choice(["none", "gzip", "snappy", "lz4", "zstd"])
        ended = False
        while not ended:
            ended = self._ended.is_set()
            try:
                self._write(codec)
            except KafkaException:
                ended = False  # its broker died
            except BaseException as failure:
                self.failure = failure
                return

    def _write(self, codec: str) -> None:
        """Starting ends what the last one left open, its markers included; once it is to end, that
        is all that it does, so that the source's last stable offset stands still from then on."""
        with self._source.transactional(f"{self._topic}-writer", codec=codec) as transactions:
            while not self._ended.wait(self._random.uniform(0, self._pause_s)):
                transactions.begin()
                first = self.written + 1
                for _ in range(self._random.choice(self._sizes)):
                    self.written += 1
                    transactions.send(self._topic, self._record(self.written))
                if self._random.random() < 0.25:
                    transactions.abort()
                else:
                    transactions.commit()
                    self.committed.append(range(first, self.written + 1))

    def _record(self, number: int) -> Outgoing:
        return Outgoing(
            value=self._value(number, self._random),
            key=b"%d" % self._random.randrange(50),
            timestamp=None if self._timestamp is None else self._timestamp + number,
            partition=self._random.randrange(self.partitions),
        )

    def end(self) -> None:
        self._ended.set()
        self.join(120)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


@contextmanager
def writing(
    source: KafkaTools,
    topic: str,
    partitions: int,
    *,
    timestamp: int | None = None,
    seed: int,
    pause_s: float = 0.5,
    value: Value | None = None,
) -> Iterator[Writer]:
    writer = Writer(
        source, topic, partitions, timestamp=timestamp, seed=seed, pause_s=pause_s, value=value
    )
    writer.start()
    try:
        yield writer
    finally:
        writer.end()


def write_transactions(
    source: KafkaTools, topic: str, count: int, seed: int, *, partitions: int = 2
) -> None:
    """Of one to thirty records, every fourth of them aborted: gaps everywhere."""
    chance = random.Random(seed)
    with source.transactional(f"{topic}-writer") as transactions:
        for number in range(count):
            transactions.begin()
            for index in range(chance.randint(1, 30)):
                transactions.send(
                    topic,
                    Outgoing(
                        value=b"%d %d" % (number, index), partition=chance.randrange(partitions)
                    ),
                )
            if number % 4 == 3:
                transactions.abort()
            else:
                transactions.commit()
