"""Reads both clusters whole, with librdkafka, and compares them partition by partition."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from rich.table import Table

from causeway.errors import CausewayError
from examples.demo.publish import DemoTopic

_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Digest:
    """SHA-256 over timestamp, key, value and headers of each record, in order."""

    records: int = 0
    _hash: Any = field(default_factory=hashlib.sha256)

    def add(self, timestamp: int, parts: Sequence[bytes | None]) -> None:
        self.records += 1
        self._hash.update(b"%d;" % timestamp)
        for part in parts:  # each with its length, so that none can pass for a part of another
            self._hash.update(b"-;" if part is None else b"%d;" % len(part) + part)

    @property
    def checksum(self) -> str:
        return str(self._hash.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    topic: str
    partition: int
    source: Digest
    target: Digest

    @property
    def equal(self) -> bool:
        ours, theirs = self.source, self.target
        return ours.records == theirs.records and ours.checksum == theirs.checksum


def compare(source: str, target: str, alias: str, topics: Sequence[DemoTopic]) -> list[Comparison]:
    comparisons = []
    for topic in topics:
        here = _digests(source, topic.name, topic.partitions)
        there = _digests(target, f"{alias}.{topic.name}", topic.partitions)
        comparisons += [
            Comparison(topic=topic.name, partition=p, source=here[p], target=there[p])
            for p in range(topic.partitions)
        ]
    return comparisons


def table(comparisons: Sequence[Comparison], source: str, target: str) -> Table:
    shown = Table(title="the proof: both clusters, read by librdkafka", title_justify="left")
    shown.add_column("topic")
    shown.add_column("partition", justify="right")
    for name in (source, target):
        shown.add_column(f"{name}: records", justify="right")
        shown.add_column("SHA-256", style="dim")
    shown.add_column("")
    before = ""
    for each in comparisons:
        shown.add_row(
            each.topic if each.topic != before else "",
            str(each.partition),
            f"{each.source.records:,}",
            each.source.checksum[:12],
            f"{each.target.records:,}",
            each.target.checksum[:12],
            "[green]equal[/green]" if each.equal else "[bold red]DIFFERENT[/bold red]",
        )
        before = each.topic
    return shown


def _digests(bootstrap: str, topic: str, partitions: int) -> list[Digest]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",  # required; it never joins or commits
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 2,
        }
    )
    digests = [Digest() for _ in range(partitions)]
    unfinished = set(range(partitions))
    try:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        while unfinished:
            first = consumer.poll(_TIMEOUT_S)
            if first is None:
                raise CausewayError("read", topic, f"nothing came in {_TIMEOUT_S:g} s")
            for message in [first, *consumer.consume(10_000, timeout=0)]:
                partition = message.partition()
                assert partition is not None
                error = message.error()
                if error is None:
                    parts: list[bytes | None] = [message.key(), message.value()]
                    for name, content in message.headers() or ():
                        parts += [name.encode(), content]
                    digests[partition].add(message.timestamp()[1], parts)
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(partition)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return digests
