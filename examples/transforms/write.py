"""Write the records that an example is about. Makes the topic if need be.

python -m examples.transforms.write NAME ADDRESS [COUNT]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from random import Random
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from causeway.errors import CausewayError

PARTITIONS = 2
_TIMEOUT_S = 60.0
_COUNTRIES = ("DE", "FR", "IT", "PL", "US", "CA", "BR", "JP")
_FIRST = ("Ada", "Grace", "Jürgen", "Zoë", "Łukasz", "Mary Ann", "Søren", "Chloé")
_LAST = ("Lovelace", "Hopper", "Müller", "Nowak", "O'Brien", "de la Cruz", "Sørensen")
_DAY = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`timestamp` in ms since 1970; None for now."""

    key: str | None
    value: str | None
    timestamp: int | None = None


def flights() -> Iterator[Sample]:
    """Real ones: all 336,776 that left New York City in 2013, keyed by tail number."""
    from examples.demo import flights as real

    for event in real.flights():
        key = None if event.key is None else event.key.decode()
        yield Sample(key=key, value=event.value.decode(), timestamp=event.timestamp)


def customers() -> Iterator[Sample]:
    """Two of ten share a card with the one before them, one of 20 has none, one of 25 was
    deleted."""
    chance = Random(2026)
    card = ""
    number = 0
    while True:
        number += 1
        first, last = chance.choice(_FIRST), chance.choice(_LAST)
        if number % 10 not in (3, 7):
            card = "-".join(f"{chance.randrange(10_000):04}" for _ in range(4))
        born = date(1940, 1, 1) + timedelta(days=chance.randrange(24_000))
        customer: dict[str, Any] = {
            "id": number,
            "name": f"{first} {last}",
            "email": f"{first}.{last}{number}@example.org".replace(" ", "").lower(),
            "card": card,
            "born": born.isoformat(),
            "country": chance.choice(_COUNTRIES),
        }
        if number % 20 == 0:
            del customer["card"]
        yield Sample(key=f"c{number}", value=None if number % 25 == 0 else _json(customer))


def sales() -> Iterator[Sample]:
    """Of all countries; some have none, some are no JSON."""
    chance = Random(27)
    number = 0
    while True:
        number += 1
        sale: dict[str, Any] = {
            "id": number,
            "country": chance.choice(_COUNTRIES),
            "customer": {"name": f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"},
            "amount": chance.randrange(100, 100_000) / 100,
        }
        if number % 30 == 0:
            del sale["country"]
        broken = number % 40 == 7
        yield Sample(key=f"s{number}", value=f"sale {number}" if broken else _json(sale))


def calls() -> Iterator[Sample]:
    """Of a help desk; some have no country."""
    chance = Random(28)
    at = _DAY
    number = 0
    while True:
        number += 1
        at += timedelta(seconds=chance.randrange(1, 3600))
        call: dict[str, Any] = {
            "id": number,
            "country": chance.choice(_COUNTRIES),
            "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "minutes": chance.randrange(1, 60),
            "customer": {
                "id": f"c{chance.randrange(1, 50)}",
                "name": f"{chance.choice(_FIRST)} {chance.choice(_LAST)}",
                "phone": f"+{chance.randrange(10**10, 10**11)}",
            },
        }
        if number % 30 == 0:
            del call["country"]
        yield Sample(key=f"call {number}", value=_json(call))


def events() -> Iterator[Sample]:
    """Of three types, and a few of others."""
    chance = Random(29)
    number = 0
    while True:
        number += 1
        kind = chance.choice(("click",) * 6 + ("order",) * 2 + ("login", "logout"))
        event = {"id": number, "type": kind, "user": f"u{chance.randrange(1, 20)}"}
        yield Sample(key=str(event["user"]), value=_json(event))


def orders() -> Iterator[Sample]:
    """With up to five lines each."""
    chance = Random(30)
    number = 0
    while True:
        number += 1
        lines = [
            {
                "product": f"p{chance.randrange(100)}",
                "count": chance.randrange(1, 9),
                "price": chance.randrange(100, 100_000) / 100,
            }
            for _ in range(chance.randrange(6))
        ]
        order = {"id": number, "customer": f"c{chance.randrange(1, 50)}", "lines": lines}
        yield Sample(key=f"o{number}", value=_json(order))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    topic: str
    records: Callable[[], Iterator[Sample]]
    count: int = 500


STREAMS = {
    "flights": Stream(topic="flights", records=flights, count=10_000),
    "customers": Stream(topic="customers", records=customers),
    "gdpr": Stream(topic="sales", records=sales),
    "hybrid-cloud": Stream(topic="calls", records=calls),
    "event-types": Stream(topic="events", records=events),
    "order-lines": Stream(topic="orders", records=orders),
}


def write(name: str, address: str, count: int | None = None) -> int:
    """How many; all are acknowledged."""
    stream = STREAMS[name]
    admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
    if stream.topic not in admin.list_topics(timeout=_TIMEOUT_S).topics:
        # Flights are of 2013: a broker that goes by their age would delete them at once.
        topic = NewTopic(stream.topic, PARTITIONS, config={"retention.ms": "-1"})
        admin.create_topics([topic])[stream.topic].result(_TIMEOUT_S)
    failures: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": address, "partitioner": "murmur2_random", "linger.ms": 20}
    )
    written = 0
    for sample in islice(stream.records(), stream.count if count is None else count):
        producer.produce(
            stream.topic,
            sample.value,
            sample.key,
            timestamp=sample.timestamp or 0,  # 0: now
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        written += 1
    if producer.flush(_TIMEOUT_S) or failures:
        cause = str(failures[0]) if failures else "no answer"
        raise CausewayError("write to", stream.topic, cause)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.transforms.write", description="Write the records of an example."
    )
    parser.add_argument("name", choices=list(STREAMS))
    parser.add_argument("address")
    parser.add_argument("count", type=int, nargs="?")
    options = parser.parse_args(arguments)
    try:
        written = write(options.name, options.address, options.count)
    except CausewayError as error:
        print(f"write: error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{written} records written to {STREAMS[options.name].topic}")
    return 0


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
