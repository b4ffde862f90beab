"""A consumer that keeps its offsets in a database, in one transaction with what it reads.

python examples/own-offsets/consumer.py DATABASE ADDRESS TOPIC [--records N] [--idle SECONDS]

So each record is in the table `seen` once, whatever happens: what was read and where to go on are
committed together, or neither is. No group offsets are committed to Kafka. It ends after N records,
or when nothing has come for so long.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

_TABLES = """
CREATE TABLE IF NOT EXISTS seen (place TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    next INTEGER NOT NULL,  -- the next record to read, as Kafka commits offsets
    PRIMARY KEY (topic, partition)
);
"""
_AT_ONCE = 100  # records of a transaction
_TIMEOUT_S = 30.0


def open_database(path: str) -> sqlite3.Connection:
    """Makes the tables where they are not there."""
    database = sqlite3.connect(path)
    database.executescript(_TABLES)
    return database


def consume(
    database: sqlite3.Connection, address: str, topic: str, *, most: int | None, idle_s: float
) -> int:
    """Goes on where the database says, or at the beginning; how many records came."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",  # the client wants one; nothing is committed there
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # An offset that the log no longer holds is an error: what lies between would be lost.
            "auto.offset.reset": "error",
        }
    )
    with closing(consumer):
        consumer.assign(_places(database, consumer, topic))
        records = islice(_records(consumer, idle_s), most)
        count = 0
        while some := list(islice(records, _AT_ONCE)):
            with database:  # one transaction: what was read, and where to go on
                for one in some:
                    _store(database, one)
            count += len(some)
        return count


def _places(database: sqlite3.Connection, consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Where each partition goes on; one that is new to the database at its beginning, which is
    written down, so that it can be moved as well."""
    with database:
        for partition in consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions:
            at = TopicPartition(topic, partition)
            beginning, _ = consumer.get_watermark_offsets(at, _TIMEOUT_S)
            database.execute(
                "INSERT OR IGNORE INTO offsets VALUES (?, ?, ?)", [topic, partition, beginning]
            )
    rows = database.execute("SELECT topic, partition, next FROM offsets WHERE topic = ?", [topic])
    return [TopicPartition(*row) for row in rows]


def _store(database: sqlite3.Connection, record: Message) -> None:
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    value = (record.value() or b"").decode()
    database.execute("INSERT INTO seen VALUES (?, ?)", [f"{topic}-{partition} {offset}", value])
    database.execute(
        "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", [topic, partition, (offset or 0) + 1]
    )


def _records(consumer: Consumer, idle_s: float) -> Iterator[Message]:
    """Until nothing has come for `idle_s` seconds."""
    heard = time.monotonic()
    while time.monotonic() - heard < idle_s:
        record = consumer.poll(0.1)
        if record is None:
            continue
        if (error := record.error()) is not None:
            raise KafkaException(error)
        heard = time.monotonic()
        yield record
        heard = time.monotonic()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("database")
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("--records", type=int, metavar="N", help="end after so many")
    parser.add_argument("--idle", type=float, default=3.0, metavar="SECONDS")
    wanted = parser.parse_args(arguments)
    with closing(open_database(wanted.database)) as database:
        count = consume(
            database, wanted.address, wanted.topic, most=wanted.records, idle_s=wanted.idle
        )
        (total,) = database.execute("SELECT count(*) FROM seen").fetchone()
    print(f"{count} records of {wanted.topic} read; {total} in the database")


if __name__ == "__main__":
    main(sys.argv[1:])
