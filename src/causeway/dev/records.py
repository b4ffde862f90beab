"""Records to try things with, written as any producer would."""

from __future__ import annotations

import re

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError, TopicAlreadyExistsError

from causeway.errors import CausewayError, UnreachableError

PARTITIONS = 2
_TIMEOUT_S = 30.0
_SAID = re.compile(r"""error_message=(["'])(.+?)\1[,)]""")


def make_topic(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    """Unless it is there. Raises CausewayError."""
    timeout_ms = int(_TIMEOUT_S * 1000)
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap,
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
        )
        try:
            admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            pass
        finally:
            admin.close()
    except KafkaError as error:
        raise _failed(topic, error) from error


def produce(bootstrap: str, topic: str, records: int) -> None:
    """Returns once the brokers have acknowledged all. Each ten share a key. The topic is made with
    `PARTITIONS` if it is not there yet. Raises CausewayError."""
    make_topic(bootstrap, topic)
    timeout_ms = int(_TIMEOUT_S * 1000)
    try:
        producer = KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=timeout_ms, linger_ms=10)
        try:
            answers = [
                producer.send(topic, f"{topic} {number}".encode(), f"key {number // 10}".encode())
                for number in range(records)
            ]
            for answer in answers:
                answer.get(_TIMEOUT_S)
        finally:
            producer.close(_TIMEOUT_S)
    except KafkaError as error:
        raise _failed(topic, error) from error


def _failed(topic: str, error: KafkaError) -> CausewayError:
    kind = UnreachableError if error.retriable else CausewayError
    said = _SAID.search(str(error))  # within the whole answer
    return kind("produce to", topic, said[2] if said else str(error))
