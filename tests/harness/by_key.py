"""Mirrors in which keys decide the partition, beside records of others."""

from __future__ import annotations

from collections import defaultdict

from tests.harness.kafka_tools import KafkaTools, Record
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

LOCAL = b"local "  # so begin the records of others


def values(tools: KafkaTools, topic: str) -> list[bytes]:
    return [record.value or b"" for records in tools.read(topic).values() for record in records]


def await_mirrored(source: KafkaTools, target: KafkaTools, topic: str) -> None:
    """Until as many records as are committed in the source lie among the others in the target."""
    wanted = sum(map(len, source.read(topic, read_committed=True).values()))
    await_until(
        lambda: sum(len(_ours(records)) for records in target.read(topic).values()) >= wanted,
        PATIENCE_S,
        f"{wanted} records of {topic} are mirrored",
        poll_s=1,
    )


def _ours(records: list[Record]) -> list[Record]:
    return [record for record in records if not (record.value or b"").startswith(LOCAL)]


def check_keys(source: KafkaTools, target: KafkaTools, topic: str) -> list[bytes]:
    """Each record of the source once, in the partition where librdkafka puts its key, and the
    records of a key in the order that they have in their source partition. Returns the others."""
    came_from: dict[tuple[object, ...], int] = {}
    wanted: dict[tuple[int, bytes | None], list[tuple[object, ...]]] = defaultdict(list)
    for partition, records in source.read(topic, read_committed=True).items():
        for record in records:
            came_from[record.content] = partition
            wanted[partition, record.key].append(record.content)
    found: dict[tuple[int, bytes | None], list[tuple[object, ...]]] = defaultdict(list)
    homes: dict[bytes | None, set[int]] = defaultdict(set)
    theirs = []
    for partition, records in target.read(topic).items():
        for record in records:
            homes[record.key].add(partition)
            if record.content in came_from:
                found[came_from[record.content], record.key].append(record.content)
            else:
                theirs.append(record.value or b"")
    assert found == wanted
    assert all(len(partitions) == 1 for partitions in homes.values()), homes
    return theirs
