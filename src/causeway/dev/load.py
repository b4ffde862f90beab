"""Writes sample records: a few, or a stream of events as an application writes them."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from causeway.errors import CausewayError, UnreachableError

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_TELL_S = 0.5
PARTITIONS = 2
_PRODUCE_S = 30.0
_SAID = re.compile(r"""error_message=(["'])(.+?)\1[,)]""")
_AT_ONCE = 500  # records that are sent before other tasks run
_UNANSWERED = 20_000
_CUSTOMERS = 500
_KINDS = ("cart filled", "order placed", "order paid", "parcel sent", "parcel back")
_WORDS = (
    "amber basalt birch brook cedar clover copper dune ember fern flint gravel harbour heather"
    " juniper lichen maple meadow moss opal orchard pebble pine quartz reed ridge saffron"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The stream to write. `rate`: records/s, None: as fast as possible. `size`: bytes of a value.
    `transaction`: records in each transaction, None: no transactions. `abort_every`: each n-th
    transaction is aborted. The stream ends after `count` records or `duration_s`, if set."""

    topic: str
    rate: float | None = 100.0
    size: int = 200
    codec: str = "none"
    transaction: int | None = None
    abort_every: int | None = None
    partitions: int = 2
    count: int | None = None
    duration_s: float | None = None


@dataclass(slots=True)
class LoadTally:
    """The acknowledged records so far, including those of aborted transactions."""

    records: int = 0
    bytes: int = 0
    transactions: int = 0
    rolled_back: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


async def write(
    bootstrap: str,
    stream: Stream,
    stop: asyncio.Event,
    on_tally: Callable[[LoadTally], None],
    values: Iterator[tuple[bytes, bytes]] | None = None,
) -> LoadTally:
    """Writes `stream` until it ends or `stop` is set. Commits an open transaction, and returns once
    the brokers have acknowledged everything. Calls `on_tally` twice a second. Creates the topic if
    it does not exist. `values`: keys and values in place of events. Raises CausewayError."""
    await asyncio.to_thread(make_topic, bootstrap, stream.topic, stream.partitions)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if stream.codec == "none" else stream.codec,
        enable_idempotence=True,
        linger_ms=5,
        max_batch_size=256 * 1024,
        transactional_id=None if stream.transaction is None else f"load-{random.getrandbits(64):x}",
    )
    try:
        await producer.start()
        try:
            return await _Writer(
                producer, stream, stop, on_tally, values or _values(stream.size)
            ).run()
        finally:
            await producer.stop()
    except KafkaError as error:
        raise _not_produced(stream.topic, error) from error


class _Writer:
    def __init__(
        self,
        producer: AIOKafkaProducer,
        stream: Stream,
        stop: asyncio.Event,
        on_tally: Callable[[LoadTally], None],
        values: Iterator[tuple[bytes, bytes]],
    ) -> None:
        self._producer, self._stream = producer, stream
        self._stop, self._on_tally = stop, on_tally
        self._tally = LoadTally()
        self._sent = 0
        self._unanswered: set[asyncio.Future[Any]] = set()
        self._failure: BaseException | None = None
        self._values = values
        self._tell_at = 0.0

    async def run(self) -> LoadTally:
        if self._stream.transaction is None:
            await self._send(None)
        else:
            while not self._over():
                await self._transact(self._stream.transaction)
        await self._answered(0)
        return self._tally

    async def _transact(self, records: int) -> None:
        tally, every = self._tally, self._stream.abort_every
        await self._producer.begin_transaction()
        await self._send(self._sent + records)
        await self._answered(0)
        tally.transactions += 1
        if every is not None and tally.transactions % every == 0:
            await self._producer.abort_transaction()
            tally.rolled_back += 1
        else:
            await self._producer.commit_transaction()

    async def _send(self, up_to: int | None) -> None:
        """Sends at the stream's rate until the stream is over, or has sent `up_to` records."""
        while not self._over() and (up_to is None or self._sent < up_to):
            due = self._due()
            if up_to is not None:
                due = min(due, up_to)
            for _ in range(min(_AT_ONCE, due - self._sent)):
                await self._send_one()
            if due <= self._sent:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), 0.01)
            await self._answered(_UNANSWERED)
            now = time.monotonic()
            if now >= self._tell_at:
                self._tell_at = now + _TELL_S
                self._on_tally(self._tally)

    async def _send_one(self) -> None:
        customer, value = next(self._values)
        future = await self._producer.send(self._stream.topic, value, key=customer)
        self._sent += 1
        self._unanswered.add(future)
        future.add_done_callback(partial(self._answer, len(value)))

    def _answer(self, size: int, future: asyncio.Future[Any]) -> None:
        self._unanswered.discard(future)
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            self._failure = self._failure or error
        else:
            self._tally.records += 1
            self._tally.bytes += size

    async def _answered(self, most: int) -> None:
        """Waits until at most `most` records are unanswered. Raises the error of a record."""
        while len(self._unanswered) > most:
            await asyncio.wait(self._unanswered, return_when=asyncio.FIRST_COMPLETED)
        if self._failure is not None:
            raise self._failure

    def _due(self) -> int:
        """Returns the number of records that should have been sent so far."""
        stream = self._stream
        due = self._sent + _AT_ONCE
        if stream.rate is not None:
            due = int(self._tally.seconds * stream.rate) + 1
        return due if stream.count is None else min(due, stream.count)

    def _over(self) -> bool:
        stream = self._stream
        return (
            self._stop.is_set()
            or (stream.count is not None and self._sent >= stream.count)
            or (stream.duration_s is not None and self._tally.seconds >= stream.duration_s)
        )


def _values(size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of events, for ever: JSON of `size` bytes, as compressible as text."""
    chance = random.Random()  # noqa: S311 - of no secret
    words = _WORDS.split()
    text = " ".join(chance.choice(words) for _ in range(2_000 + size // 4))
    number = 0
    while True:
        number += 1
        customer = f"customer-{chance.randrange(_CUSTOMERS):03}"
        event = {
            "number": number,
            "at": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds"),
            "event": chance.choice(_KINDS),
            "customer": customer,
            "note": "",
        }
        short = size - len(json.dumps(event))
        begin = chance.randrange(len(text) - max(0, short))
        event["note"] = text[begin : begin + max(0, short)]
        yield customer.encode(), json.dumps(event).encode()


def make_topic(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    """Creates `topic` if it does not exist. Raises CausewayError."""
    timeout_ms = int(_PRODUCE_S * 1000)
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap,
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
        )
        try:
            admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
        except kafka_errors.TopicAlreadyExistsError:
            pass
        finally:
            admin.close()
    except kafka_errors.KafkaError as error:
        raise _not_produced(topic, error) from error


def produce(bootstrap: str, topic: str, records: int) -> None:
    """Writes `records` records and returns once the brokers have acknowledged all. Each ten share
    a key. Creates the topic with `PARTITIONS` if it does not exist. Raises CausewayError."""
    plain = ((f"key {n // 10}".encode(), f"{topic} {n}".encode()) for n in itertools.count())
    stream = Stream(topic=topic, rate=None, count=records)
    asyncio.run(write(bootstrap, stream, asyncio.Event(), lambda _: None, plain))


def _not_produced(topic: str, error: KafkaError | kafka_errors.KafkaError) -> CausewayError:
    kind = UnreachableError if error.retriable else CausewayError
    text = str(error)
    reported = _SAID.search(text)  # within the whole answer
    return kind("produce to", topic, reported[2] if reported else text or type(error).__name__)
