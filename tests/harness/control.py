"""What the control plane has written, as others read it, and what would be true."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from causeway.control import Checkpoint, OffsetSync
from tests.harness.kafka_tools import KafkaTools

Place = tuple[str, int]  # topic, partition


@dataclass(frozen=True, slots=True)
class Truth:
    """Where each record of one source topic lies on the target, told by reading both."""

    source: Mapping[int, list[int]]  # offsets of the committed records, by partition
    target: Mapping[int, list[int]]

    @classmethod
    def of(cls, source: KafkaTools, topic: str, target: KafkaTools, mirror: str) -> Self:
        def offsets(tools: KafkaTools, name: str) -> dict[int, list[int]]:
            read = tools.read(name, read_committed=True)
            return {p: [record.offset for record in records] for p, records in read.items()}

        return cls(offsets(source, topic), offsets(target, mirror))

    def place(self, partition: int, offset: int) -> int:
        """Of the first record from source `offset` on; behind the last one if there is none."""
        targets = self.target[partition]
        index = bisect_left(self.source[partition], offset)
        if index < len(targets):
            return targets[index]
        return targets[-1] + 1 if targets else 0


def checkpoints(target: KafkaTools, alias: str = "A") -> dict[tuple[str, Place], Checkpoint]:
    """The newest one of each group and partition."""
    topic = f"{alias}.checkpoints.internal"
    if target.partition_count(topic) is None:
        return {}
    found = {}
    for record in target.read(topic)[0]:
        assert record.key is not None
        assert record.value is not None
        checkpoint = Checkpoint.decode(record.key, record.value)
        found[checkpoint.group, tuple(checkpoint.partition)] = checkpoint
    return found  # type: ignore[return-value]


def offset_syncs(tools: KafkaTools, alias: str) -> dict[Place, list[tuple[int, int]]]:
    """All of each partition, in order."""
    found: dict[Place, list[tuple[int, int]]] = {}
    for record in tools.read(f"mm2-offset-syncs.{alias}.internal")[0]:
        assert record.key is not None
        assert record.value is not None
        sync = OffsetSync.decode(record.key, record.value)
        found.setdefault(tuple(sync.partition), []).append((sync.upstream, sync.downstream))  # type: ignore[arg-type]
    return found


def spread_groups(
    source: KafkaTools, topics: list[str], prefix: str, seed: int
) -> dict[str, dict[tuple[str, int], int]]:
    """Groups that stand anywhere: at both ends, in gaps, between."""
    chance = random.Random(seed)
    ends = {topic: source.offsets(topic) for topic in topics}
    groups = {}
    for number in range(12):
        standing = {
            (topic, partition): {0: 0, 1: end}.get(number, chance.randint(0, end))
            for topic, of in ends.items()
            for partition, end in of.items()
        }
        groups[f"{prefix}g{number}"] = standing
        source.commit_group(f"{prefix}g{number}", standing)
    return groups
