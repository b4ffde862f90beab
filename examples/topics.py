"""Write to topics and see what became of them, to try the examples with.

python -m examples.topics write ADDRESS TOPIC [COUNT]   100 records; makes the topic if need be
python -m examples.topics list ADDRESS                  topics and their records
python -m examples.topics read ADDRESS PATTERN          subscribe, and count what comes, by topic
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from causeway.errors import CausewayError

PARTITIONS = 2
_TIMEOUT_S = 30.0


def write(address: str, topic: str, count: int = 100) -> None:
    """Returns once the broker has acknowledged all. Half of the records share a key."""
    if topic not in _topics(address):
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(_TIMEOUT_S)
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": address})
    for number in range(count):
        producer.produce(
            topic,
            f"{topic} {number} written to {address}",
            f"key {number // 2}",
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    if producer.flush(_TIMEOUT_S) or failures:
        raise CausewayError("write to", topic, str(failures[0]) if failures else "no answer")


def counts(address: str) -> dict[str, int]:
    """Records by topic, of all topics but internal ones. The markers that end transactions count
    as well."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "examples"})
    try:
        found = {}
        for topic, partitions in sorted(_topics(address).items()):
            found[topic] = 0
            for partition in range(partitions):
                place = TopicPartition(topic, partition)
                first, end = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
                found[topic] += end - first
        return found
    finally:
        consumer.close()


def read(address: str, pattern: str) -> Counter[str]:
    """How many records of each topic a consumer gets that subscribes to all topics whose names
    match `pattern` from their beginnings: one group, several topics, one logical stream."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "examples",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    # librdkafka takes what begins with ^ for a regular expression, Java a compiled Pattern.
    consumer.subscribe([f"^({pattern})$"])
    found: Counter[str] = Counter()
    read_up = 0
    try:
        while not read_up or read_up < len(consumer.assignment()):
            message = consumer.poll(_TIMEOUT_S)
            if message is None:
                raise CausewayError("read", pattern, "no topic matches, or nothing comes")
            error = message.error()
            if error is None:
                found[message.topic()] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                read_up += 1
            else:
                raise KafkaException(error)
        return found
    finally:
        consumer.close()


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        if options.command == "write":
            write(options.address, options.topic, options.count)
        elif options.command == "list":
            _show(counts(options.address))
        else:
            _show(read(options.address, options.pattern))
    except CausewayError as error:
        print(f"topics: error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _topics(address: str) -> dict[str, int]:
    """Their numbers of partitions, but for internal topics."""
    found = AdminClient({"bootstrap.servers": address}).list_topics(timeout=_TIMEOUT_S).topics
    return {
        name: len(topic.partitions)
        for name, topic in found.items()
        if not name.startswith("__") and not name.endswith("internal")
    }


def _show(found: Mapping[str, int]) -> None:
    for topic, records in found.items():
        print(f"{records:8}  {topic}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.topics", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("write", "list", "read"):
        command = commands.add_parser(name)
        command.add_argument("address")
        if name == "write":
            command.add_argument("topic")
            command.add_argument("count", type=int, nargs="?", default=100)
        elif name == "read":
            command.add_argument("pattern")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
