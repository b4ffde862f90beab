"""A reader and a writer for the terminal, to try things with."""

from __future__ import annotations

from datetime import UTC, datetime

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

from causeway.errors import CausewayError

_TIMEOUT_S = 10.0
_WIDTH = 100
_BEFORE = 2  # records of each partition to begin with


def tail(address: str, topic: str) -> None:
    """Print the last records of each partition, and then what comes, until Ctrl-C."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "demo", "enable.auto.commit": False}
    )
    found = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
    if found.error is not None:
        raise CausewayError("read", topic, str(found.error))
    places = []
    for partition in found.partitions:
        place = TopicPartition(topic, partition, OFFSET_END)
        first, end = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
        places.append(TopicPartition(topic, partition, max(first, end - _BEFORE)))
    consumer.assign(places)
    try:
        while True:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            time = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
            key, value = (
                part.decode(errors="replace") if part else "-"
                for part in (message.key(), message.value())
            )
            place_ = f"{message.partition()}:{message.offset()}"
            print(f"{place_:>10}  {time:%Y-%m-%d %H:%M}  {key:8}  {value[:_WIDTH]}", flush=True)
    finally:
        consumer.close()


def send(address: str, topic: str, text: str) -> None:
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": address, "message.timeout.ms": 10_000})
    producer.produce(
        topic,
        text.encode(),
        on_delivery=lambda error, _: failures.append(str(error)) if error else None,
    )
    if producer.flush(2 * _TIMEOUT_S) or failures:
        raise CausewayError("write to", topic, failures[0] if failures else "no answer")
